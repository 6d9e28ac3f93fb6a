"""GSE2187 as the figures use it: all samples, sigma = sqrt(M) / 3."""

from functools import cache

import numpy as np

from dkpca.kernels import RBF
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.eigenpairs import Eigenpairs
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading
from experiments import protocol
from experiments.command import expression


def kernel(data: str | None, convention: str) -> RBF:
    """RBF kernel of the figures, with its width as released ("code") or as printed ("text")."""
    return protocol.rbf(np.sqrt(expression(data).X.shape[1]) / 3.0, convention)


@cache
def components(data: str | None, convention: str, n_components: int) -> Eigenpairs:
    """The truth: leading eigenpairs of the centered Gram matrix of all genes. The same for every repetition."""
    return leading(Centered(KernelGram(kernel(data, convention), expression(data).X)), n_components)
