"""What `make quick` leaves out of a test with many combinations of parameters."""

from itertools import combinations, product

import pytest

from testkit.pairs import covering


def pairs(cases):
    return {pair for case in cases for pair in combinations(sorted(case.items()), 2)}


@pytest.mark.parametrize("sizes", [(2, 2), (3, 3, 3), (8, 3, 2, 3), (1, 5, 2)])
def test_every_pair_of_values_is_in_a_case_that_is_kept(sizes):
    cases = [dict(zip("abcd", values, strict=False)) for values in product(*map(range, sizes))]
    kept = [cases[position] for position in covering(cases)]
    assert pairs(kept) == pairs(cases)
    assert len(kept) <= 1.5 * sorted(sizes)[-1] * sorted(sizes)[-2]


def test_a_value_that_stands_in_no_other_case_is_kept():
    cases = [{"a": 0, "b": 0}, {"a": 0, "b": 1}, {"a": 1, "b": 0}]
    assert covering(cases) == [0, 1, 2]
