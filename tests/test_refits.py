"""Fits after fits, tables given once more, and settings that meet: nothing of one spoils the other."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dkpca
from dkpca import DKPCA, wire
from dkpca.errors import InputError, NotFittedError, StorageError
from dkpca.store import runs, storage
from dkpca.store.files import Received, encode_state

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 8))
HALVES = {"a": X[:, :4], "b": X[:, 4:]}


def test_a_first_fit_that_fails_leaves_an_estimator_that_is_not_fitted():
    model = DKPCA(100, parties=2)
    with pytest.raises(InputError, match="n_components is 100"):
        model.fit(X)
    with pytest.raises(NotFittedError):
        model.transform(X)


def test_a_fit_that_fails_leaves_none():
    model = DKPCA(2, parties=2).fit(X)
    with pytest.raises(InputError):
        model.set_params(n_components=100).fit(X[:, :6])
    with pytest.raises(dkpca.errors.NotFittedError):
        model.transform(X)


def test_a_kernel_matrix_given_once_more_has_its_columns_in_the_order_of_the_fit_too():
    order = RNG.permutation(40)
    ids = [f"s{row}" for row in range(40)]
    K = {name: np.exp(-0.1 * ((x[:, None] - x[None]) ** 2).sum(-1)) for name, x in HALVES.items()}
    tables = {"a": K["a"], "b": K["b"][order][:, order]}
    named = {"a": ids, "b": [ids[row] for row in order]}
    with pytest.warns(dkpca.errors.DataWarning, match="put into the order"):
        model = DKPCA(2, kernel="precomputed", law="sum").fit(tables, sample_ids=named)
    known = model.column_association()
    with pytest.warns(dkpca.errors.DataWarning, match="put into the order"):
        again = model.column_association(tables, sample_ids=named)
    np.testing.assert_allclose(again["b"], known["b"], atol=1e-12)
    with pytest.warns(dkpca.errors.DataWarning, match="put into the order"):
        assert model.run_audit(5, tables, sample_ids=named).certificate_.audit.n_rows == 5
    frames = {n: pd.DataFrame(K[n], index=ids, columns=ids) for n in K}
    some = {"a": frames["a"].iloc[:35, :35], "b": frames["b"].iloc[5:, 5:]}
    dropped = DKPCA(2, kernel="precomputed", law="sum", lacking="drop")
    with pytest.warns(dkpca.errors.DataWarning, match="using the 30 samples"):
        dropped.fit(some)
    with pytest.warns(dkpca.errors.DataWarning, match="using the 30 samples"):
        assert dropped.run_audit(5, some).certificate_.audit.n_rows == 5


def test_tables_of_the_fit_without_one_of_a_party_are_refused_by_name():
    model = DKPCA(2).fit(HALVES)
    with pytest.raises(InputError, match=r"those of \['b'\] are missing"):
        model.run_audit(5, {"a": HALVES["a"]})


@pytest.mark.parametrize("weights", ["balanced", "statis", {"a": 1.0, "b": 2.0}])
def test_weights_need_no_law_in_a_blind_fit_of_a_kernel_that_adds_up(weights):
    blind = DKPCA(2, kernel="linear", protect="blind", weights=weights).fit(HALVES)
    as_said = DKPCA(2, kernel="linear", law="sum", weights=weights).fit(HALVES)
    np.testing.assert_allclose(blind.eigenvalues_, as_said.eigenvalues_, rtol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"gamma": None}, {"standardize": True}], ids=str)
def test_as_many_components_as_all_samples_allow_whatever_one_party_has(settings):
    ids = [f"s{row}" for row in range(40)]
    model = DKPCA(20, lacking="mean", **settings)
    model.fit({"a": X[:15, :4], "b": X[:, 4:]}, sample_ids={"a": ids[:15], "b": ids})
    assert model.eigenvalues_.shape == (20,)


@pytest.mark.parametrize(
    ("covariates", "said"),
    [
        ({"age": 3}, "columns of one length"),
        ({"age": np.arange(40.0), "batch": list("ab") * 15}, "columns of one length"),
        ({"day": pd.Series([pd.NaT, *pd.date_range("2020-01-01", periods=39)])}, "'day' holds dates"),
    ],
    ids=["a number", "two lengths", "dates"],
)
def test_covariates_that_are_no_columns_of_numbers_are_one_sentence(covariates, said):
    with pytest.raises(InputError, match=said):
        DKPCA(2).fit(X, covariates=covariates)


def test_an_outcome_of_another_length_is_refused_beside_covariates():
    with pytest.raises(InputError, match="y has 30 values, and the covariates are of 40 samples"):
        DKPCA(2).fit(X, np.arange(30.0), covariates=np.arange(40.0))


def test_a_seed_below_zero_is_refused():
    with pytest.raises(InputError, match="random_state is -1"):
        DKPCA(2).fit(HALVES).agreement_test(9, random_state=-1)


def test_a_run_whose_first_write_failed_can_be_repeated(tmp_path, monkeypatch):
    summary, state = dkpca.summarize(X, party="a", kernel=dkpca.kernels.Linear(), rank=2)
    given = [Received(tmp_path / "a.summary", wire.pieces(summary), summary)]
    settings: dict[str, Any] = {"model": dkpca.fuse([summary], n_components=1), "states": {"a": encode_state(state)}}

    def full(*_, **__):
        raise StorageError("the disk is full")

    with monkeypatch.context() as disk:
        disk.setattr(storage, "write", full)
        with pytest.raises(StorageError, match="full"):
            runs.fuse(tmp_path / "run", given, **settings)
    assert runs.fuse(tmp_path / "run", given, **settings).model.n_components == 1


def test_a_fit_that_is_refused_for_a_parameter_leaves_none_either():
    model = DKPCA(2).fit(HALVES)
    with pytest.raises(InputError):
        model.set_params(n_components=-1).fit(HALVES)
    with pytest.raises(dkpca.errors.NotFittedError):
        model.set_params(n_components=2).transform(HALVES)
