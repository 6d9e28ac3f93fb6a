"""`DKPCA`: the whole protocol behind a scikit-learn estimator."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dkpca import fusion, party, wire
from dkpca.arrays import Array, device, dtype_name, namespace
from dkpca.eigen import Solver
from dkpca.errors import InputError
from dkpca.exchange import in_process
from dkpca.kernels import RBF, Kernel, Linear
from dkpca.messages import Summary, check_party_name
from dkpca.precision import PRECISIONS
from dkpca.rank import Auto, Fixed, RankRule

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
    wire_dtype : {"float32", "float64", "float16"}, default="float32"
        Precision of the numbers a party sends.
    projection : {"extend", "exact"}, default="extend"
        How new samples are placed: by their rows of the factors (rank numbers a sample and party), or the
        paper's way, by partial distances to all training samples.
    n_jobs : int, optional
        Parties computed at the same time, through joblib.
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
        wire_dtype: str = "float32",
        projection: str = "extend",
        n_jobs: int | None = None,
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
        self.wire_dtype = wire_dtype
        self.projection = projection
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Tables, y: object = None) -> "DKPCA":
        """Fit on the parties' columns.

        Parameters
        ----------
        X : mapping of party to table, list of tables, or one table
            Arrays or DataFrames; row i of every table is the same sample.
        y : ignored

        Returns
        -------
        DKPCA
        """
        self._check_settings()
        columns = self._tables(X, reset=True)
        self.party_names_ = list(columns)
        kernel = self._kernel(columns)
        answers = in_process.summaries(
            columns,
            kernel=kernel,
            rank=self._rank_rule(),
            precision=self.wire_dtype,
            solver=self.solver,
            random_state=self.random_state or 0,
            keep_training=self.projection == "exact",
            n_jobs=self.n_jobs,
        )
        summaries = [summary for summary, _ in answers.values()]
        self._states = {name: state for name, (_, state) in answers.items()}
        self.model_ = fusion.fuse(
            summaries,
            n_components=self.n_components,
            center=self.center,
            roster=self.party_names_,
            solver=self.solver,
            landmarks=self.n_landmarks,
            random_state=self.random_state or 0,
            dtype=dtype_name(next(iter(columns.values()))),
        )
        self.solvers_ = {name: state.solver for name, state in self._states.items()} | {"center": self.model_.solver}
        self.kernel_ = kernel
        self.gamma_ = getattr(kernel, "gamma", None)
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
        columns = self._tables(X, reset=False)
        if self.projection == "exact":
            return fusion.project_exact(self.model_, self._ask(party.partials, columns))
        return fusion.project(self.model_, self._ask(party.extend, columns))

    @property
    def _n_features_out(self) -> int:
        return int(self.eigenvalues_.shape[0])

    def _ask(self, answer: Any, columns: Mapping[str, Array]) -> list[Any]:
        return in_process.new_samples(answer, self._states, columns, n_jobs=self.n_jobs)

    def _check_settings(self) -> None:
        if (
            isinstance(self.n_components, bool)
            or not isinstance(self.n_components, int | np.integer)
            or self.n_components < 1
        ):
            raise InputError(f"n_components is {self.n_components!r}; give a whole number, at least 1")
        if self.wire_dtype not in PRECISIONS:
            raise InputError(f"wire_dtype is {self.wire_dtype!r}; use one of {sorted(PRECISIONS)}")
        if self.projection not in ("extend", "exact"):
            raise InputError(f"projection is {self.projection!r}; use 'extend' or 'exact'")

    def _kernel(self, columns: Mapping[str, Array]) -> Kernel:
        if isinstance(self.kernel, Kernel):
            return self.kernel
        if self.kernel == "linear":
            return Linear(centered=self.center)
        if self.kernel == "rbf":
            return RBF(fusion.resolve_gamma(self.gamma, in_process.statistics(columns)))
        raise InputError(f"kernel is {self.kernel!r}; use 'rbf', 'linear' or a kernel object")

    def _rank_rule(self) -> RankRule:
        if isinstance(self.rank, int | np.integer):
            return Fixed(int(self.rank))
        if self.rank == "auto":
            return Auto(self.n_components)
        if isinstance(self.rank, RankRule):
            return self.rank
        raise InputError(f"rank is {self.rank!r}; give a number, a rule of dkpca.rank, or 'auto'")

    def _tables(self, X: Tables, *, reset: bool) -> dict[str, Array]:
        """Columns by party, checked."""
        if isinstance(X, Mapping) and not scipy.sparse.issparse(X):  # a sparse DOK array is a dict too
            tables = {check_party_name(name): _check_table(name, table) for name, table in X.items()}
        elif _is_list_of_tables(X):
            tables = {f"party{j}": _check_table(f"party{j}", table) for j, table in enumerate(X)}
        else:
            return self._split(X, reset=reset)
        if not tables:
            raise InputError("no party was given; pass at least one table")
        _check_row_counts(tables)
        _check_one_library(tables)
        self._check_same_parties(tables, reset=reset)
        return tables

    def _check_same_parties(self, tables: Mapping[str, Array], *, reset: bool) -> None:
        widths = {name: table.shape[1] for name, table in tables.items()}
        if reset:
            self.n_features_in_ = sum(widths.values())
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return
        expected = {name: state.origin.shape[0] for name, state in self._states.items()}
        if widths != expected:
            raise InputError(f"the fit had parties and column counts {expected}; these samples have {widths}")

    def _split(self, X: Any, *, reset: bool) -> dict[str, Array]:
        """Cut one table into the parties that `parties` describes."""
        if array_api_compat.is_torch_array(X):
            table = _check_table("X", X)
            names = None
            if reset:
                self.n_features_in_ = table.shape[1]
            elif table.shape[1] != self.n_features_in_:
                raise InputError(
                    f"X has {table.shape[1]} features, but DKPCA is expecting {self.n_features_in_} features as input"
                )
        else:
            table = validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=2 if reset else 1)
            names = getattr(self, "feature_names_in_", None)
        groups = _column_groups(self.parties, table.shape[1], names)
        return {name: _take_columns(table, columns) for name, columns in groups.items()}


def _check_table(name: str, table: Any) -> Array:
    """One party's columns as a 2-D float array, or an error that names the party."""
    try:
        if array_api_compat.is_torch_array(table):
            return _check_tensor(table)
        return check_array(table, dtype=np.float64, ensure_min_samples=1)
    except (ValueError, TypeError) as error:
        raise InputError(f"party {name!r}: {error}") from error


