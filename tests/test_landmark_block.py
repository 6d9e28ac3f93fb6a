"""Rows through the triangle of the landmarks, within what is stated of their rounding."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from dkpca.kernels import RBF
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.arrays import growth, solve_lower
from dkpca.linalg.landmark import Landmark, LandmarkBlock


def corner_of(seed, n, m, gamma, dtype=float):
    gram = KernelGram(RBF(gamma), np.random.default_rng(seed).normal(size=(n, 3)).astype(dtype))
    F, pivots, _ = Landmark(m, random_state=seed).factorize(gram, m)
    return gram, pivots, LandmarkBlock(F[pivots], gram)


@given(st.integers(0, 10**6), st.integers(2, 12), st.floats(1e-2, 1e2))
@example(377, 7, 4.5)  # a landmark of the first block has rounding in the columns of the next
def test_what_a_substitution_leaves_of_the_rows_is_within_its_allowance(seed, m, gamma):
    """Exactly: in fractions."""
    gram, pivots, corner = corner_of(seed, 40, m, gamma)
    C = np.ascontiguousarray(gram.block(slice(None), pivots)[:6])
    F, L = solve_lower(corner.L, C.copy()), corner.L
    allowed = growth(corner.m) * corner.unit
    for c, f in zip(C.tolist(), F.tolist(), strict=True):
        for j, row in enumerate(L.tolist()):
            left = Fraction(c[j]) - sum(Fraction(a) * Fraction(b) for a, b in zip(f, row, strict=True))
            assert abs(float(left)) <= allowed * math.hypot(*f) * math.hypot(*row) * (1 + 1e-9)


def test_fewer_landmarks_have_the_first_columns():
    gram, pivots, corner = corner_of(3, 400, 100, 2.0)
    C = gram.block(slice(None), pivots)
    features = solve_lower(corner.L, C.copy())
    for m in (55, 40, 3):
        np.testing.assert_allclose(solve_lower(corner.head(m).L, C[:, :m].copy()), features[:, :m], atol=1e-9)
