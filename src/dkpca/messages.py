"""Everything that leaves a party: this file is the whole disclosure.

A reviewer who knows these classes knows what the center can learn. docs/disclosure.md explains in plain words what
each of them reveals.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from dkpca.errors import InputError
from dkpca.kernels import Kernel
from dkpca.linalg.precision import PRECISIONS, Rounded

RING_BITS = (32, 64)  # on which masked sums are formed
SEED_BYTES = 32
POINT_BYTES = 32  # of a point of P-256
TOKEN_BYTES = 16  # of the 32 of HMAC-SHA256: a chance of 1e-27 that any two of a million ids collide
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
HEX = re.compile(r"[0-9a-f]{64}")
MOST_AUDITED = 5000  # rows of one audit


def check_party_name(name: str, what: str = "party name") -> str:
    """Names become file names and log lines, so they are kept plain."""
    if not isinstance(name, str) or not PLAIN_NAME.fullmatch(name):
        raise InputError(f"{what} {name!r} cannot be used; take up to 64 letters, digits, '_', and later '-', '.'")
    return name


def _checked(valid: Callable[[Any], object], words: str) -> Callable[[str, Any], None]:
    """Return a validator for a field; `words` is its error text, with `{}` for the value."""

    def check(field: str, value: Any) -> None:
        if not valid(value):
            raise InputError(f"{field} {words.format(value)}")

    return check


def _ascending(value: tuple[int, ...]) -> bool:
    return 1 <= len(value) <= MOST_AUDITED and value[0] >= 0 and all(a < b for a, b in pairwise(value))


PartyName = Annotated[str, lambda field, name: check_party_name(name)]
Fingerprint = Annotated[str, _checked(HEX.fullmatch, "is not a sha256 digest")]
Count = Annotated[int, _checked(lambda value: value >= 1, "is {}, less than 1")]
Finite = Annotated[float, _checked(math.isfinite, "is {}, not a finite number")]
NotNegative = Annotated[float, _checked(lambda value: 0 <= value < math.inf, "is {}, not a finite number >= 0")]
Share = Annotated[float, _checked(lambda value: 0 <= value <= 1 + 1e-6, "is {}, not a share from 0 to 1")]
Positive = Annotated[float, _checked(lambda value: 0 < value < math.inf, "is {}, not a finite number > 0")]
Bits = Annotated[int, _checked(lambda value: value in RING_BITS, f"is {{}}, not one of {list(RING_BITS)}")]
Line = Annotated[str, _checked(str.isprintable, "has letters that cannot be printed")]
Secret = Annotated[str, _checked(HEX.fullmatch, f"is not a secret of {SEED_BYTES} bytes")]
Positions = Annotated[
    tuple[int, ...], _checked(_ascending, f"are not 1 to {MOST_AUDITED} positions, ascending and each once")
]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def entries(data: Bytes, width: int) -> list[bytes]:
    """Cut an array of bytes into entries of one width."""
    whole = data.tobytes()
    return [whole[start : start + width] for start in range(0, len(whole), width)]


def sorted_tokens(tokens: Iterable[bytes]) -> Bytes:
    """Tokens as one array, sorted so that they hide the order of the rows."""
    return np.frombuffer(b"".join(sorted(tokens)), dtype=np.uint8).reshape(-1, TOKEN_BYTES)


def _check_tokens(field: str, data: Bytes) -> None:
    if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != TOKEN_BYTES:
        raise InputError(f"{field} is not a list of {TOKEN_BYTES}-byte tokens (shape {data.shape})")
    if any(earlier >= later for earlier, later in pairwise(entries(data, TOKEN_BYTES))):
        raise InputError(f"{field} is not sorted, or has a token twice")


Tokens = Annotated[Bytes, _check_tokens]  # (n_samples, TOKEN_BYTES): sample ids as keyed hashes
# (n_bytes,): integers; the question that they answer fixes count and width
Packed = Annotated[Bytes, _checked(lambda data: data.dtype == np.uint8 and data.ndim == 1, "is not a row of bytes")]
Numbers = Annotated[Packed, _checked(lambda data: data.size % 4 == 0, "is not a row of whole numbers of 4 bytes")]


@dataclass(frozen=True)
class Message:
    """What all messages have in common: nothing but that they may leave."""


@dataclass(frozen=True)
class Seed(Message):
    """Secrets of one party for another, encrypted to that party; the center can never read them."""

    party: PartyName
    to: PartyName
    share: Secret  # of the key that all parties have; the same for each of them
    seed: Secret  # of the key of these two


@dataclass(frozen=True)
class Shape(Message):
    """How many rows and columns a table has, and a fingerprint of its ids, which confirms a guess of all of them."""

    party: PartyName
    n_samples: Count
    n_features: Count
    samples: Fingerprint  # of the ordered sample ids; under the parties' key where the center is blind


@dataclass(frozen=True)
class Go(Message):
    """A party's consent to the settings derived so far, which all members can read, before any data is sent."""

    party: PartyName
    derived: Fingerprint


