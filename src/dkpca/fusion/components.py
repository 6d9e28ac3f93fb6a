"""How many components: a number, as many as show a share of the variance, or all that are not zero."""

from collections.abc import Callable

import numpy as np

from dkpca.fusion.fused_model import FusedModel
from dkpca.linalg.arrays import to_numpy
from dkpca.rank import Auto, RankRule

FIRST = 32  # components looked at first, twice as many each time they are too few
GUESS = 10  # components for which the parties send enough, where nobody knows how many there will be
ZERO = 1e-12  # of the largest eigenvalue, as in KernelPCA
Wanted = int | float | None


def rank_for(wanted: Wanted) -> RankRule:
    """What parties send by themselves: the more, the less of the variance may be missing."""
    if wanted is None:
        return Auto(GUESS)
    return Auto(int(wanted)) if wanted >= 1 else Auto(GUESS, share=min(0.01, (1.0 - wanted) / 10))


def fused(wanted: Wanted, fuse: Callable[[int], FusedModel]) -> FusedModel:
    """Fuse with as many components as are wanted: `fuse` makes the model with a number of them."""
    if wanted is not None and wanted >= 1:
        return fuse(int(wanted))
    model, tried = fuse(1), 1
    most = _most(model)
    while True:
        count = _enough(model, wanted)
        if count < tried or tried == most:
            return model if count == tried else fuse(count)
        tried = min(max(FIRST, 2 * tried), most)
        model = fuse(tried)


def _most(model: FusedModel) -> int:
    """Components there can be: of so many samples, and by so many landmarks."""
    n_samples = next(iter(model.summaries.values())).n_samples
    return min(n_samples, model.settings.n_landmarks) if model.solver.startswith("landmark") else n_samples


def _enough(model: FusedModel, share: float | None) -> int:
    """Components that show the share, or that are not zero; all there are, if that is too few."""
    values = to_numpy(model.eigenvalues)
    present = max(1, int((values > ZERO * values[0]).sum()))
    if share is None:
        return present
    reached = np.cumsum(to_numpy(model.explained_variance_ratio)) >= share
    return min(present, int(reached.argmax()) + 1) if reached.any() else present
