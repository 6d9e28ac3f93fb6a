"""A fitted estimator to a file and back, and from a run directory of the commands. No pickle."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator

from dkpca.checks import check_fitted
from dkpca.disclosure import ledger_entry
from dkpca.fusion import FusedModel
from dkpca.party import PartyState
from dkpca.store import estimator_file, model_file, private_state
from dkpca.tables.inputs import Source


class FittedEstimator(BaseEstimator):  # type: ignore[misc]
    """What `DKPCA` keeps of a fit, wherever the fit comes from."""

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
        estimator_file.write(
            Path(path),
            estimator_file.Fitted(
                parameters=self.get_params(deep=False),
                party_names=tuple(self.party_names_),
                feature_names=tuple(getattr(self, "feature_names_in_", ())),
                sources=self._sources,
                model=self.model_,
                states=self._states,
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
        return estimator._fitted(saved.model, list(saved.party_names), saved.states, saved.sources)

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
        self, model: FusedModel, names: list[str], states: Mapping[str, PartyState], sources: Mapping[str, Source]
    ) -> Self:
        """Take over what a fit gave, or a file."""
        self._states, self._sources = dict(states), dict(sources)
        self.model_ = model
        self.party_names_ = names
        self.n_features_in_ = sum(summary.n_features for summary in model.summaries.values())
        self.solvers_ = {name: state.solver for name, state in states.items()} | {"center": model.solver}
        self.kernel_ = model.kernel
        self.gamma_ = getattr(model.kernel, "gamma", None)
        self.eigenvectors_ = model.eigenvectors
        self.eigenvalues_ = model.eigenvalues
        self.explained_variance_ratio_ = model.explained_variance_ratio
        self.certificate_ = model.certificate
        decided = {name: state.decided for name, state in states.items()}
        self.ledger_ = [ledger_entry(model.summaries[name], decided.get(name, "")) for name in names]
        return self
