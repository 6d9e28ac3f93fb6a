"""The curves: the same fit again and again, with one thing changed. For one owner of all tables."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from dkpca.checks import as_input_error
from dkpca.errors import DataWarning, InputError
from dkpca.estimator import DKPCA
from dkpca.kernels import RBF, family
from dkpca.linalg.arrays import Array, to_numpy
from dkpca.metrics import subspace_error
from dkpca.tables.inputs import is_source
from dkpca.tuning.cross_validated import Labels, cross_validated, labels_of
from dkpca.tuning.curves import Alternative, AtComponents, AtGamma, AtRank, Judgment, Tuning, suggested_gamma
from dkpca.tuning.stability import split_half

FACTORS = tuple(2.0**power for power in range(-3, 4))  # of the usual width
MULTIPLES = (1, 2, 3, 4, 6, 8)  # of the components: ranks to try
FEWEST_SAMPLES = 20
BALANCED = {
    "product, balanced": {"law": "product", "weights": "balanced"},
    "sum, balanced": {"law": "sum", "weights": "balanced"},
}


def tune(
    model: DKPCA,
    X: Any,
    y: Any = None,
    *,
    gammas: Sequence[float] | None = None,
    ranks: Sequence[int] | None = None,
    max_samples: int = 500,
    repeats: int = 3,
    folds: int = 5,
    done: Callable[[], None] = lambda: None,
) -> Tuning:
    """Try widths, ranks, numbers of components and weights, and say what each gives.

    Parameters
    ----------
    model : DKPCA
        The settings to begin with; `n_components` is the most that is tried.
    X : mapping of party to table, list of tables, or one table
        As for `DKPCA.fit`.
    y : sequence, optional
        A label for each sample: text, or numbers. Missing ones (None, NaN) are left out.
    gammas : sequence of float, optional
        Widths to try; else seven around the usual one, from an eighth to eight times.
    ranks : sequence of int, optional
        Ranks to try; else multiples of the number of components.
    max_samples : int
        Of more samples, so many are drawn.
    repeats : int
        How often the samples are cut into halves.
    folds : int
        Parts of the labeled samples, each of which is predicted from the others.
    done : callable
        Called after each choice that was tried.

    Returns
    -------
    Tuning

    Examples
    --------
    >>> import dkpca
    >>> from sklearn.datasets import load_wine
    >>> wine, kind = load_wine(return_X_y=True)
    >>> found = dkpca.tune(dkpca.DKPCA(4, standardize=True), wine, kind, gammas=[0.1, 10.0], ranks=[20], repeats=1)
    >>> found.gamma
    0.1
    """
    _check(model, max_samples=max_samples, repeats=repeats, folds=folds)
    trial, n_given = _trial(model, X, y, max_samples, repeats, folds)
    widths = _widths(trial, gammas)
    points = []
    for gamma in widths:
        points.append(trial.at_gamma(gamma))
        done()
    if points:
        trial = trial.changed(gamma=suggested_gamma(points).gamma)
    components = trial.by_components()
    by_rank = list(_ranks(trial, ranks))
    done()
    alternatives = [Alternative("as given", components[-1]), *_alternatives(trial)]
    done()
    notes = list(trial.labels.notes) if trial.labels else []
    if not points:
        notes.append("no kernel that is given by its name has a width, so there is no curve over gamma")
    if len(points) > 2 and trial.model.gamma in (widths[0], widths[-1]):
        end = "smallest" if trial.model.gamma == widths[0] else "largest"
        notes.append(f"the suggested gamma is the {end} that was tried; try others beyond it (gammas, --gammas)")
    return Tuning(
        trial.n_samples,
        n_given,
        trial.labels.words if trial.labels else "",
        tuple(points),
        tuple(components),
        tuple(by_rank),
        tuple(alternatives),
        tuple(notes),
    )


@dataclass(frozen=True)
class Trial:
    """A fit that is repeated: the settings, the tables, and how its outcome is judged."""

    model: DKPCA
    tables: Mapping[str, Array]
    labels: Labels | None
    repeats: int

    @property
    def n_samples(self) -> int:
        """Samples of every table."""
        return len(next(iter(self.tables.values())))

    def changed(self, **settings: Any) -> "Trial":
        """Return the same with other settings."""
        return Trial(clone(self.model).set_params(**settings), self.tables, self.labels, self.repeats)

    def at_gamma(self, gamma: float) -> AtGamma:
        """Judge one width."""
        judged, concerns = self.changed(gamma=gamma).judged([self.model.n_components])
        return AtGamma(**vars(judged[-1]), gamma=gamma, concerns=concerns)

    def by_components(self) -> list[AtComponents]:
        """Judge the first one, two, ... components."""
        judged, _ = self.judged(range(1, self.model.n_components + 1))
        return [AtComponents(**vars(each), components=d) for d, each in enumerate(judged, start=1)]

    def judged(self, sizes: Sequence[int]) -> tuple[list[Judgment], tuple[str, ...]]:
        """Judge the first so many components, for each of the sizes; and what is to be said of the kernel."""
        fitted, concerns = self.fit(np.arange(self.n_samples))
        captured = np.cumsum(to_numpy(fitted.explained_variance_ratio_))
        stability = split_half(self._all_placed, self.n_samples, repeats=self.repeats, seed=self._seed)
        scores: list[tuple[float | None, float | None]] = [(None, None)] * len(sizes)
        if self.labels is not None:
            scores = list(cross_validated(self._held_out, self.labels, sizes, self._seed))
        return [
            Judgment(float(captured[d - 1]), stability[d - 1], *score) for d, score in zip(sizes, scores, strict=True)
        ], concerns

    def fit(self, rows: np.ndarray) -> tuple[DKPCA, tuple[str, ...]]:
        """Fit on some samples; return also what the fit had to say."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", DataWarning)
            fitted = clone(self.model).fit({name: table[rows] for name, table in self.tables.items()})
        return fitted, tuple(str(each.message) for each in said if issubclass(each.category, DataWarning))

    @property
    def _seed(self) -> int:
        return int(self.model.random_state or 0)

    def _all_placed(self, rows: np.ndarray) -> Array:
        return _placed(self.fit(rows)[0], self.tables)

    def _held_out(self, known: np.ndarray, held_out: np.ndarray) -> tuple[Array, Array]:
        fitted = self.fit(known)[0]
        new = {name: table[held_out] for name, table in self.tables.items()}
        return np.asarray(to_numpy(fitted.model_.scores), dtype=float), _placed(fitted, new)


