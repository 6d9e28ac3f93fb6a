"""What only a CUDA device can show. Run with `pytest -m gpu` on a machine that has one."""

from typing import Any

import numpy as np
import pytest
import torch

from dkpca import DKPCA, subspace_error
from dkpca.errors import DKPCAError, InputError
from dkpca.kernels import RBF
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.linalg import hadamard_on_gpu
from dkpca.linalg.gram import Centered, Gram
from dkpca.linalg.leading import leading

pytestmark = pytest.mark.gpu


SHAPES = [  # samples, ranks, columns of the block; each takes seconds to compile
    (5, (2, 3), 1),
    (64, (16, 16), 16),
    (1000, (40, 3, 17, 1), 7),
    (1000, (40, 3, 17, 1), 33),
    (2111, (5, 48), 21),
    (300, (100, 20), 64),
]


def factors(n, ranks, dtype=torch.float64):
    generator = torch.Generator("cuda").manual_seed(1)
    made = [torch.randn(n, d, dtype=dtype, device="cuda", generator=generator) / d**0.5 for d in ranks]
    return made, torch.randn(n, 7, dtype=dtype, device="cuda", generator=generator)


@pytest.mark.parametrize(("n", "ranks", "width"), SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-5)])
def test_the_kernel_is_the_plain_product(n, ranks, width, dtype, tolerance):
    A, _ = factors(n, ranks, dtype)
    B = torch.randn(n, width, dtype=dtype, device="cuda")
    gram = FusedGram(RBF(1.0).law, A)
    expected = Gram.__matmul__(gram, B)
    assert (
        float(torch.linalg.norm(hadamard_on_gpu.product(A, B) - expected) / torch.linalg.norm(expected)) < tolerance
    )


def in_numpy(A, B):
    """The Hadamard product times a block, in float64 on the host."""
    K = np.ones((len(B), len(B)))
    for a in A:
        K *= a.cpu().numpy().astype(float) @ a.cpu().numpy().astype(float).T
    return K @ B.cpu().numpy().astype(float)


def roughly(A, B):
    """The same in few digits."""
    multiply = hadamard_on_gpu.rough(A, B.shape[1])
    assert multiply is not None
    return multiply(B).cpu().numpy()


@pytest.mark.parametrize(
    ("n", "ranks", "width"), [*SHAPES, (1, (3,), 5), (129, (40,), 31), (700, (20,) * 8, 7), (300, (300, 7), 31)]
)
def test_a_rough_product_is_right_in_its_first_digits(n, ranks, width):
    A, _ = factors(n, ranks)
    B = torch.randn(n, width, dtype=torch.float64, device="cuda")
    expected = in_numpy(A, B)
    found = roughly(A, B.float())
    assert found.dtype == np.float32
    assert np.linalg.norm(found - expected) < 2e-3 * np.linalg.norm(expected)


@pytest.mark.parametrize("size", [1e-20, 1e6, 1e12])
def test_a_rough_product_takes_numbers_that_float16_does_not_hold(size):
    A, B = factors(1000, (40, 17, 3))
    A = [A[0] * size, A[1] / size, A[2]]
    found, expected = roughly(A, B), in_numpy(A, B)
    assert np.linalg.norm(found - expected) < 2e-3 * np.linalg.norm(expected)


def test_a_rough_product_takes_rows_of_very_different_size_and_rows_of_zeros():
    A, B = factors(1000, (40, 17, 3))
    rows = torch.logspace(-9, 3, 1000, dtype=torch.float64, device="cuda")[:, None]
    A = [A[0] * rows, A[1] * rows.flip(0) ** 0.5, A[2]]
    A[2][:50] = 0.0
    B = B / rows
    B[:, 3] = 0.0
    found, expected = roughly(A, B), in_numpy(A, B)
    assert np.isfinite(found).all()
    assert not found[:50].any()
    assert not found[:, 3].any()
    assert np.linalg.norm(found - expected) < 2e-3 * np.linalg.norm(expected)


def test_where_a_rough_product_does_not_fit_the_device_there_is_none():
    A, B = factors(300, (16,) * 60)
    assert hadamard_on_gpu.rough(A, 7) is None
    assert hadamard_on_gpu.rough(A[:2], 65) is None
    assert hadamard_on_gpu.rough([a.cpu() for a in A[:2]], 7) is None
    assert FusedGram(RBF(1.0).law, [a.float() for a in A[:2]]).rough(7) is None
    expected = in_numpy(A, B)
    assert np.linalg.norm(hadamard_on_gpu.product(A, B).cpu().numpy() - expected) < 1e-12 * np.linalg.norm(expected)


