"""Every structured matrix against its dense self."""

import numpy as np
import pytest

from dkpca.kernels import RBF, Linear
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.linalg import rows as strips
from dkpca.linalg.arrays import namespace, to_numpy
from dkpca.linalg.gram import Centered
from dkpca.linalg.rows import RowGroup


def matrices(xp, rng):
    """How to make each matrix."""
    X = xp.asarray(rng.standard_normal((23, 4)))
    factors = [xp.asarray(rng.standard_normal((23, d)) / 2) for d in (3, 1, 5)]
    wide = [xp.asarray(rng.standard_normal((23, 20))), xp.asarray(rng.standard_normal((23, 9)))]
    plain = {
        "party linear": lambda: KernelGram(Linear(), X),
        "party rbf": lambda: KernelGram(RBF(0.2), X),
        "party rbf, by differences": lambda: KernelGram(RBF(1e-12), 1e6 * X + 1e9),
        "fused linear": lambda: FusedGram(Linear().law, factors),
        "fused linear, no thinner factor": lambda: FusedGram(Linear().law, wide),
        "fused rbf": lambda: FusedGram(RBF(0.2).law, factors),
        "fused rbf, no thinner factor": lambda: FusedGram(RBF(0.2).law, [*factors, wide[1] / 2]),
        "fused rbf of one party": lambda: FusedGram(RBF(0.2).law, factors[:1]),
    }
    return plain | {f"centered {name}": lambda make=make: Centered(make()) for name, make in plain.items()}


NAMES = sorted(matrices(np, np.random.default_rng(0)))


@pytest.fixture(params=NAMES)
def matrix(request, xp, rng, monkeypatch):
    monkeypatch.setattr(strips, "TILE_BYTES", 8 * 5 * 5)  # tiles of 5 x 5: several, and a ragged last one
    return matrices(xp, rng)[request.param]()


class TestAgainstDense:
    def test_blocks_on_the_diagonal_come_in_a_stack(self, matrix):
        parts, numbers = [slice(start, 14, 4) for start in range(2, 5)], np.arange(3, 20)
        columns = namespace(matrix.reference).asarray([0])
        group = RowGroup(getattr(matrix, "base", matrix).against(columns), slice(3, 20))
        stack = to_numpy(matrix.within()(3, group.stored, parts))
        K = to_numpy(matrix.dense())
        expected = np.stack([K[np.ix_(numbers[rows], numbers[rows])] for rows in parts])
        np.testing.assert_allclose(stack, expected, atol=1e-12)

    def test_is_symmetric_positive_semidefinite(self, matrix):
        K = to_numpy(matrix.dense())
        np.testing.assert_allclose(K, K.T, atol=1e-12)
        assert np.linalg.eigvalsh(K).min() > -1e-10

    def test_diagonal_and_trace(self, matrix):
        K = to_numpy(matrix.dense())
        np.testing.assert_allclose(to_numpy(matrix.diagonal()), np.diag(K), atol=1e-12)
        assert matrix.trace() == pytest.approx(np.trace(K))

    def test_block(self, matrix, xp):
        indices = xp.asarray([20, 0, 7])
        block = to_numpy(matrix.block(slice(3, 11), indices))
        np.testing.assert_allclose(block, to_numpy(matrix.dense())[3:11, [20, 0, 7]], atol=1e-12)

    def test_product(self, matrix, xp, rng):
        block = rng.standard_normal((23, 3))
        np.testing.assert_allclose(to_numpy(matrix @ xp.asarray(block)), to_numpy(matrix.dense()) @ block, atol=1e-11)

    def test_factor(self, matrix, request):
        name = request.node.callspec.params["matrix"].removeprefix("centered ")
        if name.startswith("party rbf") or name.endswith("no thinner factor"):
            assert matrix.factor is None
        else:
            F = to_numpy(matrix.factor)
            np.testing.assert_allclose(F @ F.T, to_numpy(matrix.dense()), atol=1e-12)


def test_centered_is_H_K_H(rng):
    matrix = KernelGram(RBF(0.3), rng.standard_normal((15, 2)))
    H = np.eye(15) - 1 / 15
    np.testing.assert_allclose(Centered(matrix).dense(), H @ matrix.dense() @ H, atol=1e-14)
