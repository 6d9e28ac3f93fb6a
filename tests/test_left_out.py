"""What was left out is orthogonal to what was sent, and below a matrix that the center can multiply by."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dkpca.certificate.proof import PartyError, ceiling
from dkpca.errors import FusionError
from dkpca.fusion import fuse
from dkpca.kernels import RBF, CosineKernel, Kernel, Linear, Polynomial
from dkpca.kernels.grams import FusedGram
from dkpca.kernels.laws import COSINE, PRODUCT, SUM, Power
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading
from testkit.matrices import centered
from testkit.protocol import measured, summaries_of

kernels = st.sampled_from([RBF(0.03), RBF(1.0), Linear(), Polynomial(0.1, degree=3, coef0=1.0), CosineKernel()])
precisions = st.sampled_from(["float64", "float32", "float16"])


def blocks_of(seed, T=24, M=9):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, 3)) @ rng.standard_normal((3, M)) + rng.standard_normal((T, M))
    return np.array_split(X, 3, axis=1)


def true_matrix(blocks: list[np.ndarray], kernel: Kernel) -> np.ndarray:
    X = measured(blocks, kernel)
    if isinstance(kernel, Polynomial):
        return (kernel.gamma * X @ X.T + kernel.coef0) ** kernel.degree
    if isinstance(kernel, CosineKernel):
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
        return X @ X.T
    return kernel(X, X)


@pytest.mark.longer
@given(st.integers(0, 10**6), kernels, precisions, st.integers(1, 20), st.booleans())
def test_what_is_missing_is_below_the_ceiling(seed, kernel, precision, rank, center):
    blocks = blocks_of(seed)
    summaries = summaries_of(blocks, kernel, rank, precision)
    law = kernel.law
    factors = [s.factor.decode() for s in summaries]
    diagonals = [s.diagonal.decode()[:, 0] for s in summaries if s.diagonal is not None]
    fused = FusedGram(law, law.parts(factors, diagonals))
    gram = Centered(fused) if center else fused
    pairs = leading(gram, gram.n, solver="dense")  # all components: V' G V is the whole of G
    errors = sorted((PartyError.of(s, s.factor.decode(), 1.0) for s in summaries), key=lambda e: e.left_out)
    G = ceiling(errors, law, pairs, gram.inside)
    assume(G is not None)  # where rounding is more than what was left out, there is nothing to take away
    missing = true_matrix(blocks, kernel) - fused.dense()
    missing = centered(missing) if center else missing
    proof = fuse(summaries, n_components=1, center=center).certificate
    room = np.linalg.eigvalsh(G.size * G.within - pairs.vectors.T @ missing @ pairs.vectors)
    assert room.min() >= -proof.kernel_error_below - 1e-9 * np.trace(fused.dense())
    assert np.linalg.eigvalsh(G.within).max() <= G.norm + 1e-9


@pytest.mark.parametrize("law", [PRODUCT, SUM, COSINE, Power(3, 0.5, 1.0)])
def test_the_derivative_of_a_law_is_one(law, rng):
    factors, changes = ([rng.standard_normal((7, 2)) for _ in range(3)] for _ in range(2))
    diagonals = [np.full(7, 2.0)] * 3

    def fused(step):
        moved = [np.hstack([A, np.sqrt(step) * C]) for A, C in zip(factors, changes, strict=True)]
        return law.recombine(A @ A.T for A in law.merge(law.parts(moved, diagonals)))

    parts = [A @ A.T for A in law.merge(law.parts(factors, diagonals))]
    slope = law.derivative(parts, [C @ C.T for C in law.merge_changes(law.parts(changes, diagonals))])
    np.testing.assert_allclose((fused(1e-6) - fused(0.0)) / 1e-6, slope, rtol=1e-3, atol=1e-3)


def test_the_bound_on_variance_is_tighter_than_that_by_norms_alone(table):
    summaries = summaries_of(np.array_split(table, 3, axis=1), RBF(0.02), 25)
    tight = fuse(summaries, n_components=3).certificate
    loose = fuse([replace(s, left_out_overlap=None) for s in summaries], n_components=3).certificate
    assert (1 - loose.optimality_at_least) / (1 - tight.optimality_at_least) > 1.2
    assert tight.kernel_norm_bound == pytest.approx(loose.kernel_norm_bound, rel=1e-2)
    assert (np.array(tight.component_errors_at_most) <= np.array(loose.component_errors_at_most)).all()


def test_a_party_with_landmarks_says_that_what_they_missed_may_overlap(table):
    from dkpca import summarize
    from dkpca.rank import Fixed

    kernel = RBF(0.02)
    exact, _ = summarize(table, party="p", kernel=kernel, rank=Fixed(5), solver="dense")
    quick, _ = summarize(table, party="p", kernel=kernel, rank=Fixed(5), solver="landmark")
    assert exact.left_out_overlap == 0.0
    assert quick.left_out_overlap is not None
    assert 0.0 < quick.left_out_overlap <= quick.left_out_norm


def test_more_overlap_than_was_left_out_is_refused(table):
    (summary,) = summaries_of([table], RBF(0.02), 5)
    with pytest.raises(FusionError, match="overlaps what it sent"):
        fuse([replace(summary, left_out_overlap=2 * summary.left_out_norm)], n_components=2)