def test_a_look_in_few_digits_changes_nothing_but_the_time(monkeypatch):
    """So many samples that the search for missed pairs is in few digits too."""
    A, _ = factors(90_000, (12, 12, 12))
    A = [a * torch.exp(-0.3 * torch.arange(12, device="cuda"))[None, :] for a in A]
    gram = Centered(FusedGram(RBF(1.0).law, A))
    found = leading(gram, 5, solver="streamed")
    monkeypatch.setattr(FusedGram, "rough", lambda self, width: None)
    slowly = leading(Centered(FusedGram(RBF(1.0).law, A)), 5, solver="streamed")
    assert subspace_error(found.vectors, slowly.vectors) < 1e-10
    assert float(torch.max(torch.abs(found.values / slowly.values - 1))) < 1e-10
    assert found.next_value == pytest.approx(slowly.next_value, rel=1e-2)


def test_an_exact_answer_that_began_in_few_digits_has_them_all():
    A, _ = factors(4000, (20, 20))
    A = [a * torch.exp(-0.3 * torch.arange(20, device="cuda"))[None, :] for a in A]
    gram = Centered(FusedGram(RBF(1.0).law, A))
    found, true = (leading(gram, 5, solver=solver) for solver in ("streamed", "dense"))
    assert subspace_error(found.vectors, true.vectors) < 1e-10
    assert float(torch.max(torch.abs(found.values / true.values - 1))) < 1e-10


def test_wide_blocks_take_the_plain_path():
    A, _ = factors(300, (4, 5))
    assert hadamard_on_gpu.product(A, torch.zeros(300, 65, device="cuda", dtype=torch.float64)) is None
    assert hadamard_on_gpu.product([a.cpu() for a in A], torch.zeros(300, 5, dtype=torch.float64)) is None


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
    expected = DKPCA(3, gamma="scale", parties=3, rank=30).fit(X)
    model = DKPCA(3, gamma="scale", parties=3, rank=30).fit(torch.asarray(X, dtype=dtype, device="cuda"))
    assert model.eigenvectors_.is_cuda
    assert model.eigenvectors_.dtype == dtype
    assert subspace_error(expected.eigenvectors_, model.eigenvectors_.double().cpu().numpy()) < error
    assert model.transform(torch.asarray(X[:9], dtype=dtype, device="cuda")).is_cuda


@pytest.mark.parametrize("solver", ["dense", "streamed", "landmark"])
@pytest.mark.parametrize(("law", "dtype", "error"), [
    ("product", torch.float64, 1e-6), ("sum", torch.float64, 1e-6), ("product", torch.float32, 1e-3),
])  # fmt: skip
def test_covariates_are_taken_out_on_the_device(law, dtype, error, solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 4)) @ rng.standard_normal((4, 12))
    batch, age = rng.choice(["a", "b", "c"], 640), rng.normal(50, 10, 640)
    C, new_C = ({"batch": batch[rows], "age": age[rows]} for rows in (slice(0, 600), slice(600, 640)))
    new = rng.standard_normal((40, 12))
    asked: dict[str, Any] = {"gamma": 0.02, "parties": 3, "rank": 30, "law": law, "solver": solver}
    asked["n_landmarks"] = 600
    expected = DKPCA(3, **asked).fit(X, covariates=C)
    model = DKPCA(3, **asked).fit(torch.asarray(X, dtype=dtype, device="cuda"), covariates=C)
    assert model.eigenvectors_.is_cuda
    V = model.eigenvectors_.double().cpu().numpy()
    assert subspace_error(expected.eigenvectors_, V) < error
    design = np.column_stack([*(batch[:600] == value for value in "abc"), age[:600]]).astype(float)
    shown = np.abs((design / np.linalg.norm(design, axis=0)).T @ V).max()
    assert shown < (1e-10 if dtype == torch.float64 else 1e-5)
    placed = model.transform(torch.asarray(new, dtype=dtype, device="cuda"), covariates=new_C)
    assert placed.is_cuda
    np.testing.assert_allclose(
        np.abs(placed.double().cpu().numpy()), np.abs(expected.transform(new, covariates=new_C)), atol=20 * error
    )


