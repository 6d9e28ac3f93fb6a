"""Text for a kernel of categories, names of columns and labels of kernel matrices, in the library."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dkpca
from dkpca import DKPCA
from dkpca.errors import InputError
from dkpca.kernels import RBF, Overlap, Precomputed
from dkpca.tables.inputs import NOTHING, coded
from dkpca.tables.preparation import prepare
from dkpca.tables.reading import Reading, read

N = 60
KERNELS = {"bank": "rbf", "clinic": "overlap"}


@pytest.fixture
def numbers(rng):
    return rng.standard_normal((N, 4))


@pytest.fixture
def answers(rng):
    return pd.DataFrame({"color": rng.choice(["red", "green", "blue"], N), "size": rng.choice(["S", "M", "L"], N)})


def positions(answers):
    return np.column_stack([np.unique(answers[name], return_inverse=True)[1] for name in answers]).astype(float)


FORMS = {
    "pandas": lambda frame: frame,
    "pandas categories": lambda frame: frame.astype("category"),
    "polars": lambda frame: pl.DataFrame({name: frame[name].tolist() for name in frame}),
    "objects": lambda frame: frame.to_numpy(dtype=object),
    "strings": lambda frame: np.array(frame.to_numpy().tolist()),
}


@pytest.mark.parametrize("form", FORMS)
def test_text_is_categories_in_every_form(form, numbers, answers):
    tables = {"bank": numbers, "clinic": FORMS[form](answers)}
    model = DKPCA(3, kernel=KERNELS, law="sum").fit(tables)
    by_hand = DKPCA(3, kernel=KERNELS, law="sum").fit({"bank": numbers, "clinic": positions(answers)})
    np.testing.assert_allclose(model.eigenvalues_, by_hand.eigenvalues_, rtol=1e-12)
    np.testing.assert_allclose(model.transform(tables), by_hand.model_.scores, atol=1e-5)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_one_table_may_have_both(make, numbers, answers):
    columns = {f"x{j}": numbers[:, j] for j in range(4)} | {name: answers[name].tolist() for name in answers}
    parties = {"bank": ["x0", "x1", "x2", "x3"], "clinic": ["color", "size"]}
    model = DKPCA(3, kernel=KERNELS, law="sum", parties=parties).fit(make(columns))
    apart = DKPCA(3, kernel=KERNELS, law="sum").fit({"bank": numbers, "clinic": positions(answers)})
    np.testing.assert_allclose(model.eigenvalues_, apart.eigenvalues_, rtol=1e-12)
    np.testing.assert_allclose(model.transform(make(columns)), apart.model_.scores, atol=1e-5)
    assert list(model.feature_names_in_) == list(columns)


def test_new_categories_differ_from_all_others_and_missing_ones_are_alike(answers):
    gaps = answers.astype(object)
    gaps.loc[:9, "color"] = None
    _, state = dkpca.summarize(gaps, party="clinic", kernel=Overlap(0.5), rank=40, precision="float64")
    new = pd.DataFrame({"color": ["violet", np.nan], "size": [gaps["size"][0]] * 2})
    K = state.kernel(coded(new), state.anchors)
    same_size = (gaps["size"] == gaps["size"][0]).to_numpy()
    np.testing.assert_allclose(K[0], np.exp(-0.5 * (1 + ~same_size)))
    np.testing.assert_allclose(K[1, :10], np.exp(-0.5 * (~same_size[:10])))
    assert dkpca.extend(state, new).factor.shape[0] == 2


def test_equal_categories_have_equal_codes_however_they_are_written():
    column = np.array([[1], [1.0], ["1"], ["1.0"], [np.int64(1)], [True]], dtype=object)
    assert set(coded(column)[:, 0]) == {1.0}
    others = np.array([["01"], ["1 "], ["nan"], ["inf"], ["1e3"], [str(2**52)], ["<NA>"], [None], [2]], dtype=object)
    codes = coded(others)[:, 0]
    assert len(set(codes)) == len(codes)
    assert np.isfinite(codes).all()
    assert set(coded(np.array([[None], [np.nan], [pd.NA], [pd.NaT]], dtype=object))[:, 0]) == {NOTHING}


def test_text_elsewhere_is_refused_with_the_remedy(numbers, answers):
    with pytest.raises(InputError, match="'clinic': 2 columns of text or categories: 'color', 'size'; .*'overlap'"):
        DKPCA(2).fit({"bank": numbers, "clinic": answers})


@pytest.mark.parametrize("form", ["pandas", "pandas categories", "polars", "objects", "strings"])
def test_codes_that_read_as_numbers_are_no_quantities(form, numbers, rng):
    codes = pd.DataFrame({"postal": [f"0{code}" for code in rng.integers(1000, 9999, N)]})
    with pytest.raises(InputError, match="1 column of text or categories: .*make numbers"):
        DKPCA(2).fit({"bank": numbers, "clinic": FORMS[form](codes)})
    whole = pd.DataFrame({"site": pd.Categorical(rng.integers(0, 5, N))})
    with pytest.raises(InputError, match="1 column of text or categories: 'site'"):
        DKPCA(2).fit({"bank": numbers, "clinic": whole})
    assert DKPCA(2).fit({"bank": numbers, "clinic": whole.astype(int)}).n_features_in_ == 5


def test_columns_in_another_order_are_the_same_columns(numbers, answers):
    bank = pd.DataFrame(numbers, columns=list("pqrs"))
    model = DKPCA(3, kernel=KERNELS, law="sum").fit({"bank": bank, "clinic": answers})
    tables = {"bank": bank[list("rpsq")], "clinic": answers[["size", "color"]]}
    np.testing.assert_allclose(model.transform(tables), model.model_.scores, atol=1e-5)
    with pytest.raises(
        InputError, match=r"party 'bank': its columns differ from those of the fit, in 's', 'z'; name"
    ):
        model.transform({"bank": bank.rename(columns={"s": "z"}), "clinic": answers})
    with pytest.raises(InputError, match="those of the fit, in 'z'; name them as in the fit"):
        model.transform({"bank": bank.assign(z=1.0), "clinic": answers})
    with pytest.raises(InputError, match="those of the fit, in 's'; name"):
        model.transform({"bank": bank.set_axis(list("pqrp"), axis=1), "clinic": answers})
    again = model.transform({"bank": bank.to_numpy(), "clinic": answers.to_numpy()})
    np.testing.assert_array_equal(again, model.transform({"bank": bank, "clinic": answers}))


def test_names_of_columns_are_kept_in_a_file(numbers, tmp_path):
    bank = pl.DataFrame({name: numbers[:, j] for j, name in enumerate("pqrs")})
    model = DKPCA(2, kernel="linear").fit({"bank": bank})
    model.save(tmp_path / "model")
    again = DKPCA.load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform({"bank": bank[list("srqp")]}), model.transform({"bank": bank}))
    _, state = dkpca.summarize(bank, party="bank", kernel=RBF(0.1), rank=5)
    dkpca.save(tmp_path / "state", state)
    rows = dkpca.extend(dkpca.load(tmp_path / "state", dkpca.PartyState), bank[list("srqp")])
    np.testing.assert_array_equal(rows.factor.decode(), dkpca.extend(state, bank).factor.decode())


def test_a_labeled_kernel_matrix_moves_with_its_samples(numbers, rng):
    ids = [f"s{i}" for i in range(N)]
    F = rng.standard_normal((N, 5))
    K = pd.DataFrame(F @ F.T, index=ids, columns=ids)
    bank = pd.DataFrame(numbers, index=ids)
    kernels = {"bank": "rbf", "lab": "precomputed"}
    model = DKPCA(3, kernel=kernels, law="sum").fit({"bank": bank, "lab": K})
    rows, columns = rng.permutation(N), rng.permutation(N)
    with pytest.warns(UserWarning, match="party 'lab': its rows were put into the order of party 'bank'"):
        moved = DKPCA(3, kernel=kernels, law="sum").fit({"bank": bank, "lab": K.iloc[rows, columns]})
    np.testing.assert_allclose(moved.eigenvalues_, model.eigenvalues_, rtol=1e-12)
    new = {"bank": bank[:4], "lab": K.iloc[:4]}
    shuffled = {"bank": bank[:4], "lab": K.iloc[:4, columns]}
    np.testing.assert_allclose(moved.transform(shuffled), model.transform(new), atol=1e-6)
    other = K.set_axis([f"t{i}" for i in range(N)], axis=1)
    with pytest.raises(
        InputError, match="party 'lab': the columns and rows of its kernel matrix have different labels"
    ):
        DKPCA(3, kernel=kernels, law="sum").fit({"bank": bank, "lab": other})
    with pytest.raises(
        InputError, match="party 'lab': the columns and rows of its kernel matrix have different labels"
    ):
        dkpca.summarize(other, party="lab", kernel=Precomputed(), rank=3)


def test_ids_beside_a_kernel_matrix_move_both_ways(numbers, rng):
    F = rng.standard_normal((N, 5))
    order = rng.permutation(N)
    kernels = {"bank": "rbf", "lab": "precomputed"}
    model = DKPCA(3, kernel=kernels, law="sum").fit({"bank": numbers, "lab": F @ F.T})
    ids = {"bank": np.arange(N), "lab": order}
    with pytest.warns(UserWarning, match="party 'lab': its rows were put"):
        moved = DKPCA(3, kernel=kernels, law="sum").fit(
            {"bank": numbers, "lab": (F @ F.T)[order][:, order]}, sample_ids=ids
        )
    np.testing.assert_allclose(moved.eigenvalues_, model.eigenvalues_, rtol=1e-12)


@pytest.mark.parametrize("missing", [{}, {"bank": 5}])
def test_warnings_are_of_the_line_that_called(missing, numbers, answers):
    model = DKPCA(2, kernel=KERNELS, law="sum").fit({"bank": numbers, "clinic": answers})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if missing:
            DKPCA(2, gamma=1e-12).fit_transform({"bank": numbers})
        else:
            model.transform({"clinic": answers})
    assert [said.filename for said in caught] == [__file__]


@pytest.mark.parametrize("kind", [np.float32, np.int64, int])
def test_weights_are_numbers_of_any_kind(kind, numbers, answers):
    tables = {"bank": numbers, "clinic": answers}
    weights = {"bank": kind(1), "clinic": kind(2)}
    given, plain = (
        DKPCA(2, kernel=KERNELS, law="sum", weights=each).fit(tables)
        for each in (weights, {"bank": 1.0, "clinic": 2.0})
    )
    np.testing.assert_array_equal(given.eigenvalues_, plain.eigenvalues_)


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, lambda X: X.astype(object), lambda X: X.astype(str)])
def test_codes_beyond_two_to_the_53_stay_apart(rng, form):
    codes = rng.integers(0, 12, (N, 3))
    settings: dict[str, Any] = {"kernel": "overlap", "gamma": 1.0, "rank": N, "precision": "float64"}
    large = DKPCA(3, **settings).fit({"shop": form(codes + 2**53)})
    np.testing.assert_allclose(large.eigenvalues_, DKPCA(3, **settings).fit({"shop": codes}).eigenvalues_)


def test_a_large_code_is_the_same_in_a_column_of_numbers_and_in_text():
    numbers = coded(np.array([[2**53], [2**53 + 2], [5]]))
    np.testing.assert_array_equal(numbers, coded(np.array([[str(2**53)], [str(2**53 + 2)], ["5"]])))
    np.testing.assert_array_equal(numbers, coded(np.array([[2.0**53], [2.0**53 + 2], [5.0]])))
    assert numbers[0, 0] != NOTHING


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, pl.DataFrame, lambda X: X.astype(object)])
@pytest.mark.parametrize("wrapped", [lambda table: table, lambda table: {"shop": table}])
def test_quantities_beyond_two_to_the_53_are_refused(rng, form, wrapped):
    nanoseconds = 1_700_000_000_000_000_000 + rng.integers(0, 50, (N, 2))
    with pytest.raises(InputError, match="whole numbers beyond 2\\^53.*subtract a whole number"):
        DKPCA(2, gamma=0.01).fit(wrapped(form(nanoseconds)))


def test_large_numbers_of_a_file_are_refused_too(rng, tmp_path):
    nanoseconds = pl.DataFrame(1_700_000_000_000_000_000 + rng.integers(0, 50, (N, 2)), schema=["start", "stop"])
    nanoseconds.write_parquet(tmp_path / "shop.parquet")
    with pytest.raises(InputError, match="'start' has whole numbers beyond 2\\^53"):
        prepare(read(tmp_path / "shop.parquet", Reading()), Reading())
