"""What landmarks leave of a matrix is bounded in its largest eigenvalues, not only in its trace."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkpca.kernels import RBF, Linear
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.kernels.laws import Product
from dkpca.linalg import landmark
from dkpca.linalg.gram import Centered
from dkpca.linalg.landmark import Landmark, part_below, residual_bound, rounding_in_blocks


@pytest.mark.parametrize("rough", [False, True])
@given(st.integers(0, 10**6), st.integers(2, 400), st.integers(1, 40), st.floats(1e-2, 1e2), st.integers(1, 8))
def test_what_is_left_exceeds_no_bound(rough, seed, n, landmarks, gamma, k):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(seed % 3 + 1)  # rounded: some rows are equal
    gram = KernelGram(RBF(gamma), X)
    F, _, _ = Landmark(landmarks, random_state=seed).factorize(gram, min(landmarks, n))
    V = np.linalg.qr(rng.normal(size=(n, min(k, n))))[0]
    left = gram.dense() - F @ F.T
    rounding, single = rounding_in_blocks(F.shape[1], gram.trace(), np.inf if rough else 0.0, 2.0**-53)
    assert single == rough
    how = (rough, rounding / gram.trace(), 1e-12 * n)
    found = residual_bound(partial(gram.within(), 0, [gram.X]), F.copy(), V, how)
    assert found.norm + rounding + 1e-12 * n >= np.linalg.eigvalsh(left)[-1]
    assert np.linalg.eigvalsh(found.within - V.T @ left @ V)[0] >= -1e-12 * n


def test_a_residual_that_is_spread_touches_a_component_by_a_small_part_of_its_norm():
    gram = KernelGram(RBF(0.2), np.random.default_rng(0).normal(size=(1500, 8)))
    pairs = Landmark(80)(Centered(gram), 5)
    K = Centered(gram).dense()
    left = K - (pairs.vectors * pairs.values) @ pairs.vectors.T
    assert pairs.missed_within is not None
    touched = np.diagonal(pairs.vectors.T @ left @ pairs.vectors)
    assert (touched <= np.diagonal(pairs.missed_within) + pairs.residual_norm).all()
    assert np.diagonal(pairs.missed_within).max() < 0.5 * pairs.missed_norm


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12])
def test_no_square_in_float32_under_or_overflows(size):
    K = size * np.eye(300)
    found = residual_bound(
        lambda parts: np.stack([K[rows, rows] for rows in parts]),
        np.zeros((300, 3)),
        np.eye(300)[:, :5],
        (True, 0.0, 0.0),
    )
    assert size <= found.norm <= 5 * size
    assert np.linalg.eigvalsh(found.within)[0] >= 0.999 * size


def test_float32_is_not_used_where_its_rounding_would_show():
    assert not rounding_in_blocks(100, 1e6, 1.0, 2.0**-53)[1]
    assert rounding_in_blocks(100, 1e6, 1e4, 2.0**-53)[1]


@pytest.mark.parametrize("unit", [1e-50, 1e50])
def test_float32_is_not_used_where_it_has_no_such_numbers(unit):
    assert not rounding_in_blocks(100, 1e6 * unit, 1e4 * unit, 2.0**-53)[1]


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kernel", [RBF(0.2), Linear()])
def test_pairs_by_landmarks_state_a_true_tail_that_is_much_less_than_the_trace(kernel, center):
    X = np.random.default_rng(0).normal(size=(600, 8))
    gram = KernelGram(kernel, X)
    pairs = Landmark(80)(Centered(gram) if center else gram, 5)
    K = (Centered(gram) if center else gram).dense()
    rest = np.linalg.eigvalsh(K - (pairs.vectors * pairs.values) @ pairs.vectors.T)
    assert rest[-1] <= pairs.left_out_norm
    assert pairs.missed_norm <= pairs.missed_trace
    if isinstance(kernel, RBF):
        assert pairs.missed_norm < 0.25 * pairs.missed_trace


@pytest.mark.parametrize("sample", [10_000, 50])
def test_a_part_below_a_product_is_below_it(sample, monkeypatch):
    monkeypatch.setattr(landmark, "SAMPLE", sample)
    monkeypatch.setattr(landmark, "SAMPLE_SHARE", 1)
    rng = np.random.default_rng(3)
    gram = FusedGram(Product(), [rng.normal(size=(200, 6)), rng.normal(size=(200, 9))])
    F, off = part_below(gram, 30)
    assert np.linalg.eigvalsh(gram.dense() - F @ F.T)[0] >= -off
    assert off < 1e-8 * gram.trace()
