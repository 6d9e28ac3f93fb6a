"""Everything a center may ask of a party, or tell it.

A party answers with one message of `dkpca.messages`, or refuses. A question names no file, no column and no code:
what it is about is the party's own choice.
"""

from dataclasses import dataclass
from typing import ClassVar

from dkpca.kernels import Kernel
from dkpca.linalg.leading import Solver
from dkpca.messages import CommonTokens, Scores
from dkpca.rank import RankRule


@dataclass(frozen=True)
class TokensWanted:
    """Which samples do you have? Answered by `SampleTokens`."""

    batch: str = ""  # of new samples; empty: those of the fit

    common: ClassVar[None] = None
    answer: ClassVar[str] = "tokens"


@dataclass(frozen=True)
class StatisticsWanted:
    """How wide is your table? Answered by `Statistics`."""

    common: CommonTokens | None = None  # the samples to use, in their order; None: all, as they stand

    batch: ClassVar[str] = ""
    answer: ClassVar[str] = "statistics"


@dataclass(frozen=True)
class SummaryWanted:
    """The one numerical question of a fit. Answered by `Summary`."""

    kernel: Kernel
    rank: RankRule
    precision: str
    solver: str | Solver = "auto"
    keep_training: bool = False
    common: CommonTokens | None = None

    batch: ClassVar[str] = ""
    answer: ClassVar[str] = "summary"


@dataclass(frozen=True)
class RowsWanted:
    """Where do new samples lie? Answered by `Rows`, or by `Partials` if exact."""

    batch: str = ""
    exact: bool = False
    common: CommonTokens | None = None

    answer: ClassVar[str] = "rows"


@dataclass(frozen=True)
class Result:
    """What came out, for the party to keep. Answered by nothing."""

    scores: Scores
    batch: str = ""

    common: ClassVar[None] = None
    answer: ClassVar[str] = "result"


Question = TokensWanted | StatisticsWanted | SummaryWanted | RowsWanted | Result
