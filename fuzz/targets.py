"""Every decoder as a function of bytes that ends normally or with an error a caller may catch, or has a bug."""

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from dkpca import messages, summarize, wire
from dkpca.errors import DKPCAError
from dkpca.fusion import fuse
from dkpca.fusion.plausibility import check_summary
from dkpca.kernels import RBF, Linear
from dkpca.linalg.precision import round_to
from dkpca.messages import (
    AuditRequest,
    AuditRows,
    CommonTokens,
    CovariateRows,
    MaskedSum,
    Partials,
    Rows,
    SampleTokens,
    Scores,
    Seed,
    Shape,
    Statistics,
    Summary,
    sorted_tokens,
)
from dkpca.party.limits import Limits
from dkpca.rank import Fixed
from dkpca.settings import Fit
from dkpca.store import files, runs
from dkpca.store import party_file as party_files
from dkpca.tables.reading import Reading, read
from dkpca.wire import codec
from dkpca.wording import json_values

Target = Callable[[bytes], Any]


@cache
def scratch() -> Path:
    """Return a folder of this process, in memory where that is possible; gone at its end."""
    folder = tempfile.mkdtemp(prefix="dkpca-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def message(data: bytes) -> None:
    """Decode a message; a summary is then looked at as the center would."""
    decoded = wire.decode(data)
    if isinstance(decoded, Summary):
        check_summary(decoded)


def forged_message(data: bytes) -> None:
    """Decode a message with a right checksum whose header and numbers are made of the bytes: structure-aware."""
    if len(data) < 2:
        return
    kinds = samples()
    chosen = kinds[data[0] % len(kinds)]
    header, arrays = wire.encoded(chosen)
    text, _, numbers = data[2:].partition(b"\0")
    with suppress(ValueError):
        changes = json_values(text)
        if isinstance(changes, dict):
            header["fields"] = header["fields"] | changes
    for name in arrays:
        width = arrays[name].dtype.itemsize
        whole = numbers[: len(numbers) // width * width]
        if whole:
            arrays[name] = np.resize(np.frombuffer(whole, arrays[name].dtype), _shape(arrays[name].shape, data[1]))
    with suppress(ValueError, TypeError):  # what JSON cannot hold was never sent
        with patch.object(wire, "encoded", return_value=(header, arrays)):
            written = b"".join(wire.pieces(chosen))
        message(written)


def _shape(shape: tuple[int, ...], byte: int) -> tuple[int, ...]:
    """The shape itself, or one a little off."""
    return shape if byte < 128 else (*(1 + (side + byte) % 5 for side in shape), *(1,) * (byte % 3))


def csv_table(data: bytes) -> None:
    """Read a CSV file as a party would."""
    read(_file("table.csv", data), Reading(id_column="id" if data[:1] < b"\x80" else None))


def npy_table(data: bytes) -> None:
    """Read a NumPy file as a party would."""
    read(_file("table.npy", data), Reading())


def limits(data: bytes) -> None:
    """Read limits."""
    party_files.read_limits(_file("limits.toml", data))


def party_file(data: bytes) -> None:
    """Read what a party has written down about itself."""
    party_files.read(_file("party.toml", data))


def run_settings(data: bytes) -> None:
    """Read the settings of a run."""
    _file("settings.json", data)
    runs.read_settings(scratch())


def fit_settings(data: bytes) -> None:
    """Read what a fit asks for, as a center remembers it."""
    with suppress(ValueError):
        described = json_values(data)
        if isinstance(described, dict):
            codec.decode(Fit, described, what="settings of a fit")


TARGETS: dict[str, Target] = {
    "message": message,
    "forged_message": forged_message,
    "state": files.decode_state,
    "model": files.decode_model,
    "run_settings": run_settings,
    "fit_settings": fit_settings,
    "limits": limits,
    "party_file": party_file,
    "csv_table": csv_table,
    "npy_table": npy_table,
}


def checked(name: str) -> Target:
    """Return a target that lets errors pass which a caller may catch."""

    def run(data: bytes) -> None:
        with suppress(DKPCAError):
            TARGETS[name](data)

    return run


def seeds(name: str) -> Iterator[bytes]:
    """Well-formed inputs from which the search begins."""
    summary, state = summarize(np.eye(4)[:, :2], party="bank", kernel=RBF(0.5), rank=Fixed(2))
    if name == "message":
        yield from map(wire.encode, samples())
    elif name == "forged_message":
        yield b'\0\0{"n_features": 3, "kernel": {"name": "linear", "centered": false}}\0' + bytes(24)
        yield b'\2\xff{"party": "x"}\0' + np.arange(6.0).tobytes()
    elif name == "state":
        yield files.encode_state(state)
    elif name == "model":
        yield files.encode_model(fuse([summary], n_components=1))
    elif name == "npy_table":
        file = BytesIO()
        np.save(file, np.eye(2))
        yield file.getvalue()
    elif name == "fit_settings":
        yield json.dumps(codec.described(Fit(3, gamma=0.5, rank=20))).encode()
    else:
        yield from TEXTS[name]


TEXTS: dict[str, list[bytes]] = {
    "run_settings": [
        b'{"n_components": 1, "center": true, "solver": "dense", "kernel": {"name": "rbf", "gamma": 0.5}, '
        b'"n_samples": 4, "sample_digest": "' + b"0" * 64 + b'", "sample_names": "ids", "parties": {"bank": '
        b'{"n_features": 2, "rank": 2, "precision": "float32", "bytes_sent": 9, "summary_id": "'
        + b"0" * 64
        + b'"}}, "versions": {"dkpca": "0.1.0"}}',
        b'{"run": "first"}',
    ],
    "limits": [Limits().to_toml().encode()],
    "party_file": [b'party = "bank"\ntable = "t.csv"\nid = "i"\nmax_missing = 0.5\n'],
    "csv_table": [b"id,x,y\na,1,2\nb,3,4.5\n", b'\xef\xbb\xbfid,"a,b"\n1,NA\n2,"x"\n'],
}


def samples() -> list[messages.Message]:
    """One message of each kind."""
    matrix, digest = round_to(np.eye(3)[:, :2], "float32"), messages.digest(["a"])
    return [
        Summary("bank", RBF(0.5), digest, 7, matrix, 1.0, 1.0, 1e-7, 1e-7),
        Summary("bank", Linear(), digest, 7, round_to(np.eye(3)[:, :2], "float16"), 1.0, 1.0, 1e-7, 1e-7),
        Statistics("bank", 100, 5, 12.5),
        Rows("bank", digest, digest, matrix),
        Partials("bank", digest, digest, matrix),
        AuditRequest(9, digest, 7, 3, (2, 5)),
        AuditRows("bank", digest, digest, (0, 1, 4), matrix),
        CovariateRows("bank", matrix),
        SampleTokens("bank", sorted_tokens([b"b" * 16, b"a" * 16])),
        CommonTokens(2, sorted_tokens([b"c" * 16])),
        Scores(3, RBF(0.5), digest, matrix, 0.25, 0.5),
        Summary("bank", RBF(0.5), digest, 7, round_to(np.eye(3)[:, :2], "compact"), 1.0, 1.0, 1e-7, 1e-7),
        MaskedSum("bank", digest, np.arange(8, dtype=np.uint8)),
        Seed("bank", "shop", "a" * 64, "b" * 64),
        Shape("bank", 100, 5, digest),
    ]


def _file(name: str, data: bytes) -> Path:
    path = scratch() / name
    path.write_bytes(data)
    return path
