"""Everything a party may be asked, or told. Each question knows its answer's type, its size and its check.

A question names no file, no column and no code: what it is about is the party's own choice. Where the plan and the
derived values say all, a party makes the question itself; its digest is what an answer is bound to.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dkpca import messages
from dkpca.errors import FusionError, WireError
from dkpca.kernels import Kernel
from dkpca.linalg.leading import Solver
from dkpca.linalg.precision import Rounded
from dkpca.messages import POINT_BYTES, TOKEN_BYTES
from dkpca.protection.masks import POWERS, ModularRing
from dkpca.protection.quantities import Addends
from dkpca.rank import RankRule, stated
from dkpca.wire import codec, container

HEADER = 2**18  # bytes around the arrays of a message, at most
MOST = 4 * 10**9  # bytes of an answer, where nothing else bounds it
ORTHONORMAL = 1e-9  # most by which the products of covariates may be off


class Question:
    """What all questions have: the type of the answer, its largest size, and what is checked of it."""

    answer: ClassVar[type[Any] | tuple[type[Any], ...]]
    reads_table: ClassVar[bool]  # whether the party looks at its table for the answer

    most: ClassVar[int]  # bytes of an answer, where its question does not tell
    disagreed: ClassVar[str] = ""  # what a party agreed to whose `Go` is for another question

    def __init_subclass__(cls, *, answer: Any, reads_table: bool = True, most: int = HEADER) -> None:
        cls.answer, cls.reads_table, cls.most = answer, reads_table, most

    def most_bytes(self) -> int:
        """Bytes that an answer has at most."""
        return self.most

    def check(self, party: str, answer: Any) -> None:
        """Raise `FusionError`, naming the party, unless this can be its answer."""
        if not isinstance(answer, self.answer):
            raise FusionError(f"party {party!r} answered with {type(answer).__name__}, another kind of message")
        if answer.party != party:
            raise FusionError(f"party {party!r} answered under the name {answer.party!r}")
        if isinstance(answer, messages.Go) and answer.derived != digest(self):
            raise FusionError(f"party {party!r} agreed to {self.disagreed} of this study")


@dataclass(frozen=True)
class SeedsWanted(Question, answer=messages.Seed, reads_table=False):
    """Asks for secrets: a `Seed` for each of the other parties."""

    run: str
    roster: tuple[messages.PartyName, ...]
    batch: str = ""  # of new samples whose content the seeds are bound to; empty: those of the fit


@dataclass(frozen=True)
class TokensWanted(Question, answer=messages.SampleTokens, reads_table=False, most=HEADER + 10**8 * TOKEN_BYTES):
    """Asks which samples the party has, under the parties' key."""

    batch: str = ""  # of new samples; empty: those of the fit


@dataclass(frozen=True)
class HopWanted(Question, answer=messages.RaisedIds, reads_table=False, most=HEADER + 10**8 * POINT_BYTES):
    """Asks for one hop of a ring: the own list first, then that of the party before, raised to the own secret."""

    hop: int
    union: bool = False  # whether samples that not all parties have are kept, so that lists must not be padded
    batch: str = ""


@dataclass(frozen=True)
class MatchedGiven(Question, answer=messages.Told, reads_table=False):
    """Tells a party which entries of the list that it sent all parties have, or their places in the union."""

    length: messages.Count  # entries of the list, as they arrived
    common: messages.Numbers  # positions in the list, in the order that all parties now take
    n_samples: messages.Count  # of the fit: those that all have, or at least one
    ring: bool = False  # whether the list went round a ring; else it was one of tokens, ascending
    places: messages.Numbers | None = None  # of each entry of the list, where samples that some parties lack are kept
    batch: str = ""


@dataclass(frozen=True)
class ShapeWanted(Question, answer=messages.Shape):
    """Asks how large the table is."""

    batch: str = ""
    columns_are: str = "quantities"  # or "categories", or "samples"
    hidden: bool = False  # whether the fingerprint of the samples is under the parties' key


@dataclass(frozen=True)
class StatisticsWanted(Question, answer=messages.Statistics):
    """Asks how far apart samples are, as this kernel measures it."""

    kernel: Kernel
    standardize: bool = False


@dataclass(frozen=True)
class Derived:
    """What follows from alignment, shapes and statistics, before any message with data."""

    n_samples: messages.Count
    samples: messages.Fingerprint
    columns: dict[str, int]  # by party
    kernels: dict[str, Kernel]  # by party, with their widths


