"""Columns that their owner lets be recovered, and a green review that may not stay so."""

import csv

import numpy as np
import pytest

from dkpca.exchange import study
from dkpca.exchange.member import RefusedError
from dkpca.party.limits import Limits
from testkit.studies import Consortium

pytestmark = pytest.mark.longer
BLIND = {"gamma": "scale", "standardize": True, "protect": "blind", "law": "sum", "n_components": 2}


def tables(n=120, lacking=0):
    """Three parties of six columns; at the first two pairs are nearly the same column twice."""
    random, found = np.random.default_rng(5), {}
    for name in ("lab", "ward", "imaging"):
        X = random.normal(size=(n, 6))
        if name == "lab":
            X[:, 1] = X[:, 0] + 0.1 * random.normal(size=n)
            X[:, 3] = X[:, 2] + 0.1 * random.normal(size=n)
        rows = np.sort(random.permutation(n)[: n - lacking])
        found[name] = ([f"s{row}" for row in rows], X[rows])
    return found


def reviewed(consortium, **limits):
    (consortium.root / "lab/limits.toml").write_text(Limits(**limits).to_toml())
    return consortium.at("lab", study.review)


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    return Consortium(tmp_path_factory.mktemp("recoverable"), tables(), BLIND, samples=50).join()


def test_a_column_that_its_owner_lets_be_recovered_makes_no_plan_red(joined):
    red = reviewed(joined)
    above = [name for name, value in red.columns.items() if value > Limits().recovery]
    assert 0 < len(above) < 6
    assert not red.green
    green = reviewed(joined, recoverable=tuple(above))
    assert green.green
    assert green.columns == red.columns
    words = green.words()
    share = f"{len(above)} of 6 columns"
    assert f"An attacker who knows 30 rows could recover {share} with R² above 0.5 (1 = exactly):" in words
    for name in above:
        assert f"  {name}: {green.columns[name]:.2f} (may be recovered: limits.toml)" in words


def test_one_column_that_is_not_listed_is_red_alone(joined):
    above = [name for name, value in reviewed(joined).columns.items() if value > Limits().recovery]
    (found,) = [each for each in reviewed(joined, recoverable=tuple(above[1:])).findings if not each.ok]
    assert found.limit == "recovery"
    assert found.asked >= round(reviewed(joined).columns[above[0]], 2)  # what the listed ones tell of it counts, too


def test_a_name_of_no_column_is_not_ignored(joined):
    words = reviewed(joined, recoverable=("lab9",)).words()
    assert "RED   recoverable: lab9 (must be a column of the table)" in words


def test_a_text_column_is_listed_by_its_own_name_or_that_of_one_value(tmp_path):
    consortium = Consortium(tmp_path, tables(), BLIND, samples=50)
    with (tmp_path / "lab.csv").open() as file:
        header, *rows = csv.reader(file)
    with (tmp_path / "lab.csv").open("w") as file:
        wards = ("AB"[number % 2] for number in range(len(rows)))
        csv.writer(file).writerows(
            [[*header, "ward"], *([*row, ward] for row, ward in zip(rows, wards, strict=True))]
        )
    consortium.join()
    for named, of in (("ward", {"ward = A", "ward = B"}), ("ward = A", {"ward = A"})):
        case = reviewed(consortium, recoverable=(named,)).case
        assert case.free == of


def test_a_green_review_names_columns_that_come_near_the_limit_on_half_of_the_samples_and_a_refusal_names_them(
    tmp_path,
):
    """Which of two equal components comes first changes from sample to sample; so does what it tells."""
    consortium = Consortium(tmp_path, tables(lacking=30), BLIND | {"n_components": 1}, samples=30).join()
    (found,) = [each for each in reviewed(consortium).findings if each.limit == "recovery"]
    allowed = found.asked + 0.01  # which this table just keeps
    for name in consortium.names:
        limits = Limits(recovery=allowed if name == "lab" else 1.0, samples=30)
        (tmp_path / name / "limits.toml").write_text(limits.to_toml())
    green = consortium.at("lab", study.review)
    assert green.green
    assert green.elsewhere
    assert all(value > 0.8 * allowed for value in green.elsewhere.values())
    (said,) = [line for line in green.words() if line.startswith("On random halves of your samples, these come near")]
    assert all(name in said for name in green.elsewhere)
    consortium.sign()
    with pytest.raises(RefusedError, match=r"'go'.*recovery 0\.\d+ \('lab\d'"):
        consortium.finish()


def test_who_lets_everything_be_recovered_waits_for_no_measure_on_halves(joined, monkeypatch):
    monkeypatch.setattr("dkpca.exchange.review._on_halves", lambda case: pytest.fail("measured"))
    assert reviewed(joined, recovery=1.0).green
