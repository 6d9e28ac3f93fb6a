"""The format of everything that is signed: nothing but what was written can be read, and only by its readers."""

import hashlib
import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkpca.errors import DKPCAError, ProtectionError, WireError
from dkpca.exchange import sealed
from dkpca.exchange.identity import Secrets, is_fingerprint, shown
from dkpca.exchange.sealed import PIECE, Header, NotWholeError, Part

NAMES = ("a", "b", "c")
KEYS = {
    name: Secrets(hashlib.sha256(name.encode()).digest(), hashlib.sha256(b"s" + name.encode()).digest())
    for name in NAMES
}
PUBLIC = {name: me.public for name, me in KEYS.items()}
SEALING = {name: me.sealing for name, me in KEYS.items()}


def written(parts, writer="a", step="summary", agreement="ab" * 32):
    file = io.BytesIO()
    about = Header("answer", agreement, step, writer, "cd" * 32, {})
    sealed.write(file, about, parts, KEYS[writer], SEALING)
    return file.getvalue()


def opened(data, part, reader, public=PUBLIC):
    file = io.BytesIO(data)
    header = sealed.read_header(file, len(data), public)
    who = None if reader is None else (reader, KEYS[reader])
    return b"".join(sealed.contents(file, header, part, who, io.BytesIO()))


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5])
def test_readers_and_the_writer_open_what_was_written(size):
    content = os.urandom(size)
    data = written([Part("x", ("b",), [content[: size // 3], content[size // 3 :]])])
    assert opened(data, "x", "b") == opened(data, "x", "a") == content


def test_nobody_else_opens_a_part():
    data = written([Part("b", ("b",), [b"for b"]), Part("c", ("c",), [b"for c"]), Part("all", (), [b"public"])])
    assert opened(data, "b", "b") == b"for b"
    assert opened(data, "c", "c") == b"for c"
    assert opened(data, "all", None) == b"public"
    with pytest.raises(ProtectionError, match="sealed to b only"):
        opened(data, "b", "c")
    assert b"for b" not in data


def test_a_key_copied_under_another_name_opens_nothing():
    data = written([Part("x", ("b",), [b"secret"])])
    header = sealed.read_header(io.BytesIO(data), len(data), PUBLIC)
    place = header.parts["x"]
    with pytest.raises(ProtectionError, match="not sealed to this member"):
        KEYS["c"].unseal(bytes.fromhex(place.keys["b"]), b"")
    with pytest.raises(ProtectionError, match="not sealed to this member"):
        KEYS["b"].unseal(bytes.fromhex(place.keys["b"]), b"another place")


def test_each_flipped_bit_of_header_and_signature_is_refused():
    data = written([Part("x", ("b",), [b"some numbers"])])
    for position in range(len(data)):
        altered = bytearray(data)
        altered[position] ^= 1 << (position % 8)
        with pytest.raises((DKPCAError, NotWholeError)):
            opened(bytes(altered), "x", "b")


def test_readers_that_are_no_names_of_members_are_refused():
    """Before, a refusal for a reader whose name was made of a terminal's commands was printed as it was."""
    name = "b\x1b[2J\nDone: sign this"
    file, about = io.BytesIO(), Header("refusal", "ab" * 32, "refusal", "a", "00" * 32, {})
    sealed.write(file, about, [Part("all", (name,), [b"x"])], KEYS["a"], SEALING | {name: KEYS["b"].sealing})
    with pytest.raises(WireError, match="its header lacks entries of its kind, or has others"):
        opened(file.getvalue(), "all", "b")


def test_each_beginning_of_a_file_waits():
    data = written([Part("x", ("b",), [b"some numbers"])])
    for length in range(len(data)):
        with pytest.raises(NotWholeError):
            opened(data[:length], "x", "b")


def test_bytes_behind_the_end_are_refused():
    data = written([Part("x", (), [b"some numbers"])])
    with pytest.raises(ProtectionError, match="signed"):
        opened(data + b"x", "x", None)


@given(st.binary(max_size=300))
def test_other_bytes_are_refused_or_too_short(data):
    with pytest.raises((DKPCAError, NotWholeError)):
        opened(data, "x", "b")
    with pytest.raises((DKPCAError, NotWholeError)):
        opened(sealed.MAGIC + data, "x", "b")


def test_a_huge_declared_header_costs_nothing():
    with pytest.raises(WireError, match="declares a header"):
        opened(sealed.MAGIC + (2**31).to_bytes(4, "big") + b"x" * 100, "x", "b")


def test_a_member_cannot_sign_as_another():
    data = written([Part("x", (), [b"1"])], writer="b")
    stolen = data.replace(b'"writer":"b"', b'"writer":"a"')
    with pytest.raises(ProtectionError, match="not signed by 'a'"):
        opened(stolen, "x", None)
    with pytest.raises(ProtectionError, match="not a member"):
        opened(data, "x", None, {"a": PUBLIC["a"]})


def test_pieces_cannot_be_swapped_by_their_writer_unnoticed():
    content = b"1" * PIECE + b"2" * PIECE
    data = written([Part("x", ("b",), [content])])
    file = io.BytesIO(data)
    header = sealed.read_header(file, len(data), PUBLIC)
    place, piece = header.parts["x"], PIECE + sealed.TAG
    body = data[place.offset :]
    swapped = body[piece:] + body[:piece]
    forged = sealed.Sealed(place.readers, place.length, hashlib.sha256(swapped).hexdigest(), place.keys, 0)
    altered = Header(header.kind, header.agreement, header.step, header.writer, header.question, {"x": forged})
    with pytest.raises(ProtectionError):
        list(sealed.contents(io.BytesIO(swapped), altered, "x", ("b", KEYS["b"]), io.BytesIO()))


def test_secrets_follow_from_the_seed_and_their_place():
    one, other = KEYS["a"], KEYS["b"]
    assert one.derive("nonce", "first") == one.derive("nonce", "first")
    assert len({one.derive("ab", "c"), one.derive("a", "bc"), one.derive("abc"), other.derive("abc")}) == 4
    assert one.derive("x").hex() not in repr(one)
    assert "seed" not in repr(one)


def test_a_fingerprint_is_typed_with_or_without_spaces():
    digest = hashlib.sha256(b"x").hexdigest()
    assert is_fingerprint(shown(digest), digest)
    assert is_fingerprint(shown(digest).upper().replace(" ", ""), digest)
    assert not is_fingerprint(shown(digest)[:-1], digest)
    assert not is_fingerprint("", digest)


def test_a_header_that_names_a_part_twice_is_refused():
    data = written([Part("x", (), [b"1"]), Part("y", (), [b"2"])])
    length = int.from_bytes(data[len(sealed.MAGIC) : sealed.PREFIX], "big")
    text = data[sealed.PREFIX : sealed.PREFIX + length].replace(b'"name":"y"', b'"name":"x"')
    signed = text + KEYS["a"].sign(sealed.SIGNED + text)
    with pytest.raises(WireError, match="entries of its kind"):
        opened(data[: sealed.PREFIX] + signed + data[sealed.PREFIX + len(signed) :], "x", None)
