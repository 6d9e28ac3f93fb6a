"""Everything at one place: scikit-learn's KernelPCA and PCA on the joined table."""

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA, KernelPCA

from dkpca.kernels import RBF

Matrix = NDArray[np.float64]


def kernel_pca(X: Matrix, kernel: RBF, n_components: int) -> KernelPCA:
    """Kernel PCA of the joined table, fitted."""
    model = KernelPCA(n_components, kernel="rbf", gamma=kernel.gamma, eigen_solver="dense")
    return model.fit(X)


def pca_scores(X: Matrix, X_new: Matrix, n_components: int) -> tuple[Matrix, Matrix]:
    """Scores of training and new samples, centered by the training mean of each feature."""
    model = PCA(n_components, svd_solver="covariance_eigh" if X.shape[1] < X.shape[0] else "full").fit(X)
    return model.transform(X), model.transform(X_new)


def pca_scores_as_published(X: Matrix, X_new: Matrix, n_components: int) -> tuple[Matrix, Matrix]:
    """The paper's PCA: each *sample* centered over its features, and scores multiplied by the singular values."""
    return _long_scores(X - X.mean(axis=1, keepdims=True), X_new - X_new.mean(axis=1, keepdims=True), n_components)


def pca_scores_times_singular_values(X: Matrix, X_new: Matrix, n_components: int) -> tuple[Matrix, Matrix]:
    """PCA centered by feature, but with the paper's long scores: what centering alone would change."""
    return _long_scores(X - X.mean(axis=0), X_new - X.mean(axis=0), n_components)


def _long_scores(A: Matrix, B: Matrix, n_components: int) -> tuple[Matrix, Matrix]:
    U = np.linalg.eigh(A @ A.T)[1][:, ::-1][:, :n_components]
    directions = A.T @ U  # not of unit length: the release leaves them as long as the singular values
    return A @ directions, B @ directions
