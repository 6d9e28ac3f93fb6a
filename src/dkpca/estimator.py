"""`DKPCA`: the whole protocol behind a scikit-learn estimator."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Self, get_type_hints

import numpy as np
import sklearn.exceptions
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import validate_data

from dkpca import party as core
from dkpca import wire
from dkpca.analysis import agreement, importance
from dkpca.errors import InputError, MissingPartyWarning, NotFittedError, warn
from dkpca.exchange import in_process, protocols
from dkpca.fusion import scoring
from dkpca.fusion.completion import not_at_random
from dkpca.fusion.covariates import Covariates, predicted
from dkpca.fusion.scoring import about_kernel, about_new_samples, outside_at_center
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array, namespace, to_numpy
from dkpca.linalg.leading import Solver
from dkpca.party.disclosure import LedgerEntry
from dkpca.party.state import Shield, State
from dkpca.party.summaries import about_columns
from dkpca.rank import RankRule
from dkpca.settings import COUNT, PARTIES, Compute, Fit, check_value, values_of
from dkpca.tables import inputs, scverse
from dkpca.tables.inputs import PartyTables, as_precise_as

Columns = Sequence[int | str]  # positions or names
AnyTables = Any  # one table, a list of tables, or a mapping from party to table


class DKPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """One-shot distributed kernel PCA on vertically partitioned data.

    Parameters
    ----------
    n_components : int, float or None, default=10
        Number of components, or the share of the variance to capture (between 0 and 1). None: all with nonzero
        eigenvalues.
    kernel : str, Kernel, or dict of party to either, default="rbf"
        "rbf", "linear", "laplacian", "poly", "cosine", "chi2", "overlap" (categories),
        "precomputed" (the table is the party's kernel matrix), or a kernel object, which brings its own parameters.
    law : {"product", "sum"} or None, default=None
        How the parties' kernel matrices combine. None: so that they give the kernel of the joined table (product for
        RBF, sum for linear).
    gamma : float, "scale", None, or dict of party to float, default="scale"
        "scale": 1 / mean of the kernel's own distance between two samples, over the columns of all parties with that
        kernel: |x - y|^2 ("rbf"), sum |x - y| ("laplacian"), sum (x - y)^2 / (x + y) ("chi2"), number of columns that
        differ ("overlap"); "poly": 1 / mean |x|^2; 1 if all tables are constant. Each party sends three numbers for
        this; with "rbf" and standardize=True none, and constant columns count. It is not the "scale" of SVC. None, as
        in `KernelPCA`: 1 / number of columns over all parties; 1 if "chi2" is the only kernel with a gamma.
    weights : None, "balanced", "statis", or dict of party to number, default=None
        How much each party counts. "balanced" replaces gamma, except of "poly": under the product of n parties each
        exponent has mean 1 / n over pairs of samples; under the sum that mean is 1, and each centered matrix is
        divided by its largest eigenvalue. A party whose distances vary more still counts more (`party_shares_`).
        "statis" (sum law): each centered matrix is divided by its Frobenius norm and weighted by the leading
        eigenvector of `agreement_`.
    degree, coef0 : int or None, float or None, default=None
        Of polynomial kernels given by name. None: 3 and 1.
    parties : None, int, or list or dict of column groups, default=None
        How to split a single table: a number of equal blocks, or groups of column positions or names. None: one
        party. Not used if the input is a list or dict of tables.
    rank : "auto", int, rule or list of rules, default="auto"
        How many eigenpairs a party sends and, in compact precision, how finely they are rounded: a number, or rules
        of `dkpca.rank`: the largest need, capped by the strictest limit. "auto": `dkpca.rank.Auto(n_components)`.
    center : bool, default=True
        Center the fused kernel in feature space.
    solver : {"auto", "dense", "streamed", "landmark"} or solver object, default="auto"
        "dense" builds the matrix; "streamed" is also exact, tile by tile; "landmark" is linear in the number of
        samples. "auto" chooses by work, device and memory: see `solvers_`.
    n_landmarks : int, default=500
        Landmarks at the center for "landmark"; a party uses four for each eigenpair it sends, at least 100. "auto"
        uses more within its limit for exact solvers.
    precision : {"float32", "float64", "float16", "compact"}, default="float32"
        Of the numbers a party sends. "compact" rounds each column as coarsely as its eigenvalue allows and codes the
        result: a fraction of the bytes for the same error.
    protect : {"none", "sums", "blind"}, default="none"
        What the center gets. "none": a factor from each party, as in the paper. "sums": numbers under masks that
        cancel in the sum over parties, so that it learns the joint kernel matrix only. Up to 4,000 samples this is
        exactly kernel PCA of the joined table; for more, kernels of distances use `n_landmarks` landmarks, and other
        kernels add up all pairs of up to 10,000. "blind" (sum law): factors under a secret rotation that the parties
        share, so that the center sees no individual sample. Needs the extra `protect`.
    projection : {"extend", "exact"}, default="extend"
        How new samples are placed: by their rows of the factors, or, as in the paper, by distances to all samples.
    audit : int or None, default=None
        Rows of the true kernel matrix to check. After the fusion, the center draws that many samples, and each party
        sends its kernel values between these and all samples: `certificate_.audit`.
    standardize : bool, default=False
        Whether each party scales its columns to mean 0 and standard deviation 1, as the commands do.
    lacking : {"drop", "mean", "complete"} or None, default=None
        How to treat samples for which a party has no row, by row labels. None refuses them. "drop" keeps the samples
        of all parties, with a warning. "mean" uses the party's mean row, in the space of its kernel. "complete"
        regresses the row on the other parties; the certificate then refers to the table with these rows, and
        estimates their accuracy. New samples are treated the same way, and may lack a whole party: under the sum law
        also with None and a `dkpca.errors.MissingPartyWarning`; `party_shares_` says what the party carried. With
        `protect`, only "drop".
    n_jobs : int, default=None
        Number of parties computed at the same time, with joblib. None: one, or as `joblib.parallel_config` says.
    timeout : float, default=None
        Seconds to wait for a party's answer if another process computes it. None: no limit.
    device : str or None, default=None
        Torch device on which to compute landmarks of tables in host memory, such as "cuda"; groups of rows are copied
        to it. None, and exact solvers: the device of the tables.
    max_memory : int or str or None, default=None
        Memory that a party, and the center, may use besides the tables: bytes, or text such as "8GB". It limits the
        choice of solvers; arrays with one row per sample beyond half of it go to temporary files. None: all that is
        free.
    random_state : int, default=None
        Seed for drawing landmarks and audited rows. None is also a fixed seed: two fits on the same data agree.

    Attributes
    ----------
    eigenvectors_, eigenvalues_ : arrays of shape (n_samples, n_components) and (n_components,)
        Of the fused kernel: orthonormal columns, by descending eigenvalue.
    explained_variance_ratio_ : array of shape (n_components,)
        Share of its variance per component.
    certificate_ : Certificate
        Bounds on, and estimates of, the distance to kernel PCA of the joined table.
    ledger_ : list of LedgerEntry
        The messages that each party sent, in the order of `party_names_`.
    gamma_, kernel_ : float or None, Kernel or None
        Those used; None if parties differ, and where the kernel has no gamma.
    gammas_, kernels_ : dict of str to float or None, dict of str to Kernel
        Those of each party.
    sample_ids_ : array of shape (n_samples,)
        Labels by which rows were matched, in the order of the scores; row numbers if the tables have no labels.
    agreement_, agreement_error_ : arrays of shape (n_parties, n_parties) or None
        Cosines between the parties' centered kernels, from their factors, and bounds on the differences to the true
        cosines. None for a single party, and under `protect="sums"`.
    party_shares_ : array of shape (n_parties, n_components) or None
        Share of each party in the variance of each component, v' K_j v over the sum of these: exact under the sum
        law, a first-order approximation under the product. None under `protect="sums"`.
    model_ : FusedModel
        The center's model.
    solvers_ : dict of str to str
        For each party and "center" ("the center" if a party has that name): the solver, what it did, and why.
    party_names_, n_features_in_ : list of str, int
        Names of the parties, in the order of the input; number of columns over all of them.

    Notes
    -----
    NumPy input is computed in float64. Torch input is computed in its own precision and on its own device, and the
    results are torch tensors. Scores are scaled as in `KernelPCA`: with one party and full rank, they are the same.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dkpca import DKPCA
    >>> pixels = load_digits().data[:300]
    >>> DKPCA(n_components=5).fit_transform({"left": pixels[:, :32], "right": pixels[:, 32:]}).shape
    (300, 5)
    """

    _cluster: str | None = None  # rows of a fit on Dask collections: all on one "worker", or "rows" stayed in place
    _training: Any = None  # tables of the fit, as long as this object lives

    def __init__(
        self,
        n_components: int | float | None = 10,
        *,
        kernel: str | Kernel | Mapping[str, str | Kernel] = "rbf",
        law: str | None = None,
        gamma: float | str | Mapping[str, float] | None = "scale",
        weights: str | Mapping[str, float] | None = None,
        degree: int | None = None,
        coef0: float | None = None,
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
        lacking: str | None = None,
        n_jobs: int | None = None,
        timeout: float | None = None,
        device: str | None = None,
        max_memory: int | str | None = None,
        random_state: int | None = None,
    ) -> None:
        # As scikit-learn asks for them: every parameter as it was given, under its own name.
        given = locals()
        self.__dict__.update({name: given[name] for name in given if name != "self"})

    def fit(self, X: AnyTables, y: object = None, *, covariates: Any = None, sample_ids: Any = None) -> Self:
        """Fit on the parties' columns.

        Parameters
        ----------
        X : mapping of party to table, list of tables, or one table
            Arrays or DataFrames. The index of a DataFrame identifies its samples, which are put in the order of the
            first table; rows of arrays match by position. Chunks of Dask arrays and DataFrames stay on their workers,
            and the results are Dask arrays. The modalities of a MuData are parties; an AnnData is a table, with the
            names of its observations and variables.
        y : array or Series, optional
            Does not affect the fit. If the fit drops, adds or reorders rows, `y` must be a Series whose index is
            `sample_ids_`. A warning appears if covariates predict `y`, or if it depends on `y` which samples lack.
        covariates : DataFrame, mapping of name to column, or array, optional
            Effects to remove, such as batch, site or age: one row per sample, matched by the index of a DataFrame, or
            by position if it only counts rows. Text and categoricals are categories. The centered kernel is projected
            onto the complement of [1, covariates]; `model_.covariates` gives the share of variance removed.
        sample_ids : mapping of party to sequence, or sequence, optional
            Labels of the rows of arrays, used like an index.
        """
        for former in ("model_", "feature_names_in_"):  # a fit that is refused leaves none of other columns
            self.__dict__.pop(former, None)
        settings, compute = self._settings()
        if _on_cluster(X):
            return self._fit_on_cluster(X, y, settings, compute, covariates, sample_ids)
        given = inputs.for_fit(self._by_party(X, fitted=False), settings, sample_ids)
        warn(given.notes)
        inputs.check_outcome(y, given.ids, given.first)
        known = _learned(inputs.rows_of_samples(covariates, given.ids, given.first), y)
        fitted = in_process.fit(given.tables, settings, compute, places=given.places, covariates=known)
        self._keep(fitted, given.tables, given.columns, given.ids)
        if given.places is not None:
            about = [(self.eigenvectors_, [f"component {d + 1}" for d in range(self._n_features_out)])]
            about += [] if y is None else [inputs.outcome_columns(y)]
            warn(said for each in about for said in not_at_random(given.places, *each))
        return self

    def fit_transform(
        self, X: AnyTables, y: object = None, *, covariates: Any = None, sample_ids: Any = None
    ) -> Array:
        """Fit, and return the scores of the training samples, (n_samples, n_components).

        Parameters
        ----------
        X, y, covariates, sample_ids
            As for `fit`.
        """
        X = scverse.unwrapped(X)
        self.fit(X, y, covariates=covariates, sample_ids=sample_ids)
        scores = self.eigenvectors_ * namespace(self.eigenvalues_).sqrt(self.eigenvalues_)[None, :]
        return scores if self._cluster else self._labeled(as_precise_as(X, scores), self._ids)

    def transform(self, X: AnyTables, *, covariates: Any = None, sample_ids: Any = None) -> Array:
        """Place new samples: their scores, (n_samples, n_components), in the order of the first table.

        Parameters
        ----------
        X, covariates, sample_ids
            As for `fit`, with its columns, and covariates if it had any. Parties may be missing: see `lacking`.
        """
        check_fitted(self)
        self._check_covariates(covariates)
        X = scverse.unwrapped(X)
        if _on_cluster(X):
            covariates = _cluster().in_order_of_rows(covariates, X, self.timeout)
            return self._adjusted(_cluster().transform(self, X, sample_ids), covariates)
        placed = partial(_cluster().on_a_worker, self, "_placed") if self._cluster else self._placed
        scores, ids, first, outside = placed(X, sample_ids)
        warn(about_new_samples(outside))
        scores = self._adjusted(scores, inputs.rows_of_samples(covariates, ids, first))
        return self._labeled(as_precise_as(X, scores), ids)

    def _placed(self, X: AnyTables, sample_ids: Any) -> tuple[Array, Any, Any, Any]:
        """Scores before covariates are taken out; labels, those of the first table; which samples lie outside."""
        if self._shield.protect != "none":
            given = self._given_new(X, sample_ids, every="transform after a protected fit")
            terms, batch = protocols.Terms(self._shield.run), in_process.BATCH
            protocol = protocols.place(list(given.tables), self._settings()[0], self.model_, batch, terms)
            return self._asked(protocol, given.tables, terms.run), given.ids, given.first, np.zeros(0, dtype=bool)
        given = self._given_new(X, sample_ids)
        absent = sorted(set(self.party_names_) - set(given.tables))
        if absent and self.lacking == "drop":
            raise InputError(f"no new samples from {absent}, so none are common to all; use lacking='complete'")
        rows = protocols.new_rows(list(given.tables), in_process.BATCH, exact=self.projection == "exact")
        answers = self._asked(rows, given.tables).values()
        placed = scoring.place(self.model_, answers, absent, lacking=self.lacking, places=given.places)
        warn([placed.words] if placed.words else [], MissingPartyWarning)
        return placed.scores, given.ids, given.first, outside_at_center(self.model_, placed.rows)

    def _asked(self, protocol: Any, tables: Mapping[str, Any], run: str = "", *, new: bool = True) -> Any:
        """Outcome of a protocol with the parties of the fit, about new samples or about its own."""
        settings, compute = self._settings()
        parties = in_process.parties_of(tables, run, settings, compute, self._states, new=new)
        return in_process.drive(protocol, parties, compute)[0]

    def _check_covariates(self, covariates: Any) -> None:
        known = self.model_.covariates
        if known is not None and covariates is None:
            raise InputError(f"the fit removed {list(known.names)}; give these for the new samples too (covariates=)")
        if known is None and covariates is not None:
            raise InputError("the fit removed no covariates; leave them out, or fit with them")

    def _adjusted(self, scores: Any, covariates: Any) -> Any:
        """Scores of new samples without the effect of their covariates."""
        model = self.model_
        if covariates is not None and self._shield.protect == "blind":  # the parties have turned the signs too
            signs = in_process.turned_back(self._shield, model.eigenvectors)[1]
            model = replace(model, extension=replace(model.extension, slopes=model.extension.slopes * signs))
        return scoring.adjusted(model, scores, covariates)

    def score(self, X: AnyTables, y: object = None, *, covariates: Any = None, sample_ids: Any = None) -> float:
        """Return the share of the variance of these samples that the components capture, at most 1.

        For samples of the fit at full rank this is the sum of `explained_variance_ratio_`. It compares ranks,
        precisions and numbers of components, also in `GridSearchCV`, but not gammas: a kernel that hardly
        distinguishes samples is easy to capture.

        Parameters
        ----------
        X, y, covariates, sample_ids
            As for `transform`, of every party; y is ignored.
        """
        self._check_unprotected("score")
        if self._cluster or _on_cluster(X):
            return _cluster().on_a_worker(self, "score", X, covariates=covariates, sample_ids=sample_ids)  # type: ignore[no-any-return]
        self._check_covariates(covariates)
        given = self._given_new(X, sample_ids, every="score")
        tables = given.tables
        diagonals = {name: core.self_values(self._states[name], table) for name, table in tables.items()}
        covariates = inputs.rows_of_samples(covariates, given.ids, given.first)
        rows = self._asked(protocols.new_rows(list(tables), in_process.BATCH), tables)
        return scoring.captured_share(self.model_, rows, diagonals, covariates)

    def run_audit(self, n_rows: int, X: AnyTables = None, *, sample_ids: Any = None) -> Self:
        """Audit the fit, as with the parameter `audit`: samples are drawn now, and every party sends its true rows.

        Parameters
        ----------
        n_rows : int
            Number of rows to draw.
        X, sample_ids
            As for `column_importance`.
        """
        self._check_unprotected("run_audit")
        far = self._cluster or _on_cluster(X)
        audited = partial(_cluster().on_a_worker, self, "_audited") if far else self._audited
        self.model_ = replace(check_fitted(self), certificate=audited(X, sample_ids, n_rows))
        return self

    def _audited(self, X: AnyTables, sample_ids: Any, n_rows: int) -> Any:
        """Certificate with what an audit has found."""
        replace(self._settings()[0], audit=n_rows, lacking=None)  # checks the number
        if self.model_.lacking is not None:
            raise InputError("run_audit needs the true rows, but some parties lack rows; fit with lacking='drop'")
        tables = self._tables_of_fit("run_audit", X, sample_ids)
        protocol = protocols.audited(list(tables), lambda: self.model_, n_rows)
        return self._asked(protocol, tables, new=False)().certificate

    def _fit_on_cluster(
        self, X: Any, y: object, settings: Fit, compute: Compute, covariates: Any, sample_ids: Any
    ) -> Self:
        """Fit on Dask collections: on one worker, or chunk by chunk if there are too many rows for one."""
        cluster = _cluster()
        if (fitted := cluster.fit(self, X, y, sample_ids, covariates)) is not None:
            self.__dict__.update(fitted)
            return self
        tables, columns = cluster.tables_of(X, self.parties, settings, sample_ids, compute)
        here = replace(compute, n_jobs=None, timeout=None)
        with cluster.waiting(compute.timeout):
            known = _learned(cluster.in_order_of_rows(covariates, X, compute.timeout))
            fitted = in_process.fit(tables, replace(settings, audit=None), here, covariates=known)
        self._keep(fitted, tables, columns, None, cluster="rows")
        return self if settings.audit is None else self.run_audit(settings.audit)

    certificate_ = property(lambda self: check_fitted(self).certificate)
    agreement_ = property(lambda self: self._agreement(0))
    agreement_error_ = property(lambda self: self._agreement(1))

    def _agreement(self, which: int) -> Any:
        """One of the matrices, in the order of `party_names_`; the center's order is by name."""
        check_fitted(self)
        if agreement.missing(self.model_, self._shield.protect):
            return None
        order = [list(self.model_.summaries).index(name) for name in self.party_names_]
        return agreement.agreement(self.model_)[which][np.ix_(order, order)]

    @property
    def party_shares_(self) -> Any:
        """Share of each party in the variance of each component; None if the center has no single party's factor."""
        check_fitted(self)
        if self._shield.protect == "sums":
            return None
        shares = scoring.party_shares(self.model_)
        return np.array([shares[name] for name in self.party_names_])

    def agreement_test(self, n_permutations: int = 999, *, random_state: int | None = None) -> dict[str, float]:
        """Test for each party whether it is independent of the others: p-values, corrected over parties (Holm).

        The party's samples are permuted, within groups of equal covariate categories. The statistic is the sum of its
        cosines with the others, over at most 1,000 samples.

        Parameters
        ----------
        n_permutations : int, default=999
            The smallest possible p-value is 1 / (n_permutations + 1).
        random_state : int, default=None
            Seed; None is also a fixed seed.
        """
        check_fitted(self)
        check_value("n_permutations", n_permutations, COUNT)
        why = agreement.missing(self.model_, self._shield.protect)
        if why:
            raise InputError(f"agreement_test compares parties, and {why}")
        return agreement.unrelated(self.model_, n_permutations, Fit(random_state=random_state).seed)

    def column_importance(self, X: AnyTables = None, *, sample_ids: Any = None) -> dict[str, np.ndarray]:
        """Derivative of each eigenvalue with respect to the log of each column's scale, by party.

        For RBF kernels, and linear ones under the sum law. Gammas and weights stay fixed; components with nearly
        equal eigenvalues get the mean of their derivatives. Negative: scaling the column up decreases the eigenvalue.

        Parameters
        ----------
        X, sample_ids
            The tables of the fit, as for `fit`; needed only if the estimator was loaded, unpickled or copied.
        """
        tables = self._own_tables("column_importance", X, sample_ids)
        return importance.derivatives(self.model_, self._states, tables)  # type: ignore[arg-type]

    def column_association(self, X: AnyTables = None, *, sample_ids: Any = None) -> dict[str, np.ndarray]:
        """Distance correlation of each column with each component, from 0 (independent) to 1: by party.

        Parameters
        ----------
        X, sample_ids
            As for `column_importance`. Of more than 400 samples, some are drawn.
        """
        tables = self._own_tables("column_association", X, sample_ids)
        scores = np.asarray(to_numpy(self.model_.scores), dtype=float)
        numbers = {name: np.asarray(to_numpy(table), dtype=float) for name, table in tables.items()}
        return {name: importance.associations(table, scores) for name, table in numbers.items()}

    def _own_tables(self, method: str, X: AnyTables, sample_ids: Any) -> Mapping[str, Any]:
        """Tables of the fit, for methods that use a party's own columns."""
        self._check_unprotected(method)
        if self._cluster or self.model_.lacking is not None:
            raise InputError(f"{method} needs all rows of every party; fit without Dask, and with lacking='drop'")
        return self._tables_of_fit(method, X, sample_ids)

    def _tables_of_fit(self, method: str, X: AnyTables, sample_ids: Any) -> Mapping[str, Any]:
        if X is None and self._training is None:
            raise InputError(f"{method} needs the tables of the fit, which are not saved with it; pass them as X")
        if X is None:
            return self._training  # type: ignore[no-any-return]
        given = self._given_new(X, sample_ids, every=method, of_fit=True)
        known = (() if labels is None else labels for labels in (self._ids, given.ids))
        fitted, ids = ([*map(str, labels)] for labels in known)  # saved ones may be text
        rows = [table.shape[0] for table in given.tables.values()]
        if (fitted and ids and fitted != ids) or any(count != self.model_.n_samples for count in rows):
            raise InputError(f"{method}: X needs the samples of the fit in their order; arrange them by sample_ids_")
        return given.tables

    def report(self, path: str | Path, *, labels: Any = None, title: str | None = None) -> None:
        """Draw the result as one page that works offline, as `dkpca report` does; needs the extra `cli`.

        Parameters
        ----------
        path : str or Path
            The page to write.
        labels : DataFrame, mapping of name to column, or one column, optional
            Labels of the samples, by the index or in the order of `sample_ids_`: colors, and tests of their
            association with the components (corrected for multiple tests).
        title : str, optional
            Headline.
        """
        check_fitted(self)
        if self._shield.protect == "blind":
            raise InputError("a report of a blind fit is drawn by a party; fit with protect='none' or 'sums'")
        fitted = self._here()
        if np.ndim(labels) == 1:  # one column
            name = getattr(labels, "name", None) or "label"
            labels = labels.to_frame(name) if hasattr(labels, "iloc") else {name: labels}
        elif isinstance(labels, np.ndarray):
            raise InputError(f"labels have the shape {labels.shape}; give one column, or a DataFrame")
        names = {name for state in fitted._states.values() for name in state.columns or ()}
        import_module("dkpca.report.page").write_model(
            Path(path), fitted.model_, fitted.sample_ids_, labels, title=title, in_fit=names
        )

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file, which only its owner may read. It contains data: never send it.

        It is no pickle: a kernel, a rank rule or a solver of your own cannot be saved, nor what `set_output` chose.

        Parameters
        ----------
        path : str or Path
            The file; one that is there is replaced.

        Examples
        --------
        >>> import tempfile
        >>> from dkpca import DKPCA
        >>> X = [[0.0, 1.0], [2.0, 3.0], [1.0, 5.0]]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     DKPCA(2, parties=2).fit(X).save(f"{folder}/model")
        ...     DKPCA.load(f"{folder}/model").transform(X).shape
        (3, 2)
        """
        check_fitted(self)
        files, fitted = import_module("dkpca.store.files"), self._here()
        files.write_estimator(
            Path(path),
            files.Fitted(
                parameters=self.get_params(deep=False),
                party_names=tuple(self.party_names_),
                feature_names=tuple(getattr(self, "feature_names_in_", ())),
                model=fitted.model_,
                states=fitted._states,
                shield=self._shield,
                ids=None if self._ids is None else tuple(self._ids),
            ),
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an estimator that `save` wrote; its arrays come back as NumPy arrays.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        saved = import_module("dkpca.store.files").read_estimator(Path(path), get_type_hints(cls.__init__))
        estimator = cls(**saved.parameters)
        if saved.feature_names:
            estimator.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        return estimator._take_over(saved.model, list(saved.party_names), saved.states, saved.shield, saved.ids)

    def _here(self) -> Self:
        """The same, with arrays here whose rows are on the workers of a cluster."""
        return _cluster().here(self) if self._cluster else self

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __getstate__(self) -> Any:
        return {name: value for name, value in super().__getstate__().items() if name != "_training"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        if isinstance(self.kernel, str | Kernel):
            family = Fit(kernel=self.kernel).family_of("")
            tags.input_tags.sparse, tags.input_tags.pairwise = family.takes_sparse, family.columns_are == "samples"
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.eigenvalues_.shape[0])

    def _settings(self) -> tuple[Fit, Compute]:
        """What to compute and where, checked."""
        check_value("parties", self.parties, PARTIES)
        own = self.get_params(deep=False)
        fit, compute = Fit(**values_of(Fit, own)), Compute(**values_of(Compute, own))
        compute.check_with(fit)
        return fit, compute

    def _keep(self, fitted: Any, tables: Any, columns: Any, ids: Any, cluster: str | None = None) -> None:
        """Keep what a fit gave, with the names of columns; warns about problems that affect the result."""
        model, states, shield = fitted
        if shield.protect != "blind":
            warn(about_kernel(model))
        named = {name: replace(state, columns=columns.get(name)) for name, state in states.items()}
        warn(sentence for state in named.values() for sentence in about_columns(state))
        self._take_over(model, list(tables), named, shield, ids)
        self._cluster, self._training = cluster, tables

    def _take_over(
        self, model: Any, names: list[str], states: Mapping[str, State], shield: Shield, ids: Sequence[Any] | None
    ) -> Self:
        """Set the fitted attributes from a fit or from a file."""
        self._states, self._shield = dict(states), shield
        self._ids = None if ids is None else np.fromiter(ids, dtype=object, count=len(ids))
        self.model_ = model
        self.party_names_ = names
        self.n_features_in_ = sum(sent.n_features for sent in model.summaries.values())
        solvers = {name: state.solver for name, state in states.items()}
        self.solvers_ = solvers | {"the center" if "center" in solvers else "center": model.solver}
        summed = shield.protect == "sums"  # then the parties' own kernels lack the width, which is of all
        self.kernels_ = {name: model.kernel if summed else states[name].kernel for name in names}
        self.gammas_ = {name: getattr(kernel, "gamma", None) for name, kernel in self.kernels_.items()}
        self.kernel_ = _same(self.kernels_)
        self.gamma_ = _same(self.gammas_)
        self.eigenvectors_ = model.eigenvectors
        if shield.protect == "blind":
            self.eigenvectors_, _ = in_process.turned_back(shield, model.eigenvectors)
        self.eigenvalues_ = model.eigenvalues
        self.explained_variance_ratio_ = model.explained_variance_ratio
        self.ledger_ = [self._ledger_entry(name, states[name]) for name in names]
        self.sample_ids_ = np.arange(model.n_samples) if self._ids is None else self._ids
        return self

    def _ledger_entry(self, name: str, state: State) -> LedgerEntry:
        if self._shield.protect == "sums":
            n_features, n_samples = len(state.origin), self.model_.n_samples
            return LedgerEntry(name, n_features, 0, self._shield.sent[name], 8 * n_samples * n_features, "masked sum")
        sent = self.model_.received[name]
        return LedgerEntry(name, sent.n_features, sent.rank, wire.size(sent), sent.bytes_raw, state.decided)

    def _given_new(self, X: AnyTables, sample_ids: Any, *, every: str = "", of_fit: bool = False) -> PartyTables:
        """Tables of new samples, or once more those of the fit; `every` names what needs all of all parties."""
        tables = self._by_party(X, fitted=True)
        if not set(tables) <= set(self.party_names_):
            raise InputError(f"the fit had the parties {self.party_names_}; these samples are from {list(tables)}")
        given = inputs.for_new_samples(tables, self._states, sample_ids, self.lacking, of_fit=of_fit)
        warn(given.notes)
        absent = sorted(set(self.party_names_) - set(given.tables))
        if every and absent:
            raise InputError(f"{every} needs the tables of every party; those of {absent} are missing")
        if every and given.places is not None:
            raise InputError(f"{every} needs samples that every party has; leave the others out (lacking='drop')")
        return given

    def _by_party(self, X: AnyTables, *, fitted: bool) -> Mapping[str, Any]:
        """Tables by party; a single one is cut, and scikit-learn knows its columns."""
        X = scverse.unwrapped(X)
        tables = inputs.by_party(X)
        if tables is not None:
            return tables
        with inputs.as_input_error():
            X = inputs.one_table(X, least=1 if fitted else 2)
            validate_data(self, X, reset=not fitted, skip_check_array=True)
        return inputs.cut(X, self.parties)

    def _check_unprotected(self, method: str) -> None:
        """Refuse methods that need a fit with each party's factor, or its columns together with all scores."""
        check_fitted(self)
        if self._shield.protect != "none":
            raise InputError(f"{method} is for fits with protect='none', but this one has {self._shield.protect!r}")

    def _labeled(self, scores: Array, ids: Any) -> Any:
        """Scores with the labels of their rows, where a DataFrame is asked for; scikit-learn names the columns."""
        if ids is None or _get_output_config("transform", self)["dense"] != "pandas":
            return scores
        return import_module("pandas").DataFrame(to_numpy(scores), index=list(ids))


