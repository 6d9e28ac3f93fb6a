"""How many components: a number, as many as show a share of the variance, or all that are not zero."""

from collections.abc import Callable

import numpy as np

from dkpca.fusion.fused_model import FusedModel
from dkpca.linalg.arrays import to_numpy

FIRST = 32  # components looked at first, twice as many each time they are too few
ZERO = 1e-12  # of the largest eigenvalue, as in KernelPCA
Wanted = int | float | None


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
