"""How much each party shapes each component, against what its columns say."""

import numpy as np
import pytest

from dkpca.fusion.scoring import party_shares
from dkpca.kernels import RBF, Linear
from testkit.protocol import fused_from


def influence(model):
    return np.array(list(party_shares(model).values()))


def test_with_the_linear_kernel_a_share_is_the_variance_of_the_partys_own_columns(table):
    blocks = np.array_split(table, 3, axis=1)
    model = fused_from(blocks, Linear(), 3)
    of_columns = [((block - block.mean(0)).T @ model.eigenvectors) ** 2 for block in blocks]
    expected = np.array([squares.sum(0) for squares in of_columns]) / model.eigenvalues
    np.testing.assert_allclose(influence(model), expected, rtol=1e-9)


def test_who_alone_varies_along_a_component_has_all_of_it(rng):
    strong, weak = 10 * rng.standard_normal((50, 1)), rng.standard_normal((50, 1))
    weak -= strong * (strong.T @ weak) / (strong.T @ strong) * 0.999
    shares = influence(fused_from([strong, weak], Linear(), 2))
    assert shares[:, 0] == pytest.approx([1, 0], abs=0.05)
    assert shares[:, 1] == pytest.approx([0, 1], abs=0.05)


@pytest.mark.parametrize("kernel", [Linear(), RBF(0.02)], ids=lambda k: k.name)
def test_a_party_whose_columns_are_constant_has_no_share(table, kernel):
    shares = influence(fused_from([table, np.full((90, 2), 3.0)], kernel, 3))
    assert shares[1] == pytest.approx(0, abs=1e-12)
    assert shares[0] == pytest.approx(1)
