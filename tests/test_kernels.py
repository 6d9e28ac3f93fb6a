import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from dkpca.errors import InputError
from dkpca.kernels import KERNELS, RBF, Laplacian, Linear, Polynomial
from dkpca.linalg.arrays import to_numpy

BOTH = [Linear(), RBF(0.05)]


def test_evaluation_agrees_with_scikit_learn(xp, table):
    X = xp.asarray(table)
    np.testing.assert_allclose(to_numpy(Linear()(X, X[:7, :])), linear_kernel(table, table[:7]), rtol=1e-12)
    np.testing.assert_allclose(to_numpy(RBF(0.05)(X, X[:7, :])), rbf_kernel(table, table[:7], gamma=0.05), rtol=1e-10)


@pytest.mark.parametrize("kernel", BOTH, ids=lambda k: k.name)
def test_parts_recombine_to_the_kernel_of_all_columns(xp, table, kernel):
    blocks = [xp.asarray(b) for b in np.array_split(table, 4, axis=1)]
    X = xp.asarray(table)
    np.testing.assert_allclose(
        to_numpy(kernel.law.recombine(kernel(b, b) for b in blocks)), to_numpy(kernel(X, X)), rtol=1e-9
    )
    np.testing.assert_allclose(
        to_numpy(kernel.finish(sum(kernel.partial(b, b) for b in blocks))), to_numpy(kernel(X, X)), rtol=1e-9
    )


@pytest.mark.parametrize("kernel", BOTH, ids=lambda k: k.name)
def test_recombining_leaves_the_parts_alone(xp, kernel):
    parts = [xp.asarray([[2.0]]), xp.asarray([[3.0]])]
    kernel.law.recombine(parts)
    assert [float(p[0, 0]) for p in parts] == [2.0, 3.0]


@pytest.mark.parametrize("kernel", BOTH, ids=lambda k: k.name)
def test_merged_factors_recombine_to_the_same_matrix(xp, rng, kernel):
    factors = [xp.asarray(rng.standard_normal((8, d))) for d in (1, 3, 2)]
    together = kernel.law.recombine(A @ A.T for A in factors)
    merged = kernel.law.merge(factors)
    np.testing.assert_allclose(
        to_numpy(kernel.law.recombine(A @ A.T for A in merged)), to_numpy(together), rtol=1e-12
    )


def test_rbf_measures_small_distances_far_from_zero(table):
    far = table + 1e6
    X = far - RBF(1.0).origin(far)
    np.testing.assert_allclose(RBF(0.05)(X, X), rbf_kernel(table, gamma=0.05), rtol=1e-7)


def test_a_width_is_one_number_whatever_its_type():
    assert repr(RBF(np.float64(0.5))) == repr(RBF(0.5)) == "RBF(gamma=0.5)"
    with pytest.raises(InputError, match="gamma is True"):
        RBF(True)


WIDE = [family for family in KERNELS.values() if family.has_width]


@pytest.mark.parametrize("family", WIDE, ids=lambda family: family.name)
def test_what_gamma_multiplies_adds_up_over_parties(family, rng):
    X = rng.integers(0, 6, size=(40, 7)).astype(float)
    kernel = family.from_settings(gamma=0.3, centered=True)
    apart = [kernel.scale_statistic(block) for block in np.array_split(X, 3, axis=1)]
    partial = np.asarray(kernel.partial(X, X))
    own = partial.trace() / 40 if family.name == "poly" else partial.sum() / (40 * 39)
    assert sum(apart) == pytest.approx(own, rel=1e-12)
    assert kernel.scale_by_column(X).sum() == pytest.approx(own, rel=1e-12)


@pytest.mark.parametrize("kernel", [RBF(0.1), Laplacian(0.1), Polynomial(0.1), Linear()], ids=lambda each: each.name)
def test_a_column_that_makes_up_the_distances_is_found(kernel, rng):
    X = rng.normal(size=(50, 4)) * [1.0, 1.0, 100.0, 1.0]
    column, share = kernel.dominant_column(X)
    parts = kernel.scale_by_column(X) if kernel.has_width else X.var(axis=0)
    assert (column, share) == (2, pytest.approx(parts[2] / parts.sum()))
    assert kernel.dominant_column(X / X.std(axis=0)) is None
    assert kernel.dominant_column(X[:, 2:3]) is None  # alone it hides nothing
    assert kernel.dominant_column(np.hstack([X[:, 2:3], np.zeros((50, 3))])) is None


def test_nobody_outside_kernels_asks_which_kernel_or_law_it_is():
    source = Path(__file__).parents[1] / "src" / "dkpca"
    kernels = "|".join(family.__name__ for family in KERNELS.values())
    asks = re.compile(
        rf"isinstance\([\w.]*kernel\w*, ({kernels})|\bis (not )?(SUM|PRODUCT|COSINE)\b|== ({kernels})\b"
    )
    others = [path for path in source.rglob("*.py") if path.parent.name != "kernels"]
    assert [path.name for path in others if asks.search(path.read_text())] == []
