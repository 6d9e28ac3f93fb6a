"""What gamma, components, rank and weights give: the same fit again and again, with one thing changed.

For one owner of all tables; nothing is sent to anybody. scikit-learn's splitters cut the samples by row positions,
and its scorers judge predictions of labels.
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from dkpca.errors import DataWarning, InputError
from dkpca.estimator import DKPCA
from dkpca.kernels import family
from dkpca.linalg.arrays import Array, to_numpy
from dkpca.metrics import principal_angles, subspace_error
from dkpca.report import svg
from dkpca.tables import labels
from dkpca.tables.inputs import is_list_of_tables, is_source

FACTORS = (1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)  # of the usual width
MULTIPLES = (1, 2, 3, 4, 6, 8)  # of the components: ranks to try
FEWEST_SAMPLES = 20
MANY_VALUES = 20  # labels that are numbers with more different values are predicted as numbers
STABLE = 0.8  # components that two halves of the samples agree on to this degree are worth a look
AS_GOOD = 0.05  # of stability: less than that is a matter of which halves were drawn
AGREED, PROVED = 0.99, 0.9  # with the answer of full rank, and of the best possible


@dataclass(frozen=True)
class Choice:
    """One choice that was tried, and what it gives."""

    name: str
    settings: Mapping[str, Any]  # of DKPCA
    captured: float  # share of the variance of the fused kernel matrix, by all components together
    stability: float  # agreement of two fits on halves of the samples, 0 to 1
    score: float | None = None  # of the labels, held out
    score_error: float = 0.0  # standard error of that mean
    warnings: tuple[str, ...] = ()  # a kernel matrix that is nearly diagonal, or nearly constant


@dataclass(frozen=True)
class RankChoice:
    """So many eigenpairs from every party."""

    rank: int
    optimality_at_least: float  # proved: variance captured, as a share of the best possible
    agreement: float  # with the components of full rank, 0 to 1
    bytes_per_sample: float  # sent by all parties together


@dataclass(frozen=True)
class Tuning:
    """What was tried, in four tables, and what it suggests.

    Attributes
    ----------
    n_samples, n_samples_given : int
        Samples that were tried, and samples in the tables.
    scored_by : str
        How the labels were predicted, in words; empty without labels.
    widths : tuple of Choice
        The linear kernel, and values of gamma, ascending; empty for kernels without a width.
    components, ranks, weights : tuple of Choice or RankChoice
        At the suggested gamma: the first one, two, ... components; ranks; ways to weigh the parties.
    suggested : dict
        Settings for `DKPCA`.
    notes : tuple of str
        What was left out, in words.

    Examples
    --------
    >>> import dkpca
    >>> from sklearn.datasets import load_wine
    >>> wine = load_wine().data
    >>> parties = {"acids": wine[:, :6], "rest": wine[:, 6:]}
    >>> found = dkpca.tune(dkpca.DKPCA(3, standardize=True), parties, gammas=[0.02, 0.2], ranks=[20], repeats=1)
    >>> [choice.name for choice in found.weights]
    ['as given', 'product, balanced', 'sum, balanced']
    >>> found.suggested["rank"]
    20
    """

    n_samples: int
    n_samples_given: int
    scored_by: str
    widths: tuple[Choice, ...]
    components: tuple[Choice, ...]
    ranks: tuple[RankChoice, ...]
    weights: tuple[Choice, ...]
    suggested: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return asdict(self)

    def to_svg(self) -> str:
        """Draw the curves."""
        return _drawn(self)


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
        Widths to try; else eight from 1/64 of the usual one to 4 times it.
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
    >>> found.suggested["gamma"]
    0.1
    """
    _check(model, max_samples=max_samples, repeats=repeats, folds=folds)
    trial, n_given = _trial(model, X, y, max_samples, repeats, folds)
    notes = list(trial.labels.notes) if trial.labels else []
    widths = []
    for choice in _kernels_to_try(trial, gammas, notes):
        widths.append(trial.judged(*choice)[-1])
        done()
    suggested: dict[str, Any] = dict(_suggested_width(widths, notes).settings) if widths else {}
    trial = trial.changed(suggested)
    sizes = range(1, model.n_components + 1)
    components = [
        Choice(str(d), {"n_components": d}, *_values(each))
        for d, each in zip(sizes, trial.judged(sizes=sizes), strict=True)
    ]
    suggested |= _suggested_components(components).settings
    by_rank = list(_ranks(trial, ranks))
    enough = [p.rank for p in by_rank if p.agreement >= AGREED and p.optimality_at_least >= PROVED]
    suggested["rank"] = min(enough, default=by_rank[-1].rank)
    done()
    weights = [
        Choice("as given", {}, *_values(components[-1])),
        *(trial.judged(*way)[-1] for way in _ways_to_weigh(trial)),
    ]
    suggested |= _better(weights, weights[0]).settings
    done()
    words = trial.labels.words if trial.labels else ""
    found = (tuple(widths), tuple(components), tuple(by_rank), tuple(weights))
    return Tuning(trial.n_samples, n_given, words, *found, suggested, tuple(notes))