def _learned(covariates: Any, y: Any = None) -> Covariates | None:
    """Orthonormal basis of the covariates of a fit; warns if they predict `y`."""
    if covariates is None:
        return None
    known = Covariates.of(covariates)
    warn(known.words()[1:])
    if y is not None:
        values, names = inputs.outcome_columns(y)
        if len(values) != len(known.basis):
            raise InputError(f"y has {len(values)} values, and the covariates are of {len(known.basis)} samples")
        warn(predicted(known, values, names))
    return known


def _cluster() -> Any:
    """Import the Dask support on demand."""
    return import_module("dkpca.exchange.on_cluster")


def _on_cluster(X: AnyTables) -> bool:
    """Whether tables are Dask collections; there are none before Dask is imported."""
    return "dask" in sys.modules and bool(_cluster().collections_in(X))


def _same(values: Mapping[str, Any]) -> Any:
    """Return the value of all parties, or None where they differ."""
    first, *others = values.values()
    return first if all(other == first for other in others) else None


class _NotFittedError(NotFittedError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
    """Caught under either name."""


def check_fitted(estimator: DKPCA) -> Any:
    """Return the model; raise `NotFittedError` before `fit`."""
    if not estimator.__sklearn_is_fitted__():
        raise _NotFittedError("This DKPCA instance is not fitted yet; call fit")
    return estimator.model_
