"""What only a CUDA device can show. Run with `pytest -m gpu` on a machine that has one."""

import numpy as np
import pytest
import torch

from dkpca import DKPCA, subspace_error
from dkpca.errors import DKPCAError, InputError
from dkpca.kernels import RBF
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.linalg import hadamard
from dkpca.linalg.gram import Centered, Gram
from dkpca.linalg.leading import leading

pytestmark = pytest.mark.gpu


def factors(n, ranks, dtype=torch.float64):
    generator = torch.Generator("cuda").manual_seed(1)
    made = [torch.randn(n, d, dtype=dtype, device="cuda", generator=generator) / d**0.5 for d in ranks]
    return made, torch.randn(n, 7, dtype=dtype, device="cuda", generator=generator)


@pytest.mark.parametrize("width", [1, 7, 16, 21, 33, 64])
@pytest.mark.parametrize(("n", "ranks"), [(5, (2, 3)), (64, (16, 16)), (1000, (40, 3, 17, 1)), (2111, (5, 48))])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-5)])
def test_the_kernel_is_the_plain_product(n, ranks, width, dtype, tolerance):
    A, _ = factors(n, ranks, dtype)
    B = torch.randn(n, width, dtype=dtype, device="cuda")
    gram = FusedGram(RBF(1.0).law, A)
    assert hadamard.supported(A, B)
    expected = Gram.product(gram, B)
    assert float(torch.linalg.norm(hadamard.product(A, B) - expected) / torch.linalg.norm(expected)) < tolerance


@pytest.mark.parametrize("width", [1, 21, 64])
@pytest.mark.parametrize(("n", "ranks"), [(5, (2, 3)), (1000, (40, 3, 17, 1))])
def test_a_rough_product_is_right_in_its_first_digits(n, ranks, width):
    A, _ = factors(n, ranks)
    B = torch.randn(n, width, dtype=torch.float64, device="cuda")
    gram = FusedGram(RBF(1.0).law, A)
    rough = gram.rough()
    assert rough is not None
    difference = float(torch.linalg.norm(rough.product(B.float()).double() - gram.product(B)))
    assert 0.0 < difference < 1e-2 * float(torch.linalg.norm(gram.product(B)))
    assert rough.rough() is None


def test_an_exact_answer_that_began_in_few_digits_has_them_all():
    A, _ = factors(4000, (20, 20))
    A = [a * torch.exp(-0.3 * torch.arange(20, device="cuda"))[None, :] for a in A]
    gram = Centered(FusedGram(RBF(1.0).law, A))
    found, true = (leading(gram, 5, solver=solver) for solver in ("streamed", "dense"))
    assert subspace_error(found.vectors, true.vectors) < 1e-10
    assert float(torch.max(torch.abs(found.values / true.values - 1))) < 1e-10


def test_wide_blocks_take_the_plain_path():
    A, _ = factors(300, (4, 5))
    assert not hadamard.supported(A, torch.zeros(300, 65, device="cuda", dtype=torch.float64))
    assert not hadamard.supported([a.cpu() for a in A], torch.zeros(300, 5, dtype=torch.float64))


@pytest.mark.parametrize("solver", ["dense", "streamed", "landmark"])
def test_the_gpu_agrees_with_the_cpu(solver):
    A, _ = factors(1500, (20, 20, 20))
    on_gpu, on_cpu = (Centered(FusedGram(RBF(1.0).law, f)) for f in (A, [a.cpu().numpy() for a in A]))
    ours = leading(on_gpu, 5, solver=solver, n_landmarks=1500)
    exact = leading(on_cpu, 5, solver="dense")
    assert ours.vectors.is_cuda
    assert subspace_error(exact.vectors, ours.vectors.cpu().numpy()) < 1e-6
    np.testing.assert_allclose(ours.values.cpu().numpy(), exact.values, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_the_estimator_stays_on_the_device(dtype, error):
    X = np.random.default_rng(0).standard_normal((800, 4)) @ np.random.default_rng(1).standard_normal((4, 12))
    expected = DKPCA(3, gamma="auto", parties=3, rank=30).fit(X)
    model = DKPCA(3, gamma="auto", parties=3, rank=30).fit(torch.asarray(X, dtype=dtype, device="cuda"))
    assert model.eigenvectors_.is_cuda
    assert model.eigenvectors_.dtype == dtype
    assert subspace_error(expected.eigenvectors_, model.eigenvectors_.double().cpu().numpy()) < error
    assert model.transform(torch.asarray(X[:9], dtype=dtype, device="cuda")).is_cuda


def test_a_wrong_device_mix_is_refused():
    X = torch.randn(50, 3, dtype=torch.float64)
    with pytest.raises(InputError, match="parties mix array libraries, precisions or devices"):
        DKPCA(2).fit({"a": X, "b": X.cuda()})


def test_out_of_memory_says_what_to_do():
    gram = KernelGram(RBF(1.0), torch.randn(400_000, 2, dtype=torch.float64, device="cuda"))
    with pytest.raises(DKPCAError, match="GPU memory ran out in solver 'dense' .* try solver='landmark'"):
        leading(gram, 3, solver="dense")


@pytest.mark.parametrize("solver", ["dense", "streamed", "landmark"])
def test_two_fits_on_the_gpu_differ_by_less_than_a_billionth(solver):
    """Sums over tiles are atomic there, so the last bits depend on timing."""
    X = torch.asarray(np.random.default_rng(0).standard_normal((3000, 8)), device="cuda")
    first, again = (DKPCA(4, parties=2, rank=30, solver=solver, random_state=7).fit(X) for _ in range(2))
    np.testing.assert_allclose(again.eigenvalues_.cpu().numpy(), first.eigenvalues_.cpu().numpy(), rtol=1e-9)
    assert subspace_error(first.eigenvectors_.cpu().numpy(), again.eigenvectors_.cpu().numpy()) < 1e-9


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_distances_keep_their_digits_on_the_gpu(dtype):
    X = np.r_[np.arange(40.0), 2.0**23 + np.arange(40.0)][:, None] / 8
    K = RBF(0.25)(torch.asarray(X, dtype=dtype, device="cuda"), torch.asarray(X, dtype=dtype, device="cuda"))
    np.testing.assert_allclose(K.cpu().numpy(), np.exp(-0.25 * (X - X.T) ** 2), atol=2e-7)
