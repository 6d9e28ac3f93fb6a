import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dkpca import wire
from dkpca.errors import DKPCAError, WireError
from dkpca.kernels import RBF, Linear
from dkpca.linalg.precision import PRECISIONS, Rounded, round_to, rounding_norms
from dkpca.messages import (
    AuditRequest,
    AuditRows,
    CommonTokens,
    CovariateRows,
    Go,
    MaskedSum,
    Partials,
    RaisedIds,
    Reveal,
    Rows,
    SampleTokens,
    Scores,
    Seed,
    Shape,
    Statistics,
    Told,
    digest,
    row_number_digest,
    sorted_tokens,
)
from dkpca.party.disclosure import describe
from dkpca.wire import container
from testkit.wire_files import DIGEST, forged, same, summary_of

precisions = st.sampled_from(sorted(PRECISIONS))
matrices = st.tuples(st.integers(6, 12), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-1e4, 1e4, allow_subnormal=False))
)


def message_of_each_kind():
    matrix = round_to(np.arange(6.0).reshape(3, 2) / 7, "float32")
    return [
        Statistics("bank", 100, 5, 12.5),
        summary_of(np.arange(6.0).reshape(3, 2) / 7),
        summary_of(np.arange(6.0).reshape(3, 2) / 7, "float16", kernel=Linear()),
        Rows("bank", DIGEST, DIGEST, matrix),
        Partials("bank", DIGEST, DIGEST, matrix),
        AuditRequest(9, DIGEST, 7, 3, (2, 5)),
        AuditRows("bank", DIGEST, DIGEST, tuple(range(matrix.shape[0])), matrix),
        CovariateRows("bank", matrix),
        SampleTokens("bank", sorted_tokens([b"b" * 16, b"a" * 16])),
        CommonTokens(2, sorted_tokens([b"c" * 16])),
        Scores(3, RBF(0.5), DIGEST, matrix, 0.25, 0.5),
        MaskedSum("bank", DIGEST, np.arange(8, dtype=np.uint8)),
        RaisedIds("bank", "shop", 1, "case", DIGEST, np.arange(64, dtype=np.uint8)),
        Seed("bank", "shop", "a" * 64, "b" * 64),
        Shape("bank", 100, 5, DIGEST),
        Go("bank", DIGEST),
        Reveal("bank", "c" * 64),
        Told("bank"),
    ]


def test_no_kind_is_forgotten_here():
    assert {type(message) for message in message_of_each_kind()} == set(wire.KINDS.values())


@given(matrices, precisions)
def test_round_trip_is_exact_in_its_precision(matrix, precision):
    message = summary_of(matrix, precision)
    assert same(wire.decode(wire.encode(message)), message)


@pytest.mark.parametrize("message", message_of_each_kind(), ids=lambda m: type(m).__name__)
def test_every_kind_survives(message):
    assert same(wire.decode(wire.encode(message)), message)
    assert wire.encode(message) == wire.encode(wire.decode(wire.encode(message)))


@given(matrices, precisions)
def test_size_is_known_without_encoding(matrix, precision):
    for message in (summary_of(matrix, precision), Rows("bank", DIGEST, DIGEST, round_to(matrix, precision))):
        assert wire.size(message) == len(wire.encode(message))
    for message in message_of_each_kind():
        assert wire.size(message) == len(wire.encode(message))
    assert wire.size(Statistics("bank", 3, 4, 0.1)) == len(wire.encode(Statistics("bank", 3, 4, 0.1)))


@given(matrices, precisions)
def test_rounding_twice_is_rounding_once(matrix, precision):
    once = round_to(matrix, precision)
    twice = round_to(once.decode(), precision)
    np.testing.assert_array_equal(once.decode(), twice.decode())


@given(matrices)
def test_float16_keeps_three_digits_of_the_largest_entry_of_each_column(matrix):
    error = np.abs(round_to(matrix, "float16").decode() - matrix)
    assert (error <= 2.0**-11 * np.abs(matrix).max(0)).all()


@given(st.integers(0, 1000), st.sampled_from(["float32", "float16"]), st.floats(1e-6, 1e6))
def test_rounding_norms_are_those_of_the_gram_matrices(seed, precision, size):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((30, 4)))
    A = Q * np.array([30.0, 3.0, 0.3, 0.01]) * size
    sent = round_to(A, precision)
    B = sent.decode().astype(np.longdouble)
    difference = (B @ B.T - A.astype(np.longdouble) @ A.T.astype(np.longdouble)).astype(float)
    truth = np.abs(np.linalg.eigvalsh(difference))
    spectral, nuclear = rounding_norms(A, sent)
    assert truth.max() * (1 - 1e-9) <= spectral <= truth.max() * (1 + 1e-4)
    assert truth.sum() * (1 - 1e-9) <= nuclear <= truth.sum() * (1 + 1e-4)


