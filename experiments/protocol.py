"""The paper's protocol in pieces, so that one party spectrum serves many ranks and precisions.

`party.summarize` and `fusion.fuse` do the same for one rank; the tests hold the two equal.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dkpca import subspace_error
from dkpca.kernels import RBF, Kernel
from dkpca.kernels.base import combination
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.linalg.eigenpairs import Eigenpairs, numerical_rank
from dkpca.linalg.gram import Centered, Gram
from dkpca.linalg.leading import leading
from dkpca.linalg.precision import round_to
from dkpca.rank import Fixed, RankRule

Matrix = NDArray[np.float64]
Blocks = list[NDArray[np.intp]]  # column positions of each party

SQUARES_IN_EXPONENT = {"code": 1.0, "text": 2.0}  # exp(-d^2 / s^2) as released, exp(-d^2 / (2 s^2)) as printed


def rbf(sigma: float, convention: str) -> RBF:
    """RBF kernel of width sigma, in the released code's convention or the text's."""
    return RBF(1.0 / (SQUARES_IN_EXPONENT[convention] * sigma**2))


def equal_blocks(n_features: int, n_parties: int, rng: np.random.Generator | None = None) -> Blocks:
    """Equal shares of the columns, in their order or in a random one."""
    order = np.arange(n_features) if rng is None else rng.permutation(n_features)
    return list(np.array_split(order, n_parties))


def random_blocks(n_features: int, n_parties: int, rng: np.random.Generator) -> Blocks:
    """Shares of random size, none empty: a random order cut at random places."""
    cuts = np.sort(rng.choice(np.arange(1, n_features), n_parties - 1, replace=False))
    return list(np.split(rng.permutation(n_features), cuts))


def spectrum(gram: Gram, rules: Sequence[RankRule]) -> Eigenpairs:
    """As many leading eigenpairs as the most demanding rule needs."""
    wanted = max(rule.first_guess(gram.n) for rule in rules)
    while True:
        pairs = leading(gram, wanted)
        if all(rule.choose(pairs.values, gram.n) is not None for rule in rules):
            return pairs
        wanted = min(2 * wanted, gram.n)


def spectra(X: Matrix, blocks: Blocks, kernel: Kernel, rules: Sequence[RankRule]) -> list[Eigenpairs]:
    """Spectrum of every party."""
    return [spectrum(KernelGram(kernel, X[:, columns]), rules) for columns in blocks]


def ranks(pairs: Sequence[Eigenpairs], rule: RankRule) -> list[int]:
    """Eigenpairs each party sends under a rule; those that are only rounding are never sent."""
    wanted = [rule.choose(p.values, p.vectors.shape[0]) or 0 for p in pairs]
    return [max(1, min(w, numerical_rank(len(p.vectors), p.values))) for w, p in zip(wanted, pairs, strict=True)]


def fused(
    kernel: Kernel, pairs: Sequence[Eigenpairs], rule: RankRule, *, center: bool, precision: str = "float64"
) -> Gram:
    """The matrix the center works with when every party sends what the rule says."""
    chosen = zip(pairs, ranks(pairs, rule), strict=True)
    factors = [round_to(p.head(rank).factor(), precision).decode() for p, rank in chosen]
    gram = FusedGram(combination({"": kernel}).law, factors)
    return Centered(gram) if center else gram


def truth(X: Matrix, kernel: Kernel, n_components: int, *, center: bool) -> Matrix:
    """Leading eigenvectors of the Gram matrix of the joined table."""
    gram = KernelGram(kernel, X)
    return leading(Centered(gram) if center else gram, n_components).vectors


def error(true: Matrix, gram: Gram) -> float:
    """Subspace error of the leading eigenvectors of a matrix."""
    return subspace_error(true, leading(gram, true.shape[1]).vectors)


def error_at_rank(true: Matrix, kernel: Kernel, pairs: Sequence[Eigenpairs], rank: int, *, center: bool) -> float:
    """Subspace error when every party sends the same number of eigenpairs in float64, as the paper does."""
    return error(true, fused(kernel, pairs, Fixed(rank), center=center))
