"""Rows through the triangle of the landmarks: by inverses where that is precise enough, within what is stated."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dkpca.kernels import RBF
from dkpca.kernels.grams import KernelGram
from dkpca.linalg import landmark
from dkpca.linalg.arrays import growth
from dkpca.linalg.landmark import Landmark
from dkpca.linalg.landmark_block import LandmarkBlock
from dkpca.metrics import subspace_error


def corner_of(seed, n, m, gamma, dtype=float):
    gram = KernelGram(RBF(gamma), np.random.default_rng(seed).normal(size=(n, 3)).astype(dtype))
    F, pivots, _ = Landmark(m, random_state=seed).factorize(gram, m)
    return gram, pivots, LandmarkBlock(F[pivots], gram)


@given(st.integers(0, 10**6), st.integers(2, 12), st.floats(1e-2, 1e2), st.integers(1, 12))
def test_what_inverses_leave_of_the_rows_is_within_its_allowance(seed, m, gamma, size):
    """Exactly: in fractions."""
    gram, pivots, plain = corner_of(seed, 40, m, gamma)
    corner = plain.by_inverses(size)
    assume(corner is not None)
    C = np.ascontiguousarray(gram.block(slice(None), pivots)[:6])
    F, L = corner.solve(C.copy()), corner.L
    allowed = growth(corner.m) * corner.unit + corner.solving
    for c, f in zip(C.tolist(), F.tolist(), strict=True):
        for j, row in enumerate(L.tolist()):
            left = Fraction(c[j]) - sum(Fraction(a) * Fraction(b) for a, b in zip(f, row, strict=True))
            assert abs(float(left)) <= allowed * math.hypot(*f) * math.hypot(*row) * (1 + 1e-9)


@pytest.mark.parametrize("size", [1, 7, 40, 100])
def test_blocks_of_any_size_give_the_same_rows(size):
    gram, pivots, corner = corner_of(3, 400, 100, 2.0)
    C = gram.block(slice(None), pivots)
    by_substitution = corner.solve(C.copy())
    for m in (corner.m, 55, 40, 3):
        quick = corner.by_inverses(size).head(m)
        np.testing.assert_allclose(quick.solve(C[:, :m].copy()), by_substitution[:, :m], atol=1e-9)


def test_a_triangle_that_is_nearly_singular_is_not_inverted():
    gram = KernelGram(RBF(1.0), np.zeros((3, 2)))
    L = np.array([[1.0, 0.0, 0.0], [1.0, 1e-14, 0.0], [1.0, 1.0, 1.0]])
    assert LandmarkBlock(L, gram).by_inverses(3) is None
    assert LandmarkBlock(L[::2, ::2], gram).by_inverses(2) is not None
    assert LandmarkBlock(np.diag([1.0, 0.0]), gram).by_inverses(2) is None


def test_pairs_by_inverses_are_those_by_substitution(monkeypatch):
    monkeypatch.setattr(landmark, "SAMPLE", 500)
    gram = KernelGram(RBF(0.3), np.random.default_rng(1).normal(size=(3000, 6)))
    by = {}
    for worth in (1e-2, 0.0):
        monkeypatch.setattr(landmark, "WORTH", worth)
        assert bool(Landmark(20)._choose(gram, 20, 5).block.inverses) == bool(worth)
        by[worth] = Landmark(20)(gram, 5)
    quick, plain = by[1e-2], by[0.0]
    assert subspace_error(quick.vectors, plain.vectors) < 1e-20
    assert quick.left_out_norm == pytest.approx(plain.left_out_norm, rel=1e-3)