def test_no_rounding_no_norm(rng):
    A = rng.standard_normal((5, 2))
    assert rounding_norms(A, round_to(A, "float64")) == (0.0, 0.0)


class TestBadBytes:
    """Every one of these ends in `WireError`, whatever it is."""

    whole = wire.encode(summary_of(np.arange(6.0).reshape(3, 2)))

    @given(st.data())
    def test_any_flipped_bit(self, data):
        position = data.draw(st.integers(0, 8 * len(self.whole) - 1))
        damaged = bytearray(self.whole)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(WireError):
            wire.decode(bytes(damaged))

    @given(st.integers(0, len(whole) - 1))
    def test_any_truncation(self, length):
        with pytest.raises(WireError):
            wire.decode(self.whole[:length])

    @given(st.binary(max_size=300))
    def test_anything_else(self, data):
        with pytest.raises(WireError):
            wire.decode(data)

    def test_something_appended(self):
        with pytest.raises(WireError):
            wire.decode(self.whole + b"\0")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (forged(version=99), "format version 99; this dkpca reads versions 1 and 2: update dkpca"),
        (forged(kind="virus"), "unknown kind 'virus'"),
        (forged(fields=[]), "does not have the fields of its kind"),
        (forged({"extra": 1}), "does not have the fields of its kind"),
        (forged({"party": "../../etc"}), "party name '../../etc' cannot be used"),
        (forged({"party": 3}), "party must be text, not 3"),
        (forged({"kernel": "rbf"}), "kernel is not described by an object"),
        (forged({"kernel": {"name": "os.system"}}), "kernel 'os.system' is unknown"),
        (forged({"kernel": {"name": "rbf", "gamma": -1.0}}), "gamma is -1.0"),
        (forged({"n_features": 0}), "n_features is 0, less than 1"),
        (forged({"n_features": True}), "n_features must be a whole number, not True"),
        (forged({"left_out_norm": -1.0}), "left_out_norm is -1.0"),
        (forged({"left_out_norm": "0"}), "left_out_norm must be a number, not '0'"),
        (forged({"sample_digest": "x"}), "sample_digest is not a sha256 digest"),
        (forged(arrays={"factor": np.ones((3, 2), np.int64)}), "array 'factor' has type I64"),
        (forged(arrays={"factor": np.ones(3, np.float16)}), "not a matrix of finite numbers"),
        (forged(arrays={"factor": np.full((3, 2), np.inf, np.float16)}), "not a matrix of finite numbers"),
        (forged(arrays={"factor": np.ones((2, 3), np.float16)}), "not one positive float64 per column"),
        (forged(arrays={"factor.scale": np.array([1.0, -1.0])}), "not one positive float64 per column"),
        (forged(arrays={"factor.scale": None}), "does not have the arrays of its kind, float16"),
        (forged(arrays={"factor": None}), "does not have the arrays of its kind"),
        (forged(arrays={"more": np.ones(1)}), "does not have the arrays of its kind"),
        (forged(arrays={"factor": np.ones((1, 2), np.float16)}), "rank 2 for 1 samples"),
    ],
)
def test_contents_are_validated_even_under_a_right_checksum(data, words):
    with pytest.raises(WireError, match=words):
        wire.decode(data)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([b"b" * 16, b"a" * 16], "not sorted, or has a token twice"),
        ([b"a" * 16, b"a" * 16], "not sorted, or has a token twice"),
        ([b"a" * 15], "not a list of 16-byte tokens"),
    ],
)
def test_tokens_tell_no_order_and_come_once(tokens, words):
    data = np.frombuffer(b"".join(tokens), np.uint8).reshape(len(tokens), -1)
    header = {"kind": "sampletokens", "version": 1, "fields": {"party": "bank"}}
    with pytest.raises(WireError, match=words):
        wire.decode(container.pack(header, {"tokens": data}, entry="dkpca"))


def test_wire_errors_are_dkpca_errors():
    with pytest.raises(DKPCAError):
        wire.decode(b"")


def test_digests_tell_order_and_boundaries_apart():
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["a", "b"]) != digest(["b", "a"])
    assert row_number_digest(2) != row_number_digest(3)


def test_a_description_shows_no_secret_and_does_not_deny_that_covariates_are_there():
    secrets = describe(Seed("a", "b", "11" * 32, "22" * 32))
    assert "11" * 32 not in repr(secrets)
    assert "22" * 32 not in repr(secrets)
    covariates = CovariateRows("a", Rounded(np.ones((3, 1))))
    assert describe(covariates).does_not_contain == ()