@dataclass(frozen=True)
class GoWanted(Question, answer=messages.Go, reads_table=False):
    """Asks whether the party agrees to these derived values."""

    derived: Derived
    disagreed: ClassVar[str] = "derived values that differ from those"


@dataclass(frozen=True)
class SamplesWanted(Question, answer=messages.Go, reads_table=False):
    """Asks whether the party takes these samples for the common ones; each party makes it of its own."""

    n_samples: messages.Count
    samples: messages.Fingerprint
    batch: str = ""
    disagreed: ClassVar[str] = "other samples than those"


@dataclass(frozen=True)
class SummaryWanted(Question, answer=messages.Summary):
    """Asks for the summary: the one numerical question of a fit."""

    kernel: Kernel
    rank: RankRule
    precision: str
    solver: str | Solver = "auto"
    random_state: int = 0
    keep_training: bool = False
    standardize: bool = False
    balance: messages.NotNegative = 0.0  # mean exponent that a party gives its kernel by its width; 0: as asked
    law: Literal["product", "sum"] | None = None  # how the center combines the answers; None: as the kernel implies
    blind: bool = False  # turn the samples by the parties' key, and the columns by a rotation of your own
    n_samples: int = 0  # 0: not known

    def most_bytes(self) -> int:
        if not self.n_samples:
            return MOST
        return HEADER + 8 * self.n_samples * (min(stated(self.rank) or self.n_samples, self.n_samples) + 2)

    def check(self, party: str, answer: Any) -> None:
        super().check(party, answer)
        asked, sent = self.kernel, answer.kernel
        balanced = self.balance > 0 and asked.has_width and type(sent) is type(asked)
        if answer.turned != self.blind or not (self.blind or sent == asked or balanced):
            raise FusionError(f"party {party!r} sent a summary with another kernel or protection than requested")


@dataclass(frozen=True)
class MaskedWanted(Question, answer=messages.MaskedSum):
    """Asks for numbers under masks that cancel in the sum over all parties."""

    step: str
    run: str
    roster: tuple[messages.PartyName, ...]
    kernel: Kernel
    what: Addends
    batch: str = ""
    result: str = ""  # fingerprint of the result that shares of scores are made of
    standardize: bool = False

    def sizes(self) -> tuple[int, int]:
        """Bytes of the numbers and of the lengths in an answer."""
        raise NotImplementedError

    def most_bytes(self) -> int:
        return HEADER + sum(self.sizes())

    def check(self, party: str, answer: Any) -> None:
        super().check(party, answer)
        if (len(answer.values), 0 if answer.lengths is None else len(answer.lengths)) != self.sizes():
            raise FusionError(f"party {party!r}: its masked numbers do not have the requested size")
        if answer.question != digest(self):
            raise FusionError(f"party {party!r}: its masked numbers are for another question")


@dataclass(frozen=True)
class BoundsWanted(MaskedWanted, answer=messages.MaskedSum):
    """Asks below which power of two the party's numbers are; masked, so that only the largest bound shows."""

    def sizes(self) -> tuple[int, int]:
        return 8 * len(POWERS), 8 * len(POWERS)


@dataclass(frozen=True, kw_only=True)
class SumsWanted(MaskedWanted, answer=messages.MaskedSum):
    """Asks for a piece of the party's masked numbers."""

    bounds: dict[str, messages.Positive]  # by party: no number of its own is larger
    length_bounds: dict[str, messages.Positive]
    part: messages.Count = 1

    @property
    def rows(self) -> slice:
        """Rows of the piece."""
        return self.what.pieces[self.part - 1]

    @property
    def rings(self) -> tuple[ModularRing, ModularRing]:
        """ModularRing of the numbers, and of the lengths of samples."""
        n_parties, bounds, longest = len(self.roster), sum(self.bounds.values()), sum(self.length_bounds.values())
        return ModularRing.for_sum(self.what.bits, bounds, n_parties), ModularRing.for_sum(64, longest, n_parties)

    def sizes(self) -> tuple[int, int]:
        rows = self.rows
        n_lengths = rows.stop - rows.start if self.what.lengths else 0
        return self.what.count(rows) * self.what.bits // 8, 8 * n_lengths


