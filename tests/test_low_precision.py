"""Exact answers that began in few digits: a matrix whose products with its rounded self stand for a GPU's."""

import importlib
import math

import numpy as np
import pytest

from dkpca import subspace_error
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.eigenpairs import Probe
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading
from dkpca.linalg.streamed import LowPrecision, Streamed, orthonormal, ritz
from testkit.matrices import Given
from tests.test_solvers import STEPPED, groups_of_duplicates


class InFewDigits(Given):
    """A matrix that is also to be had in few digits; it counts the products in all of them."""

    def __init__(self, K, rounded=None, xp=np):
        super().__init__(xp.asarray(K))
        self.passes, self.xp = 0, xp
        self.rounded = K.astype(np.float16).astype(np.float32) if rounded is None else rounded

    def diagonal(self):
        return self.xp.linalg.diagonal(self.K)

    def block(self, rows, columns):
        return self.xp.asarray(self.K[rows, :][:, columns], copy=True)

    def rough(self, width):
        return self.xp.asarray(self.rounded).__matmul__

    def __matmul__(self, block):
        self.passes += 1
        return self.K @ block


def decaying(n, rng, pace=0.97):
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (Q * pace ** np.arange(n)) @ Q.T


@pytest.fixture
def alone(monkeypatch):
    """As with very many samples: the search in few digits is the only one."""
    monkeypatch.setattr("dkpca.linalg.streamed.statement", lambda n: Probe(math.inf, 0.5))


@pytest.mark.longer
def test_an_answer_that_began_in_few_digits_is_orthogonal_to_what_was_taken_out(rng, alone):
    n = 900
    # Beside a large mean that is taken out, residuals scaled up to unit length have what rounding left of it.
    K = decaying(n, rng) + 100.0
    Q = np.linalg.qr(np.column_stack([np.ones(n), rng.standard_normal((n, 3))]))[0]
    pairs = leading(Centered(InFewDigits(K), Q[:, 1:]), 5, solver=Streamed(tolerance=1e-9))
    assert np.abs(Q.T @ pairs.vectors).max() < 1e-14


@pytest.mark.longer
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=pytest.mark.torch)])
def test_the_answer_has_all_digits_after_two_passes_in_all_digits(rng, alone, center, library):
    K = decaying(900, rng)
    matrix = InFewDigits(K, xp=importlib.import_module(f"array_api_compat.{library}"))
    exact = leading(Centered(Given(K)) if center else Given(K), 10, solver="dense")
    pairs = leading(Centered(matrix) if center else matrix, 10, solver=Streamed(tolerance=1e-6))
    np.testing.assert_allclose(to_numpy(pairs.values), exact.values, rtol=1e-11)
    assert subspace_error(exact.vectors, to_numpy(pairs.vectors)) < 1e-10
    assert matrix.passes == 2
    assert exact.next_value <= pairs.next_value * (1 + 1e-3)


@pytest.mark.longer
def test_a_correction_by_few_digits_takes_two_digits_off_the_residual_and_more(rng):
    gram = InFewDigits(decaying(900, rng))
    preview = LowPrecision.of(gram.rough(31), rng.standard_normal((900, 15)), 0)
    V = orthonormal(preview.pairs.vectors[:, :15].astype(float))
    measured = ritz(V, gram @ V)
    both = orthonormal(np.concatenate([V, preview.corrections(measured, 15)], axis=1))
    assert ritz(both, gram @ both).worst(10) < 1e-2 * measured.worst(10)


@pytest.mark.longer
def test_few_digits_of_another_matrix_cost_passes_and_no_digits(rng, alone):
    K, other = decaying(500, rng), decaying(500, rng).astype(np.float32)
    exact, pairs = leading(Given(K), 5, solver="dense"), leading(InFewDigits(K, other), 5, solver="streamed")
    np.testing.assert_allclose(pairs.values, exact.values, rtol=1e-10)
    assert subspace_error(exact.vectors, pairs.vectors) < 1e-8


def test_the_space_in_few_digits_shows_an_eigenvector_that_start_and_answer_lack(rng):
    """The start and the answer are eigenvectors two to six: nothing but the random columns has any of the first."""
    K = decaying(600, rng, pace=0.8)
    vectors = np.linalg.eigh(K)[1][:, ::-1]
    preview = LowPrecision.of(InFewDigits(K).rough(21), vectors[:, 1:6], 0)
    highest, found = preview.search(vectors[:, 1:6])
    assert highest == pytest.approx(1.0, rel=1e-3)
    assert abs(found[:, 0] @ vectors[:, 0]) > 0.999
    assert preview.search(vectors[:, :6])[0] == pytest.approx(0.8**6, rel=1e-3)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("sizes", STEPPED.values(), ids=STEPPED)
def test_no_copy_of_an_eigenvalue_is_missed_in_few_digits(sizes, seed, alone):
    wanted = sizes.count(sizes[0])
    gram = InFewDigits(groups_of_duplicates(sizes, seed).dense())
    pairs = leading(gram, wanted, solver=Streamed(random_state=seed))
    np.testing.assert_allclose(pairs.values, sizes[0], rtol=1e-6)
