"""`DKPCA`: the whole protocol behind a scikit-learn estimator."""

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions

from dkpca import fusion
from dkpca.checks import Constraints, check_fitted, check_parameters
from dkpca.concerns import about_kernel, about_new_samples, remedy, warn
from dkpca.errors import MissingPartyWarning
from dkpca.estimator.on_cluster import OnCluster
from dkpca.estimator.party_tables import Tables, as_precise_as
from dkpca.exchange import in_process, rounds
from dkpca.fields import MOST_AUDITED
from dkpca.fusion import components, scoring
from dkpca.kernels import Kernel
from dkpca.kernels.combination import BALANCED
from dkpca.kernels.laws import LAWS
from dkpca.linalg import memory
from dkpca.linalg.arrays import Array, dtype_name, namespace
from dkpca.linalg.leading import NAMES, Solver
from dkpca.linalg.precision import PRECISIONS
from dkpca.linalg.rows import computing_on
from dkpca.policy import PROTECTIONS
from dkpca.rank import RankRule, as_rule
from dkpca.tables.inputs import is_source

Columns = Sequence[int | str]  # positions or names


class DKPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnCluster):  # type: ignore[misc]
    """One-shot distributed kernel PCA on vertically partitioned data.

    Parameters
    ----------
    n_components : int, float or None, default=10
        Components to keep: so many, as many as show this share of the variance (between 0 and 1), or all that are
        not zero.
    kernel : str, Kernel, or dict of party to either, default="rbf"
        "rbf", "linear", "laplacian", "poly", "cosine", "chi2", "additive_chi2", "overlap" (categories),
        "precomputed" (the table is the party's kernel matrix), or a kernel object, which brings its own parameters.
    law : {"product", "sum"} or None, default=None
        How the parties' kernel matrices combine. None: as the kernel implies, so that the result is that kernel of
        the joined table.
    gamma : float, None, "auto", or dict of party to float, default=None
        Width of the kernels that have one. None: 1 / number of columns over all parties. "auto": 1 / mean squared
        distance between samples, added up from one number a party.
    weights : None, "balanced", or dict of party to number, default=None
        How much each party counts. "balanced": each party gives its kernel a width of its own (product), or all
        matrices get the same leading eigenvalue (sum).
    parties : None, int, or list or dict of column groups, default=None
        How to cut a single table into parties: so many equal blocks, or named groups of column positions or
        names. None: one party. Not used when the input is already a list or dict of tables.
    rank : "auto", int, rule or list of rules, default="auto"
        How many eigenpairs a party sends, and in compact precision how finely: a number, or what to reach or to keep
        to, by a rule of `dkpca.rank`. Of several, the tightest decides. "auto" is `dkpca.rank.Auto(n_components)`.
    center : bool, default=True
        Center the fused kernel in feature space.
    solver : {"auto", "dense", "streamed", "landmark"} or solver object, default="auto"
        Eigensolver at parties and center. "dense" builds the matrix; "streamed" is exact too but only passes over
        it; "landmark" is linear in the number of samples. "auto" chooses by work, device and free memory, and
        `solvers_` says what and why.
    n_landmarks : int, default=500
        Landmarks at the center for "landmark"; a party takes four for each eigenpair it sends. "auto" takes more
        where they cost no more than an exact answer may.
    precision : {"float32", "float64", "float16", "compact"}, default="float32"
        Precision of the numbers a party sends. "compact" rounds each column as coarsely as its eigenvalue allows and
        codes the result: a fraction of the bytes for the same error.
    protect : {"none", "sums", "blind"}, default="none"
        What the center gets. "none": a factor from each party, as in the paper. "sums": numbers under masks that
        cancel in the sum over parties, so that it learns the joint kernel matrix and nothing about any single party;
        up to 4,000 samples this is exactly kernel PCA of the joined table, beyond with `n_landmarks` landmarks.
        "blind" (sum law): factors of samples that the parties have turned by a secret rotation, so that it sees no
        sample. Needs the extra `protect`.
    projection : {"extend", "exact"}, default="extend"
        How new samples are placed: by their rows of the factors (rank numbers a sample and party), or the
        paper's way, by partial distances to all training samples.
    audit : int or None, default=None
        Rows of the true kernel matrix to look at after the fusion: each party sends the kernel of so many samples,
        drawn then, with all others, and `certificate_.audit` says what follows. None: no party is asked.
    standardize : bool, default=False
        Whether each party gives its columns mean 0 and deviation 1, as the commands do. The default is that of
        `KernelPCA`: columns are used as they are.
    missing : {"auto", "mean", "refuse"}, default="auto"
        What `transform` does with samples that lack a party of the fit. "auto": under the sum law the party's addend
        is left out, and a `dkpca.errors.MissingPartyWarning` says what share of each component it carried; under
        other laws it is refused. "mean": the same, and under other laws the party's kernel row is replaced by its
        mean over the samples of the fit. "refuse": every party is needed.
    n_jobs : int, default=None
        Parties computed at the same time, through joblib.
    timeout : float, default=None
        Seconds to wait for a party's answer when other processes compute for it; None waits for ever.
    device : str or None, default=None
        Where landmarks of tables in host memory are computed, as torch names it: "cuda". Rows travel there a group at
        a time, results come back. None, and exact solvers: where the tables lie.
    max_memory : int or str or None, default=None
        Memory that a party, and the center, may take beside the tables: bytes, or text such as "8GB". The solver
        follows from it, and arrays with a row for each sample that would go beyond half of it lie in temporary files.
        None: what is free.
    random_state : int, default=None
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
        What each party sent, in the order of `party_names_`.
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
    >>> pixels = load_digits().data[:300]
    >>> left, right = pixels[:, :32], pixels[:, 32:]
    >>> DKPCA(n_components=5, gamma="auto").fit_transform({"left": left, "right": right}).shape
    (300, 5)
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0, 1, closed="neither"), None],
        "kernel": [str, Kernel, Mapping],
        "law": [StrOptions(set(LAWS)), None],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"}), Mapping, None],
        "weights": [StrOptions({BALANCED}), Mapping, None],
        "parties": [Interval(Integral, 1, None, closed="left"), Sequence, Mapping, None],
        "rank": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), RankRule, list, tuple],
        "center": ["boolean"],
        "solver": [StrOptions(set(NAMES)), callable],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
        "precision": [StrOptions(set(PRECISIONS))],
        "protect": [StrOptions(set(PROTECTIONS))],
        "projection": [StrOptions({"extend", "exact"})],
        "audit": [Interval(Integral, 1, MOST_AUDITED, closed="both"), None],
        "standardize": ["boolean"],
        "missing": [StrOptions({"auto", "mean", "refuse"})],
        "n_jobs": [Integral, None],
        "timeout": [Interval(Real, 0, None, closed="neither"), None],
        "device": [str, None],
        "max_memory": [Interval(Integral, 1, None, closed="left"), str, None],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        n_components: int | float | None = 10,
        *,
        kernel: str | Kernel | Mapping[str, str | Kernel] = "rbf",
        law: str | None = None,
        gamma: float | str | Mapping[str, float] | None = None,
        weights: str | Mapping[str, float] | None = None,
        parties: int | Sequence[Columns] | Mapping[str, Columns] | None = None,
        rank: str | int | RankRule | Sequence[RankRule] = "auto",
        center: bool = True,
        solver: str | Solver = "auto",
        n_landmarks: int = 500,
        precision: str = "float32",
        protect: str = "none",
        projection: str = "extend",
        audit: int | None = None,
        standardize: bool = False,
        missing: str = "auto",
        n_jobs: int | None = None,
        timeout: float | None = None,
        device: str | None = None,
        max_memory: int | str | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components: Any = n_components
        self.kernel = kernel
        self.law = law
        self.gamma = gamma
        self.weights = weights
        self.parties = parties
        self.rank = rank
        self.center = center
        self.solver = solver
        self.n_landmarks = n_landmarks
        self.precision = precision
        self.protect = protect
        self.projection = projection
        self.audit = audit
        self.standardize = standardize
        self.missing = missing
        self.n_jobs = n_jobs
        self.timeout = timeout
        self.device = device
        self.max_memory = max_memory
        self.random_state = random_state

    def fit(self, X: Tables, y: object = None, *, sample_ids: Any = None) -> Self:
        """Fit on the parties' columns.

        Parameters
        ----------
        X : mapping of party to table, list of tables, or one table
            Arrays or DataFrames. Rows of DataFrames are the samples that their index says, in the order of the first
            table; rows of arrays match by position. In a mapping or list a table may also be a path (of a `.npy`,
            Parquet or Arrow file of numbers, or a folder of Parquet files) or a function without arguments that
            returns a table: the worker that computes for the party opens it, and its rows stay there. Of Dask arrays
            and DataFrames the chunks of rows stay on their workers, and Dask arrays come out.
        y : ignored
        sample_ids : mapping of party to sequence, or sequence, optional
            Labels of the rows of arrays, as an index would be.

        Returns
        -------
        DKPCA
        """
        check_parameters(self.get_params(deep=False), self._parameter_constraints, "DKPCA")
        settings = self._settings()
        self._by_rows = None
        elsewhere = self._collections(X)
        if elsewhere is not None:
            return self._fit_on_cluster(elsewhere, settings, sample_ids)
        tables = self._tables(X, reset=True, sample_ids=sample_ids)
        if self.protect != "none":
            return self._fit_protected(tables, settings)
        parties = in_process.Parties(
            tables,
            self.n_jobs,
            self.timeout,
            self.random_state or 0,
            standardize=self.standardize,
            max_memory=self.max_memory,
            device=self.device,
        )
        summaries, _ = rounds.summaries(parties, settings)
        fuse = partial(
            fusion.fuse,
            list(summaries.values()),
            center=self.center,
            **rounds.fusing(settings, summaries),
            roster=list(tables),
            solver=self.solver,
            n_landmarks=self.n_landmarks,
            random_state=self.random_state or 0,
            dtype=dtype_name(next(iter(parties.states.values())).origin),
        )
        with memory.limited(self.max_memory), computing_on(self.device):
            model = components.fused(self.n_components, lambda count: fuse(n_components=count))
        if self.audit is not None:
            model = rounds.audited(parties, model, self.audit, self.random_state or 0)
        warn(about_kernel(model, remedy=remedy(self.standardize)))
        sources = {name: table for name, table in tables.items() if is_source(table)}
        return self._fitted(model, list(tables), self._with_names(parties.states), sources)

    def fit_transform(self, X: Tables, y: object = None, *, sample_ids: Any = None) -> Array:
        """Fit, and return the scores of the training samples.

        Parameters
        ----------
        X : mapping of party to table, list of tables, or one table
            As for `fit`.
        y : ignored
        sample_ids : mapping of party to sequence, or sequence, optional
            As for `fit`.

        Returns
        -------
        array of shape (n_samples, n_components)
            In the order of the first table.
        """
        self.fit(X, y, sample_ids=sample_ids)
        if self._by_rows is not None:
            return self.eigenvectors_ * np.sqrt(self.eigenvalues_)[None, :]
        return as_precise_as(X, self.eigenvectors_ * namespace(self.eigenvalues_).sqrt(self.eigenvalues_)[None, :])

    def transform(self, X: Tables, *, sample_ids: Any = None) -> Array:
        """Place new samples.

        Parameters
        ----------
        X : mapping of party to table, list of tables, or one table
            The parties of the fit, with the columns of the fit. A mapping may lack some of them: see `missing`.
        sample_ids : mapping of party to sequence, or sequence, optional
            As for `fit`.

        Returns
        -------
        array of shape (n_samples, n_components)
            In the order of the first table.
        """
        check_fitted(self)
        if self._by_rows is not None:
            return self._place_on_cluster(X, sample_ids)
        if self._shield.protect != "none":
            return as_precise_as(X, self._place_protected(X, sample_ids))
        answers = self._answers(X, sample_ids, exact=self.projection == "exact")
        warn(about_new_samples(self.model_, answers.values()))
        absent = sorted(set(self.party_names_) - set(answers))
        placed = scoring.place(self.model_, answers.values(), absent, marginalize=self.missing == "mean")
        if absent:
            warn([scoring.share_words(placed)], MissingPartyWarning)
        return as_precise_as(X, placed.scores)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = isinstance(self.kernel, str | Kernel) and self._families()[0].takes_sparse
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.eigenvalues_.shape[0])

    def _settings(self) -> rounds.Fit:
        return rounds.Fit(
            kernel=dict(self.kernel) if isinstance(self.kernel, Mapping) else self.kernel,
            law=self.law,
            gamma=dict(self.gamma) if isinstance(self.gamma, Mapping) else self.gamma,
            weights=dict(self.weights) if isinstance(self.weights, Mapping) else self.weights,
            n_components=int(self.n_components or 1) or 1,
            center=self.center,
            rank=components.rank_for(self.n_components) if isinstance(self.rank, str) else as_rule(self.rank),
            precision=self.precision,
            solver=self.solver,
            keep_training=self.projection == "exact",
        )
