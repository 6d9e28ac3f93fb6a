"""Of a test with many combinations of parameters, as few as have every pair of values in one of them.

`pytest --pairs` leaves the others out, as `make quick` does; `make test` runs all combinations.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

Case = Mapping[str, Hashable]  # value of each parameter


def covering(cases: Sequence[Case]) -> list[int]:
    """Positions of cases that together have every pair of values: each time the one with the most new pairs."""
    pairs = [set(combinations(sorted(case.items()), 2)) for case in cases]
    missing, chosen = set().union(*pairs), []
    while missing:
        best = max(range(len(pairs)), key=lambda position: len(pairs[position] & missing))
        chosen.append(best)
        missing -= pairs[best]
    return sorted(chosen)


def left_out(items: Iterable[Any]) -> list[Any]:
    """Tests, as pytest collected them, that no pair of values needs; one with a single parameter is always needed."""
    tests: dict[str, list[Any]] = {}
    for item in items:
        if len(getattr(getattr(item, "callspec", None), "params", ())) > 1:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    unneeded = []
    for same in tests.values():
        needed = covering([{name: id(value) for name, value in item.callspec.params.items()} for item in same])
        unneeded += [item for position, item in enumerate(same) if position not in needed]
    return unneeded
