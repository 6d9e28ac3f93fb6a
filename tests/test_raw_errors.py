"""What ended in an error of a library ends in one sentence, or in an answer."""

from typing import Any

import numpy as np
import pytest

from dkpca import DKPCA
from dkpca.errors import InputError
from dkpca.kernels import Polynomial


@pytest.mark.parametrize("kernel", ["linear", "cosine"])
@pytest.mark.parametrize("power", [-60, 30, 70])
def test_an_audit_does_not_depend_on_the_unit_of_the_columns(rng, kernel, power):
    X = rng.standard_normal((40, 6))
    settings: dict[str, Any] = {"kernel": kernel, "audit": 10, "parties": 2, "rank": 2, "precision": "float64"}
    plain, scaled = (DKPCA(2, **settings).fit(X * size).certificate_.audit for size in (1.0, 10.0**power))
    unit = 10.0 ** (2 * power) if kernel == "linear" else 1.0
    np.testing.assert_allclose(scaled.kernel_error_at_most / unit, plain.kernel_error_at_most, rtol=0.01)
    assert (
        0.3 < scaled.subspace_error_estimate / plain.subspace_error_estimate < 3
    )  # directions of no eigenvalue vary


@pytest.mark.parametrize("power", [-70, -40, 40, 70])
def test_the_estimate_does_not_depend_on_the_unit_of_the_columns(rng, power):
    X = rng.standard_normal((40, 6))
    settings: dict[str, Any] = {"kernel": "linear", "parties": 2, "rank": 2, "precision": "float64"}
    plain, scaled = (DKPCA(2, **settings).fit(X * size).certificate_ for size in (1.0, 10.0**power))
    np.testing.assert_allclose(scaled.subspace_error_estimate, plain.subspace_error_estimate, rtol=1e-6)
    np.testing.assert_allclose(scaled.optimality_estimate, plain.optimality_estimate, rtol=1e-6)


@pytest.mark.parametrize("power", [-120, 80, 150])
def test_columns_of_which_the_squares_leave_the_range_are_refused_in_a_sentence(rng, power):
    X = rng.standard_normal((40, 6)) * 10.0**power
    with pytest.raises(InputError, match="which float64 cannot compute with; scale the columns"):
        DKPCA(2, kernel="linear", parties=2).fit(X)


@pytest.mark.torch
def test_a_blind_fit_refuses_tensors_in_a_sentence(rng, torch):
    X = rng.standard_normal((30, 6))
    tables = {name: torch.tensor(block) for name, block in zip("abc", np.array_split(X, 3, axis=1), strict=True)}
    with pytest.raises(InputError, match="give a NumPy array"):
        DKPCA(2, kernel="linear", protect="blind").fit(tables)


@pytest.mark.filterwarnings("ignore::dkpca.errors.DataWarning")
@pytest.mark.torch
def test_new_samples_whose_kernel_values_overflow_are_refused(rng, torch):
    X = torch.tensor(rng.standard_normal((40, 6)), dtype=torch.float32)
    model = DKPCA(2, kernel=Polynomial(1.0, degree=3), rank=6).fit({"lab": X})
    assert bool(torch.isfinite(model.transform({"lab": X * 1e6})).all())
    with pytest.raises(InputError, match="beyond the range of float32"):
        model.transform({"lab": X * 1e14})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kernel": "cosine"}, "cosine kernel is not a function of a sum over parties"),
        ({"kernel": "cosine", "law": "product"}, "cosine kernel is not a function of a sum over parties"),
        ({"kernel": {"party0": "rbf", "party1": "linear"}, "law": "sum"}, "needs one kernel of the joined table"),
        ({"gamma": {"party0": 0.1, "party1": 0.2}}, "needs one kernel of the joined table"),
    ],
)
def test_an_exact_projection_that_cannot_be_is_refused_at_fit(settings, words, rng):
    with pytest.raises(InputError, match=f"{words}.*use projection='extend'"):
        DKPCA(2, projection="exact", parties=2, **settings).fit(rng.standard_normal((30, 4)))


def test_weights_and_the_exact_projection_are_refused_at_fit(rng):
    with pytest.raises(InputError, match="projection='exact'"):
        DKPCA(2, projection="exact", weights="balanced", parties=2).fit(rng.standard_normal((30, 4)))


def rbf_matrix(rng, n):
    X = rng.standard_normal((n, 2))
    return np.exp(-0.5 * np.sum((X[:, None, :] - X[None, :, :]) ** 2, axis=2))


def test_a_kernel_matrix_rounded_to_float32_is_accepted_and_bounded(rng):
    K = rbf_matrix(rng, 300)
    rough = K.astype(np.float32).astype(float)
    assert np.linalg.eigvalsh(rough)[0] < -1e-8
    settings: dict[str, Any] = {"kernel": "precomputed", "law": "sum", "rank": 40, "precision": "float64"}
    model = DKPCA(3, **settings).fit({"lab": rough})
    centered = rough - rough.mean(0) - rough.mean(0)[:, None] + rough.mean()
    values = np.linalg.eigvalsh(centered)[::-1]
    proof = model.certificate_
    assert all(low <= v <= high for low, v, high in zip(
        proof.eigenvalues_at_least, values, proof.eigenvalues_at_most, strict=False))  # fmt: skip
    assert proof.total_variance_at_most >= np.trace(centered)
    assert proof.subspace_error_at_most < 1e-6


def test_a_kernel_matrix_that_is_none_is_refused_with_its_eigenvalue_and_the_tolerance(rng):
    K = rbf_matrix(rng, 50)
    K[0, 1] = K[1, 0] = 3.0
    with pytest.raises(InputError, match=r"has an eigenvalue of -\d.*add \d.* to the diagonal"):
        DKPCA(2, kernel="precomputed", law="sum").fit({"lab": K})
