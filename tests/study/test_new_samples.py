"""Batches of new samples: none smaller than the plan says, none with a sample that was answered before."""

import numpy as np
import pytest

from dkpca.errors import InputError
from dkpca.exchange.member import RefusedError
from testkit.studies import ANYTHING, Consortium
from tests.study.test_a_study import MODES, tables


@pytest.fixture(scope="module")
def fitted_once(tmp_path_factory):
    root = tmp_path_factory.mktemp("fitted")
    consortium = Consortium(root, tables(30), MODES["blind"], samples=10, batches=2, batch_samples=5)
    consortium.join(**ANYTHING).sign().finish()
    return consortium


@pytest.fixture
def fitted(fitted_once, tmp_path):
    return fitted_once.copy(tmp_path)


def put(consortium, tmp_path, batch, ids_by_party):
    """Write a batch of each party, of rows that are not in the fit."""
    new = tables(60)
    for name, ids in ids_by_party.items():
        head = (tmp_path / f"{name}.csv").read_text().splitlines()[0]
        rows = new[name][1][30 : 30 + len(ids)].tolist()
        lines = [f"{key},{','.join(map(repr, row))}" for key, row in zip(ids, rows, strict=True)]
        (tmp_path / name / "new").mkdir(exist_ok=True)
        (tmp_path / name / f"new/{batch}.csv").write_text("\n".join([head, *lines]) + "\n")


def test_a_sample_is_placed_once_and_a_small_batch_not_at_all(fitted, tmp_path):
    put(fitted, tmp_path, 1, {"airline": ["n0", "n1", "n2"]})
    with pytest.raises(InputError, match="batch-1 has 3 samples; the plan asks for at least 5"):
        fitted.run("airline")
    put(fitted, tmp_path, 1, {"airline": ["n0", "n1", "n2", "n3", "s7"]})
    with pytest.raises(InputError, match="batch-1: 1 of its samples were placed before"):
        fitted.run("airline")
    put(fitted, tmp_path, 1, {name: [f"n{i}" for i in range(6)] for name in fitted.names})
    fitted.finish()
    put(fitted, tmp_path, 2, {"airline": [f"n{i}" for i in range(5, 12)]})
    with pytest.raises(InputError, match="batch-2: 1 of its samples were placed before"):
        fitted.run("airline")


def test_scores_of_new_samples_of_a_blind_study_have_the_signs_of_the_fit(fitted, tmp_path):
    old = tables(30)
    for name, (_, X) in old.items():
        head = (tmp_path / f"{name}.csv").read_text().splitlines()[0]
        lines = [f"n{row},{','.join(map(repr, values))}" for row, values in enumerate(X.tolist())]
        (tmp_path / name / "new").mkdir()
        (tmp_path / name / "new/1.csv").write_text("\n".join([head, *lines]) + "\n")
    fitted.finish()
    before, after = fitted.embedding("airline"), fitted.embedding("airline", "batch-1")
    of_fit = dict(zip(before[0], before[1], strict=True))
    same = np.array([of_fit[f"s{name.removeprefix('n')}"] for name in after[0]])
    np.testing.assert_allclose(after[1], same, atol=1e-6)


def test_a_batch_of_which_few_samples_are_common_ends_there(fitted, tmp_path):
    own = {name: ["n0", "n1", *(f"{name}{i}" for i in range(6))] for name in fitted.names}
    put(fitted, tmp_path, 1, own)
    with pytest.raises(RefusedError, match="too few samples are common"):
        fitted.finish()
    assert not list((tmp_path / "shared").glob("*/*sums*"))