@dataclass(frozen=True)
class _Labels:
    """Labels of some samples, who predicts them, and in which parts they are held out."""

    rows: np.ndarray  # (n_labeled,) into the samples
    values: np.ndarray  # (n_labeled,)
    as_numbers: bool
    n_folds: int
    notes: tuple[str, ...]

    @property
    def words(self) -> str:
        how = "R2 of ridge regression" if self.as_numbers else "balanced accuracy of logistic regression"
        chance = 0.0 if self.as_numbers else 1.0 / len(np.unique(self.values))
        return f"{how} on the scores, {self.n_folds} folds; {chance:.2g} is chance"

    def scores(self, place: Callable[..., Any], sizes: Sequence[int], seed: int) -> tuple[Any, Any]:
        """Mean over the folds and its standard error, by the first so many components."""
        cut = (KFold if self.as_numbers else StratifiedKFold)(self.n_folds, shuffle=True, random_state=seed)
        learner = make_pipeline(StandardScaler(), Ridge() if self.as_numbers else LogisticRegression(max_iter=1000))
        scorer = get_scorer("r2" if self.as_numbers else "balanced_accuracy")
        found = []
        for known, held_out in cut.split(self.rows, self.values):
            Z, Z_new = place(self.rows[known], self.rows[held_out])
            y, y_new = self.values[known], self.values[held_out]
            found.append([scorer(learner.fit(Z[:, :d], y), Z_new[:, :d], y_new) for d in sizes])
        return np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / math.sqrt(len(found))


