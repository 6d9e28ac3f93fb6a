import numpy as np
import pytest
import scipy.linalg

from dkpca import subspace_error
from dkpca.certificate.proof import theorem_1_bound
from dkpca.errors import InputError
from dkpca.kernels import RBF
from experiments import complexity
from testkit.protocol import summaries_of


def bases(rng, n=30, k=4):
    return (np.linalg.qr(rng.standard_normal((n, k)))[0] for _ in range(2))


def test_subspace_error_is_the_formula_of_the_paper(xp, rng):
    V, V_hat = bases(rng)
    expected = 4 - np.linalg.norm(V.T @ V_hat) ** 2
    assert subspace_error(xp.asarray(V), xp.asarray(V_hat)) == pytest.approx(expected)


def test_subspace_error_resolves_what_the_formula_loses(rng):
    V, W = np.split(np.linalg.qr(rng.standard_normal((30, 2)))[0], 2, axis=1)
    tilt = 1e-10
    assert subspace_error(V, V * np.cos(tilt) + W * np.sin(tilt)) == pytest.approx(tilt**2, rel=1e-4)


def test_subspace_error_ignores_the_basis(rng):
    V, _ = bases(rng)
    rotation, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    assert subspace_error(V, V @ rotation) < 1e-28


def test_subspace_error_is_the_sum_of_the_squared_sines_of_the_principal_angles(rng):
    V, V_hat = bases(rng)
    expected = np.sum(np.sin(scipy.linalg.subspace_angles(V, V_hat)) ** 2)
    assert subspace_error(V, V_hat) == pytest.approx(expected, rel=1e-10)


def test_shapes_that_cannot_be_compared_are_refused(rng):
    with pytest.raises(InputError, match="rows are samples"):
        subspace_error(np.eye(4), np.eye(5))


def test_theorem_1_of_two_parties_worked_out_by_hand():
    assert theorem_1_bound([0.1, 0.3], gap=2.0, dimension=100) == pytest.approx(3.0)
    assert theorem_1_bound([0.1], gap=0.0, dimension=100) == np.inf


def test_theorem_1_bounds_how_far_the_components_turn_when_parties_leave_something_out(rng):
    """Two parties send the first three eigenvectors of their inner products; the truth is all of them."""
    T, D, bounds, distances = 40, 2, [], []
    for noise in (0.01, 0.1):
        hidden = rng.standard_normal((T, D)) * [3.0, 2.0]
        blocks = [hidden @ rng.standard_normal((D, 6)) + noise * rng.standard_normal((T, 6)) for _ in range(2)]
        parts = [np.linalg.eigh(X @ X.T) for X in blocks]
        truth, sent = (sum((V[:, s] * w[s]) @ V[:, s].T for w, V in parts) for s in (slice(None), slice(-3, None)))
        values, vectors = np.linalg.eigh(truth)
        left_out = [w[-4] for w, _ in parts]
        bounds.append(theorem_1_bound(left_out, gap=values[-D] - values[-D - 1], dimension=T - D))
        distances.append(subspace_error(vectors[:, -D:], np.linalg.eigh(sent)[1][:, -D:]) ** 0.5)
    assert 0 < distances[0] <= bounds[0] < bounds[1]
    assert distances[0] < distances[1] <= bounds[1]


def test_table_1_counts_the_numbers_that_a_summary_and_a_table_hold(rng):
    T, M, J, D = 40, 53, 10, 3
    blocks = np.array_split(rng.standard_normal((T, M)), J, axis=1)
    sent = {summary.factor.decode().size for summary in summaries_of(blocks, RBF(0.1), D)}
    assert sent == {complexity.dkpca_communication(T, D)}
    assert max(block.size for block in blocks) == complexity.kpca_communication(T, M, J)
    assert complexity.dpca_communication(M, D) == np.linalg.qr(rng.standard_normal((M, D)))[0].size


def test_table_1_at_sizes_worked_out_by_hand():
    """Samples, columns, parties, rank; then the operations of DKPCA and of the horizontal algorithm."""
    assert complexity.dkpca_computation(400, 1000, 10, 15) == 64_000_000  # 400 samples outweigh 100 + 150
    assert complexity.dkpca_computation(100, 1000, 10, 15) == 2_500_000  # 100 + 150 outweigh 100 samples
    assert complexity.dpca_computation(400, 1000, 10, 15) == 1_000_000_000
    assert complexity.dpca_computation(4000, 100, 10, 15) == 5_500_000
    assert complexity.kpca_computation(400) == 64_000_000


def test_the_papers_example_of_how_many_parties_cost_nothing_extra():
    assert complexity.cubic_party_range(5000, 10000, 100) == (3, 47)
    assert complexity.cubic_party_range(100, 10000, 100) is None
