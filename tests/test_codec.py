"""Whatever is written by type hints comes back as it was; whatever else is there is refused with its name.

Annotations are postponed here on purpose: the codec has to see types, not their text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dkpca.errors import InputError, WireError
from dkpca.kernels import RBF, Kernel, Linear
from dkpca.linalg.dense import Dense
from dkpca.linalg.precision import Rounded, round_to
from dkpca.messages import Statistics
from dkpca.rank import Adaptive, Auto, Budget, Fixed, RankRule
from dkpca.wire import codec


def even(field, value):
    if value % 2:
        raise InputError(f"{field} is {value}, not even")


@dataclass(frozen=True)
class Inner:
    weights: Any
    label: str = "none"


@dataclass(frozen=True)
class Record:
    kernel: Kernel
    rule: RankRule
    inner: Inner
    sizes: tuple[float, ...]
    factor: Rounded
    anchors: Any | None
    counts: dict[str, int]
    side: Literal["left", "right"] = "left"
    pairs: Annotated[int, even] = 2
    width: float | str | None = None


RULES = [Fixed(3), Adaptive(0.1, relative=False), Auto(4), Budget(5000, "float16")]


def record(**changes):
    values: dict[str, Any] = {
        "kernel": RBF(0.5),
        "rule": Fixed(3),
        "inner": Inner(np.arange(4.0)),
        "sizes": (1.0, float("inf"), -2.5),
        "factor": round_to(np.arange(6.0).reshape(3, 2), "float16"),
        "anchors": None,
        "counts": {"a": 1},
    }
    return Record(**(values | changes))


def there_and_back(value):
    header, arrays = codec.encode(value)
    return codec.decode(type(value), json.loads(json.dumps(header)), arrays, what="record")


@pytest.mark.parametrize("kernel", [RBF(0.25), Linear(), Linear(centered=False)], ids=str)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_kernels_and_rules_survive(kernel, rule):
    back = there_and_back(record(kernel=kernel, rule=rule))
    assert (back.kernel, back.rule) == (kernel, rule)


@given(st.floats(allow_nan=False), st.none() | st.floats(allow_nan=False) | st.text(max_size=5), st.integers(-50, 50))
def test_every_field_survives(size, width, half):
    assume(width not in ("inf", "-inf", "nan"))
    back = there_and_back(record(sizes=(size,), width=width, pairs=2 * half, side="right", anchors=np.arange(3)))
    assert (back.sizes, back.width, back.pairs, back.side, back.counts) == (
        (size,),
        width,
        2 * half,
        "right",
        {"a": 1},
    )
    np.testing.assert_array_equal(back.inner.weights, np.arange(4.0))
    np.testing.assert_array_equal(back.anchors, np.arange(3))
    assert back.factor.precision == "float16"


def test_a_field_at_its_default_is_left_out_and_comes_back():
    header, _ = codec.encode(record())
    assert {"side", "pairs", "width"}.isdisjoint(header)
    assert there_and_back(record()).side == "left"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pairs": 3}, "record: pairs is 3, not even"),
        ({"pairs": "2"}, "pairs must be a whole number, not '2'"),
        ({"pairs": True}, "pairs must be a whole number, not True"),
        ({"pairs": 10**30}, "pairs is a number of 100 bits"),
        ({"side": "up"}, "side is 'up', not one of"),
        ({"width": 2**63}, "width is a number of 64 bits, more than can be used"),
        ({"width": int("f" * 9000, 16)}, "width is a number of 36000 bits, more than can be used"),
        ({"sizes": 1.0}, "sizes must be a list, not 1.0"),
        ({"sizes": [True]}, "sizes must be a number, not True"),
        ({"sizes": [10**400]}, "sizes is a number of 1329 bits"),
        ({"counts": {"a": 1.5}}, "counts must be a whole number, not 1.5"),
        ({"kernel": "rbf"}, "kernel is not described by an object"),
        ({"kernel": {"name": ["rbf"]}}, "is unknown here"),
        ({"kernel": {"name": "fourier"}}, "kernel 'fourier' is unknown here; use one of"),
        ({"kernel": {"name": "rbf", "sigma": 1.0}}, "kernel 'rbf': does not have the fields of its kind"),
        ({"kernel": {"name": "rbf", "gamma": -1.0}}, "gamma is -1.0; the rbf kernel needs a positive, finite"),
        ({"kernel": {"name": "rbf", "gamma": "1"}}, "gamma must be a number, not '1'"),
        ({"width": True}, "width must be a number or text or none, not True"),
        ({"rule": {"rule": "fixed", "rank": 0}}, "rank is 0; give a whole number of at least 1"),
        ({"rule": {"rule": "atmost"}}, "unknown rank rule 'atmost'"),
        ({"inner": 3}, "does not have the fields of its kind"),
        ({"more": 1}, "does not have the fields of its kind"),
    ],
)
def test_what_does_not_fit_its_type_is_refused(change, words):
    header, arrays = codec.encode(record())
    with pytest.raises(WireError, match=words):
        codec.decode(Record, header | change, arrays, what="record")


def test_a_field_without_default_must_be_there():
    header, arrays = codec.encode(record())
    del header["sizes"]
    with pytest.raises(WireError, match="does not have the fields of its kind"):
        codec.decode(Record, header, arrays, what="record")


@pytest.mark.parametrize("name", ["strange", "factor.strange", "inner.strange", "sizes"])
def test_arrays_that_belong_nowhere_are_refused(name):
    header, arrays = codec.encode(record())
    with pytest.raises(WireError, match="does not have the (arrays|fields) of its kind"):
        codec.decode(Record, header, arrays | {name: np.ones(2)}, what="record")


def test_what_cannot_travel_is_refused_before_it_is_written():
    with pytest.raises(InputError, match="can be neither sent nor saved; use one of"):
        codec.encode(record(rule=RankRule()))
    with pytest.raises(InputError, match="cannot be written to a file or sent"):
        codec.encode(record(width=len))
    with pytest.raises(InputError, match=r"Dense\(.*\) cannot be written to a file or sent; give its name"):
        codec.encode(record(width=Dense()))


def test_messages_are_records_like_any_other():
    assert there_and_back(Statistics("bank", 3, 4, 0.5)) == Statistics("bank", 3, 4, 0.5)
