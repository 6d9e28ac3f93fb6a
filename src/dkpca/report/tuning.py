"""What gamma, components and weights give: the same fit again and again, with one thing changed.

For one owner of all tables; nothing is sent to anybody. scikit-learn's splitters cut the samples by row positions,
and its cross-validation judges predictions of labels.
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing

from dkpca.errors import DataWarning, InputError
from dkpca.estimator import DKPCA
from dkpca.kernels import family
from dkpca.linalg.arrays import to_numpy
from dkpca.settings import check_value, whole
from dkpca.tables.inputs import Tables, by_party, matched, rows_of_samples

FACTORS = (1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)  # of the usual width
TABLES = {"widths": "gamma", "components": "components", "weights": "weights"}  # of what was tried
FEWEST_SAMPLES = 20
MANY_VALUES = 20  # labels that are numbers with more different values are predicted as numbers
AS_GOOD = 0.05  # of stability: less than that is a matter of which halves were drawn


@dataclass(frozen=True)
class Choice:
    """One choice that was tried, and what it gives."""

    name: str
    settings: Mapping[str, Any]  # of DKPCA
    captured: float  # share of the variance of the fused kernel matrix, by all components together
    stability: float  # agreement of two fits on halves of the samples, 0 to 1
    score: float | None = None  # of the labels, held out
    score_error: float = 0.0  # standard error of that mean
    warnings: tuple[str, ...] = ()  # of the fit, such as a kernel matrix that is nearly diagonal


@dataclass(frozen=True)
class Tuning:
    """What was tried, and what it suggests.

    Attributes
    ----------
    n_samples, n_samples_given : int
        Samples that were tried, and samples in the tables.
    scored_by : str
        How the labels were predicted, in words; empty without labels.
    widths : tuple of Choice
        The linear kernel, unless law or weights are set, and values of gamma, ascending; empty without a width.
    components, weights : tuple of Choice
        At the suggested gamma: the first one, two, ... components, and ways to weigh the parties.
    suggested : dict
        Settings for `DKPCA`.
    notes : tuple of str
        What was left out, in words.

    Examples
    --------
    >>> import dkpca
    >>> from sklearn.datasets import load_iris
    >>> found = dkpca.tune(dkpca.DKPCA(2, parties=2), load_iris().data, gammas=[0.1, 1.0], repeats=1)
    >>> found.n_samples, sorted(found.suggested)
    (150, ['gamma', 'n_components'])
    """

    n_samples: int
    n_samples_given: int
    scored_by: str
    widths: tuple[Choice, ...]
    components: tuple[Choice, ...]
    weights: tuple[Choice, ...]
    suggested: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return asdict(self)


def tune(
    model: DKPCA,
    X: Any,
    y: Any = None,
    *,
    gammas: Sequence[float] | None = None,
    max_samples: int = 500,
    repeats: int = 3,
    folds: int = 5,
    done: Callable[[], None] = lambda: None,
) -> Tuning:
    """Try widths, numbers of components and weights, and say what each gives.

    Parameters
    ----------
    model : DKPCA
        The settings to begin with; `n_components` is the most that is tried.
    X : mapping of party to table, list of tables, or one table
        As for `DKPCA.fit`. If `lacking` is set, the samples that all tables have are used.
    y : sequence, optional
        A label for each sample: text, or numbers. Missing ones (None, NaN, empty text) are left out.
    gammas : sequence of float, optional
        Widths to try; else eight from 1/64 of "scale" to 4 times it.
    max_samples : int
        Of more samples, so many are drawn.
    repeats : int
        How often the samples are cut into halves.
    folds : int
        Parts of the labeled samples, each of which is predicted from the others.
    done : callable
        Called after each width, after all numbers of components, and after all weights.

    Returns
    -------
    Tuning

    Examples
    --------
    >>> import dkpca
    >>> from sklearn.datasets import load_wine
    >>> wine, kind = load_wine(return_X_y=True)
    >>> found = dkpca.tune(dkpca.DKPCA(4, standardize=True), wine, kind, gammas=[0.1, 10.0], repeats=1)
    >>> found.suggested["gamma"]
    0.1
    """
    trial = _Trial.of(model, X, y, max_samples, repeats, folds)
    notes = [*trial.notes, *(trial.labels.notes if trial.labels else ())]
    widths = []
    for name, settings in _kernels_to_try(trial, gammas, notes):
        widths.append(trial.judged(name, settings))
        done()
    suggested: dict[str, Any] = dict(_suggested_width(widths, notes).settings) if widths else {}
    trial = replace(trial, model=clone(trial.model).set_params(**suggested))
    components = [trial.judged(str(d), {"n_components": d}) for d in range(1, model.n_components + 1)]
    # The fewest components that predict as well as any; without labels, the most that are as stable as any.
    suggested |= _as_good(components)[0 if trial.labels else -1].settings
    done()
    weights = [replace(components[-1], name="as given", settings={})]
    weights += [trial.judged(name, settings) for name, settings in _ways_to_weigh(trial)]
    suggested |= _as_good(weights)[0].settings
    done()
    found = (tuple(widths), tuple(components), tuple(weights))
    words = trial.labels.words if trial.labels else ""
    return Tuning(trial.n_samples, trial.n_given, words, *found, suggested, tuple(notes))


def chosen(choices: Sequence[Choice], suggested: Mapping[str, Any]) -> Choice | None:
    """Return the one of these that is suggested."""
    return next((choice for choice in reversed(choices) if choice.settings.items() <= suggested.items()), None)


@dataclass(frozen=True)
class _Labels:
    """Labels of some samples, and how they are predicted."""

    rows: Any  # (n_labeled,) of int, into the samples
    values: Any  # (n_labeled,)
    n_folds: int
    notes: tuple[str, ...]

    @property
    def as_numbers(self) -> bool:
        return bool(self.values.dtype.kind == "f")

    @property
    def words(self) -> str:
        how = "R2 of ridge regression" if self.as_numbers else "balanced accuracy of logistic regression"
        chance = 0.0 if self.as_numbers else 1.0 / len(np.unique(self.values))
        return f"score: {how} on the components, {self.n_folds} folds; {chance:.2g} is chance"


@dataclass(frozen=True)
class _Trial:
    """A fit that is repeated: the settings, the tables, and how its outcome is judged."""

    model: DKPCA
    tables: Any
    n_given: int  # samples in the tables; those here may be fewer
    labels: _Labels | None
    repeats: int
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: DKPCA, X: Any, y: Any, max_samples: int, repeats: int, folds: int) -> "_Trial":
        """Check what was given, and draw the samples that are tried."""
        most = model.n_components
        counts = {"n_components": most, "max_samples": max_samples, "repeats": repeats, "folds": folds}
        for name, count in counts.items():
            least = 2 if name == "folds" else 1
            check_value(name, count, (whole(least), f"a whole number of at least {least}"))
        if any(family(kernel).columns_are == "samples" for kernel in _named_kernels(model)):
            raise InputError("a kernel matrix that is computed already has no width to choose; tune needs columns")
        given = by_party(X)
        notes: list[str] = []
        if given is not None and model.lacking is not None:
            found = matched(given, lacking="drop")
            given, notes = found.tables, found.moved
            y = rows_of_samples(y, found.ids, found.first, "values of y")
        tables = X if given is None else Tables(given)
        n_given = tables.shape[0]
        rows = np.sort(np.random.default_rng(model.random_state or 0).permutation(n_given)[:max_samples])
        needed = max(FEWEST_SAMPLES, 2 * most)
        if len(rows) < needed:
            raise InputError(
                f"{len(rows)} samples are too few to try {most} components on halves of them; {needed} are needed"
            )
        labels = None if y is None else _labels_of(np.asarray(y), n_given, rows, folds)
        # Nothing leaves this machine: what protects messages, or checks an answer, would only take time.
        plain = clone(model).set_params(protect="none", audit=None)
        return cls(plain, _safe_indexing(tables, rows), n_given, labels, repeats, tuple(notes))

    @property
    def n_samples(self) -> int:
        return int(self.tables.shape[0])

    @property
    def seed(self) -> int:
        return int(self.model.random_state or 0)

    def judged(self, name: str, settings: Mapping[str, Any]) -> Choice:
        """Judge the fit with some settings changed: on all samples, on both halves of each cut, and for each fold."""
        trial = replace(self, model=clone(self.model).set_params(**settings))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", DataWarning)
            captured = float(np.sum(to_numpy(clone(trial.model).fit(self.tables).explained_variance_ratio_)))
        about = tuple(str(each.message) for each in said if issubclass(each.category, DataWarning))
        with warnings.catch_warnings():
            # What is wrong with a part of the samples is no news: it lowers the stability and the score.
            warnings.simplefilter("ignore", DataWarning)
            return Choice(name, settings, captured, trial.stability(), *trial.score(), about)

    def stability(self) -> float:
        """Mean squared cosine between the scores that fits on two halves give to all samples."""
        # Both fits place all samples; squared cosines between the spans Q and P of their scores add up to |Q'P|_F^2.
        found = []
        halves = ShuffleSplit(self.repeats, train_size=0.5, test_size=0.5, random_state=self.seed)
        for both in halves.split(np.arange(self.n_samples)):
            fits = [clone(self.model).fit(_safe_indexing(self.tables, rows)) for rows in both]
            scores = [np.asarray(to_numpy(fitted.transform(self.tables)), dtype=float) for fitted in fits]
            Q, P = (np.linalg.qr(Z - Z.mean(axis=0))[0] for Z in scores)
            found.append(float(np.sum((Q.T @ P) ** 2)) / Q.shape[1])
        return float(np.mean(found))

    def score(self) -> tuple[float | None, float]:
        """Mean over the folds of how well labels are predicted, and its standard error."""
        if self.labels is None:
            return None, 0.0
        own, numbers = self.labels, self.labels.as_numbers
        predictor = Ridge() if numbers else LogisticRegression(max_iter=1000)
        found = cross_val_score(
            make_pipeline(self.model, StandardScaler(), predictor),
            _safe_indexing(self.tables, own.rows),
            own.values,
            cv=(KFold if numbers else StratifiedKFold)(own.n_folds, shuffle=True, random_state=self.seed),
            scoring="r2" if numbers else "balanced_accuracy",
            error_score="raise",
        )
        return float(found.mean()), float(found.std(ddof=1)) / math.sqrt(len(found))


def _labels_of(given: Any, n_given: int, rows: Any, n_folds: int) -> _Labels:
    """Take what can be predicted: labels that are there, of classes with a sample for every fold."""
    if given.shape != (n_given,):
        raise InputError(f"there are {given.shape} labels for {n_given} samples; give one for each")
    values, notes = given[rows], []
    there = np.array([value is not None and value == value and value != "" for value in values.tolist()], dtype=bool)
    if not there.all():
        notes.append(f"{(~there).sum()} samples have no label, and are not predicted")
    kept = np.array(values[there].tolist())
    numbers = kept.dtype.kind in "iuf" and len(np.unique(kept)) > MANY_VALUES
    kept = kept.astype(float) if numbers else np.array([str(value) for value in kept.tolist()])
    rare = [] if numbers else sorted(name for name, count in Counter(kept.tolist()).items() if count < n_folds)
    if rare:
        notes.append(f"classes with fewer than {n_folds} samples are not predicted: {', '.join(rare[:5])}")
    common = ~np.isin(kept, rare)
    n_classes = len(np.unique(kept[common]))
    if n_classes < (2 * n_folds if numbers else 2):
        what = "different numbers" if numbers else f"classes with at least {n_folds} samples"
        raise InputError(
            f"the labels have {n_classes} {what}, too few for {n_folds} folds; choose another column or fewer folds"
        )
    return _Labels(np.flatnonzero(there)[common], kept[common], n_folds, tuple(notes))


def _named_kernels(model: DKPCA) -> list[str]:
    kernels = model.kernel.values() if isinstance(model.kernel, Mapping) else [model.kernel]
    return [kernel for kernel in kernels if isinstance(kernel, str)]


def _kernels_to_try(
    trial: _Trial, gammas: Sequence[float] | None, notes: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Widths, ascending: those given, or some around the usual one. Before them the linear kernel."""
    if not any(family(name).has_width for name in _named_kernels(trial.model)):
        if gammas is not None:
            raise InputError("no kernel that is given by its name has a width; leave the widths out")
        notes.append("no kernel that is given by its name has a width, so there is no curve over gamma")
        return
    if gammas is not None and (not gammas or any(not 0.0 < float(gamma) < math.inf for gamma in gammas)):
        raise InputError(f"widths are {list(gammas)}; give positive numbers")
    if gammas is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            fitted = clone(trial.model).set_params(gamma="scale", weights=None).fit(trial.tables)
        gammas = [next(g for g in fitted.gammas_.values() if g is not None) * factor for factor in FACTORS]
    if isinstance(trial.model.kernel, str) and trial.model.law is None and trial.model.weights is None:
        yield "linear", {"kernel": "linear", "gamma": None}  # which a very small gamma comes near
    yield from ((f"{gamma:.4g}", {"gamma": float(f"{gamma:.4g}")}) for gamma in sorted(set(gammas)))