@dataclass(frozen=True)
class _Trial:
    """A fit that is repeated: the settings, the tables, and how its outcome is judged."""

    model: DKPCA
    tables: Any
    labels: _Labels | None
    repeats: int
    n_samples: int

    def changed(self, settings: Mapping[str, Any]) -> "_Trial":
        return _Trial(
            clone(self.model).set_params(**settings), self.tables, self.labels, self.repeats, self.n_samples
        )

    def judged(
        self, name: str = "", settings: Mapping[str, Any] | None = None, sizes: Sequence[int] = ()
    ) -> list[Choice]:
        """What the first so many components give; those of the model where no sizes are named."""
        trial, sizes = self.changed(settings or {}), sizes or [self.model.n_components]
        fitted, said = trial.fit(np.arange(self.n_samples))
        captured = np.cumsum(to_numpy(fitted.explained_variance_ratio_))
        halves = ShuffleSplit(self.repeats, train_size=0.5, test_size=0.5, random_state=trial.seed)
        stability = np.mean([trial.agreement(*pair) for pair in halves.split(np.arange(self.n_samples))], axis=0)
        mean: list[Any] = [None] * len(sizes)
        error = [0.0] * len(sizes)
        if self.labels is not None:
            mean, error = (list(map(float, each)) for each in self.labels.scores(trial.placed, sizes, trial.seed))
        return [
            Choice(
                name, dict(settings or {}), float(captured[d - 1]), float(stability[d - 1]), mean[i], error[i], said
            )
            for i, d in enumerate(sizes)
        ]

    @property
    def seed(self) -> int:
        return int(self.model.random_state or 0)

    def fit(self, rows: Any) -> tuple[DKPCA, tuple[str, ...]]:
        """Fit on some samples; return also what the fit had to say."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", DataWarning)
            fitted = clone(self.model).fit(_taken(self.tables, rows))
        return fitted, tuple(str(each.message) for each in said if issubclass(each.category, DataWarning))

    def placed(self, known: Any, *others: Any) -> list[Array]:
        """Fit on some samples; return their scores, and those of others."""
        fitted = self.fit(known)[0]
        with warnings.catch_warnings():
            # Samples outside the range of a half are no news here: they lower the stability, which is shown.
            warnings.simplefilter("ignore", DataWarning)
            new = [to_numpy(fitted.transform(_taken(self.tables, rows))) for rows in others]
        return [np.asarray(Z, dtype=float) for Z in (to_numpy(fitted.model_.scores), *new)]

    def agreement(self, half: Any, rest: Any) -> list[float]:
        """Mean squared cosine between the scores that fits on two halves give to all, by numbers of components."""
        every = np.arange(self.n_samples)
        # The first d columns of Q span the first d components.
        one, other = (
            np.linalg.qr(Z - Z.mean(axis=0))[0] for Z in (self.placed(rows, every)[1] for rows in (half, rest))
        )
        sizes = range(1, one.shape[1] + 1)
        return [float(np.mean(np.cos(principal_angles(one[:, :d], other[:, :d])) ** 2)) for d in sizes]


def _values(choice: Choice) -> tuple[Any, ...]:
    return choice.captured, choice.stability, choice.score, choice.score_error, choice.warnings


def _taken(tables: Any, rows: Any) -> Any:
    if isinstance(tables, Mapping):
        return {name: _safe_indexing(table, rows) for name, table in tables.items()}
    return (
        [_safe_indexing(table, rows) for table in tables]
        if is_list_of_tables(tables)
        else _safe_indexing(tables, rows)
    )


def _trial(model: DKPCA, X: Any, y: Any, max_samples: int, repeats: int, folds: int) -> tuple[_Trial, int]:
    """Tables and labels of the samples that are tried, and how many samples were given."""
    by_name = X if isinstance(X, Mapping) else dict(enumerate(X)) if is_list_of_tables(X) else {"X": X}
    elsewhere = [name for name, table in by_name.items() if isinstance(table, str) or is_source(table)]
    if elsewhere:
        raise InputError(f"the tables of {elsewhere} are opened elsewhere; tune needs the tables themselves")
    tables = labels.aligned(X)[0] if isinstance(X, Mapping) else X
    n_given = _num_samples(next(iter(by_name.values())))
    rows = np.arange(n_given)
    if n_given > max_samples:
        rows = np.sort(np.random.default_rng(model.random_state or 0).permutation(n_given)[:max_samples])
    least = max(FEWEST_SAMPLES, 2 * model.n_components)
    if len(rows) < least:
        raise InputError(
            f"{len(rows)} samples are too few to try {model.n_components} components on halves of them; "
            f"{least} are needed"
        )
    known = None if y is None else _labels_of(np.asarray(y), n_given, rows, folds)
    # Nothing leaves this machine: what protects messages, or checks an answer, would only take time.
    plain = clone(model).set_params(protect="none", audit=None)
    return _Trial(plain, _taken(tables, rows), known, repeats, len(rows)), n_given


def _labels_of(given: Any, n_given: int, rows: Any, n_folds: int) -> _Labels:
    """Take what can be predicted: labels that are there, of classes with a sample for every fold."""
    if given.shape != (n_given,):
        raise InputError(f"there are {given.shape} labels for {n_given} samples; give one for each")
    values = given[rows]
    there = np.array([value is not None and value == value and value != "" for value in values.tolist()], dtype=bool)
    notes = [] if there.all() else [f"{(~there).sum()} samples have no label, and are not predicted"]
    kept, positions = values[there], np.flatnonzero(there)
    if kept.dtype.kind in "iuf" and len(np.unique(kept)) > MANY_VALUES:
        if len(kept) < 2 * n_folds:
            raise InputError(f"{len(kept)} samples have a label, too few for {n_folds} folds; choose another column")
        return _Labels(positions, kept, True, n_folds, tuple(notes))
    kept = np.array([str(value) for value in kept.tolist()])
    rare = sorted(name for name, count in Counter(kept.tolist()).items() if count < n_folds)
    if rare:
        notes.append(f"classes with fewer than {n_folds} samples are not predicted: {', '.join(rare[:5])}")
    common = ~np.isin(kept, rare)
    if len(np.unique(kept[common])) < 2:
        raise InputError(
            f"the labels have {len(np.unique(kept[common]))} classes with at least {n_folds} samples; two are needed "
            "to tell them apart, so choose another column or fewer folds"
        )
    return _Labels(positions[common], kept[common], False, n_folds, tuple(notes))


def _check(model: DKPCA, **counts: int) -> None:
    n_components = model.n_components
    if isinstance(n_components, bool) or not isinstance(n_components, int):
        raise InputError(f"n_components is {n_components!r}; tune needs a whole number, the most that are tried")
    for name, count in counts.items():
        least = 2 if name == "folds" else 1
        if isinstance(count, bool) or not isinstance(count, int) or count < least:
            raise InputError(f"{name} is {count!r}; give a whole number from {least} on")
    if any(family(kernel).columns_are == "samples" for kernel in _named_kernels(model)):
        raise InputError("a kernel matrix that is computed already has no width to choose; tune needs columns")


def _named_kernels(model: DKPCA) -> list[str]:
    kernels = model.kernel.values() if isinstance(model.kernel, Mapping) else [model.kernel]
    return [kernel for kernel in kernels if isinstance(kernel, str)]


def _kernels_to_try(
    trial: _Trial, gammas: Sequence[float] | None, notes: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Widths, ascending: those given, or some around the usual one. Before them the linear kernel."""
    wide = {family(name) for name in _named_kernels(trial.model) if family(name).has_width}
    if not wide:
        if gammas is not None:
            raise InputError("no kernel that is given by its name has a width; leave the widths out")
        notes.append("no kernel that is given by its name has a width, so there is no curve over gamma")
        return
    if gammas is not None:
        if not gammas or any(not 0.0 < float(gamma) < math.inf for gamma in gammas):
            raise InputError(f"widths are {list(gammas)}; give positive numbers")
        widths = sorted({float(gamma) for gamma in gammas})
    else:
        usual = {"gamma": "scale", "weights": None}
        fitted = trial.changed(usual).fit(np.arange(trial.n_samples))[0]
        middle = next(k.gamma for k in fitted.model_.kernels.values() if type(k).has_width)
        widths = [float(f"{middle * factor:.4g}") for factor in FACTORS]
    if isinstance(trial.model.kernel, str) and trial.model.law is None and trial.model.weights is None:
        yield "linear", {"kernel": "linear", "gamma": None}  # which a very small gamma comes near
    yield from ((f"{gamma:.4g}", {"gamma": gamma}) for gamma in widths)


