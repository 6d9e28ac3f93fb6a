"""The protocol in a few lines, and problems for it, for tests that are about its result."""

import numpy as np
from hypothesis import strategies as st

from dkpca.fusion import fuse
from dkpca.kernels import RBF, Linear
from dkpca.party import summarize
from dkpca.party.questions import SummaryWanted
from dkpca.rank import Fixed

kernels = st.sampled_from([Linear(), Linear(centered=False), RBF(0.03), RBF(1.0)])


@st.composite
def problems(draw):
    """Blocks of columns of a random table, with a kernel and a rank."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    T, M = draw(st.integers(8, 40)), draw(st.integers(3, 12))
    X = rng.standard_normal((T, 3)) @ rng.standard_normal((3, M)) + rng.standard_normal((T, M))
    cuts = sorted(draw(st.sets(st.integers(1, M - 1), max_size=4)))
    return np.split(X, cuts, axis=1), draw(kernels), draw(st.integers(1, 8))


def measured(blocks, kernel):
    """All columns side by side, measured from where the parties measure them."""
    return np.hstack([block - kernel.origin(block) for block in blocks])


def summaries_of(blocks, kernel, rank=10**6, precision="float64"):
    """Summaries of the blocks as parties p0, p1, ...; by default nothing is left out."""
    asked = SummaryWanted(kernel, Fixed(rank) if isinstance(rank, int) else rank, precision)
    return [summarize(block, asked, party=f"p{j}")[0] for j, block in enumerate(blocks)]


def fused_from(blocks, kernel, n_components=3, *, center=True, **how):
    """What the center makes of the summaries of the blocks."""
    return fuse(summaries_of(blocks, kernel, **how), n_components=n_components, center=center)
