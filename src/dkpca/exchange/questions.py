"""Everything a center may ask of a party, or tell it.

A party answers with one message of `dkpca.messages`, or refuses. A question names no file, no column and no code:
what it is about is the party's own choice.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from dkpca.errors import InputError
from dkpca.fields import Bits, Count, NotNegative, RunName, check_name
from dkpca.kernels import RBF, Kernel
from dkpca.linalg.leading import NAMES, Solver
from dkpca.linalg.precision import PRECISIONS
from dkpca.messages import AuditRequest, CommonTokens, Offers, Scorer, Scores
from dkpca.rank import RankRule


def _batch_name(field: str, value: str) -> None:
    if value:
        check_name(value, "batch name")


def _wire_precision(field: str, value: str) -> None:
    if value not in PRECISIONS:
        raise InputError(f"{field} is {value!r}, not one of {sorted(PRECISIONS)}")


def _solver_name(field: str, value: str | Solver) -> None:
    if isinstance(value, str) and value not in NAMES:
        raise InputError(f"{field} is {value!r}, not one of {sorted(NAMES)}")


def _whole(field: str, value: int) -> None:
    if value < 0:
        raise InputError(f"{field} is {value}, less than 0")


BatchName = Annotated[str, _batch_name]
WirePrecision = Annotated[str, _wire_precision]
Whole = Annotated[int, _whole]
LawName = Literal["product", "sum"]
ANY_WIDTH = RBF(1.0)
SolverName = Annotated[str | Solver, _solver_name]


@dataclass(frozen=True)
class TokensWanted:
    """Which samples do you have? Answered by `SampleTokens`."""

    batch: BatchName = ""  # of new samples; empty: those of the fit

    common: ClassVar[None] = None
    answer: ClassVar[str] = "tokens"


@dataclass(frozen=True)
class StatisticsWanted:
    """How wide is your table? Answered by `Statistics`."""

    common: CommonTokens | None = None  # the samples to use, in their order; None: all, as they stand
    kernels: dict[str, Kernel] = field(default_factory=dict)  # by party; a width in it is still to be derived

    batch: ClassVar[str] = ""
    answer: ClassVar[str] = "statistics"

    def kernel_of(self, party: str) -> Kernel:
        """Kernel for which a party gives its statistics."""
        return self.kernels.get(party, ANY_WIDTH)


@dataclass(frozen=True)
class SummaryWanted:
    """The one numerical question of a fit. Answered by `Summary`."""

    kernel: Kernel
    rank: RankRule
    precision: WirePrecision
    solver: SolverName = "auto"
    keep_training: bool = False
    common: CommonTokens | None = None
    kernels: dict[str, Kernel] = field(default_factory=dict)  # of parties that have one of their own
    balance: NotNegative = 0.0  # mean exponent that a party gives its kernel by its own width; 0: the width as asked
    law: LawName | None = None  # how the center combines the answers; None: as the kernel implies
    protect: Literal["none", "blind"] = "none"  # "blind": turn the samples by the parties' key first

    batch: ClassVar[str] = ""
    answer: ClassVar[str] = "summary"

    def kernel_of(self, party: str) -> Kernel:
        """Kernel that this party is asked for."""
        return self.kernels.get(party, self.kernel)

    def asks_for(self, party: str, kernel: Kernel) -> bool:
        """Whether a party's answer may have this kernel: as asked, or with the width it balanced."""
        asked = self.kernel_of(party)
        return kernel == asked or (self.balance > 0 and asked.has_width and type(kernel) is type(asked))


@dataclass(frozen=True)
class OfferWanted:
    """Your key for one masked sum, please. Answered by `Offer`."""

    run: RunName
    kernel: Kernel
    bits: Bits = 32
    n_landmarks: Whole = 0  # 0: all pairs of samples
    pairs_up_to: Whole = 0  # samples, of which all pairs are added up whatever the number of landmarks
    open_width: bool = False  # whether the width of the kernel is chosen when all has been added up
    batch: BatchName = ""  # of new samples; empty: those of the fit
    common: CommonTokens | None = None

    answer: ClassVar[str] = "offer"


@dataclass(frozen=True)
class ShareOfferWanted:
    """Your key for the sum of all parties' shares of the scores of new samples, please. Answered by `Offer`."""

    run: RunName
    batch: BatchName
    common: CommonTokens | None = None

    answer: ClassVar[str] = "offer"


@dataclass(frozen=True)
class SumsWanted:
    """Here are the keys of all; a piece of your masked numbers, please. Answered by `MaskedSum`."""

    offers: Offers
    part: Count = 1
    batch: BatchName = ""

    common: ClassVar[None] = None  # what the offer was about

    @property
    def answer(self) -> str:
        """Kind of answer, by piece."""
        return "sums" if self.part == 1 else f"sums-{self.part}"


@dataclass(frozen=True)
class RowsWanted:
    """Where do new samples lie? Answered by `Rows`, or by `Partials` if exact."""

    batch: BatchName = ""
    exact: bool = False
    common: CommonTokens | None = None

    answer: ClassVar[str] = "rows"


@dataclass(frozen=True)
class ScorerGiven:
    """What this party needs to score its own columns, under the sum law. Answered by nothing."""

    scorer: Scorer

    common: ClassVar[None] = None
    batch: ClassVar[str] = ""
    answer: ClassVar[str] = "scorer"


@dataclass(frozen=True)
class AuditWanted:
    """What are these rows of your Gram matrix, truly? Answered by `AuditRows`."""

    request: AuditRequest
    common: CommonTokens | None = None

    batch: ClassVar[str] = ""
    answer: ClassVar[str] = "audit"


@dataclass(frozen=True)
class Result:
    """What came out, for the party to keep. Answered by nothing."""

    scores: Scores
    batch: BatchName = ""

    common: ClassVar[None] = None
    answer: ClassVar[str] = "result"


Question = (
    TokensWanted
    | StatisticsWanted
    | SummaryWanted
    | OfferWanted
    | ShareOfferWanted
    | SumsWanted
    | RowsWanted
    | ScorerGiven
    | AuditWanted
    | Result
)
TOLD = (ScorerGiven, Result)  # answered by nothing