def _placed(fitted: DKPCA, tables: Mapping[str, Array]) -> Array:
    with warnings.catch_warnings():
        # Samples outside the range of a half are no news here: they lower the stability, which is shown.
        warnings.simplefilter("ignore", DataWarning)
        return np.asarray(to_numpy(fitted.transform(tables)), dtype=float)


def _trial(model: DKPCA, X: Any, y: Any, max_samples: int, repeats: int, folds: int) -> tuple[Trial, int]:
    """Tables and labels of the samples that are tried."""
    given = clone(model)._tables(X, reset=True, sample_ids=None)
    elsewhere = [name for name, table in given.items() if is_source(table)]
    if elsewhere:
        raise InputError(f"the tables of {elsewhere} are opened elsewhere; tune needs the tables themselves")
    tables = {name: np.asarray(to_numpy(table), dtype=float) for name, table in given.items()}
    n_given = len(next(iter(tables.values())))
    rows = np.arange(n_given)
    if n_given > max_samples:
        rows = np.sort(np.random.default_rng(model.random_state or 0).permutation(n_given)[:max_samples])
    least = max(FEWEST_SAMPLES, 2 * model.n_components)
    if len(rows) < least:
        raise InputError(
            f"{len(rows)} samples are too few to try {model.n_components} components on halves of them; "
            f"{least} are needed"
        )
    labels = None
    if y is not None:
        with as_input_error():
            everything = np.asarray(y)
        if everything.shape != (n_given,):
            raise InputError(f"there are {everything.shape} labels for {n_given} samples; give one for each")
        labels = labels_of(everything[rows], len(rows), folds)
    # Nothing leaves this machine: what protects messages, or checks an answer, would only take time.
    plain = clone(model).set_params(parties=None, protect="none", audit=None)
    return Trial(plain, {name: table[rows] for name, table in tables.items()}, labels, repeats), n_given


