import numpy as np
import pytest

from benchmarks import flights
from dkpca.cli import demo

pytestmark = pytest.mark.slow  # a table of all flights is made first


@pytest.fixture(scope="module")
def tables():
    return demo.flights()


def test_every_table_of_the_demo_is_about_the_same_flights(tables):
    ids = tables["airline"]["flight"]
    assert set(tables) == set(demo.COLUMNS)
    assert len(ids) == ids.n_unique() == flights.N_FLIGHTS
    assert all((table["flight"] == ids).all() for table in tables.values())


def test_nobody_holds_the_outcome(tables):
    assert not any("delay" in column for table in tables.values() for column in table.columns)


def test_the_benchmarks_standardize_the_columns_of_four_owners(tables, monkeypatch):
    monkeypatch.setattr(flights, "tables", lambda: tables)
    columns = flights.flights()
    assert {owner: len(X) for owner, X in columns.items()} == dict.fromkeys(demo.COLUMNS, flights.N_FLIGHTS)
    for X in columns.values():
        np.testing.assert_allclose(X.mean(0), 0.0, atol=1e-9)
        np.testing.assert_allclose(X.std(0), 1.0)
