"""What the scores have to do with labels, at whoever has both; nothing is sent."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

from dkpca.analysis.agreement import holm
from dkpca.wording import p_value

Numbers = np.ndarray[Any, np.dtype[np.float64]]
LEAST_SAMPLES = 10  # of a test, and of each class in it: 3
NOTHING = 0.0, 1.0  # effect and p of a component that is zero
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
class Outcomes:
    """What the scores say about the labels, for the samples of the fit or for new ones."""

    samples: str
    associations: tuple[Association, ...]
    notes: tuple[str, ...] = ()


def outcomes(
    scores: Numbers, labels: Mapping[str, Any], *, in_fit: Collection[str] = (), samples: str = "samples of the fit"
) -> Outcomes:
    """Test every label against every component, corrected over all (Holm); a column of the fit is marked."""
    used = {*in_fit, *(column.partition("=")[0].rstrip() for column in in_fit)}  # of text, a column for each category
    circular = "was a column of the fit: its association with the components is circular"
    notes = [f"label {name!r} {circular}" for name in labels if name in used]
    made: list[tuple[str, int, str, float, float]] = []
    for name, values in labels.items():
        numbers = as_numbers(values)
        classes = None if numbers is not None and len(np.unique(numbers[np.isfinite(numbers)])) > CLASSES else values
        tested = _by_classes(scores, classes) if classes is not None else _by_numbers(scores, numbers)
        if not tested:
            notes.append(f"label {name!r} has too few values, or one class only, for a test")
        made += [(name, d + 1, *each) for d, each in enumerate(tested)]
    corrected = holm([p for *_, p in made]) if made else []
    found = tuple(Association(*each, own) for each, own in zip(made, corrected, strict=True))
    return Outcomes(samples, found, tuple(notes))


def _by_numbers(scores: Numbers, numbers: Any) -> list[tuple[str, float, float]]:
    there = np.isfinite(numbers)
    if there.sum() < LEAST_SAMPLES or np.ptp(numbers[there]) == 0:
        return []
    tests = [np.ptp(own) > 0 and scipy.stats.spearmanr(own, numbers[there]) for own in scores[there].T]
    return [("Spearman", float(t.statistic), float(t.pvalue)) if t else ("Spearman", *NOTHING) for t in tests]


def _by_classes(scores: Numbers, values: Any) -> list[tuple[str, float, float]]:
    texts = np.array(["" if v is None or v != v else str(v) for v in list(values)])
    members = [texts == name for name in sorted(set(texts) - {""}) if (texts == name).sum() >= 3]
    count = int(sum(own.sum() for own in members))
    if len(members) < 2 or count < LEAST_SAMPLES:
        return []
    tests = [np.ptp(column) > 0 and scipy.stats.kruskal(*(column[own] for own in members)) for column in scores.T]
    name = "Kruskal-Wallis"
    return [(name, float(t.statistic) / (count - 1), float(t.pvalue)) if t else (name, *NOTHING) for t in tests]


def words(found: Outcomes) -> list[str]:
    """Say it in sentences, the strongest first."""
    said = [
        f"component {a.component} is associated with {a.label} "
        f"({a.test}, effect {a.effect:.2f}, corrected p {p_value(a.corrected)})"
        for a in sorted(found.associations, key=lambda a: a.corrected)[:5]
        if a.corrected < 0.05
    ]
    said = said or (["no label is associated with a component beyond chance"] if found.associations else [])
    return [*said, *found.notes]


def as_numbers(values: Any) -> Any:
    """Values as numbers, NaN where there is none; None if they are none."""
    try:
        return np.array([np.nan if v is None else float(v) for v in list(values)])
    except (TypeError, ValueError):
        return None
