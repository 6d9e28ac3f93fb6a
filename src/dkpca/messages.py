"""Everything that leaves a party: this file is the whole disclosure.

A reviewer who knows these classes knows what the center can learn. What each of them reveals in plain words
is in docs/disclosure.md.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from dkpca.errors import InputError
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array
from dkpca.linalg.precision import Rounded
from dkpca.linalg.rows import Index

RING_BITS = (32, 64)  # on which masked sums are formed
SEED_BYTES = 32
POINT_BYTES = 32  # of a point of P-256
TOKEN_BYTES = 16  # of the 32 of HMAC-SHA256: a chance of 1e-27 that any two of a million ids collide
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
MOST_AUDITED = 5000  # rows of one audit


def check_name(name: str, what: str) -> str:
    """Names become file names and log lines, so they are kept plain."""
    if not isinstance(name, str) or not PLAIN_NAME.fullmatch(name):
        raise InputError(
            f"{what} {name!r} cannot be used; take up to 64 letters, digits, '_', '-', '.', not '-' or '.' first"
        )
    return name


def check_party_name(name: str) -> str:
    """Name of a party, kept plain."""
    return check_name(name, "party name")


def _checked(valid: Callable[[Any], bool], words: str) -> Callable[[str, Any], None]:
    """Return the check of a field whose refusal has these words; `{}` in them is the value."""

    def check(field: str, value: Any) -> None:
        if not valid(value):
            raise InputError(f"{field} {words.format(value)}")

    return check


def _ascending(value: tuple[int, ...]) -> bool:
    return 1 <= len(value) <= MOST_AUDITED and value[0] >= 0 and all(a < b for a, b in pairwise(value))


def _is_hex(value: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{64}", value) is not None


PartyName = Annotated[str, lambda field, name: check_party_name(name)]
Fingerprint = Annotated[str, _checked(_is_hex, "is not a sha256 digest")]
Count = Annotated[int, _checked(lambda value: value >= 1, "is {}, less than 1")]
Finite = Annotated[float, _checked(math.isfinite, "is {}, not a finite number")]
NotNegative = Annotated[float, _checked(lambda value: 0 <= value < math.inf, "is {}, not a finite number >= 0")]
Positive = Annotated[float, _checked(lambda value: 0 < value < math.inf, "is {}, not a finite number > 0")]
Bits = Annotated[int, _checked(lambda value: value in RING_BITS, f"is {{}}, not one of {list(RING_BITS)}")]
Secret = Annotated[str, _checked(_is_hex, f"is not a secret of {SEED_BYTES} bytes")]
Positions = Annotated[
    tuple[int, ...], _checked(_ascending, f"are not 1 to {MOST_AUDITED} positions, ascending and each once")
]
SeedNumber = Annotated[int, _checked(lambda value: value >= 0, "is {}, less than 0")]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class _OneArray:
    """What travels as one array of bytes."""

    data: Bytes

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return what travels, by the end of its name."""
        return {"": self.data}

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return tuple(self.data.shape)


class Tokens(_OneArray):
    """Sample ids as keyed hashes, (n_samples, TOKEN_BYTES): ascending, so that the order of the rows is not told."""

    @classmethod
    def of(cls, tokens: Iterable[bytes]) -> "Tokens":
        """Sort and pack."""
        return cls(np.frombuffer(b"".join(sorted(tokens)), dtype=np.uint8).reshape(-1, TOKEN_BYTES))

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> "Tokens":
        """Rebuild what `to_arrays` gave: ascending, so that no order is revealed, and each of them once."""
        data = arrays[""]
        if set(arrays) != {""}:
            raise InputError("does not have the arrays of its kind")
        if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != TOKEN_BYTES or data.shape[0] == 0:
            raise InputError(f"{name} is not a list of {TOKEN_BYTES}-byte tokens (shape {data.shape})")
        tokens = cls(data)
        if any(earlier >= later for earlier, later in pairwise(tokens.listed())):
            raise InputError(f"{name} is not sorted, or has a token twice")
        return tokens

    def listed(self) -> list[bytes]:
        """Return them one by one, ascending."""
        return [row.tobytes() for row in self.data]


class Packed(_OneArray):
    """Numbers of some bits each, (n_bytes,), without gaps; how many bits and numbers these are is said elsewhere."""

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> "Packed":
        """Rebuild what `to_arrays` gave."""
        data = arrays[""]
        if set(arrays) != {""} or data.dtype != np.uint8 or data.ndim != 1 or data.shape[0] == 0:
            raise InputError(f"{name} is not a row of bytes")
        return cls(data)


@dataclass(frozen=True)
class Seed:
    """Secrets of one party for another one: sealed to that party, and never to whoever fuses."""

    party: PartyName
    to: PartyName
    share: Secret  # of the key that all parties have; the same for each of them
    seed: Secret  # of the key of these two


