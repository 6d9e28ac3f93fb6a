"""A fitted estimator to a file and back, and from a run directory of the commands. No pickle."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Self, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator

from dkpca.checks import check_fitted
from dkpca.disclosure import LedgerEntry, ledger_entry
from dkpca.errors import InputError
from dkpca.fusion import FusedModel
from dkpca.party.state import PartyState
from dkpca.store import estimator_file, model_file, private_state
from dkpca.store.estimator_file import Shield
from dkpca.tables.inputs import Source


class FittedEstimator(BaseEstimator):  # type: ignore[misc]
    """What `DKPCA` keeps of a fit, wherever the fit comes from."""

    _by_rows: Any = None  # what a fit on rows that stay elsewhere gave

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file. It contains data of every party: never send it.

        The file is written whole or not at all, and only its owner may read it (mode 0600). It is not a pickle:
        a kernel, rank rule or solver of your own has no place in it.

        Parameters
        ----------
        path : str or Path
            The file; one that is there is replaced.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from dkpca import DKPCA
        >>> X = np.random.default_rng(0).normal(size=(50, 8))
        >>> model = DKPCA(2, parties=2).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model")
        ...     again = DKPCA.load(f"{folder}/model")
        >>> bool(np.allclose(again.transform(X[:3]), model.transform(X[:3])))
        True
        """
        check_fitted(self)
        self._check_rows_here("save")
        estimator_file.write(
            Path(path),
            estimator_file.Fitted(
                parameters=self.get_params(deep=False),
                party_names=tuple(self.party_names_),
                feature_names=tuple(getattr(self, "feature_names_in_", ())),
                sources=self._sources,
                model=self.model_,
                states=self._states,
                shield=self._shield,
            ),
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an estimator that `save` wrote; its arrays come back as NumPy arrays.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        DKPCA
        """
        saved = estimator_file.read(Path(path), get_type_hints(cls.__init__))
        estimator = cls(**saved.parameters)
        if saved.feature_names:
            estimator.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        return estimator._fitted(saved.model, list(saved.party_names), saved.states, saved.sources, saved.shield)

    @classmethod
    def from_run(cls, path: str | Path) -> Self:
        """Open a run directory of the commands, as the center sees it.

        `transform` needs the parties' private states, which are in `private/` after `dkpca fit`; it prepares tables
        as that fit did, by the names of their columns. Without the states, new samples are placed by `dkpca extend`
        at each party and `dkpca project` at the center. Parameters that a run does not record have their defaults.

        Parameters
        ----------
        path : str or Path
            The directory.

        Returns
        -------
        DKPCA
        """
        model = model_file.load_beside(Path(path))
        used = model.settings
        estimator = cls(
            model.n_components,
            kernel=model.kernel if len(set(model.kernels.values())) == 1 else model.kernels,
            law=used.law,
            weights=used.weights,
            center=used.center,
            solver=used.solver,
            n_landmarks=used.n_landmarks,
            random_state=used.random_state,
        )
        return estimator._fitted(model, list(model.summaries), private_state.load_all(Path(path) / "private"), {})

    def _fitted(
        self,
        model: FusedModel,
        names: list[str],
        states: Mapping[str, PartyState],
        sources: Mapping[str, Source],
        shield: Shield | None = None,
    ) -> Self:
        """Take over what a fit gave, or a file."""
        self._states, self._sources = dict(states), dict(sources)
        self._shield = Shield() if shield is None else shield
        self.model_ = model
        self.party_names_ = names
        self.n_features_in_ = sum(summary.n_features for summary in model.summaries.values())
        self.solvers_ = {name: state.solver for name, state in states.items()} | {"center": model.solver}
        self.kernel_ = next(iter(states.values())).kernel if self._shield.protect == "blind" else model.kernel
        self.gamma_ = getattr(self.kernel_, "gamma", None)
        self.eigenvectors_ = model.eigenvectors
        if self._shield.protect == "blind":
            self.eigenvectors_ = protected_rounds().turned_back(self._shield, model.eigenvectors)
        self.eigenvalues_ = model.eigenvalues
        self.explained_variance_ratio_ = model.explained_variance_ratio
        self.certificate_ = model.certificate
        self.ledger_ = [self._ledger_entry(name) for name in names]
        return self

    def _check_unprotected(self, method: str) -> None:
        """Refuse what would take each party's own factor, or its columns beside everybody's scores."""
        self._check_rows_here(method)
        if self._shield.protect != "none":
            raise InputError(f"{method} is for fits with protect='none', and this one had {self._shield.protect!r}")

    def _check_rows_here(self, method: str) -> None:
        """Refuse what needs every sample of the fit in one place."""
        if self._by_rows is not None:
            raise InputError(
                f"{method} needs the samples of the fit in one place, and those of Dask collections stay on their "
                "workers; write eigenvectors_ with Dask, or fit again on gathered tables (X.compute())"
            )

    def _ledger_entry(self, name: str) -> LedgerEntry:
        state = self._states.get(name)
        if self._shield.protect == "sums" and state is not None:
            n_features, n_samples = len(state.origin), len(self.eigenvectors_)
            return LedgerEntry(name, n_features, 0, self._shield.sent[name], 8 * n_samples * n_features, "masked sum")
        return ledger_entry(self.model_.summaries[name], "" if state is None else state.decided)


def protected_rounds() -> Any:
    """Return the rounds of a protected fit; they need an extra, and nothing else does."""
    try:
        return import_module("dkpca.exchange.protected_rounds")
    except ModuleNotFoundError as error:
        raise InputError(f"protect= needs {error.name}; install it with pip install 'dkpca[protect]'") from error
