"""Rows of DataFrames are the samples that their indexes say, whatever their order."""

import numpy as np
import pandas as pd
import pytest

from dkpca import DKPCA, subspace_error
from dkpca.errors import DataWarning, InputError

IDS = [f"p{i:02d}" for i in range(40)]


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    causes = rng.normal(size=(40, 3))
    return {
        name: pd.DataFrame(
            causes @ rng.normal(size=(3, width)), index=IDS, columns=[f"{name}{j}" for j in range(width)]
        )
        for name, width in (("left", 4), ("right", 5))
    }


@pytest.fixture
def model():
    return DKPCA(3, gamma="scale", solver="dense")


def test_labels_in_another_order_are_aligned_and_said(tables, model):
    together = DKPCA(3, gamma="scale", solver="dense").fit(tables)
    shuffled = tables | {"right": tables["right"].sample(frac=1, random_state=1)}
    with pytest.warns(DataWarning, match="party 'right': its rows were put into the order of party 'left'"):
        model.fit(shuffled)
    assert subspace_error(together.eigenvectors_, model.eigenvectors_) < 1e-10
    with pytest.warns(DataWarning):
        scores = model.transform(shuffled)
    np.testing.assert_allclose(scores, together.transform(tables), atol=1e-8)


def test_numbers_in_an_index_are_labels_too(tables, model):
    plain = {name: table.reset_index(drop=True) for name, table in tables.items()}
    truth = DKPCA(3, gamma="scale", solver="dense").fit(plain)
    with pytest.warns(DataWarning):
        model.fit([plain["left"], plain["right"].iloc[::-1]])
    assert subspace_error(truth.eigenvectors_, model.eigenvectors_) < 1e-10


@pytest.mark.parametrize("verb", ["fit", "transform"])
def test_different_samples_are_refused_with_the_counts_and_the_way_out(tables, model, verb):
    model.fit(tables)
    apart = {"left": tables["left"].iloc[:30], "right": tables["right"].iloc[5:35]}
    with pytest.raises(
        InputError, match="'left' and 'right' have different samples: 30 and 30, 25 in common"
    ) as error:
        getattr(model, verb)(apart)
    assert "lacking='drop'" in str(error.value)


def test_labels_of_another_type_are_named(tables, model):
    numbered = tables["right"].set_axis(range(40))
    texts = tables["left"].set_axis([str(i) for i in range(40)])
    with pytest.raises(InputError, match="0 in common by their labels; use"):
        model.fit({"left": texts, "right": numbered})


def test_a_label_twice_is_refused_where_rows_would_have_to_move(tables, model):
    twice = tables["right"].set_axis([*IDS[:-1], IDS[0]])
    with pytest.raises(InputError, match="party 'right': label 'p00' occurs in several rows"):
        model.fit(tables | {"right": twice})
    same = {name: table.set_axis(["one"] * 40) for name, table in tables.items()}
    model.fit(same)


def test_arrays_get_labels_by_sample_ids(tables, model):
    truth = DKPCA(3, gamma="scale", solver="dense").fit(tables)
    arrays = {"left": tables["left"].to_numpy(), "right": tables["right"].to_numpy()[::-1]}
    ids = {"left": IDS, "right": np.array(IDS)[::-1]}
    with pytest.warns(DataWarning):
        scores = model.fit_transform(arrays, sample_ids=ids)
    np.testing.assert_allclose(scores, truth.model_.scores, atol=1e-8)
    with pytest.warns(DataWarning):
        model.transform(arrays, sample_ids=ids)
    with pytest.raises(InputError, match="party 'left': 39 sample ids for 40 rows"):
        model.fit(arrays, sample_ids=ids | {"left": IDS[1:]})
    with pytest.raises(InputError, match=r"sample_ids names \['middle'\]; the tables are of \['left', 'right'\]"):
        model.fit(arrays, sample_ids={"middle": IDS})


def test_an_array_beside_tables_in_two_orders_is_refused(tables, model):
    mixed = tables | {"right": tables["right"].iloc[::-1], "third": tables["left"].to_numpy()}
    with pytest.raises(InputError, match=r"\['third'\] have no labels to match by"):
        model.fit(mixed)
    model.fit(tables | {"third": tables["left"].to_numpy()})


def test_a_missing_label_is_refused(tables, model):
    with pytest.raises(InputError, match="party 'left': row 3 has no label"):
        model.fit(tables | {"left": tables["left"].set_axis([*IDS[:2], None, *IDS[3:]])})
