from itertools import islice

import numpy as np
import pytest
from sklearn.decomposition import PCA, KernelPCA

from dkpca import subspace_error
from dkpca.kernels import RBF, Linear
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading
from experiments import protocol
from experiments.baselines import central, fan2019, nystroem, subspace_iteration
from experiments.data import low_rank

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 20)) @ np.diag(np.linspace(3, 0.3, 20))


def test_central_kernel_pca_is_scikit_learns() -> None:
    ours = central.kernel_pca(X, RBF(0.01), 4)
    theirs = KernelPCA(4, kernel="rbf", gamma=0.01).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_)


def test_pca_scores_are_centered_by_the_training_mean() -> None:
    scores, new = central.pca_scores(X[:40], X[40:], 3)
    model = PCA(3).fit(X[:40])
    np.testing.assert_allclose(np.abs(scores), np.abs(model.transform(X[:40])), atol=1e-9)
    np.testing.assert_allclose(np.abs(new), np.abs(model.transform(X[40:])), atol=1e-9)


def test_published_scores_do_not_see_a_constant_added_to_a_sample_and_are_as_long_as_the_eigenvalues() -> None:
    scores, new = central.pca_scores_as_published(X[:40], X[40:], 3)
    shifted, new_shifted = central.pca_scores_as_published(X[:40] + RNG.standard_normal((40, 1)), X[40:] + 5.0, 3)
    np.testing.assert_allclose(np.abs(scores), np.abs(shifted), atol=1e-8)
    np.testing.assert_allclose(np.abs(new), np.abs(new_shifted), atol=1e-8)
    A = X[:40] - X[:40].mean(axis=1, keepdims=True)
    np.testing.assert_allclose(np.linalg.norm(scores, axis=0), np.linalg.svd(A)[1][:3] ** 2)


def test_long_scores_by_feature_are_pca_scores_times_singular_values() -> None:
    scores, _ = central.pca_scores_times_singular_values(X[:40], X[40:], 3)
    right, _ = central.pca_scores(X[:40], X[40:], 3)
    np.testing.assert_allclose(np.abs(scores), np.abs(right) * np.linalg.norm(right, axis=0), atol=1e-8)


def test_one_party_of_distributed_pca_is_pca() -> None:
    V = fan2019.fuse([fan2019.local_eigenvectors(X, 3)], 3)
    true = np.linalg.svd(X)[2][:3].T
    assert subspace_error(true, V) < 1e-20


def test_distributed_pca_is_near_pca_when_every_party_sees_the_same_population() -> None:
    table = low_rank(600, 60, 5, np.random.default_rng(1))
    V = fan2019.fuse([fan2019.local_eigenvectors(rows, 5) for rows in np.array_split(table, 6)], 5)
    assert V.shape == (60, 5)
    assert subspace_error(np.linalg.svd(table)[2][:5].T, V) < 0.05


def test_subspace_iteration_converges_to_the_eigenvectors_of_the_joined_table() -> None:
    true = protocol.truth(X, Linear(centered=False), 3, center=False)
    parties = [X[:, c] for c in protocol.equal_blocks(20, 4)]
    bases = list(islice(subspace_iteration.iterate(parties, RNG.standard_normal((60, 3))), 300))
    assert bases[0].shape == (60, 3)
    assert subspace_error(true, bases[-1]) < 1e-12 < subspace_error(true, bases[0])
    assert subspace_iteration.numbers_per_round(60, 3) == bases[0].size


@pytest.mark.parametrize("kernel", [RBF(0.01), Linear()])
def test_nystroem_with_every_sample_as_landmark_is_exact(kernel: RBF | Linear) -> None:
    chosen = nystroem.landmarks(60, 60, np.random.default_rng(0))
    received = [nystroem.message(X[:, c], chosen, kernel) for c in protocol.equal_blocks(20, 4)]
    true = leading(Centered(KernelGram(kernel, X - X.mean(axis=0))), 4).vectors
    assert protocol.error(true, nystroem.fuse(received, chosen, kernel)) < 1e-10


def test_nystroem_survives_a_rounded_message() -> None:
    kernel = RBF(0.001)  # so flat that rounding alone decides the small eigenvalues among the landmarks
    chosen = nystroem.landmarks(60, 40, np.random.default_rng(0))
    received = [nystroem.message(X[:, c], chosen, kernel, "float32") for c in protocol.equal_blocks(20, 4)]
    true = protocol.truth(X, kernel, 3, center=True)
    assert received[0].shape == (60, 40)
    assert protocol.error(true, nystroem.fuse(received, chosen, kernel)) < 0.01
