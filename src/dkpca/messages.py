"""Everything that leaves a party: this file, with `dkpca.masked` for masked sums, is the whole disclosure.

A reviewer who knows these classes knows what the center can learn. What each of them reveals in plain words
is in docs/disclosure.md.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from dkpca.errors import InputError
from dkpca.fields import (
    Count,
    Fingerprint,
    Finite,
    NotNegative,
    PartyName,
    Positions,
    Seed,
)
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array
from dkpca.linalg.precision import Rounded
from dkpca.linalg.rows import Index
from dkpca.masked import Agreed as Agreed
from dkpca.masked import MaskedSum as MaskedSum
from dkpca.masked import Offer as Offer
from dkpca.masked import Offers as Offers
from dkpca.masked import SumKind as SumKind
from dkpca.masked import Vouch as Vouch
from dkpca.packed import TOKEN_BYTES as TOKEN_BYTES
from dkpca.packed import Tokens as Tokens


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
        _check_diagonal(self.kernel.sends_diagonal, self.diagonal, self.n_samples)

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
    >>> _, state = dkpca.summarize(X, party="bank", kernel=kernel, rank=2, keep_training=True)
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
class CommonTokens:
    """The center's answer: the samples that every party has, in the order that all of them now take."""

    n_parties: Count
    tokens: Tokens


@dataclass(frozen=True)
class Scorer:
    """What the center sends a party once, under the sum law, so that it can score its own columns alone."""

    party: PartyName  # for whom it is
    summary_id: Fingerprint  # of the party's summary that was fused
    n_parties: Count  # of the fit
    weights: Rounded  # (rank, n_components): the scores of a sample are its factor row times these


@dataclass(frozen=True)
class PartScores:
    """A party's own share of the scores of new samples, under the sum law."""

    party: PartyName
    summary_id: Fingerprint  # of the summary of the fit
    sample_digest: Fingerprint  # of the new samples' ids
    scores: Rounded  # (n_new, n_components), to be added up over parties


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


@dataclass(frozen=True)
class AuditRequest:
    """The center's question for an audit: samples that it drew, by a seed that it publishes, after all had sent."""

    n_samples: Count
    sample_digest: Fingerprint  # of the samples of the fit
    seed: Seed
    draws: Count  # with replacement
    samples: Positions  # of those drawn, among the samples of the fit

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


Message = (
    Statistics
    | Summary
    | Rows
    | Partials
    | SampleTokens
    | CommonTokens
    | Scorer
    | PartScores
    | Scores
    | AuditRequest
    | AuditRows
    | Offer
    | Offers
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