def _ways_to_weigh(trial: _Trial) -> Iterator[tuple[str, dict[str, Any]]]:
    """Other ways to weigh several parties; under a product a party is weighed by the width of its kernel."""
    if isinstance(trial.tables, Mapping) and len(trial.tables) == 1:
        return
    several = (
        isinstance(trial.tables, Mapping) or is_list_of_tables(trial.tables) or trial.model.parties not in (None, 1)
    )
    if several and any(family(kernel).has_width for kernel in _named_kernels(trial.model)):
        yield "product, balanced", {"law": "product", "weights": "balanced"}
    if several:
        yield "sum, balanced", {"law": "sum", "weights": "balanced"}


def _ranks(trial: _Trial, ranks: Sequence[int] | None) -> Iterator[RankChoice]:
    """Compare ranks with the answer of full rank."""
    n_components, n_samples = trial.model.n_components, trial.n_samples
    wanted = sorted(set(ranks)) if ranks else [m * n_components for m in MULTIPLES if m * n_components <= n_samples]
    if any(isinstance(rank, bool) or not isinstance(rank, int) or rank < 1 for rank in wanted):
        raise InputError(f"ranks are {list(wanted)}; give whole numbers from 1 on")
    every = np.arange(n_samples)
    full = trial.changed({"rank": n_samples, "precision": "float64"}).fit(every)[0]
    for rank in wanted:
        fitted = trial.changed({"rank": rank}).fit(every)[0]
        error = subspace_error(to_numpy(full.eigenvectors_), to_numpy(fitted.eigenvectors_))
        yield RankChoice(
            rank=rank,
            optimality_at_least=fitted.certificate_.optimality_at_least,
            agreement=max(0.0, 1.0 - error / n_components),
            bytes_per_sample=sum(entry.bytes_sent for entry in fitted.ledger_) / n_samples,
        )


def _suggested_width(choices: Sequence[Choice], notes: list[str]) -> Choice:
    """By the labels where there are some, then by stability; a kernel that shows nothing comes last.

    The largest width that is as stable as any; the linear kernel only where it predicts clearly better.
    """
    linear = [choice for choice in choices if "kernel" in choice.settings]
    widths = [choice for choice in choices if choice not in linear]
    sound = [choice for choice in widths if not choice.warnings] or widths
    best = max(sound, key=_score)
    if linear and best.score is not None and _better(linear, best) is linear[0]:
        return linear[0]
    sound = [choice for choice in sound if _score(choice) >= _score(best) - best.score_error]
    most = max(choice.stability for choice in sound)
    found = max((c for c in sound if c.stability >= most - AS_GOOD), key=lambda choice: choice.settings["gamma"])
    if len(widths) > 2 and found in (widths[0], widths[-1]):
        end = "smallest" if found is widths[0] else "largest"
        notes.append(f"the suggested gamma is the {end} that was tried; try others beyond it (gammas, --gammas)")
    return found


def _suggested_components(choices: Sequence[Choice]) -> Choice:
    """The fewest that predict as well as any; without labels, the most that are stable."""
    if choices[0].score is not None:
        best = max(choices, key=_score)
        return next(choice for choice in choices if _score(choice) >= _score(best) - best.score_error)
    stable = [choice for choice in choices if choice.stability >= STABLE]
    return stable[-1] if stable else max(choices, key=lambda choice: choice.stability)


