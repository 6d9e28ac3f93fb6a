"""The protocol in a few lines, for tests that are about its result."""

from dkpca.fusion import fuse
from dkpca.party import summarize
from dkpca.rank import Fixed


def summaries_of(blocks, kernel, rank=10**6, precision="float64"):
    """Summaries of the blocks as parties p0, p1, ...; by default nothing is left out."""
    rule = Fixed(rank) if isinstance(rank, int) else rank
    return [
        summarize(block, party=f"p{j}", kernel=kernel, rank=rule, precision=precision)[0]
        for j, block in enumerate(blocks)
    ]


def fused_from(blocks, kernel, n_components=3, *, center=True, **how):
    return fuse(summaries_of(blocks, kernel, **how), n_components=n_components, center=center)


def centered(K):
    return K - K.mean(0) - K.mean(1)[:, None] + K.mean()