@dataclass(frozen=True)
class Reveal(Message):
    """A nonce to which the party has committed; those of all parties together seed the draw of the audit rows."""

    party: PartyName
    nonce: Secret


@dataclass(frozen=True)
class Statistics(Message):
    """Size of a table, and how far apart its rows are on average, from which the center derives gamma."""

    party: PartyName
    n_samples: Count
    n_features: Count
    mean_squared_distance: NotNegative  # mean of what gamma multiplies, over pairs of different samples; additive


@dataclass(frozen=True)
class Summary(Message):
    """The one message of the protocol: the leading part of the party's kernel matrix, and how much is left out.

    The factor alone carries the eigenvalues (its squared column norms) and reveals the party's approximate
    kernel matrix, F F' with F = factor.decode(), hence how similar any two samples look to this party.

    Attributes
    ----------
    party, kernel, n_features : str, Kernel and int
        Name of the sending party, kernel of its kernel matrix, and number of its columns.
    sample_digest : str
        Fingerprint of the ordered sample ids.
    factor : Rounded of shape (n_samples, rank)
        Eigenvectors times the square roots of their eigenvalues.
    left_out_norm, trace_left_out : float
        Largest eigenvalue not sent, and trace of the kernel matrix minus that of the factor as sent.
    rounding_norm, rounding_nuclear : float
        Spectral and nuclear norm of the rounding error in F F'.
    diagonal : Rounded of shape (n_samples, 1), optional
        Diagonal of the true kernel matrix, for kernels whose last step the center computes.
    left_out_overlap : float, optional
        Norm of the left-out part that is not orthogonal to the factor (landmark residual). None: not stated.
    turned : bool
        Whether a rotation unknown to the center was applied, so that the rows are not individual samples.

    Examples
    --------
    >>> import dkpca
    >>> summary, _ = dkpca.summarize([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]], party="bank", kernel="linear", rank=2)
    >>> summary.factor.shape, summary.factor.precision
    ((3, 2), 'float32')
    """

    party: PartyName
    kernel: Kernel
    sample_digest: Fingerprint
    n_features: Count
    factor: Rounded
    left_out_norm: NotNegative
    trace_left_out: Finite
    rounding_norm: NotNegative
    rounding_nuclear: NotNegative
    diagonal: Rounded | None = None
    left_out_overlap: NotNegative | None = None
    turned: bool = False

    def __post_init__(self) -> None:
        if self.rank > self.n_samples:
            raise InputError(f"has rank {self.rank} for {self.n_samples} samples")
        diagonal = self.diagonal
        if self.kernel.sends_diagonal != (diagonal is not None):
            raise InputError("does not have the diagonal of its kernel matrix if and only if its kernel needs one")
        if diagonal is not None and (diagonal.shape != (self.n_samples, 1) or not bool((diagonal.data >= 0).all())):
            raise InputError(f"the diagonal is not one number, at least 0, for each of {self.n_samples} samples")

    @property
    def n_samples(self) -> int:
        return self.factor.shape[0]

    @property
    def rank(self) -> int:
        return self.factor.shape[1]

    @property
    def bytes_raw(self) -> int:
        """Bytes of the party's columns in the precision of its factor."""
        return self.n_samples * self.n_features * PRECISIONS[self.factor.precision]


@dataclass(frozen=True)
class Rows(Message):
    """New samples as rows of the party's factor: how similar each looks to every training sample.

    Attributes
    ----------
    party, summary_id, sample_digest : str
        Name of the sending party, and fingerprints of the summary that these rows extend and of the new samples' ids.
    factor, diagonal : Rounded of shape (n_new, rank) and (n_new, 1)
        One row per new sample, and the diagonal as in the summary (or None).

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> _, state = dkpca.summarize(np.eye(4), party="bank", kernel="linear", rank=2)
    >>> dkpca.extend(state, np.eye(4)).summary_id == state.summary_id
    True
    """

    party: PartyName
    summary_id: Fingerprint
    sample_digest: Fingerprint
    factor: Rounded
    diagonal: Rounded | None = None

    @property
    def n_samples(self) -> int:
        return self.factor.shape[0]


@dataclass(frozen=True)
class Partials(Message):
    """New samples by the paper's method: squared distances or inner products to every training sample.

    With more new samples than columns, these tell the whole table of the fit up to a rotation.

    Attributes
    ----------
    party, summary_id, sample_digest : str
        As in `Rows`.
    partial : Rounded of shape (n_new, n_samples)
        Squared distances or inner products, to be summed over parties before the kernel function is applied.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> _, state = dkpca.summarize(np.eye(4), party="bank", kernel="linear", rank=2, projection="exact")
    >>> dkpca.extend(state, np.eye(4)[:3], exact=True).partial.shape
    (3, 4)
    """

    party: PartyName
    summary_id: Fingerprint
    sample_digest: Fingerprint
    partial: Rounded

    @property
    def n_samples(self) -> int:
        return self.partial.shape[0]