@dataclass(frozen=True)
class Shape:
    """How large a table is, for the fit or for a batch of new samples."""

    party: PartyName
    n_samples: Count
    n_features: Count
    samples: Fingerprint  # of the ordered sample ids; under the parties' key where the center is blind


@dataclass(frozen=True)
class Go:
    """That a party agrees to what was derived before any message with data: for all to read."""

    party: PartyName
    derived: Fingerprint


@dataclass(frozen=True)
class Reveal:
    """A nonce that the party committed to before: the rows of an audit are drawn by those of all parties."""

    party: PartyName
    nonce: Secret


@dataclass(frozen=True)
class Statistics:
    """Three numbers from which the center derives gamma. Sent only when gamma is not given."""

    party: PartyName
    n_samples: Count
    n_features: Count
    mean_squared_distance: NotNegative  # what gamma multiplies, over pairs of different samples; adds up over parties


@dataclass(frozen=True)
class Summary:
    """The one message of the protocol: the leading part of the party's Gram matrix, and how much is left out.

    The factor alone carries the eigenvalues (its squared column norms). Whoever holds it holds the party's
    approximate Gram matrix, factor @ factor.T, hence how similar any two samples look to this party.

    Attributes
    ----------
    party : str
        Who sends it.
    kernel : Kernel
        Kernel of the party's Gram matrix.
    sample_digest : str
        Fingerprint of the ordered sample ids.
    n_features : int
        Columns the party has.
    factor : Rounded of shape (n_samples, rank)
        Eigenvectors times the roots of their eigenvalues.
    left_out_norm : float
        Largest eigenvalue not sent.
    trace_left_out : float
        Trace of the Gram matrix minus that of the factor as sent.
    rounding_norm : float
        Spectral norm of what rounding for the wire did to factor @ factor.T.
    rounding_nuclear : float
        The same in the nuclear norm.
    diagonal : Rounded of shape (n_samples, 1), optional
        Of the true Gram matrix, for kernels that the center finishes.
    left_out_overlap : float, optional
        Norm of the part left out that is not orthogonal to the factor: what landmarks missed. None: not stated.
    turned : bool
        Whether the rows are no samples, but what a rotation that the center does not know made of them.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> summary, _ = dkpca.summarize(X, party="bank", kernel=dkpca.kernels.Linear(), rank=2)
    >>> summary.factor.shape, summary.factor.precision
    ((50, 2), 'float32')
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
        shorter = self.kernel.unit_diagonal and self.diagonal is not None  # mean rows are shorter than samples
        _check_diagonal(self.kernel.sends_diagonal or shorter, self.diagonal, self.n_samples)

    @property
    def n_samples(self) -> int:
        """Samples the factor has a row for."""
        return self.factor.shape[0]

    @property
    def rank(self) -> int:
        """Eigenpairs sent."""
        return self.factor.shape[1]


@dataclass(frozen=True)
class Rows:
    """New samples as rows of the party's factor.

    Attributes
    ----------
    party : str
        Who sends it.
    summary_id : str
        Fingerprint of the summary these rows extend.
    sample_digest : str
        Fingerprint of the new samples' ids.
    factor : Rounded of shape (n_new, rank)
        One row per new sample.
    diagonal : Rounded of shape (n_new, 1), optional
        As in the summary.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> summary, state = dkpca.summarize(X, party="bank", kernel=dkpca.kernels.Linear(), rank=2)
    >>> dkpca.extend(state, X[:3]).summary_id == state.summary_id
    True
    """

    party: PartyName
    summary_id: Fingerprint
    sample_digest: Fingerprint
    factor: Rounded
    diagonal: Rounded | None = None

    @property
    def n_samples(self) -> int:
        """New samples."""
        return self.factor.shape[0]


@dataclass(frozen=True)
class Partials:
    """New samples by the paper's own route: squared distances or inner products to every training sample.

    Attributes
    ----------
    party : str
        Who sends it.
    summary_id : str
        Fingerprint of the summary these samples go with.
    sample_digest : str
        Fingerprint of the new samples' ids.
    partial : Rounded of shape (n_new, n_samples)
        What adds up over parties before the kernel value is formed.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> X, kernel = np.random.default_rng(0).normal(size=(50, 4)), dkpca.kernels.Linear()
    >>> _, state = dkpca.summarize(X, party="bank", kernel=kernel, rank=2, projection="exact")
    >>> dkpca.extend(state, X[:3], exact=True).partial.shape
    (3, 50)
    """

    party: PartyName
    summary_id: Fingerprint
    sample_digest: Fingerprint
    partial: Rounded

    @property
    def n_samples(self) -> int:
        """New samples."""
        return self.partial.shape[0]


@dataclass(frozen=True)
class SampleTokens:
    """Which samples a party has, under a key that the center does not know. Sent only where samples differ."""

    party: PartyName
    tokens: Tokens


@dataclass(frozen=True)
class RaisedIds:
    """A party's sample ids as points of P-256 on their way round a ring, raised to the secrets of some parties."""

    party: PartyName  # that raised them last
    owner: PartyName
    hop: int  # how many parties raised them after their owner
    normalization: str  # how the owner brought its ids into one form
    context: Fingerprint  # binds study, roster, normalization, owner and hop
    points: Packed  # 32 bytes each, in the owner's private random order


