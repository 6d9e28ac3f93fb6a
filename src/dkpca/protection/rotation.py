"""A secret orthogonal transform of the samples: the center computes on them and cannot tell any of them.

Everything it computes under the sum law, sums of A A' and their eigenvectors, is turned with the samples: eigenvalues
stay, and the parties turn the scores back. The transform is made of a key that the parties share and the center does
not have, bound to the run and to the samples. Up to a thousand samples it is uniform over all orthogonal matrices;
for more it is four rounds of random signs, a random order and a cosine transform, in T log T operations.
"""

import hmac
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy.fft
import scipy.special
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dkpca.errors import InputError
from dkpca.linalg.precision import Rounded
from dkpca.messages import Scores
from dkpca.protection.ring import Numbers

UNIFORM_UP_TO = 1000  # samples; a matrix of all of them, and its QR factorization
ROUNDS = 4
SHORTEST_KEY = 16  # bytes
TURNS, NAMES = b"dkpca rotation 1\0", b"dkpca samples under a rotation 1\0"


@dataclass(frozen=True)
class Rotation:
    """One transform Q; Q A in place of A.

    Parameters
    ----------
    key : bytes
        That the parties share, and nobody else has.
    run : str
        Name of the run; another run has another transform.
    sample_digest : str
        Fingerprint of the ordered sample ids.
    n_samples : int
        How many there are.
    """

    key: bytes = field(repr=False)
    run: str
    sample_digest: str
    n_samples: int

    def __post_init__(self) -> None:
        if len(self.key) < SHORTEST_KEY:
            raise InputError(f"the key has {len(self.key)} bytes; it needs at least {SHORTEST_KEY}")

    @property
    def hidden_digest(self) -> str:
        """Fingerprint by which the center sees that parties turned the same samples alike, and nothing else."""
        return hmac.digest(self._derived(NAMES), self._context(), "sha256").hex()

    def turn(self, A: Numbers) -> Numbers:
        """Q A: rows are no samples any more."""
        self._check(A)
        if self._uniform is not None:
            return np.asarray(self._uniform @ A)
        for signs, order in self._rounds:
            A = scipy.fft.dct((A * signs[:, None])[order], axis=0, norm="ortho")
        return np.asarray(A)

    def turn_back(self, A: Numbers) -> Numbers:
        """Q' A: rows are samples again."""
        self._check(A)
        if self._uniform is not None:
            return np.asarray(self._uniform.T @ A)
        for signs, order in reversed(self._rounds):
            A = scipy.fft.idct(A, axis=0, norm="ortho")
            out = np.empty_like(A)
            out[order] = A
            A = out * signs[:, None]
        return np.asarray(A)

    def result(self, turned: Scores) -> Scores:
        """A center's result with rows that are samples again; `InputError` if it is of others."""
        if turned.sample_digest != self.hidden_digest:
            raise InputError(
                "these scores are of other samples, or were turned by another key or for another run; use the "
                "table, the key and the run of the fit"
            )
        back = self.turn_back(np.asarray(turned.scores.decode()))
        return replace(turned, sample_digest=self.sample_digest, scores=Rounded(back))

    @cached_property
    def _uniform(self) -> Numbers | None:
        """Q of a QR factorization of normal numbers, with signs that make it uniform (Mezzadri 2007)."""
        n = self.n_samples
        if n > UNIFORM_UP_TO:
            return None
        # Between 0 and 1 and neither, so that the inverse of the normal distribution is finite.
        uniform = ((self._random(n * n) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        Q, R = np.linalg.qr(scipy.special.ndtri(uniform).reshape(n, n))
        return np.asarray(Q * np.sign(np.diagonal(R)))

    @cached_property
    def _rounds(self) -> list[tuple[Numbers, Numbers]]:
        n = self.n_samples
        drawn = self._random(2 * ROUNDS * n).reshape(ROUNDS, 2, n)
        return [(1.0 - 2.0 * (signs & np.uint64(1)), np.argsort(order, kind="stable")) for signs, order in drawn]

    def _random(self, count: int) -> Numbers:
        """Uniform 64-bit numbers from the key."""
        cipher = Cipher(ChaCha20(self._derived(TURNS), b"\0" * 16), mode=None).encryptor()
        return np.frombuffer(cipher.update(b"\0" * (8 * count)), dtype="<u8")

    def _derived(self, purpose: bytes) -> bytes:
        return HKDF(SHA256(), length=32, salt=None, info=purpose + self._context()).derive(self.key)

    def _context(self) -> bytes:
        return f"{self.run}\0{self.sample_digest}\0{self.n_samples}".encode()

    def _check(self, A: Numbers) -> None:
        if A.shape[0] != self.n_samples:
            raise InputError(f"{A.shape[0]} rows were given, and the rotation is of {self.n_samples} samples")