@dataclass(frozen=True)
class SampleTokens(Message):
    """Keyed hashes of a party's sample ids, which only those who have the parties' key can test guesses of."""

    party: PartyName
    tokens: Tokens

    def entries(self) -> list[bytes]:
        """Return the tokens one by one, in ascending order."""
        return entries(self.tokens, TOKEN_BYTES)


@dataclass(frozen=True)
class RaisedIds(Message):
    """A party's sample ids as P-256 points times the secrets of the parties so far (private set intersection)."""

    party: PartyName  # that multiplied them last
    owner: PartyName
    hop: int  # number of parties that multiplied them after their owner
    normalization: str  # how the owner brought its ids into one form
    context: Fingerprint  # binds study, roster, normalization, owner and hop
    points: Packed  # 32 bytes each, in the owner's private random order

    def entries(self) -> list[bytes]:
        """Return the points one by one."""
        return entries(self.points, POINT_BYTES)


@dataclass(frozen=True)
class CommonTokens(Message):
    """Tokens of the common samples, as the center of 0.1 sent them; only read, since its files stay readable."""

    n_parties: Count
    tokens: Tokens


@dataclass(frozen=True)
class Scores(Message):
    """The center's result: where samples lie among the components."""

    n_parties: Count
    kernel: Kernel | None  # of all parties; None if each has its own, which the others must not learn
    sample_digest: Fingerprint
    scores: Rounded  # (n_samples, n_components)
    captured_share_at_least: Share  # of the variance of the true kernel, certified
    optimality_at_least: Share  # of what the best components would capture, certified
    meaning: Line = ""  # what the fused matrix is a kernel of, in words
    # Of studies of 0.2, only read: (n_samples, 1), of the fused matrix before centering, and |H L V - V Lambda|.
    row_means: Rounded | None = None
    residual: NotNegative = 0.0

    def __post_init__(self) -> None:
        if self.row_means is not None and self.row_means.shape != (self.scores.shape[0], 1):
            raise InputError(f"has row means of shape {self.row_means.shape} for {self.scores.shape[0]} samples")


@dataclass(frozen=True)
class AuditRequest(Message):
    """The samples of an audit; the center draws them after all summaries have arrived, and publishes the seed."""

    n_samples: Count
    sample_digest: Fingerprint  # of the samples of the fit
    seed: Annotated[int, _checked(lambda value: value >= 0, "is {}, less than 0")]
    draws: Count  # with replacement
    samples: Positions  # of those drawn, among the samples of the fit
    uniform: bool = False  # whether all samples were equally likely, so that the seed suffices to check the draw

    def __post_init__(self) -> None:
        if self.samples[-1] >= self.n_samples or len(self.samples) > self.draws:
            raise InputError(f"asks for {len(self.samples)} of {self.n_samples} samples that cannot be these")


@dataclass(frozen=True)
class AuditRows(Message):
    """True kernel values of audited samples with all: with more rows than columns, the table up to a rotation."""

    party: PartyName
    summary_id: Fingerprint  # of the summary that is audited
    sample_digest: Fingerprint
    samples: Positions  # which rows these are
    rows: Rounded  # (len(samples), n_samples)

    def __post_init__(self) -> None:
        if self.rows.shape[0] != len(self.samples):
            raise InputError(f"has {self.rows.shape[0]} rows for {len(self.samples)} samples")

    @property
    def n_samples(self) -> int:
        return self.rows.shape[1]


@dataclass(frozen=True)
class CovariateRows(Message):
    """Covariates of every sample as orthonormal columns: they show batch and site, and age up to a scale."""

    party: PartyName
    rows: Rounded  # (n_samples, q), rotated with the samples in a blind fit; or the rows of new samples


@dataclass(frozen=True)
class MaskedSum(Message):
    """Masked numbers of one party: noise on their own; the masks cancel in the sum over all parties."""

    party: PartyName
    question: Fingerprint  # that this answers, and that the masks are bound to
    values: Packed
    lengths: Packed | None = None  # of the samples in these rows, where pairs are products

    @property
    def n_bytes(self) -> int:
        return len(self.values) + (0 if self.lengths is None else len(self.lengths))


@dataclass(frozen=True)
class Told(Message):
    """Acknowledgement that a party has read the center's message; contains nothing else."""

    party: PartyName


def digest(sample_ids: Sequence[str]) -> str:
    """Fingerprint of sample ids in their order; those of two parties are equal exactly if their rows match."""
    state = hashlib.sha256()
    for sample_id in sample_ids:
        data = str(sample_id).encode()
        state.update(len(data).to_bytes(8, "little") + data)
    return state.hexdigest()


def row_number_digest(n_samples: int) -> str:
    """Fingerprint for samples without ids, whose rows match by position."""
    return hashlib.sha256(f"rows 0 to {n_samples - 1}".encode()).hexdigest()
