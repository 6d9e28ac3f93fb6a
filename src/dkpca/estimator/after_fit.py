"""What a fitted estimator does beside placing samples: judge how much it shows of them, and go back to columns."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from dkpca import party as core
from dkpca.checks import as_input_error, check_fitted
from dkpca.concerns import warn
from dkpca.errors import InputError
from dkpca.estimator.party_tables import Tables, TakesTables
from dkpca.exchange import in_process, rounds
from dkpca.fusion import captured, scoring
from dkpca.linalg.arrays import Array, to_numpy
from dkpca.party import inverse
from dkpca.party.state import PartyState
from dkpca.tables.inputs import column_groups, opened


class AfterFit(TakesTables):
    """Methods that need a fit."""

    def party_scores(self, X: Tables, *, sample_ids: Any = None) -> dict[str, Array]:
        """Return each party's own share of the scores of new samples, under the sum law.

        Parameters
        ----------
        X : mapping of party to table, list of tables, or one table
            As for `transform`.
        sample_ids : mapping of party to sequence, or sequence, optional
            As for `fit`.

        Returns
        -------
        dict of str to array of shape (n_samples, n_components)
            By party. They add up to what `transform` gives, but for a rounding.

        Examples
        --------
        >>> import numpy as np
        >>> from dkpca import DKPCA
        >>> X = np.random.default_rng(0).normal(size=(50, 8))
        >>> model = DKPCA(2, kernel="linear", parties={"bank": [0, 1, 2, 3], "shop": [4, 5, 6, 7]}).fit(X)
        >>> shares = model.party_scores(X[:5])
        >>> bool(np.allclose(shares["bank"] + shares["shop"], model.transform(X[:5]), atol=1e-5))
        True
        """
        check_fitted(self)
        self._check_rows_here("party_scores")
        return scoring.party_scores(self.model_, self._answers(X, sample_ids, exact=False))

    def score(self, X: Tables, y: object = None, *, sample_ids: Any = None) -> float:
        """Return the share of the variance of these samples that the components show: 1 is all of it.

        For samples of the fit at full rank this is the sum of `explained_variance_ratio_`. Compare ranks, precisions
        and numbers of components by it, with `GridSearchCV` too; not widths, since a kernel that hardly tells samples
        apart is easily shown. Every party has to be there.

        Parameters
        ----------
        X : mapping of party to table, list of tables, or one table
            As for `transform`.
        y : ignored
        sample_ids : mapping of party to sequence, or sequence, optional
            As for `fit`.

        Returns
        -------
        float

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from dkpca import DKPCA
        >>> pixels = load_digits().data / 16
        >>> model = DKPCA(10, parties=2).fit(pixels[:200])
        >>> 0.3 < model.score(pixels[200:300]) < 0.8
        True
        """
        check_fitted(self)
        self._check_unprotected("score")
        tables = self._tables(X, reset=False, sample_ids=sample_ids)
        absent = sorted(set(self.party_names_) - set(tables))
        if absent:
            raise InputError(f"{absent} are missing, and the variance of samples needs every party; use transform")
        rows = self._asked(tables, exact=False)
        diagonals = {name: self._self_values(name, table) for name, table in tables.items()}
        return captured.share(self.model_, rows, diagonals)

    def inverse_transform(self, X: Any, *, alpha: float = 1.0) -> Any:
        """Estimate the columns of samples from their scores: for each party by a kernel ridge regression of its own.

        As in `KernelPCA(fit_inverse_transform=True)`, on columns measured from their means; with an RBF or linear
        kernel it is the same. A party with categories or a kernel matrix has no columns to go back to and is left
        out, with a warning.

        Parameters
        ----------
        X : array of shape (n_samples, n_components)
            Scores.
        alpha : float, default=1.0
            Ridge.

        Returns
        -------
        dict of str to array of shape (n_samples, n_features of the party)
            By party; one array, if the fit was on one table that was cut.

        Examples
        --------
        >>> import numpy as np
        >>> from dkpca import DKPCA
        >>> X = np.random.default_rng(0).normal(size=(50, 2)) @ np.ones((2, 8))
        >>> model = DKPCA(2, kernel="linear", parties=2).fit(X)
        >>> bool(np.allclose(model.inverse_transform(model.transform(X), alpha=1e-6), X, atol=1e-4))
        True
        """
        check_fitted(self)
        self._check_unprotected("inverse_transform")
        if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0.0 < float(alpha) < float("inf"):
            raise InputError(f"alpha is {alpha!r}; give a positive number")
        with as_input_error():
            scores = check_array(to_numpy(X), dtype=np.float64)
        fitted = np.asarray(to_numpy(self.model_.scores), dtype=np.float64)
        if scores.shape[1] != fitted.shape[1]:
            raise InputError(f"these scores have {scores.shape[1]} columns; the fit has {fitted.shape[1]} components")
        kernel = inverse.kernel_of_scores(list(self.model_.kernels.values()), fitted)
        states = {name: self._with_rows(name) for name in self.party_names_}
        others = [name for name, state in states.items() if state.kernel.columns_are != "quantities"]
        found = {
            name: inverse.columns_of(state, fitted, scores, kernel=kernel, alpha=float(alpha))
            for name, state in states.items()
            if name not in others
        }
        if others:
            warn([f"parties {others} have categories or a kernel matrix: there are no columns to go back to"])
        return found if others else self._joined(found)

    def _answers(self, X: Tables, sample_ids: Any, *, exact: bool) -> Mapping[str, Any]:
        """Return what the parties that are there say about new samples."""
        check_fitted(self)
        return self._asked(self._tables(X, reset=False, sample_ids=sample_ids), exact=exact)

    def _asked(self, tables: Mapping[str, Any], *, exact: bool) -> Mapping[str, Any]:
        parties = in_process.Parties(tables, self.n_jobs, self.timeout, states=self._states, fitted=self._sources)
        return rounds.new_samples(parties, exact=exact)

    def _self_values(self, name: str, table: Any) -> Array:
        """Kernel value of each new sample of a party with itself."""
        state = self._states[name]
        return core.self_values(state, opened(name, table, columns_are=state.kernel.columns_are))

    def _with_rows(self, name: str) -> PartyState:
        """State of a party with its rows, opened again where they are only named."""
        if name not in self._states:
            raise InputError(f"the private state of party {name!r} is not here; it can go back to its columns itself")
        state = self._states[name]
        if state.anchors is not None:
            return state
        return state.with_rows(opened(name, self._sources[name], columns_are=state.kernel.columns_are))

    def _joined(self, by_party: dict[str, Array]) -> Any:
        """One table, where the fit was on one that was cut."""
        if self.parties is None and self.party_names_ != ["party0"]:
            return by_party
        names = getattr(self, "feature_names_in_", None)
        groups = column_groups(self.parties, self.n_features_in_, names)
        if list(groups) != self.party_names_ or any(by_party[name].shape[1] != len(groups[name]) for name in groups):
            return by_party
        columns = np.argsort([column for group in groups.values() for column in group])
        return np.hstack([to_numpy(by_party[name]) for name in groups])[:, columns]
