"""Tables made to break a reader end in one sentence that names the file, in little memory and without waiting."""

import os
from typing import Any

import polars as pl
import pytest

from dkpca.errors import InputError, StorageError
from dkpca.tables.reading import Reading, column_names, read
from dkpca.tables.text_files import MOST_COLUMNS

ROWS = "".join(f"s{i},{i % 7},{i % 5}\n" for i in range(40_000))
LONG = "z" * 200_000


def refused(path, **how):
    with pytest.raises((InputError, StorageError)) as error:
        read(path, Reading(**({"id_column": "id"} | how)))
    assert path.name in str(error.value)
    return str(error.value)


def npy(dtype, shape, body=b""):
    head = f"{{'descr':'{dtype}','fortran_order':False,'shape':{shape}}}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + body


def test_a_header_of_any_length_is_read_whole(tmp_path):
    names = [f"a_rather_long_name_of_a_transcript_{'x' * 300}_{j}" for j in range(900)]
    row = ";".join(["7"] * len(names))
    (tmp_path / "wide.csv").write_text(f"id;{';'.join(names)}\na;{row}\nb;{row}\n")
    assert column_names(tmp_path / "wide.csv") == ["id", *names]


def test_more_columns_than_any_table_has_are_refused_before_they_are_named(tmp_path):
    (tmp_path / "t.csv").write_text("a," * (MOST_COLUMNS + 1) + "a\n")
    assert f"has {MOST_COLUMNS + 2:,} columns, more than {MOST_COLUMNS:,}" in refused(tmp_path / "t.csv")


@pytest.mark.parametrize("last", ["r,1\nt,1,2\n", "r,1,2,3,4\n"], ids=["a short row", "a long row"])
def test_a_cell_longer_than_any_is_a_sentence(tmp_path, last):
    (tmp_path / "t.csv").write_text(f"id,x,y\n{ROWS}q,{LONG},2\n{last}")
    assert "field larger than field limit" in refused(tmp_path / "t.csv")


def test_nul_bytes_are_refused_wherever_they_are(tmp_path):
    (tmp_path / "t.csv").write_text(f"id,x,y\n{ROWS}a\0b,1,2\n")
    assert "neither UTF-8, UTF-16 with its mark, nor Windows-1252" in refused(tmp_path / "t.csv")


def test_letters_that_are_none_are_refused(tmp_path):
    (tmp_path / "t.npy").write_bytes(npy("<U1", (10, 2), b"\xff" * 80))
    assert "it is damaged" in refused(tmp_path / "t.npy", id_column=None)


@pytest.mark.parametrize("name", ["t.arrow", "t.parquet"])
def test_all_columns_of_a_table_are_counted_before_they_are_read(tmp_path, name, monkeypatch):
    table = pl.DataFrame({f"x{j}": pl.repeat(0.0, 100_000, eager=True) for j in range(4)})
    write: Any = {"t.arrow": table.write_ipc, "t.parquet": table.write_parquet}[name]
    write(tmp_path / name, compression="zstd")
    assert len(read(tmp_path / name, Reading())) == 100_000
    monkeypatch.setattr("dkpca.tables.inputs.free_memory", lambda _: 2_000_000)
    assert "would take 0.0 GB of memory, and 0.0 GB are free" in refused(tmp_path / name, id_column=None)


def test_a_reader_that_panics_is_a_sentence(tmp_path, monkeypatch):
    def panic(*_, **__):
        raise pl.exceptions.PanicException("range end index 9151314442816848632 out of range")

    pl.DataFrame({"id": ["a", "b"], "x": [1.0, 2.0]}).write_ipc(tmp_path / "t.arrow")
    monkeypatch.setattr(pl, "scan_ipc", panic)
    assert "cannot be read as a .arrow table (range end index 9151" in refused(tmp_path / "t.arrow")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.npy", "t.h5ad", "t.h5mu/rna"])
def test_a_pipe_is_no_table_and_nobody_waits_for_it(tmp_path, name):
    file = tmp_path / name.partition("/")[0]
    os.mkfifo(file)
    with pytest.raises(InputError, match="is a directory or a pipe, not a table; give a file"):
        read(tmp_path / name, Reading())
