"""Files made to break a reader end in `WireError` and a sentence, whatever is in them."""

import json
import struct
import sys

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from dkpca import wire
from dkpca.errors import WireError
from dkpca.kernels import RBF
from dkpca.linalg.precision import round_to
from dkpca.messages import Summary, digest
from dkpca.wire import codec, container
from dkpca.wording import json_values

FIELDS, ARRAYS = codec.encode(
    Summary("p", RBF(0.5), digest(["a"]), 7, round_to(np.eye(3)[:, :2], "float64"), 0.25, 1.0, 1e-7, 1e-7)
)


def with_header(text: str) -> bytes:
    """A file with this header, as text."""
    return safetensors.numpy.save(ARRAYS, metadata={"dkpca": text})


def with_fields(**fields) -> bytes:
    """A message with a right checksum and these fields."""
    return container.pack({"kind": "summary", "version": 1, "fields": FIELDS | fields}, ARRAYS, entry="dkpca")


def with_array(body: bytes = b"", **array) -> bytes:
    """A file with one array, described by hand."""
    header = json.dumps({"__metadata__": {"dkpca": "{}"}, "x": {"dtype": "F64", **array}}).encode()
    return struct.pack("<Q", len(header)) + header + body


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    "data",
    [
        with_fields(kernel={"name": ["rbf"]}),
        with_fields(kernel={"name": {"rbf": 1}}),
        with_fields(kernel={"name": "rbf", "gamma": 10**30}),
        with_fields(n_features=10**4000),
        with_fields(rounding_norm=10**400),
        with_fields(party="\n"),
        with_header('{"kind":"summary","version":1,"fields":{"left_out_norm":1e999}}'),
        with_header('{"kind":"summary","version":1,"fields":{"left_out_norm":NaN}}'),
        with_header('{"kind":"summary","version":1,"fields":{"party":"\\ud800"}}'),
        with_header('{"kind":"summary","version":1,"version":1,"fields":{}}'),
        with_header('{"kind":["summary"],"version":1}'),
        with_header('{"kind":"summary","version":1,"fields":{},"checksum":[1]}'),
        with_header('{"n":' + "9" * 5000 + "}"),
        with_header(nested(60_000)[:60_000]),
        with_header(nested(30_000)),
        with_array(shape=[0, 2**62], data_offsets=[0, 0]),
        with_array(shape=[0, 2**63], data_offsets=[0, 0]),
        with_array(shape=[2**64], data_offsets=[0, 0]),
        with_array(shape=[1] * 65, data_offsets=[0, 8], body=bytes(8)),
        with_array(shape=[], data_offsets=[0, 8], body=bytes(8)),
        struct.pack("<Q", 2**63) + b"{}",
        b"",
    ],
    ids=str,
)
def test_a_file_made_to_break_the_reader_is_refused(data):
    with pytest.raises(WireError):
        wire.decode(data)


@pytest.mark.parametrize("depth", range(800, 1000, 9))
def test_nesting_around_the_recursion_limit_is_refused_from_any_depth_of_calls(depth):
    def deeper(frames):
        if frames:
            return deeper(frames - 1)
        with pytest.raises(WireError):
            wire.decode(with_header('{"kind":"summary","version":1,"fields":{"party":' + nested(depth) + "}}"))
        return None

    deeper(min(200, sys.getrecursionlimit() // 4))


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(any_json)
def test_json_from_strangers_reads_what_json_writes(value):
    assert json_values(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1e999", "1e999 is no number, or more than one can hold"),
        (f"-1{'0' * 400}.5", f"-1{'0' * 18} is no number, or more than one can hold"),
        ("NaN", "NaN is no number, or more than one can hold"),
        ("-Infinity", "-Infinity is no number, or more than one can hold"),
        ('{"a":1,"a":2}', "a key is there twice"),
        (nested(40), "it is nested more than 32 levels deep"),
        ('{"a":' * 33 + "1" + "}" * 33, "it is nested more than 32 levels deep"),
        (nested(10**5), "it is nested too deeply"),
    ],
    ids=["large", "long", "NaN", "infinite", "twice", "deep", "deep objects", "bottomless"],
)
def test_json_from_strangers_refuses_what_no_program_of_ours_writes_and_says_why(text, words):
    with pytest.raises(ValueError) as refused:  # noqa: PT011  all of its words are compared
        json_values(text)
    assert str(refused.value) == words


@pytest.mark.parametrize("text", ["[" * 32 + "1" + "]" * 32, '{"a":' * 32 + "1" + "}" * 32])
def test_json_from_strangers_reads_as_deep_as_it_says(text):
    assert json.dumps(json_values(text), separators=(",", ":")) == text


@pytest.mark.parametrize("missing", [1, 8, 16])
def test_a_header_that_ends_behind_the_file_is_refused(missing):
    header = json.dumps({"__metadata__": {}}).encode()
    data = struct.pack("<Q", len(header) + missing) + header
    with pytest.raises(WireError, match="truncated, or another kind"):
        wire.decode(data)
