"""The estimator on torch tensors."""

import importlib

import numpy as np
import pytest
from sklearn.datasets import load_digits

import dkpca
from dkpca import DKPCA, subspace_error
from dkpca.errors import InputError

pytestmark = pytest.mark.torch
DIGITS = load_digits().data / 16


@pytest.fixture(scope="module")
def torch():
    """Imported by whoever runs these tests, not by whoever collects them."""
    return importlib.import_module("torch")


def test_torch_in_torch_out(torch):
    X = DIGITS[:80]
    expected = DKPCA(3, parties=3).fit(X)
    model = DKPCA(3, parties=3).fit(torch.asarray(X))
    scores = model.transform(torch.asarray(X[:5]))
    assert isinstance(scores, torch.Tensor)
    np.testing.assert_allclose(scores.numpy(), expected.transform(X[:5]), atol=1e-9)
    single = DKPCA(3, parties=3).fit(torch.asarray(X, dtype=torch.float32))
    assert single.eigenvectors_.dtype == torch.float32
    assert subspace_error(expected.eigenvectors_, single.eigenvectors_.double().numpy()) < 1e-6


def test_a_few_components_of_long_factors_are_found(torch):
    X = DIGITS[:120]
    expected, model = (
        DKPCA(1, kernel="linear", law="sum", rank=30, parties=2).fit(each) for each in (X, torch.asarray(X))
    )
    assert subspace_error(expected.eigenvectors_, model.eigenvectors_.numpy()) < 1e-12


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (lambda torch: torch.full((30, 2), torch.nan), "party 'bank': NaN in columns 0, 1;"),
        (lambda torch: torch.zeros(30), "party 'bank': expected a 2-D array"),
        (lambda torch: torch.zeros(30, 2, dtype=torch.int64), "party 'bank': expected real floating point numbers"),
    ],
    ids=["nan", "1-D", "integers"],
)
def test_a_bad_tensor_is_refused(torch, table, words):
    with pytest.raises(InputError, match=words):
        DKPCA(2).fit({"airline": DIGITS[:30], "bank": table(torch)})


def test_mixed_array_libraries_are_refused(torch):
    with pytest.raises(InputError, match="parties mix array libraries, precisions or devices"):
        DKPCA(2).fit({"airline": DIGITS[:30], "bank": torch.asarray(DIGITS[:30])})


def test_new_samples_in_another_array_library_or_precision_are_refused(torch):
    model = DKPCA(2, parties=2).fit(torch.asarray(DIGITS[:30]))
    with pytest.raises(InputError, match="party 'party0': the fit had .* torch float64 on cpu, .* numpy float64"):
        model.transform(DIGITS[:3])
    with pytest.raises(InputError, match="these samples have .* of torch float32"):
        model.transform(torch.asarray(DIGITS[:3], dtype=torch.float32))


def test_what_is_saved_comes_back_as_numpy(torch, tmp_path):
    X = DIGITS[:30]
    model = DKPCA(2, parties=2).fit(torch.asarray(X))
    model.save(tmp_path / "model")
    np.testing.assert_allclose(
        DKPCA.load(tmp_path / "model").transform(X), model.transform(torch.asarray(X)), atol=1e-9
    )
    _, state = dkpca.summarize(torch.asarray(X), party="left", kernel=dkpca.kernels.RBF(1e-3), rank=3)
    dkpca.save(tmp_path / "state", state)
    back = dkpca.load(tmp_path / "state", dkpca.PartyState)
    rows = dkpca.extend(state, torch.asarray(X[:2])).factor.data
    np.testing.assert_allclose(dkpca.extend(back, X[:2]).factor.data, rows.numpy(), atol=1e-6)
    with pytest.raises(InputError, match="the fit had .* numpy float64 on cpu, and these samples have .* torch"):
        dkpca.extend(back, torch.asarray(X[:2]))
