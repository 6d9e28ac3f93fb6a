import ast
import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dkpca
from dkpca import wire
from dkpca.errors import WireError
from dkpca.linalg.precision import DIGITS, round_by, round_to, rounding_norms, steps_for
from dkpca.messages import Partials, Rows, row_number_digest
from dkpca.wire import compact, container
from fuzz.compact import fuzz_compact, mutated, seeds
from testkit.wire_files import forged, same, summary_of

KEPT = Path(__file__).parent / "kept" / "version-2"
integers = st.tuples(st.integers(1, 60), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.int32, shape, elements=st.integers(-(2**31), 2**31 - 1))
)


def factor(n=300, k=20, fall=0.7):
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((n, k)))
    values = fall ** np.arange(k)
    return Q * np.sqrt(values), values


@given(integers)
def test_any_integers_come_back(matrix):
    np.testing.assert_array_equal(compact.decode(compact.code(matrix), matrix.shape), matrix)


@pytest.mark.parametrize("shape", [(1, 1), (7, 4000), (compact.LARGE_CHUNK + 3, 2), (900, 40)])
def test_matrices_of_every_form_come_back(shape):
    matrix = np.random.default_rng(0).normal(0, 20, shape).astype(np.int32)
    np.testing.assert_array_equal(compact.decode(compact.code(matrix), shape), matrix)


@pytest.mark.parametrize("value", [0, 1, -(2**31)])
def test_constant_columns_are_not_refused_however_well_they_are_coded(value):
    matrix = np.full((100_000, 3), value, np.int32)
    coded = compact.code(matrix)
    assert matrix.size <= compact.NUMBERS_PER_BYTE * coded.size
    np.testing.assert_array_equal(compact.decode(coded, matrix.shape), matrix)


def test_a_shape_that_claims_more_than_its_bytes_is_refused_before_memory_is_taken():
    coded = compact.code(np.ones((4, 4), np.int32))
    with pytest.raises(WireError, match="4000000000 x 4000 numbers cannot come from"):
        compact.decode(coded, (4_000_000_000, 4000))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda coded: coded[:-20], "cannot be read|end too early"),
        (lambda coded: np.append(coded, np.uint8(0)), "followed by something else"),
        (lambda coded: np.append(coded, np.uint8(7)), "followed by something else"),
        (lambda coded: np.concatenate([coded[:2], [np.uint8(0x20)], coded[3:]]), "a mode that dkpca does not write"),
    ],
)
def test_damaged_code_is_refused_in_words(damage, words):
    matrix = np.random.default_rng(0).normal(0, 20, (900, 4)).astype(np.int32)
    with pytest.raises(WireError, match=words):
        compact.decode(damage(compact.code(matrix)), matrix.shape)


def test_columns_move_the_gram_matrix_equally_and_small_ones_vanish():
    A, values = factor(n=2000, k=60)
    sent = round_by(A, steps_for(values, values[30], 2000))
    moved = np.linalg.norm(sent.decode() - A, axis=0) * np.sqrt(values)
    assert moved[:30].max() < 2.5 * moved[:30].min()  # steps are powers of two, a factor of 2 apart
    assert not sent.data[:, 45:].any()
    spectral, _ = rounding_norms(A[:, :30], round_by(A[:, :30], steps_for(values[:30], values[30], 2000)))
    assert values[30] / 4 < spectral < 8 * values[30]  # about what is left out


@pytest.mark.parametrize("digits", sorted(set(DIGITS.values())))
def test_numbers_have_no_more_digits_than_allowed(digits):
    A, _ = factor()
    sent = round_by(A, np.zeros(20), digits=digits)
    assert np.abs(sent.data).max() <= 2**digits
    assert (np.abs(sent.decode() - A) <= 2.0**-digits * np.abs(A).max(0)).all()


def test_a_compact_message_survives_and_says_its_size():
    A, values = factor()
    sent = round_by(A, steps_for(values, values[15], 300))
    for message in (summary_of(A, "compact"), Rows("bank", "0" * 64, row_number_digest(300), sent)):
        data = wire.encode(message)
        assert same(wire.decode(data), message)
        assert wire.size(message) == len(data)
        assert wire.fingerprint(wire.decode(data)) == wire.fingerprint(message)


def test_a_release_from_before_compact_messages_gets_as_far_as_their_version_and_refuses_it():
    A, _ = factor()
    read_by_0_1_0 = {"F64": "float64", "F32": "float32", "F16": "float16", "U8": "uint8"}
    versions = {}
    for precision in ("float32", "compact"):
        data = wire.encode(summary_of(A, precision))
        header, _ = container.unpack(data, entry="dkpca", max_header=2**16, dtypes=read_by_0_1_0)
        versions[precision] = header["version"]
    assert versions == {"float32": 1, "compact": 2}


