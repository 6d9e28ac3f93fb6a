"""The two secret rotations of a blind fit: the center computes on Q A R in place of a party's factor A.

Q turns the samples; all parties share it, by their group key, and the center does not have it. Everything it computes
under the sum law, sums of A A' and their eigenvectors, is turned with the samples: eigenvalues stay, and the parties
turn the scores back. Up to a thousand samples Q is uniform over all orthogonal matrices; for more it is four rounds
of random signs, a random order and a cosine transform, in T log T operations.

R turns the columns of one party's factor; it is that party's alone, and A A' does not change with it. Without it a
kernel whose eigenvectors anybody can compute (K = I) would hand over Q.
"""

import hmac
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.fft
import scipy.special

from dkpca.protection.keys import Numbers, hkdf, uniform

UNIFORM_UP_TO = 1000  # samples; a matrix of all of them, and its QR factorization
ROUNDS = 4
TURNS, NAMES, COLUMNS = b"dkpca rotation 2\0", b"dkpca samples under a rotation 2\0", b"dkpca columns 2\0"


@dataclass(frozen=True)
class Rotation:
    """Rotation Q of the samples, and R of a party's columns; Q A R in place of A."""

    key: bytes = field(repr=False)  # that the parties share, and nobody else has
    run: str  # another run has another rotation
    sample_digest: str  # fingerprint of the ordered sample ids
    n_samples: int
    own: bytes | None = field(default=None, repr=False)  # of the party that turns its columns, too

    @property
    def hidden_digest(self) -> str:
        """Fingerprint by which the center sees that parties turned the same samples alike, and nothing else."""
        return hmac.digest(self._derived(NAMES), self._context, "sha256").hex()

    def turn(self, A: Numbers) -> Numbers:
        """Q A: rows are no samples any more."""
        if self._uniform is not None:
            return np.asarray(self._uniform @ A)
        # Each round: random signs, a random order, a cosine transform; all orthogonal.
        for signs, order in self._rounds:
            A = scipy.fft.dct((A * signs[:, None])[order], axis=0, norm="ortho")
        return np.asarray(A)

    def turn_back(self, A: Numbers) -> Numbers:
        """Q' A: rows are samples again."""
        if self._uniform is not None:
            return np.asarray(self._uniform.T @ A)
        # The rounds in reverse, each by its transpose: inverse cosine transform, inverse order, the same signs.
        for signs, order in reversed(self._rounds):
            A = scipy.fft.idct(A, axis=0, norm="ortho")
            out = np.empty_like(A)
            out[order] = A
            A = out * signs[:, None]
        return np.asarray(A)

    def columns(self, rank: int) -> Numbers:
        """R: of this party's columns, uniform over all orthogonal matrices, from its own randomness."""
        assert self.own is not None
        return haar(hkdf(self.own, COLUMNS + str(rank).encode()), rank)

    def turned(self, A: Numbers) -> Numbers:
        """Q A R."""
        return np.asarray(self.turn(A) @ self.columns(A.shape[1]))

    @cached_property
    def _uniform(self) -> Numbers | None:
        return haar(self._derived(TURNS), self.n_samples) if self.n_samples <= UNIFORM_UP_TO else None

    @cached_property
    def _rounds(self) -> list[tuple[Numbers, Numbers]]:
        n = self.n_samples
        drawn = uniform(self._derived(TURNS), 2 * ROUNDS * n).reshape(ROUNDS, 2, n)
        return [(1.0 - 2.0 * (signs & np.uint64(1)), np.argsort(order, kind="stable")) for signs, order in drawn]

    def _derived(self, purpose: bytes) -> bytes:
        return hkdf(self.key, purpose + self._context)

    @property
    def _context(self) -> bytes:
        return f"{self.run}\0{self.sample_digest}\0{self.n_samples}".encode()


def haar(key: bytes, n: int) -> Numbers:
    """Q of a QR factorization of normal numbers, with signs that make it uniform (Mezzadri 2007)."""
    # 52 bits and a half: strictly between 0 and 1, so that the inverse of the normal distribution is finite.
    # For normal G = Q R, Q diag(sign R_ii) is uniform over all orthogonal matrices.
    between = ((uniform(key, n * n) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    Q, R = np.linalg.qr(scipy.special.ndtri(between).reshape(n, n))
    return np.asarray(Q * np.sign(np.diagonal(R)))
