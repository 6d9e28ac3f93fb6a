"""What the scores have to do with labels and with survival, at whoever has both; nothing is sent.

Tests are corrected over all labels and components (Holm). The number of clusters is chosen by their stability and
without the outcome. Survival is by lifelines (`pip install 'dkpca[outcomes]'`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from dkpca.analysis.agreement import holm
from dkpca.errors import InputError
from dkpca.wording import p_value

Numbers = np.ndarray[Any, np.dtype[np.float64]]
MOST_CLUSTERS, HALVES = 6, 8  # numbers of clusters that are tried, and pairs of halves that each is fitted on
STABLE = 0.75  # adjusted Rand index between fits on halves, from which clusters are said to be there
LEAST_SAMPLES = 10  # of a test, and of each class in it: 3
LEAST_EVENTS = 10  # for curves and their comparison; and for each variable of a Cox regression
CLASSES = 12  # different numbers up to which a column is taken for classes


@dataclass(frozen=True)
class Association:
    """How a label is associated with a component."""

    label: str
    component: int  # from 1
    test: str  # "Spearman" for numbers, "Kruskal-Wallis" for classes
    effect: float  # correlation, or the share of the variance of ranks between the classes
    p: float
    corrected: float


@dataclass(frozen=True)
class Clusters:
    """Groups of samples by k-means on the scores."""

    labels: Any  # (n_samples,) from 1
    stability: Mapping[int, float]  # adjusted Rand index between fits on random halves, by number of clusters
    centers: Numbers

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.centers)

    def of(self, scores: Numbers) -> Any:
        """Clusters of other samples."""
        distances = np.sum((scores[:, None, :] - self.centers[None, :, :]) ** 2, axis=2)
        return distances.argmin(axis=1) + 1


@dataclass(frozen=True)
class Survival:
    """Survival by cluster: Kaplan and Meier's curves, their comparison, and a Cox regression on components."""

    curves: Mapping[str, tuple[list[float], list[float]]]  # by cluster: times and shares that survive
    logrank_p: float | None
    hazards: Mapping[str, tuple[float, float, float]]  # by component: ratio per deviation, p, corrected p
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Outcomes:
    """What the scores say about the labels, for the samples of the fit or for new ones."""

    samples: str
    associations: tuple[Association, ...]
    clusters: Clusters | None = None
    survival: Survival | None = None
    notes: tuple[str, ...] = ()


def outcomes(
    scores: Numbers,
    labels: Mapping[str, Any],
    *,
    survival: tuple[str, str] | None = None,
    in_fit: Collection[str] = (),
    clusters: Clusters | None = None,
    samples: str = "samples of the fit",
) -> Outcomes:
    """Compare scores with columns of labels, one value for each sample; missing values are left out.

    `survival` names the columns with the time and whether the event was seen; `in_fit` the columns that the fit was
    made of; `clusters` are those of the fit, for new samples.
    """
    scores = np.asarray(scores, dtype=float)
    for name in survival or ():
        if name not in labels:
            raise InputError(f"survival: there is no column {name!r} among the labels {list(labels)}")
    others = {name: values for name, values in labels.items() if name not in (survival or ())}
    used = {*in_fit, *(column.partition("=")[0].rstrip() for column in in_fit)}  # of text, a column for each category
    circular = "was a column of the fit: its association with the components is circular"
    notes = [f"label {name!r} {circular}" for name in others if name in used]
    found, said = associations(scores, others)
    if clusters is None and len(scores) >= 2 * LEAST_SAMPLES:
        clusters = find_clusters(scores)
    lived = None
    if survival is not None:
        time, event = (labels[name] for name in survival)
        lived = survive(scores, clusters, as_numbers(time), as_numbers(event))
    return Outcomes(samples, tuple(found), clusters, lived, (*notes, *said))


def associations(scores: Numbers, labels: Mapping[str, Any]) -> tuple[list[Association], list[str]]:
    """Test every label against every component; say which labels had too few values."""
    made: list[tuple[str, int, str, float, float]] = []
    notes = []
    for name, values in labels.items():
        numbers = as_numbers(values)
        classes = None if numbers is not None and len(np.unique(numbers[np.isfinite(numbers)])) > CLASSES else values
        tested = _by_classes(scores, classes) if classes is not None else _by_numbers(scores, numbers)
        if not tested:
            notes.append(f"label {name!r} has too few values, or one class only, for a test")
        made += [(name, d + 1, *each) for d, each in enumerate(tested)]
    corrected = holm([p for *_, p in made]) if made else []
    return [Association(*each, own) for each, own in zip(made, corrected, strict=True)], notes


def _by_numbers(scores: Numbers, numbers: Any) -> list[tuple[str, float, float]]:
    there = np.isfinite(numbers)
    if there.sum() < LEAST_SAMPLES:
        return []
    tests = (scipy.stats.spearmanr(column[there], numbers[there]) for column in scores.T)
    return [("Spearman", float(test.statistic), float(test.pvalue)) for test in tests]


def _by_classes(scores: Numbers, values: Any) -> list[tuple[str, float, float]]:
    texts = np.array(["" if v is None or v != v else str(v) for v in list(values)])
    members = [texts == name for name in sorted(set(texts) - {""}) if (texts == name).sum() >= 3]
    count = int(sum(own.sum() for own in members))
    if len(members) < 2 or count < LEAST_SAMPLES:
        return []
    tests = (scipy.stats.kruskal(*(column[own] for own in members)) for column in scores.T)
    return [("Kruskal-Wallis", float(test.statistic) / (count - 1), float(test.pvalue)) for test in tests]


