"""The attack that a blind fit does not stop: a center that has another party's columns undoes the rotation."""

import numpy as np

from dkpca.kernels import Kernel, Linear
from dkpca.messages import Summary
from dkpca.party.recovery import KNOWN_ROWS, Matrix, Measurement, Seen, Truth, draws_of, run


def with_public_columns(
    sent: tuple[Summary, Matrix, Kernel],
    public: tuple[Summary, Matrix, Kernel],
    *,
    known_rows: int = KNOWN_ROWS,
    random_state: int = 0,
) -> Measurement:
    """Attack the first summary of a blind fit as a center that has the columns of the party of the second.

    Each has its table and its kernel beside it, which the plan tells.
    """
    (message, X, kernel), (other, Y, its_kernel) = sent, public
    truth, draws = Truth.of(X, kernel.columns_are), draws_of(len(X), known_rows, random_state)
    K = np.asarray(its_kernel(Y, Y))
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    vectors = np.linalg.eigh(K)[1][:, ::-1]
    turned, its_turned = np.asarray(message.factor.decode()), np.asarray(other.factor.decode())
    found = []
    for known in draws:
        factor = without_rotation(turned, its_turned, vectors, np.asarray(kernel(X[known], X[known])), known)
        found.append(run(Seen(factor, Linear(), 0.0, X.shape[1]), truth, [known]))
    names = {name: tuple(np.mean([each[name] for each in found], axis=0).tolist()) for name in found[0]}
    return Measurement(len(draws[0]), len(X), names)


def without_rotation(turned: Matrix, public: Matrix, vectors: Matrix, similar: Matrix, known: Matrix) -> Matrix:
    """Factor of a blind fit with a row for each sample, up to one sign for all: the attack that blind does not stop.

    The center has the columns of another party, hence the eigenvectors V of its centered Gram matrix. It takes those
    of the matrix that this party sent, W = Q V S, where only the signs S are open; V S W' is the inverse of Q. With
    F = W' Q A of the party under attack, the right signs make V S F a function of the known rows: the part of it
    outside the span of their kernel's leading eigenvectors, s' H s, is smallest.

    Parameters
    ----------
    turned, public : array of shape (n_samples, rank)
        The messages of the party under attack and of the one whose columns are public.
    vectors : array of shape (n_samples, n_samples)
        V, of the largest eigenvalue first.
    similar : array of shape (n_known, n_known)
        Kernel of the known rows of the party under attack.
    known : array of shape (n_known,)
        Their positions.
    """
    W, lengths, _ = np.linalg.svd(public, full_matrices=False)
    rank = min(int((lengths > 1e-6 * lengths[0]).sum()), vectors.shape[1])
    F, V = W[:, :rank].T @ turned, vectors[known, :rank]
    # The span of what a kernel makes of the known rows: constants and its leading eigenvectors, half of all at most.
    values, basis = np.linalg.eigh(similar)
    explained = np.cumsum(values[::-1]) / max(float(values.sum()), 1e-300)
    count = min(len(known) // 2, int((explained < 1.0 - 1e-9).sum()) + 1)
    span = np.linalg.qr(np.column_stack([np.ones(len(known)), basis[:, ::-1][:, :count]]))[0]
    outside = V - span @ (span.T @ V)
    H = (outside.T @ outside) * (F @ F.T)
    signs = _signs(H)
    return np.asarray((vectors[:, :rank] * signs) @ F)


def _signs(H: Matrix) -> Matrix:
    """Signs s for which s' H s is small: those of the last eigenvector, then one flip after another that helps."""
    _, U = np.linalg.eigh(H / np.sqrt(np.outer(np.diagonal(H), np.diagonal(H)) + 1e-300))
    signs = np.where(U[:, 0] < 0, -1.0, 1.0)
    for _ in range(20 * len(H)):
        gain = signs * (H @ signs) - np.diagonal(H)  # a quarter of what the flip takes away
        worst = int(np.argmax(gain))
        if gain[worst] <= 0:
            break
        signs[worst] = -signs[worst]
    return signs
