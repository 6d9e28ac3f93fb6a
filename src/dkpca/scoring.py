"""Additive models: under the sum law a score is a sum over parties, so each party can compute its own share.

score(y) = sum over parties of a_j(y) W_j + offset, with a_j(y) the sample's row of the party's factor and
W_j = w_j A_j' V / sqrt(lambda). The center sends each party its W_j once; from then on only n_new x components
numbers leave a party, and a party may be missing: its share is then, and how much that carried is known.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dkpca import wire
from dkpca.errors import FusionError, InputError
from dkpca.fusion import FusedModel
from dkpca.kernels.laws import SUM
from dkpca.linalg.arrays import Array, namespace, to_numpy
from dkpca.linalg.precision import Rounded
from dkpca.messages import PartScores, Scorer


@dataclass(frozen=True)
class Placed:
    """Scores of new samples, and what they lack where parties were missing."""

    scores: Array  # (n_new, n_components)
    missing: tuple[str, ...]
    share_missing: tuple[float, ...]  # of the variance of each component that the missing parties carried in the fit


def scorers(model: FusedModel) -> dict[str, Scorer]:
    """Return what each party needs to score its own columns."""
    _check_additive(model)
    return {
        name: Scorer(
            party=name,
            summary_id=wire.fingerprint(summary),
            n_parties=len(model.summaries),
            weights=Rounded(np.asarray(to_numpy(_weights(model, name)), dtype=np.float64)),
        )
        for name, summary in model.summaries.items()
    }


def add_scores(model: FusedModel, received: Iterable[PartScores], missing: Collection[str] = ()) -> Placed:
    """Place new samples by the parties' shares of their scores.

    Parameters
    ----------
    model : FusedModel
        Under the sum law.
    received : iterable of PartScores
        One per party that is there, about the same samples.
    missing : collection of str
        Parties that are knowingly left out; any other that is not there is an error.
    """
    _check_additive(model)
    parts = {part.party: part for part in received}
    _check_parties(model, parts, missing)
    first = next(iter(parts.values()))
    for name, part in parts.items():
        if part.summary_id != wire.fingerprint(model.summaries[name]):
            raise FusionError(f"party {name!r}: its scores are for another fit than the one that was fused")
        if part.sample_digest != first.sample_digest or part.scores.shape != first.scores.shape:
            raise FusionError(f"parties {first.party!r} and {name!r} scored different samples; align them first")
    total = sum(part.scores.decode(model.dtype) for part in parts.values())
    shares = party_shares(model)
    lost = tuple(float(sum(shares[name][d] for name in missing)) for d in range(model.n_components))
    return Placed(total + model.extension.offset[None, :], tuple(sorted(missing)), lost)


def party_shares(model: FusedModel) -> dict[str, np.ndarray]:
    """Share of each party in each component, v' K_j v beside that of the others: exact under the sum law.

    There the variances add up to the eigenvalue; under a product this is the first order.
    """
    V = model.eigenvectors
    xp = namespace(V)
    parts = {}
    for name, summary in model.summaries.items():
        A = summary.factor.decode(model.dtype)
        A = A - xp.mean(A, axis=0, keepdims=True) if model.centered else A
        parts[name] = to_numpy(model.weights[name] * xp.sum((A.T @ V) ** 2, axis=0)).astype(float)
    total = np.sum(list(parts.values()), axis=0)
    return {name: part / np.where(total > 0, total, 1.0) for name, part in parts.items()}


def _weights(model: FusedModel, party: str) -> Array:
    """W_j, (rank, n_components)."""
    sent = model.summaries[party].factor
    anchors = replace(sent, data=model.extension.rows(sent.data)).decode(model.dtype)
    return model.weights[party] * (anchors.T @ model.extension.weights)


def _check_additive(model: FusedModel) -> None:
    if model.law is not SUM:
        raise InputError(
            f"the fit is {model.meaning}: its scores are no sums over parties, no party can score its columns alone; "
            "place new samples by factor rows of all parties, or fit with law='sum'"
        )


def _check_parties(model: FusedModel, parts: Mapping[str, PartScores], missing: Collection[str]) -> None:
    strangers = sorted((set(parts) | set(missing)) - set(model.summaries))
    if strangers:
        raise FusionError(f"{strangers} had no part in the fit; it has {sorted(model.summaries)}")
    both = sorted(set(parts) & set(missing))
    if both:
        raise FusionError(f"{both} are said to be missing, but their scores are there; leave out one of the two")
    absent = sorted(set(model.summaries) - set(parts) - set(missing))
    if absent:
        raise FusionError(f"no scores from {absent}; wait for them, or say that they are missing")
    if not parts:
        raise FusionError("no party scored the new samples; at least one has to")