@dataclass(frozen=True)
class ReceivedGiven(Question, answer=messages.Reveal, reads_table=False):
    """Tells which summaries have arrived; asks for the nonce that the party committed to."""

    summaries: dict[str, messages.Fingerprint]


@dataclass(frozen=True)
class AuditWanted(Question, answer=messages.AuditRows):
    """Asks for true rows of the Gram matrix."""

    request: messages.AuditRequest

    def most_bytes(self) -> int:
        return HEADER + 8 * len(self.request.samples) * self.request.n_samples


@dataclass(frozen=True)
class CovariatesWanted(Question, answer=messages.CovariateRows):
    """Asks the owner of the covariates for these columns, made orthonormal."""

    names: tuple[str, ...]
    n_samples: int
    blind: bool = False  # turn them as the samples
    batch: str = ""
    of_fit: int = 0  # samples of the fit, which has no more columns than samples; 0: not known

    def most_bytes(self) -> int:
        return HEADER + 8 * self.n_samples * (self.of_fit or self.n_samples)

    def check(self, party: str, answer: Any) -> None:
        super().check(party, answer)
        if self.batch:
            _check_rows(party, answer.rows, self.n_samples)
            return
        Q = np.asarray(answer.rows.decode())
        # H = I - QQ' is a projector, on which every bound rests, only if Q is orthonormal. NaN is not.
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(Q.T @ Q - np.eye(Q.shape[1])).max()
        if Q.shape[0] != self.n_samples or not off <= ORTHONORMAL:
            raise FusionError(f"party {party!r} sent covariates that are not orthonormal columns of all samples")


@dataclass(frozen=True)
class RowsWanted(Question, answer=(messages.Rows, messages.Partials)):
    """Asks where new samples lie."""

    batch: str
    exact: bool = False
    n_samples: int = 0  # of the batch; 0: not known
    of_fit: int = 0

    def most_bytes(self) -> int:
        return HEADER + 8 * self.n_samples * (self.of_fit + 2) if self.n_samples and self.of_fit else MOST

    def check(self, party: str, answer: Any) -> None:
        super().check(party, answer)
        _check_rows(party, answer.factor if isinstance(answer, messages.Rows) else answer.partial, self.n_samples)


@dataclass(frozen=True)
class ResultGiven(Question, answer=messages.Told, reads_table=False):
    """Tells what came out, for the party to keep."""

    scores: messages.Scores
    weight: messages.Positive = 1.0  # by which the party's matrix was multiplied
    batch: str = ""
    slopes: Rounded | None = None  # (q, n_components): of covariates, for their owner in a blind fit


KINDS: Mapping[str, type[Any]] = {
    cls.__name__: cls for cls in {*Question.__subclasses__(), *MaskedWanted.__subclasses__()} - {MaskedWanted}
}


def _check_rows(party: str, sent: Rounded, n_samples: int) -> None:
    if n_samples and sent.shape[0] != n_samples:
        raise FusionError(f"party {party!r} sent {sent.shape[0]:,} rows of the {n_samples:,} new samples")


def packed_numbers(numbers: Sequence[int]) -> messages.Numbers:
    """Pack whole numbers into 4 bytes each."""
    return np.asarray(numbers, dtype="<u4").view(np.uint8)


def numbers_in(packed: messages.Numbers) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Whole numbers of 4 bytes each."""
    return np.frombuffer(packed.tobytes(), dtype="<u4").astype(np.intp)


def encode(question: Question) -> bytes:
    """Return a question as bytes; the same question gives the same bytes."""
    fields, arrays = codec.encode(question)
    return container.pack({"question": type(question).__name__, "fields": fields}, arrays, entry=container.MESSAGE)


def decode(data: bytes) -> Question:
    """Return the question in the bytes, or raise `WireError`."""
    header, arrays = container.unpack(data, entry=container.MESSAGE, max_header=HEADER)
    header = container.verify(header, arrays)
    kind = header.get("question")
    if not isinstance(kind, str) or kind not in KINDS:
        raise WireError(f"a question of unknown kind {kind!r}")
    question: Question = codec.decode(KINDS[kind], header.get("fields"), arrays, what=f"question {kind}")
    return question


def digest(question: Question) -> str:
    """Fingerprint of a question: what its answers are bound to."""
    return hashlib.sha256(encode(question)).hexdigest()