def _better(choices: Sequence[Choice], given: Choice) -> Choice:
    """The way that predicts clearly better than the one given; without labels, that is clearly more stable."""
    sound = [given, *(choice for choice in choices if not choice.warnings)]
    if given.score is not None:
        best = max(sound, key=_score)
        return best if _score(best) > given.score + max(best.score_error, given.score_error) else given
    best = max(sound, key=lambda choice: choice.stability)
    return best if best.stability > given.stability + AS_GOOD else given


def _score(choice: Choice) -> float:
    return 0.0 if choice.score is None else choice.score


LEFT, TOP, WIDTH, HEIGHT, STEP = 60.0, 70.0, 340.0, 210.0, 430.0
Line = tuple[str, str, Sequence[float], Sequence[float]]  # name, color, values from 0 to 1, standard errors


def _drawn(found: Tuning) -> str:
    """Panels side by side, a dashed line at what is suggested."""
    panels = []
    if found.widths:
        wanted = "linear" if "kernel" in found.suggested else f"{found.suggested['gamma']:.4g}"
        panels.append(("gamma", [c.name for c in found.widths], _lines(found.widths), wanted))
    panels.append(
        (
            "components",
            [c.name for c in found.components],
            _lines(found.components),
            str(found.suggested["n_components"]),
        )
    )
    proved, agreed = ([getattr(p, name) for p in found.ranks] for name in ("optimality_at_least", "agreement"))
    lines: list[Line] = [
        ("of the best, proved", svg.VIOLET, proved, ()),
        ("agrees with full rank", svg.ORANGE, agreed, ()),
    ]
    panels.append(("rank", [str(p.rank) for p in found.ranks], lines, str(found.suggested["rank"])))
    title = f"{found.n_samples:,} samples; the dashed line is the suggestion"
    said = [
        svg.text(LEFT, 22, title, font_size=15),
        svg.text(LEFT, 40, f"score: {found.scored_by}" if found.scored_by else ""),
    ]
    drawn = [_panel(*panel, LEFT + STEP * number) for number, panel in enumerate(panels)]
    return svg.picture(LEFT + STEP * len(panels), 350, title, *said, *drawn)


def _panel(title: str, names: Sequence[str], lines: Sequence[Line], chosen: str, left: float) -> str:
    def at(value: float) -> float:
        return TOP + HEIGHT * (1.0 - min(1.0, max(0.0, value)))

    ticks = (0.0, 0.25, 0.5, 0.75, 1.0)
    xs = [left + WIDTH * (i + 0.5) / len(names) for i in range(len(names))]
    every = max(1, math.ceil(len(names) * 7 * max(map(len, names)) / WIDTH))  # of crowded names, only some
    mark = xs[names.index(chosen)]
    parts = [
        svg.text(left, TOP - 8, title, font_size=14),
        svg.rows([f"{t:g}" for t in ticks], [at(t) for t in ticks], left, left + WIDTH),
    ]
    parts.append(svg.curve([(mark, TOP), (mark, TOP + HEIGHT)], stroke=svg.INK, stroke_dasharray="4 4"))
    parts += [
        svg.text(x, TOP + HEIGHT + 16, name, "middle") for x, name in list(zip(xs, names, strict=True))[::every]
    ]
    for number, (name, color, values, errors) in enumerate(lines):
        points = [(x, at(value)) for x, value in zip(xs, values, strict=True)]
        parts.append(svg.curve(points, stroke=color, stroke_width=2))
        parts += [svg.element("circle", cx=x, cy=y, r=3, fill=color) for x, y in points]
        parts += [
            svg.curve([(x, at(v - e)), (x, at(v + e))], stroke=color)
            for x, v, e in zip(xs, values, errors, strict=False)
        ]
        place = left + sum(6.2 * len(each[0]) + 28 for each in lines[:number])
        parts.append(svg.element("rect", x=place, y=TOP + HEIGHT + 27, width=10, height=10, fill=color))
        parts.append(svg.text(place + 14, TOP + HEIGHT + 36, name, font_size=11))
    return "".join(parts)


def _lines(choices: Sequence[Choice]) -> list[Line]:
    lines: list[Line] = [
        ("variance captured", svg.BLUE, [choice.captured for choice in choices], ()),
        ("stability", svg.ORANGE, [choice.stability for choice in choices], ()),
    ]
    if choices[0].score is not None:
        lines.append(("score", svg.GREEN, [_score(c) for c in choices], [c.score_error for c in choices]))
    return lines