def find_clusters(scores: Numbers) -> Clusters:
    """K-means with the number of clusters that is most stable over random halves of the samples."""
    rng, stability = np.random.default_rng([0, len(scores)]), {}
    for k in range(2, min(MOST_CLUSTERS, len(scores) // LEAST_SAMPLES) + 1):
        alike = []
        for _ in range(HALVES):
            order = rng.permutation(len(scores))
            halves = np.array_split(order, 2)
            first, second = (KMeans(k, n_init=4, random_state=0).fit(scores[half]) for half in halves)
            alike.append(adjusted_rand_score(first.predict(scores), second.predict(scores)))
        stability[k] = float(np.mean(alike))
    best = max(stability, key=lambda k: (stability[k], -k))
    fitted = KMeans(best, n_init=10, random_state=0).fit(scores)
    return Clusters(fitted.labels_ + 1, stability, fitted.cluster_centers_)


def survive(scores: Numbers, clusters: Clusters | None, time: Any, event: Any) -> Survival:
    """Survival by cluster and by component; where events are too few, a sentence and no number."""
    try:
        import lifelines
        import lifelines.statistics
        import pandas as pd
    except ModuleNotFoundError as error:
        raise InputError("survival needs lifelines; install it with pip install 'dkpca[outcomes]'") from error
    if time is None or event is None:
        raise InputError("survival needs a column of times and one of events (0 or 1), as numbers")
    there = np.isfinite(time) & np.isfinite(event)
    if np.any(time[there] < 0) or not set(np.unique(event[there])) <= {0.0, 1.0}:
        raise InputError("survival: times must be 0 or more, and events 0 or 1")
    scores, time, event = scores[there], time[there], event[there]
    events, notes = int(event.sum()), [] if there.all() else [f"{int((~there).sum())} samples have no time or event"]
    if events < LEAST_EVENTS:
        notes.append(f"{events} events are too few to compare survival: it needs {LEAST_EVENTS}")
        return Survival({}, None, {}, tuple(notes))
    curves, p = {}, None
    if clusters is not None:
        groups = clusters.of(scores)
        for group in np.unique(groups):
            own = groups == group
            curve = lifelines.KaplanMeierFitter().fit(time[own], event[own]).survival_function_
            curves[f"cluster {group}"] = (curve.index.tolist(), curve.iloc[:, 0].tolist())
        if len(curves) > 1:
            p = float(lifelines.statistics.multivariate_logrank_test(time, groups, event).p_value)
    # Cox regression on as many components as the events allow, in units of their deviations.
    count = min(scores.shape[1], events // LEAST_EVENTS)
    if count < scores.shape[1]:
        notes.append(f"Cox regression on the first {count} components: {events} events allow no more")
    names = [f"component {d + 1}" for d in range(count)]
    frame = pd.DataFrame(scores[:, :count] / scores[:, :count].std(axis=0), columns=names)
    model = lifelines.CoxPHFitter().fit(frame.assign(time=time, event=event), "time", "event")
    ratios, ps = model.hazard_ratios_[names].tolist(), model.summary["p"][names].tolist()
    hazards = dict(zip(names, zip(ratios, ps, holm(ps), strict=True), strict=True))
    tested = lifelines.statistics.proportional_hazard_test(model, frame.assign(time=time, event=event), "rank")
    doubtful = [name for name, p in zip(names, holm(list(np.atleast_1d(tested.p_value))), strict=True) if p < 0.05]
    if doubtful:
        notes.append(f"hazards are not proportional for {', '.join(doubtful)}: their ratios are averages over time")
    return Survival(curves, p, hazards, tuple(notes))


def words(found: Outcomes) -> list[str]:
    """Say it in sentences, the strongest first."""
    said = [
        f"component {a.component} is associated with {a.label} "
        f"({a.test}, effect {a.effect:.2f}, corrected p {p_value(a.corrected)})"
        for a in sorted(found.associations, key=lambda a: a.corrected)[:5]
        if a.corrected < 0.05
    ]
    said = said or (["no label is associated with a component beyond chance"] if found.associations else [])
    if found.clusters is not None:
        best = found.clusters.stability.get(found.clusters.count, 1.0)
        sure = "stable" if best >= STABLE else "not stable, so that they may be no groups"
        said.append(f"{found.clusters.count} clusters (Rand index {best:.2f} between halves: {sure})")
    if found.survival is not None:
        if found.survival.logrank_p is not None:
            said.append(f"difference in survival between clusters: p {p_value(found.survival.logrank_p)} (log-rank)")
        said += [
            f"{name}: hazard ratio {ratio:.2f} per deviation, corrected p {p_value(own)}"
            for name, (ratio, _, own) in found.survival.hazards.items()
            if own < 0.05
        ]
        said += found.survival.notes
    return [*said, *found.notes]


def as_numbers(values: Any) -> Any:
    """Values as numbers, NaN where there is none; None if they are none."""
    try:
        return np.array([np.nan if v is None else float(v) for v in list(values)])
    except (TypeError, ValueError):
        return None