def _check(model: DKPCA, **counts: int) -> None:
    n_components = model.n_components
    if isinstance(n_components, bool) or not isinstance(n_components, int):
        raise InputError(f"n_components is {n_components!r}; tune needs a whole number, the most that are tried")
    for name, count in counts.items():
        least = 2 if name == "folds" else 1
        if isinstance(count, bool) or not isinstance(count, int) or count < least:
            raise InputError(f"{name} is {count!r}; give a whole number from {least} on")
    named = _named(model)
    if any(family(kernel).columns_are == "samples" for kernel in named):
        raise InputError("a kernel matrix that is computed already has no width to choose; tune needs columns")


def _named(model: DKPCA) -> list[str]:
    """Kernels that are given by their names."""
    kernels = model.kernel.values() if isinstance(model.kernel, Mapping) else [model.kernel]
    return [kernel for kernel in kernels if isinstance(kernel, str)]


def _widths(trial: Trial, gammas: Sequence[float] | None) -> list[float]:
    """Widths to try, ascending: those given, or some around the usual one."""
    wide = {family(name) for name in _named(trial.model) if family(name).has_width}
    if gammas is not None:
        if not wide:
            raise InputError("no kernel that is given by its name has a width; leave the widths out")
        strange = [gamma for gamma in gammas if not 0.0 < float(gamma) < math.inf]
        if strange or not gammas:
            raise InputError(f"widths are {list(gammas)}; give positive numbers")
        return sorted({float(gamma) for gamma in gammas})
    if not wide:
        return []
    usual = trial.changed(gamma="auto" if wide == {RBF} else None, weights=None).fit(np.arange(trial.n_samples))[0]
    middle = next(k.gamma for k in usual.model_.kernels.values() if type(k).has_width)  # type: ignore[attr-defined]
    return [float(f"{middle * factor:.4g}") for factor in FACTORS]


def _ranks(trial: Trial, ranks: Sequence[int] | None) -> Iterable[AtRank]:
    """Compare ranks with the answer of full rank."""
    n_components, n_samples = trial.model.n_components, trial.n_samples
    wanted = sorted(set(ranks)) if ranks else [m * n_components for m in MULTIPLES if m * n_components <= n_samples]
    if any(isinstance(rank, bool) or not isinstance(rank, int) or rank < 1 for rank in wanted):
        raise InputError(f"ranks are {list(wanted)}; give whole numbers from 1 on")
    every = np.arange(n_samples)
    full = trial.changed(rank=n_samples, precision="float64").fit(every)[0]
    for rank in wanted:
        fitted = trial.changed(rank=rank).fit(every)[0]
        error = subspace_error(to_numpy(full.eigenvectors_), to_numpy(fitted.eigenvectors_))
        yield AtRank(
            rank=rank,
            optimality_at_least=fitted.certificate_.optimality_at_least,
            agreement=max(0.0, 1.0 - error / n_components),
            bytes_per_sample=sum(entry.bytes_sent for entry in fitted.ledger_) / n_samples,
        )


def _alternatives(trial: Trial) -> Iterable[Alternative]:
    """Judge other ways to weigh several parties."""
    for name, settings in BALANCED.items() if len(trial.tables) > 1 else ():
        yield Alternative(name, trial.changed(**settings).judged([trial.model.n_components])[0][-1])
