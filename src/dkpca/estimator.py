"""`DKPCA`: the whole protocol behind a scikit-learn estimator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dkpca import fusion, wire
from dkpca.disclosure import raw_bytes
from dkpca.errors import InputError
from dkpca.exchange import in_process, rounds
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array, dtype_name
from dkpca.linalg.leading import Solver
from dkpca.linalg.precision import PRECISIONS
from dkpca.messages import Summary, check_party_name
from dkpca.rank import Auto, Fixed, RankRule
from dkpca.tables.inputs import (
    Source,
    as_table,
    check_table,
    check_together,
    column_groups,
    is_list_of_tables,
    is_source,
    take_columns,
)

Tables = Any  # one table, a list of tables, or a mapping from party to table


@dataclass(frozen=True)
class LedgerEntry:
    """What one party sent for a fit, beside what its raw columns would have been in the same precision."""

    party: str
    n_features: int
    rank: int
    bytes_sent: int
    bytes_raw: int


class DKPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """One-shot distributed kernel PCA on vertically partitioned data.

    Parameters
    ----------
    n_components : int, default=10
        Components to keep.
    kernel : {"rbf", "linear"} or Kernel, default="rbf"
        A kernel object brings its own gamma.
    gamma : float, None or "auto", default=None
        RBF width. None: 1 / number of columns over all parties. "auto": 1 / mean squared distance between
        samples, added up from one number a party.
    parties : None, int, or list or dict of column groups, default=None
        How to cut a single table into parties: so many equal blocks, or named groups of column positions or
        names. None: one party. Not used when the input is already a list or dict of tables.
    rank : "auto", int or rule, default="auto"
        How many eigenpairs a party sends: a number, or a rule of `dkpca.rank`. "auto" is
        `dkpca.rank.Auto(n_components)`.
    center : bool, default=True
        Center the fused kernel in feature space.
    solver : {"auto", "dense", "streamed", "landmark"} or solver object, default="auto"
        Eigensolver at parties and center. "dense" builds the matrix; "streamed" is exact too but only passes over
        it; "landmark" is linear in the number of samples. "auto" chooses by size, device and free memory, and
        `solvers_` says what and why.
    n_landmarks : int, default=500
        Landmarks at the center for "landmark"; a party takes four for each eigenpair it sends.
    precision : {"float32", "float64", "float16"}, default="float32"
        Precision of the numbers a party sends.
    projection : {"extend", "exact"}, default="extend"
        How new samples are placed: by their rows of the factors (rank numbers a sample and party), or the
        paper's way, by partial distances to all training samples.
    n_jobs : int, optional
        Parties computed at the same time, through joblib.
    timeout : float, optional
        Seconds to wait for a party's answer when other processes compute for it; None waits for ever.
    random_state : int, optional
        Seed for drawing landmarks. None is a fixed seed too: two fits on the same data agree.

    Attributes
    ----------
    eigenvectors_ : array of shape (n_samples, n_components)
        Orthonormal.
    eigenvalues_ : array of shape (n_components,)
        Of the fused kernel, descending.
    explained_variance_ratio_ : array of shape (n_components,)
        Of the fused kernel.
    certificate_ : Certificate
        What is proved about the distance to kernel PCA of the joined table.
    ledger_ : list of LedgerEntry
        What each party sent.
    gamma_ : float or None
        RBF width used.
    kernel_ : Kernel
        Kernel used.
    model_ : FusedModel
        What the center holds.
    solvers_ : dict of str to str
        For each party and for "center": the solver used, what it did, and why it was chosen.
    party_names_ : list of str
        Parties, in the order of the input.
    n_features_in_ : int
        Columns over all parties.

    Notes
    -----
    NumPy input is computed in float64; torch input in its own precision, on its own device, and torch comes
    out. Scores are scaled like scikit-learn's `KernelPCA`: with one party and full rank this *is* KernelPCA.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dkpca import DKPCA
    >>> pixels = load_digits().data
    >>> left, right = pixels[:, :32], pixels[:, 32:]
    >>> DKPCA(n_components=5, gamma="auto").fit_transform({"left": left, "right": right}).shape
    (1797, 5)
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        kernel: str | Kernel = "rbf",
        gamma: float | str | None = None,
        parties: int | Sequence[Any] | Mapping[str, Any] | None = None,
        rank: str | int | RankRule = "auto",
        center: bool = True,
        solver: str | Solver = "auto",
        n_landmarks: int = 500,
        precision: str = "float32",
        projection: str = "extend",
        n_jobs: int | None = None,
        timeout: float | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.parties = parties
        self.rank = rank
        self.center = center
        self.solver = solver
        self.n_landmarks = n_landmarks
        self.precision = precision
        self.projection = projection
        self.n_jobs = n_jobs
        self.timeout = timeout
        self.random_state = random_state

    def fit(self, X: Tables, y: object = None) -> "DKPCA":
        """Fit on the parties' columns.

        Parameters
        ----------
        X : mapping of party to table, list of tables, or one table
            Arrays or DataFrames; row i of every table is the same sample. In a mapping or list a table may also be
            the path of a `.npy` file or a function without arguments that returns a table: the worker that computes
            for the party opens it, and its rows stay there.
        y : ignored

        Returns
        -------
        DKPCA
        """
        self._check_settings()
        tables = self._tables(X, reset=True)
        self.party_names_ = list(tables)
        parties = in_process.Parties(tables, self._workers(), self.random_state or 0)
        answers, _ = rounds.summaries(parties, self._settings())
        summaries = list(answers.values())
        self._states = parties.states
        self._sources = {name: table for name, table in tables.items() if is_source(table)}
        self.n_features_in_ = sum(summary.n_features for summary in summaries)
        self.model_ = fusion.fuse(
            summaries,
            n_components=self.n_components,
            center=self.center,
            roster=self.party_names_,
            solver=self.solver,
            n_landmarks=self.n_landmarks,
            random_state=self.random_state or 0,
            dtype=dtype_name(next(iter(self._states.values())).origin),
        )
        self.solvers_ = {name: state.solver for name, state in self._states.items()} | {"center": self.model_.solver}
        self.kernel_ = self.model_.kernel
        self.gamma_ = getattr(self.kernel_, "gamma", None)
        self.eigenvectors_ = self.model_.eigenvectors
        self.eigenvalues_ = self.model_.eigenvalues
        self.explained_variance_ratio_ = self.model_.explained_variance_ratio
        self.certificate_ = self.model_.certificate
        self.ledger_ = [_ledger_entry(summary) for summary in summaries]
        return self

    def fit_transform(self, X: Tables, y: object = None, **fit_params: object) -> Array:
        """Fit, and return the scores of the training samples."""
        return self.fit(X, y).model_.scores

    def transform(self, X: Tables) -> Array:
        """Return the scores of new samples, (n_samples, n_components)."""
        check_is_fitted(self)
        tables = self._tables(X, reset=False)
        parties = in_process.Parties(tables, self._workers(), states=self._states, fitted=self._sources)
        exact = self.projection == "exact"
        answers, _ = rounds.new_samples(parties, exact=exact)
        return (fusion.project_exact if exact else fusion.project)(self.model_, answers.values())

    @property
    def _n_features_out(self) -> int:
        return int(self.eigenvalues_.shape[0])

    def _workers(self) -> in_process.Workers:
        return in_process.Workers(self.n_jobs, self.timeout)

    def _check_settings(self) -> None:
        if (
            isinstance(self.n_components, bool)
            or not isinstance(self.n_components, int | np.integer)
            or self.n_components < 1
        ):
            raise InputError(f"n_components is {self.n_components!r}; give a whole number, at least 1")
        if self.precision not in PRECISIONS:
            raise InputError(f"precision is {self.precision!r}; use one of {sorted(PRECISIONS)}")
        if self.projection not in ("extend", "exact"):
            raise InputError(f"projection is {self.projection!r}; use 'extend' or 'exact'")

    def _settings(self) -> rounds.Fit:
        return rounds.Fit(
            kernel=self.kernel,
            gamma=self.gamma,
            n_components=self.n_components,
            center=self.center,
            rank=self._rank_rule(),
            precision=self.precision,
            solver=self.solver,
            keep_training=self.projection == "exact",
        )

    def _rank_rule(self) -> RankRule:
        if isinstance(self.rank, int | np.integer):
            return Fixed(int(self.rank))
        if self.rank == "auto":
            return Auto(self.n_components)
        if isinstance(self.rank, RankRule):
            return self.rank
        raise InputError(f"rank is {self.rank!r}; give a number, a rule of dkpca.rank, or 'auto'")

    def _tables(self, X: Tables, *, reset: bool) -> dict[str, Array | Source]:
        """Tables by party, checked unless a worker is to open them."""
        if isinstance(X, Mapping) and not scipy.sparse.issparse(X):  # a sparse DOK array is a dict too
            tables = {check_party_name(name): as_table(name, table) for name, table in X.items()}
        elif is_list_of_tables(X):
            tables = {f"party{j}": as_table(f"party{j}", table) for j, table in enumerate(X)}
        else:
            return self._split(X, reset=reset)
        if not tables:
            raise InputError("no party was given; pass at least one table")
        here = {name: table for name, table in tables.items() if not is_source(table)}
        check_together(here)
        if reset:
            self.__dict__.pop("feature_names_in_", None)
        else:
            self._check_same_parties(tables)
        return tables

    def _check_same_parties(self, tables: Mapping[str, Array | Source]) -> None:
        expected = {name: state.origin.shape[0] for name, state in self._states.items()}
        widths = {name: expected.get(name) if is_source(t) else _width(t) for name, t in tables.items()}
        if widths != expected:
            raise InputError(f"the fit had parties and column counts {expected}; these samples have {widths}")

    def _split(self, X: Any, *, reset: bool) -> dict[str, Array]:
        """Cut one table into the parties that `parties` describes."""
        if array_api_compat.is_torch_array(X):
            table = check_table("X", X)
            names = None
            if not reset and table.shape[1] != self.n_features_in_:
                raise InputError(
                    f"X has {table.shape[1]} features, but DKPCA is expecting {self.n_features_in_} features as input"
                )
        else:
            table = validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=2 if reset else 1)
            names = getattr(self, "feature_names_in_", None)
        groups = column_groups(self.parties, table.shape[1], names)
        return {name: take_columns(table, columns) for name, columns in groups.items()}


def _width(table: Array) -> int:
    return int(table.shape[1])


def _ledger_entry(summary: Summary) -> LedgerEntry:
    return LedgerEntry(summary.party, summary.n_features, summary.rank, wire.size(summary), raw_bytes(summary))
