"""The estimator's protected fits: what the center would not see is hidden here too, by the real protocol."""

from typing import Any, Self

from dkpca.concerns import about_kernel, remedy, warn
from dkpca.errors import InputError
from dkpca.estimator.after_fit import AfterFit
from dkpca.estimator.fitted import protected_rounds
from dkpca.estimator.party_tables import Tables
from dkpca.exchange.rounds import Fit
from dkpca.linalg.arrays import Array
from dkpca.tables.inputs import is_source


class Protects(AfterFit):
    """Fits by masked sums, and with a blind center."""

    def _fit_protected(self, tables: dict[str, Any], settings: Fit) -> Self:
        """Fit as parties that do not trust the center would."""
        if self.audit is not None:
            raise InputError(
                f"audit={self.audit} has every party send true rows of its kernel matrix in the open, which "
                f"protect={self.protect!r} is there to avoid; leave one of them out"
            )
        if self.device is not None:
            raise InputError(
                f"device={self.device!r} is for fits in the open, and protect={self.protect!r} is not; leave one of "
                "them out"
            )
        if self.projection != "extend":
            raise InputError(f"protect={self.protect!r} places new samples in its own way; use projection='extend'")
        if self.protect == "sums" and not (isinstance(self.rank, str) and self.rank == "auto"):
            raise InputError("protect='sums' takes no rank: all of the sum is used; leave rank='auto'")
        rounds = protected_rounds()
        parties = rounds.Parties(
            tables,
            self.n_jobs,
            self.timeout,
            self.random_state or 0,
            standardize=self.standardize,
            shield=rounds.shield_for(self.protect, self.precision, self.random_state or 0),
        )
        model, shield = rounds.fit(
            parties,
            settings,
            n_components=self.n_components,
            n_landmarks=self.n_landmarks,
            solver=self.solver,
            random_state=self.random_state or 0,
        )
        warn(about_kernel(model, remedy=remedy(self.standardize)) if self.protect == "sums" else [])
        sources = {name: table for name, table in tables.items() if is_source(table)}
        return self._fitted(model, list(tables), self._with_names(parties.states), sources, shield)

    def _place_protected(self, X: Tables, sample_ids: Any) -> Array:
        """Place new samples after a protected fit; every party is needed."""
        tables = self._tables(X, reset=False, sample_ids=sample_ids)
        absent = sorted(set(self.party_names_) - set(tables))
        if absent:
            raise InputError(f"no new samples from {absent}; masks cancel only if every party of the fit takes part")
        rounds = protected_rounds()
        shield = self._shield
        parties = rounds.Parties(
            tables, self.n_jobs, self.timeout, states=self._states, fitted=self._sources, shield=shield
        )
        return rounds.place(parties, self.model_)
