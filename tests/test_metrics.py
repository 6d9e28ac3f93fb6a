import numpy as np
import pytest
import scipy.linalg

from dkpca import principal_angles, sin_theta_distance, subspace_error
from dkpca.errors import InputError
from dkpca.linalg.arrays import to_numpy
from dkpca.metrics import theorem_1_bound
from experiments import complexity


def bases(rng, n=30, k=4):
    return (np.linalg.qr(rng.standard_normal((n, k)))[0] for _ in range(2))


def test_subspace_error_is_the_formula_of_the_paper(xp, rng):
    V, V_hat = bases(rng)
    expected = 4 - np.linalg.norm(V.T @ V_hat) ** 2
    assert subspace_error(xp.asarray(V), xp.asarray(V_hat)) == pytest.approx(expected)
    assert sin_theta_distance(V, V_hat) == pytest.approx(np.sqrt(expected))


def test_subspace_error_resolves_what_the_formula_loses(rng):
    V, W = np.split(np.linalg.qr(rng.standard_normal((30, 2)))[0], 2, axis=1)
    tilt = 1e-10
    assert subspace_error(V, V * np.cos(tilt) + W * np.sin(tilt)) == pytest.approx(tilt**2, rel=1e-4)


def test_subspace_error_ignores_the_basis(rng):
    V, _ = bases(rng)
    rotation, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    assert subspace_error(V, V @ rotation) < 1e-28


def test_principal_angles_agree_with_scipy(xp, rng):
    V, V_hat = bases(rng)
    expected = np.sort(scipy.linalg.subspace_angles(V, V_hat))
    np.testing.assert_allclose(to_numpy(principal_angles(xp.asarray(V), xp.asarray(V_hat))), expected, rtol=1e-10)


def test_shapes_that_cannot_be_compared_are_refused(rng):
    with pytest.raises(InputError, match="rows are samples"):
        subspace_error(np.eye(4), np.eye(5))


def test_theorem_1_as_printed():
    assert theorem_1_bound([0.1, 0.3], gap=2.0, dimension=100) == pytest.approx(2 * 10 * 0.3 / 2)
    assert theorem_1_bound([0.1], gap=0.0, dimension=100) == np.inf


def test_table_1():
    T, M, J, D = 400, 1000, 10, 15
    assert complexity.dkpca_communication(T, D) == D * T
    assert complexity.dkpca_computation(T, M, J, D) == max(T, M // J + D * J) * T**2
    assert complexity.dpca_communication(M, D) == D * M
    assert complexity.dpca_computation(T, M, J, D) == max(M, T // J + D * J) * M**2
    assert complexity.kpca_communication(T, M, J) == T * M // J
    assert complexity.kpca_computation(T) == T**3


def test_the_papers_example_of_how_many_parties_cost_nothing_extra():
    assert complexity.cubic_party_range(5000, 10000, 100) == (3, 47)
    assert complexity.cubic_party_range(100, 10000, 100) is None
