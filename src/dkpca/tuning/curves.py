"""What was tried and what came out of it: values, and what they suggest."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from dkpca.tuning.panels import Group, Line, Panel, drawn, spread

STABLE = 0.8  # components that two halves of the samples agree on to this degree are worth a look
AGREED, PROVED = 0.99, 0.9  # with the answer of full rank, and of the best possible: enough to look at and to rely on
BLUE, ORANGE, GREEN, VIOLET = "#0072b2", "#d55e00", "#009e73", "#7b3294"  # Okabe and Ito, and a violet
AS_GOOD = 0.05  # of stability: less than that is a matter of which halves were drawn


@dataclass(frozen=True)
class Judgment:
    """What one choice gives."""

    captured: float  # share of the variance of the fused kernel matrix, by all components together
    stability: float  # agreement of two fits on halves of the samples, 0 to 1
    score: float | None = None  # of the labels, cross-validated
    score_error: float | None = None  # standard error of that mean


P = TypeVar("P", bound=Judgment)


@dataclass(frozen=True)
class AtGamma(Judgment):
    """One width for all parties."""

    gamma: float = 0.0
    concerns: tuple[str, ...] = ()  # a kernel matrix that is nearly diagonal, or nearly constant


@dataclass(frozen=True)
class AtComponents(Judgment):
    """The first so many components, at the suggested gamma."""

    components: int = 0


@dataclass(frozen=True)
class AtRank:
    """So many eigenpairs from every party, at the suggested gamma."""

    rank: int
    optimality_at_least: float  # proved: variance captured, as a share of the best possible
    agreement: float  # with the components of full rank, 0 to 1
    bytes_per_sample: float  # sent by all parties together


@dataclass(frozen=True)
class Alternative:
    """Another way to weigh the parties, with as many components."""

    name: str
    judgment: Judgment


@dataclass(frozen=True)
class Tuning:
    """Curves over gamma, rank and components, and other ways to weigh the parties.

    Attributes
    ----------
    n_samples : int
        Samples that were tried.
    n_samples_given : int
        Samples in the tables.
    scored_by : str
        How the labels were predicted, in words; empty without labels.
    gammas : tuple of AtGamma
        Ascending; empty for kernels without a width.
    components : tuple of AtComponents
        From one to all, at the suggested gamma.
    ranks : tuple of AtRank
        Ascending, at the suggested gamma.
    alternatives : tuple of Alternative
        The settings given first, at the suggested gamma.
    notes : tuple of str
        What was left out, in words.

    Examples
    --------
    >>> import dkpca
    >>> from sklearn.datasets import load_wine
    >>> wine = load_wine().data
    >>> parties = {"acids": wine[:, :6], "rest": wine[:, 6:]}
    >>> found = dkpca.tune(dkpca.DKPCA(3, standardize=True), parties, gammas=[0.02, 0.2], ranks=[20], repeats=1)
    >>> [alternative.name for alternative in found.alternatives]
    ['as given', 'product, balanced', 'sum, balanced']
    >>> found.gamma in [point.gamma for point in found.gammas]
    True
    """

    n_samples: int
    n_samples_given: int
    scored_by: str
    gammas: tuple[AtGamma, ...]
    components: tuple[AtComponents, ...]
    ranks: tuple[AtRank, ...]
    alternatives: tuple[Alternative, ...]
    notes: tuple[str, ...] = ()

    @property
    def gamma(self) -> float | None:
        """Suggested width: the largest that is as stable as any, of those that predict as well as any."""
        return None if not self.gammas else suggested_gamma(self.gammas).gamma

    @property
    def n_components(self) -> int:
        """Suggested number: the fewest that predict as well as any; without labels, the most that are stable."""
        return suggested_components(self.components).components

    @property
    def rank(self) -> int:
        """Suggested rank: the smallest that agrees with full rank, and is proved to do so; else the largest tried."""
        enough = [p.rank for p in self.ranks if p.agreement >= AGREED and p.optimality_at_least >= PROVED]
        return min(enough, default=self.ranks[-1].rank)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        suggested = {"gamma": self.gamma, "components": self.n_components, "rank": self.rank}
        return asdict(self) | {"suggested": suggested}

    def to_svg(self) -> str:
        """Draw the curves."""
        title = f"{self.n_samples:,} samples; the dashed line is the suggestion"
        subtitle = f"score: {self.scored_by}" if self.scored_by else ""
        groups = [
            Group(each.name, [(line.name, line.color, line.values[0]) for line in _lines([each.judgment])])
            for each in self.alternatives
        ]
        return drawn(title, subtitle, list(self._panels()), groups)

    def _panels(self) -> Iterator[Panel]:
        if self.gamma is not None:
            widths = [point.gamma for point in self.gammas]
            logs = spread([math.log(width) for width in widths])
            names = [f"{width:.3g}" for width in widths]
            yield Panel("gamma", names, logs, _lines(self.gammas), widths.index(self.gamma))
        numbers = [point.components for point in self.components]
        chosen = numbers.index(self.n_components)
        yield Panel("components", [*map(str, numbers)], spread(numbers), _lines(self.components), chosen)
        ranks = [point.rank for point in self.ranks]
        lines = [
            Line("of the best possible, proved", VIOLET, [point.optimality_at_least for point in self.ranks]),
            Line("agreement with full rank", ORANGE, [point.agreement for point in self.ranks]),
        ]
        yield Panel("rank", [*map(str, ranks)], spread(ranks), lines, ranks.index(self.rank))


def suggested_gamma(points: Sequence[AtGamma]) -> AtGamma:
    """Choose by the labels where there are some, then by stability; a kernel that shows nothing comes last."""
    sound = [point for point in points if not point.concerns] or list(points)
    if sound[0].score is not None:
        sound = _as_good(sound, max(sound, key=_score))
    most = max(point.stability for point in sound)
    return max((p for p in sound if p.stability >= most - AS_GOOD), key=lambda point: point.gamma)


def suggested_components(points: Sequence[AtComponents]) -> AtComponents:
    """Choose by the labels where there are some, else by stability."""
    if points[0].score is not None:
        best = max(points, key=_score)
        return min(_as_good(points, best), key=lambda point: point.components)
    stable = [point for point in points if point.stability >= STABLE]
    return max(stable, key=lambda point: point.components) if stable else max(points, key=lambda p: p.stability)


def _lines(points: Sequence[Judgment]) -> list[Line]:
    lines = [
        Line("variance captured", BLUE, [point.captured for point in points]),
        Line("stability", ORANGE, [point.stability for point in points]),
    ]
    if points[0].score is not None:
        errors = [point.score_error or 0.0 for point in points]
        lines.append(Line("score", GREEN, [_score(point) for point in points], errors))
    return lines


def _as_good(points: Sequence[P], best: P) -> list[P]:
    """Those whose score is within one standard error of the best."""
    return [point for point in points if _score(point) >= _score(best) - (best.score_error or 0.0)]


def _score(point: Judgment) -> float:
    return 0.0 if point.score is None else point.score
