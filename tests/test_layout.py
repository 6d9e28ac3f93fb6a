"""Our reader and writer of safetensors files against the package of that name; large files are mapped, not read."""

import json
import mmap

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from dkpca import summarize, wire
from dkpca.errors import StorageError, WireError
from dkpca.kernels import RBF
from dkpca.messages import Summary
from dkpca.store import files, storage
from dkpca.wire import container

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=6)
KINDS = st.sampled_from(sorted(container.CODES))
SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 4)) | st.tuples(st.integers(1, 9))
ARRAYS = st.dictionaries(
    NAMES,
    st.builds(lambda shape, kind: np.arange(np.prod(shape)).reshape(shape).astype(kind), SHAPES, KINDS),
    max_size=5,
)


@given(ARRAYS, st.text(st.characters(codec="ascii"), max_size=40))
def test_the_bytes_are_those_of_safetensors(arrays, note):
    data = b"".join(container.pieces({"note": note}, arrays, entry="dkpca"))
    assert data == safetensors.numpy.save(arrays, metadata={"dkpca": container.canonical({"note": note})})
    found = container.arrays_in(data, container.header_of(data, len(data)), container.DTYPES)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def file_of(entries, body):
    head = json.dumps({"__metadata__": {"dkpca": "{}"}} | entries).encode()
    return len(head).to_bytes(8, "little") + head + body


@pytest.mark.parametrize(
    ("entries", "body"),
    [
        ({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}, b"123"),
        ({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}, b"12345"),
        ({"a": {"dtype": "U8", "shape": [4], "data_offsets": [1, 5]}}, b"12345"),
        ({"a": {"dtype": "F64", "shape": [4], "data_offsets": [0, 4]}}, b"1234"),
        ({"a": {"dtype": "U8", "shape": [-4], "data_offsets": [0, 4]}}, b"1234"),
        ({"a": {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]}}, b"1"),
        ({"a": {"dtype": "U8", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}, b"1234"),
        ({name: {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]} for name in "ab"}, b"1234"),
        ({"a": {"dtype": "U8", "shape": [4]}}, b"1234"),
        ({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4], "more": 1}}, b"1234"),
        ({"a": []}, b""),
    ],
)
def test_what_safetensors_refuses_is_refused(entries, body):
    data = file_of(entries, body)
    if "more" not in str(entries):
        with pytest.raises(safetensors.SafetensorError):
            safetensors.deserialize(data)
    with pytest.raises(WireError, match="its header or its length is wrong; get it again"):
        container.unpack(data, entry="dkpca", max_header=2**16)


class TestLargeFiles:
    @pytest.fixture
    def file(self, rng, tmp_path, monkeypatch):
        monkeypatch.setattr(storage, "LARGE", 1000)
        message = summarize(rng.standard_normal((300, 4)), party="bank", kernel=RBF(0.1), rank=3)[0]
        storage.write(tmp_path / "bank.summary", lambda file: file.writelines(wire.pieces(message)))
        assert (tmp_path / "bank.summary").read_bytes() == wire.encode(message)
        return tmp_path / "bank.summary"

    def test_arrays_are_views_of_the_file(self, file):
        item = files.receive(file, Summary)
        assert isinstance(item.pieces[0].obj, mmap.mmap)
        assert np.shares_memory(item.message.factor.data, np.frombuffer(item.pieces[0], np.uint8))

    def test_a_file_that_is_replaced_stays_as_it_was_read(self, file):
        item = files.receive(file, Summary)
        before = item.message.factor.decode()
        storage.write(file, b"something else")
        np.testing.assert_array_equal(item.message.factor.decode(), before)

    def test_one_changed_byte_is_found(self, file):
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        with pytest.raises(WireError, match=r"bank\.summary: checksum does not match"):
            files.receive(file, Summary)

    def test_what_is_no_file_is_refused_as_ever(self, tmp_path):
        with pytest.raises(StorageError, match="there is no such file"):
            storage.mapped(tmp_path / "nothing")
        with pytest.raises(StorageError, match="is a directory"):
            storage.mapped(tmp_path)

    def test_a_writer_that_fails_leaves_the_old_file(self, file):
        before = file.read_bytes()

        def broken(opened):
            opened.write(b"half")
            raise OSError(28, "")

        with pytest.raises(StorageError, match="No space left on device"):
            storage.write(file, broken)
        assert file.read_bytes() == before
        assert [each.name for each in file.parent.iterdir()] == [file.name]