def _ways_to_weigh(trial: _Trial) -> Iterator[tuple[str, dict[str, Any]]]:
    """Other ways to weigh several parties; under a product a party is weighed by the width of its kernel."""
    several = len(trial.tables) > 1 if isinstance(trial.tables, Tables) else trial.model.parties not in (None, 1)
    if several and any(family(kernel).has_width for kernel in _named_kernels(trial.model)):
        yield "product, balanced", {"law": "product", "weights": "balanced"}
    if several:
        yield "sum, balanced", {"law": "sum", "weights": "balanced"}


def _suggested_width(choices: Sequence[Choice], notes: list[str]) -> Choice:
    """The largest width that is as stable as any that predicts as well; the linear kernel if none of them does."""
    scored = choices[0].score is not None
    widths = [choice for choice in choices if "kernel" not in choice.settings]
    good = _as_good(choices if scored else widths)
    found = _as_stable([choice for choice in good if choice in widths] or good)[-1]
    if len(widths) > 2 and found in (widths[0], widths[-1]):
        end = "smallest" if found is widths[0] else "largest"
        notes.append(f"the suggested gamma is the {end} that was tried; try others beyond it (gammas, --gammas)")
    return found


def _as_good(choices: Sequence[Choice]) -> list[Choice]:
    """Choices that predict as well as the best, to its standard error; without labels, those that are as stable.

    A kernel that shows nothing is not among them.
    """
    sound = [choice for choice in choices if not choice.warnings] or list(choices)
    scores = [choice.score for choice in sound if choice.score is not None]
    if not scores:
        return _as_stable(sound)
    best = sound[int(np.argmax(scores))]
    return [c for c, score in zip(sound, scores, strict=True) if score >= max(scores) - best.score_error]


def _as_stable(choices: Sequence[Choice]) -> list[Choice]:
    most = max(choice.stability for choice in choices)
    return [choice for choice in choices if choice.stability >= most - AS_GOOD]
