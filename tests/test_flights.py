import numpy as np

from benchmarks.flights import N_FLIGHTS, flights
from dkpca.demo import OWNERS
from dkpca.demo import flights as tables


def test_four_owners_hold_standardized_columns_about_the_same_flights():
    columns = flights()
    assert {owner: len(X) for owner, X in columns.items()} == dict.fromkeys(OWNERS, N_FLIGHTS)
    for X in columns.values():
        np.testing.assert_allclose(X.mean(0), 0.0, atol=1e-9)
        np.testing.assert_allclose(X.std(0), 1.0)


def test_nobody_holds_the_outcome():
    assert not any("delay" in column for table in tables().values() for column in table.columns)