@dataclass(frozen=True)
class CommonTokens:
    """The center's answer: the samples that every party has, in the order that all of them now take."""

    n_parties: Count
    tokens: Tokens


@dataclass(frozen=True)
class Scores:
    """The center's result for the parties: where the samples lie, and how much of the variance that shows."""

    n_parties: Count
    kernel: Kernel | None  # that all parties used; None where each has its own, which is not for the others
    sample_digest: Fingerprint
    scores: Rounded  # (n_samples, n_components)
    captured_share_at_least: NotNegative  # of the variance of the true kernel, certified
    optimality_at_least: NotNegative  # of what the best components would capture, certified
    meaning: str = ""  # what the fused matrix is a kernel of, in words
    row_means: Rounded | None = None  # (n_samples, 1): of the fused matrix L before centering, where that was agreed
    residual: NotNegative = 0.0  # |H L V - V Lambda| of the components, with row means

    def __post_init__(self) -> None:
        if self.row_means is not None and self.row_means.shape != (self.scores.shape[0], 1):
            raise InputError(f"has row means of shape {self.row_means.shape} for {self.scores.shape[0]} samples")


@dataclass(frozen=True)
class AuditRequest:
    """The center's question for an audit: samples that it drew, by a seed that it publishes, after all had sent."""

    n_samples: Count
    sample_digest: Fingerprint  # of the samples of the fit
    seed: SeedNumber
    draws: Count  # with replacement
    samples: Positions  # of those drawn, among the samples of the fit
    uniform: bool = False  # whether all samples were equally likely: then whoever knows the seed can check the draw

    def __post_init__(self) -> None:
        if self.samples[-1] >= self.n_samples or len(self.samples) > self.draws:
            raise InputError(f"asks for {len(self.samples)} of {self.n_samples} samples that cannot be these")


@dataclass(frozen=True)
class AuditRows:
    """True rows of a party's Gram matrix: the kernel of some samples with all of the fit, not approximated."""

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
        """Samples of the fit."""
        return self.rows.shape[1]

    def columns(self, index: Index) -> Array:
        """Some columns of the rows, decoded."""
        return self.rows.columns(index).decode()


@dataclass(frozen=True)
class CovariateRows:
    """Covariates of every sample as orthonormal columns: they show batch and site, and age up to a scale."""

    party: PartyName
    rows: Rounded  # (n_samples, q); turned with the samples in a blind fit; of new samples their rows of the same


@dataclass(frozen=True)
class MaskedSum:
    """Numbers of one party under masks that cancel when those of all parties are added: alone, they are noise."""

    party: PartyName
    question: Fingerprint  # that this answers, and that the masks are bound to
    values: Packed
    lengths: Packed | None = None  # of the samples in these rows, where pairs are products

    @property
    def n_bytes(self) -> int:
        """Bytes of the numbers."""
        return sum(len(packed.data) for packed in (self.values, self.lengths) if packed is not None)


@dataclass(frozen=True)
class Told:
    """That a party has read what it was told; it says nothing else."""

    party: PartyName


Message = (
    Seed
    | Shape
    | Go
    | Reveal
    | Told
    | Statistics
    | Summary
    | Rows
    | Partials
    | SampleTokens
    | RaisedIds
    | CommonTokens
    | Scores
    | AuditRequest
    | AuditRows
    | CovariateRows
    | MaskedSum
)


def _check_diagonal(wanted: bool, diagonal: Rounded | None, n_samples: int) -> None:
    if wanted != (diagonal is not None):
        raise InputError("does not have the diagonal of its Gram matrix if and only if its kernel needs one")
    if diagonal is not None and (diagonal.shape != (n_samples, 1) or not bool((diagonal.data >= 0).all())):
        raise InputError(f"the diagonal is not one number, at least 0, for each of {n_samples} samples")


def digest(sample_ids: Sequence[str]) -> str:
    """Fingerprint of sample ids in their order; two parties match just when their rows match."""
    state = hashlib.sha256()
    for sample_id in sample_ids:
        data = str(sample_id).encode()
        state.update(len(data).to_bytes(8, "little") + data)
    return state.hexdigest()


def row_number_digest(n_samples: int) -> str:
    """Fingerprint used where samples have no ids and rows match by position."""
    return hashlib.sha256(f"rows 0 to {n_samples - 1}".encode()).hexdigest()