def _check_tensor(table: Array) -> Array:
    """The same checks for torch, on its own device."""
    xp = namespace(table)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"expected a 2-D array that is not empty, got shape {tuple(table.shape)}")
    if not xp.isdtype(table.dtype, "real floating"):
        raise ValueError(f"expected real floating point numbers, got {table.dtype}; convert them first")
    if not bool(xp.all(xp.isfinite(table))):
        raise ValueError("Input contains NaN or infinity")
    return table


def _check_row_counts(tables: Mapping[str, Array]) -> None:
    counts = {name: table.shape[0] for name, table in tables.items()}
    if len(set(counts.values())) > 1:
        raise InputError(f"parties have different numbers of rows {counts}; row i must be the same sample everywhere")


def _check_one_library(tables: Mapping[str, Array]) -> None:
    kinds = {f"{type(table).__name__} {table.dtype} on {device(table)}" for table in tables.values()}
    if len(kinds) > 1:
        raise InputError(f"parties mix array libraries, precisions or devices {sorted(kinds)}; use one for all")


def _is_list_of_tables(X: Any) -> bool:
    """A list of 2-D tables, and not one table given as nested lists."""
    return isinstance(X, list | tuple) and bool(X) and all(getattr(table, "ndim", 0) == 2 for table in X)


def _column_groups(parties: Any, n_features: int, names: Any) -> dict[str, list[int]]:
    """Column positions of each party."""
    if parties is None:
        parties = 1
    if isinstance(parties, int | np.integer):
        if not 1 <= parties <= n_features:
            raise InputError(
                f"parties is {parties}, but there are {n_features} columns; every party needs at least one"
            )
        blocks = np.array_split(np.arange(n_features), int(parties))
        return {f"party{j}": block.tolist() for j, block in enumerate(blocks)}
    if not isinstance(parties, Mapping):
        parties = {f"party{j}": group for j, group in enumerate(parties)}
    groups = {
        check_party_name(name): [_position(c, n_features, names) for c in group] for name, group in parties.items()
    }
    _check_partition(groups, n_features)
    return groups


def _check_partition(groups: Mapping[str, Sequence[int]], n_features: int) -> None:
    counts = np.bincount([c for group in groups.values() for c in group], minlength=n_features)
    if not all(groups.values()) or (counts != 1).any():
        wrong = np.flatnonzero(counts != 1).tolist()
        raise InputError(f"parties must cover every column exactly once, none empty; check columns {wrong[:10]}")


def _position(column: Any, n_features: int, names: Iterable[str] | None) -> int:
    if isinstance(column, int | np.integer) and 0 <= column < n_features:
        return int(column)
    known = [] if names is None else list(names)
    if column in known:
        return known.index(column)
    raise InputError(
        f"column {column!r} in parties is neither a position below {n_features} nor the name of a column"
    )


def _take_columns(table: Array, columns: list[int]) -> Array:
    contiguous = columns == list(range(columns[0], columns[0] + len(columns)))
    return table[:, columns[0] : columns[0] + len(columns)] if contiguous else table[:, columns]


def _ledger_entry(summary: Summary) -> LedgerEntry:
    bytes_raw = summary.n_samples * summary.n_features * PRECISIONS[summary.factor.precision]
    return LedgerEntry(summary.party, summary.n_features, summary.rank, wire.size(summary), bytes_raw)
