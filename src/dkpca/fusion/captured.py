"""How much of the variance of new samples the components show."""

from collections.abc import Mapping, Sequence

import numpy as np

from dkpca.fusion.fused_model import FusedModel, merged_rows, project
from dkpca.linalg.arrays import Array, namespace, to_numpy
from dkpca.linalg.rows import by_strips
from dkpca.messages import Rows

MEANS_OVER = 2000  # samples of the fit; with more of them, means are over so many


def share(model: FusedModel, rows: Mapping[str, Rows], diagonals: Mapping[str, Array]) -> float:
    """Squared scores of new samples, over their squared distances from the mean of the fit in feature space.

    Parameters
    ----------
    model : FusedModel
        What the center holds.
    rows : mapping of party to Rows
        Factor rows of the new samples, of every party.
    diagonals : mapping of party to array of shape (n_new,)
        Kernel value of each new sample with itself.
    """
    seen = float(np.sum(to_numpy(project(model, rows.values())) ** 2))
    own = {name: np.asarray(to_numpy(diagonals[name]), dtype=float) for name in model.summaries}
    traces = [model.weights[name] * float(own[name].sum()) for name in model.summaries]
    total = model.law.total_trace(traces, list(own.values()))
    if model.centered:
        count = next(iter(own.values())).shape[0]
        beside, among = _means(model, [rows[name] for name in model.summaries], _some(model))
        total += count * (among - 2.0 * beside)
    return seen / total if total > 0 else 0.0


def _means(model: FusedModel, received: Sequence[Rows], some: Array) -> tuple[float, float]:
    """Mean entry of the fused matrix between new samples and some of the fit, and among those."""
    law, scales = model.law, [model.weights[name] ** 0.5 for name in model.summaries]

    def pick(data: Array) -> Array:
        return namespace(data).take(data, namespace(data).asarray(some), axis=0)

    fitted = merged_rows(law, model.summaries.values(), scales, model.dtype, pick)

    def beside(strip: slice) -> Array:
        new = merged_rows(law, received, scales, model.dtype, lambda x: x[strip, :])
        block = law.recombine(mine @ theirs.T for mine, theirs in zip(new, fitted, strict=True))
        return namespace(block).mean(block, axis=1, keepdims=True)

    rows = by_strips(beside, received[0].factor.data, fitted[0])
    among = law.recombine(A @ A.T for A in fitted)
    return float(namespace(rows).mean(rows)), float(namespace(among).mean(among))


def _some(model: FusedModel) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    n_samples = next(iter(model.summaries.values())).n_samples
    return np.sort(np.random.default_rng(0).permutation(n_samples)[:MEANS_OVER])
