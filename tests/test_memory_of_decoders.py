"""What a file takes in memory is at most a multiple of its bytes, whatever is in it."""

import json
import struct
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from dkpca import summarize, wire
from dkpca.errors import DKPCAError
from dkpca.fusion import fuse
from dkpca.kernels import RBF
from dkpca.linalg.precision import round_by, round_to
from dkpca.messages import CommonTokens, Summary, digest, sorted_tokens
from dkpca.rank import Fixed
from dkpca.store import files, storage
from dkpca.wire import container

BASE = 2**16  # bytes: what the first call of anything keeps
MULTIPLE = 50  # of the bytes of the file


def container_of(header: str, entry: str) -> bytes:
    text = json.dumps({"__metadata__": {entry: header}}).encode()
    return struct.pack("<Q", len(text)) + text


def many_arrays(entry: str) -> bytes:
    empty = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    text = json.dumps({"__metadata__": {entry: "{}"}} | {f"{n}": empty for n in range(900)}).encode()
    return struct.pack("<Q", len(text)) + text


def compact_summary(matrix) -> bytes:
    """A message of numbers with a few bits each."""
    sent = round_by(matrix, np.full(matrix.shape[1], 0.25))
    return wire.encode(Summary("p", RBF(0.5), digest(["a"]), 7, sent, 1.0, 1.0, 1e-7, 1e-7))


INPUTS: dict[str, Callable[[str], bytes]] = {
    "lists": lambda entry: container_of("[" + "[]," * 20_000 + "[]]", entry),
    "objects": lambda entry: container_of("[" + "{}," * 20_000 + "{}]", entry),
    "keys": lambda entry: container_of(json.dumps({str(n): n for n in range(900)}), entry),
    "numbers": lambda entry: container_of("[" + "1," * 30_000 + "1]", entry),
    "arrays": many_arrays,
    "a claim": lambda _: struct.pack("<Q", 2**40) + b"{" * 2**16,
    "a summary": lambda _: wire.encode(
        Summary("p", RBF(0.5), digest(["a"]), 7, round_to(np.ones((4000, 50)), "float16"), 1.0, 1.0, 1e-7, 1e-7)
    ),
    "a compact summary": lambda _: compact_summary(np.random.default_rng(0).normal(size=(4000, 50))),
    "a column coded as well as can be": lambda _: compact_summary(np.ones((200_000, 1))),
    "two columns coded as well as can be": lambda _: compact_summary(np.ones((200_000, 2))),
    "tokens": lambda _: wire.encode(CommonTokens(2, sorted_tokens([n.to_bytes(16, "big") for n in range(60_000)]))),
}


DECODERS: dict[str, tuple[Callable[[bytes], object], str]] = {
    "message": (wire.decode, container.MESSAGE),
    "state": (files.decode_state, container.PRIVATE),
    "model": (files.decode_model, container.MODEL),
}


def peak(work) -> int:
    """Bytes that a call takes at its peak; errors of ours are an answer like any other."""
    tracemalloc.start()
    try:
        work()
    except DKPCAError:
        pass
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return most


@pytest.mark.parametrize("decoder", sorted(DECODERS))
@pytest.mark.parametrize("name", sorted(INPUTS))
def test_a_file_takes_at_most_fifty_times_its_bytes(name, decoder):
    decode, entry = DECODERS[decoder]
    data = INPUTS[name](entry)
    most = peak(lambda: decode(data))
    assert most <= BASE + MULTIPLE * len(data), f"{most / len(data):.1f} times"


@pytest.mark.parametrize(("rank", "n_parties"), [(1, 2), (3, 2)])
def test_fusing_small_messages_takes_no_matrix_of_samples_by_samples(rank, n_parties):
    columns = np.random.default_rng(0).standard_normal((2000, n_parties))
    made = [
        summarize(columns[:, [j]], party=f"p{j}", kernel=RBF(0.1), rank=Fixed(rank), solver="landmark")[0]
        for j in range(n_parties)
    ]
    assert sum(map(wire.size, made)) < 17_500 * rank
    fuse(made, n_components=1)  # what is loaded at first use is not counted
    assert peak(lambda: fuse(made, n_components=1)) < 2**23  # strips; the matrix would take 32 MB, and its solver 96


def test_the_claimed_length_of_a_file_is_not_believed():
    assert peak(lambda: wire.decode(struct.pack("<Q", 2**60) + b"{}")) < BASE


def test_settings_take_at_most_fifty_times_their_bytes(tmp_path):
    (tmp_path / "settings.json").write_text("[" + "[]," * 20_000 + "[]]")
    assert peak(lambda: storage.read_json(tmp_path / "settings.json")) <= BASE + MULTIPLE * 60_002