def test_covariates_with_landmarks_streamed_to_the_device():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 4)) * [4.0, 3.0, 2.0, 0.3] @ rng.standard_normal((4, 8))
    batch = np.array(["a", "b", "c"])[np.arange(3000) % 3]
    asked: dict[str, Any] = {"gamma": 0.002, "parties": 2, "rank": 40, "solver": "landmark", "n_landmarks": 300}
    here = DKPCA(3, **asked).fit(X, covariates={"batch": batch})
    there = DKPCA(3, device="cuda", **asked).fit(X, covariates={"batch": batch})
    assert subspace_error(here.eigenvectors_, np.asarray(there.eigenvectors_)) < 1e-3
    for value in "abc":
        assert np.abs(np.asarray(there.eigenvectors_)[batch == value].sum(axis=0)).max() < 1e-9


@pytest.mark.parametrize("mode", ["mean", "complete"])
@pytest.mark.parametrize(("law", "solver"), [("product", "dense"), ("product", "streamed"), ("sum", "landmark")])
def test_samples_that_a_party_lacks_are_completed_on_the_device(law, solver, mode):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((600, 3))
    whole = {name: Z @ rng.standard_normal((3, 5)) + 0.3 * rng.standard_normal((600, 5)) for name in "abc"}
    has = {name: np.flatnonzero(rng.random(600) >= 0.2) for name in whole}
    ids = {name: [str(row) for row in rows] for name, rows in has.items()}
    asked: dict[str, Any] = {"gamma": 0.05, "rank": 30, "law": law, "solver": solver, "n_landmarks": 600}
    here = DKPCA(3, lacking=mode, **asked).fit({n: X[has[n]] for n, X in whole.items()}, sample_ids=ids)
    there = DKPCA(3, lacking=mode, **asked).fit(
        {n: torch.asarray(X[has[n]], device="cuda") for n, X in whole.items()}, sample_ids=ids
    )
    assert there.eigenvectors_.is_cuda
    error = 1e-4 if solver == "landmark" else 1e-9  # a party's landmarks differ by rounding
    assert subspace_error(here.eigenvectors_, there.eigenvectors_.cpu().numpy()) < error


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


@pytest.mark.parametrize("n", [300, 26_000])
@pytest.mark.parametrize("law", ["product", "sum"])
def test_every_method_of_a_fit_on_the_device_says_what_it_says_on_the_host(law, n, tmp_path):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, 4))
    tables = {f"p{j}": Z @ rng.standard_normal((4, 5)) + 0.3 * rng.standard_normal((n, 5)) for j in range(3)}
    there = {name: torch.asarray(X, device="cuda") for name, X in tables.items()}
    settings: dict[str, Any] = {"law": law, "rank": 6 if n > 300 else 20, "precision": "float64", "audit": 20}
    settings["solver"] = "landmark" if n > 300 else "auto"  # which differs between CPU and GPU
    host, device = (DKPCA(3, **settings).fit(own) for own in (tables, there))
    new, new_there = ({name: X[:50] for name, X in own.items()} for own in (tables, there))
    for one, other in (
        (host.transform(new), device.transform(new_there)),
        (host.score(new), device.score(new_there)),
        (host.agreement_, device.agreement_),
        (host.party_shares_, device.party_shares_),
        (host.certificate_.subspace_error_estimate, device.certificate_.subspace_error_estimate),
        (host.certificate_.optimality_at_least, device.certificate_.optimality_at_least),
        *((own, device.column_association()[name]) for name, own in host.column_association().items()),
        *((own, device.column_importance()[name]) for name, own in host.column_importance().items() if n == 300),
    ):
        other = other.cpu() if isinstance(other, torch.Tensor) else other
        assert np.allclose(np.asarray(one), np.asarray(other), rtol=1e-4, atol=1e-8)
    assert host.agreement_test(19) == device.agreement_test(19)
    audits = [each.run_audit(30).certificate_.subspace_error_estimate for each in (host, device)]
    assert max(audits) < 2 * min(audits)  # rounding decides which rows are drawn
    device.save(tmp_path / "model")
    assert np.allclose(DKPCA.load(tmp_path / "model").transform(new), host.transform(new), atol=1e-6)