def test_the_checksum_is_over_the_decoded_numbers():
    A, _ = factor()
    message = summary_of(A, "compact")
    scalars, plain = wire.codec.encode(message)
    header = {"kind": "summary", "version": 2, "fields": scalars}
    header["checksum"] = container.checksum(header, plain)
    other = plain["factor"].copy()
    other[0, 0] += 1
    good, bad = (plain | {"factor": compact.code(numbers)} for numbers in (plain["factor"], other))
    header["coded"] = {"factor": list(other.shape)}
    assert same(wire.decode(b"".join(container.pieces(header, good, entry="dkpca"))), message)
    with pytest.raises(WireError, match="checksum does not match"):
        wire.decode(b"".join(container.pieces(header, bad, entry="dkpca")))


@pytest.mark.parametrize(
    ("coded", "words"),
    [
        ({}, "does not describe the coded arrays"),
        ([], "the shapes of coded arrays: does not have the fields of its kind"),
        ({"other": [3, 2]}, "the shapes of coded arrays: does not have the fields of its kind"),
        ({"factor": [3]}, "factor has 1 values, not 2"),
        ({"factor": [3, -2]}, "factor is -2, less than 1"),
        ({"factor": [True, 2]}, "factor must be a whole number, not True"),
        ({"factor": [3, 2]}, "is not one of bytes"),
    ],
)
def test_forged_descriptions_of_coded_arrays_are_refused(coded, words):
    with pytest.raises(WireError, match=words):
        wire.decode(forged(version=2, coded=coded))


@pytest.mark.parametrize(
    ("exponent", "words"),
    [
        (np.zeros(3, np.uint8), "does not have two bytes per column"),
        (np.zeros(2, np.float64), "does not have two bytes per column"),
        (np.array([0, 1001], "<i2").view(np.uint8), "exceeds 1000 in size"),
        (np.array([0, -1001], "<i2").view(np.uint8), "exceeds 1000 in size"),
        (np.array([-(2**15), 0], "<i2").view(np.uint8), "exceeds 1000 in size"),
    ],
)
def test_forged_exponents_are_refused(exponent, words, monkeypatch):
    summary = summary_of(np.arange(6.0).reshape(3, 2), "compact")
    scalars, plain = wire.codec.encode(summary)
    header = {"kind": "summary", "version": 2, "fields": scalars}
    monkeypatch.setattr(wire, "encoded", lambda _: (header, plain | {"factor.exponent": exponent}))
    data = wire.encode(summary)
    with pytest.raises(WireError, match=words):
        wire.decode(data)


def test_coded_arrays_in_an_old_version_are_refused():
    with pytest.raises(WireError, match="does not describe the coded arrays"):
        wire.decode(forged(version=1, coded={"factor": [3, 2]}))


@pytest.mark.parametrize("name", ["compact.summary", "compact.rows", "compact.partials"])
def test_a_file_from_another_platform_decodes_to_the_same_numbers(name):
    kept = json.loads((KEPT / "digests.json").read_text())[name]
    message: Any = wire.decode((KEPT / name).read_bytes())
    matrix = message.partial if isinstance(message, Partials) else message.factor
    assert list(matrix.shape) == kept["shape"]
    assert hashlib.sha256(matrix.data.astype("<i4").tobytes()).hexdigest() == kept["numbers"]
    assert hashlib.sha256(matrix.decode().astype("<f8").tobytes()).hexdigest() == kept["values"]


def test_a_thousand_damaged_files_are_messages_or_wire_errors():
    rng, files = random.Random(0), seeds()
    assert all(map(fuzz_compact, files))
    assert sum(fuzz_compact(mutated(rng, rng.choice(files))) for _ in range(1000)) < 100


def test_nothing_uses_the_coders_standalone_interface():
    names = set()
    for path in Path(dkpca.__file__).parent.rglob("*.py"):
        if "pcodec" not in (source := path.read_text()):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pcodec"):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("pcodec") for alias in node.names), path
    classes = {"ChunkConfig", "DeltaSpec", "ModeSpec", "PagingSpec"}
    assert names == {f"pcodec.{name}" for name in classes} | {
        "pcodec.wrapped.FileCompressor",
        "pcodec.wrapped.FileDecompressor",
    }


def test_a_matrix_that_is_no_factor_keeps_five_digits():
    D = np.random.default_rng(0).uniform(0, 50, (40, 30))
    assert np.abs(round_to(D, "compact").decode() - D).max() <= 1e-5 * 50


def test_a_number_beyond_all_numbers_is_refused():
    data = wire.encode(replace(summary_of(factor()[0], "compact"), left_out_norm=0.125))
    damaged = data.replace(b":0.125,", b":9e999,", 1)
    assert len(damaged) == len(data)
    assert damaged != data
    with pytest.raises(WireError, match="its header or its length is wrong; get it again"):
        wire.decode(damaged)
