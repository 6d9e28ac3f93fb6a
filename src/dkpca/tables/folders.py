"""A table in several Parquet files of one folder, as Spark and Dask write it: one after the other, by their names."""

import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from dkpca.errors import InputError

SUFFIXES = (".parquet", ".pq")
Schema = Mapping[str, pl.DataType]
ASIDE = ("_", ".")  # first letters of files that are about the others: _SUCCESS, _metadata, .part-0.parquet.crc


def is_folder(path: Path) -> bool:
    """Whether this is a folder with Parquet files in it."""
    return path.is_dir() and any(_counts(file) for file in path.iterdir())


def parts(folder: Path) -> list[Path]:
    """Return the files of a table in their order: by name, with numbers in names by their size."""
    found = sorted(file for file in folder.iterdir() if not file.name.startswith(ASIDE))
    others = [file for file in found if not _counts(file)]
    if others:
        inner = "folders, as columns that are written as names of folders," if others[0].is_dir() else "other files"
        raise InputError(
            f"{folder}: a table in a folder consists of Parquet files, and this one has {inner} in it "
            f"({others[0].name}); move them away, or write the table again without them"
        )
    if not found:
        raise InputError(
            f"{folder}: is a directory or a pipe, not a table; give a file, or a folder of Parquet files"
        )
    found.sort(key=_as_people_count)
    _check_alike(folder, found)
    return found


def words(files: list[Path]) -> str:
    """What is said of them."""
    between = f", from {files[0].name} to {files[-1].name}" if len(files) > 1 else f", {files[0].name}"
    return f"read {len(files)} Parquet files in the order of their names{between}"


def _counts(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES and not file.name.startswith(ASIDE) and file.is_file()


def _as_people_count(file: Path) -> list[tuple[int, int, str]]:
    """Names in the order in which part.2 is before part.10."""
    pieces = re.split(r"(\d+)", file.name)
    return [(int(piece), len(piece), "") if piece.isdecimal() else (-1, 0, piece) for piece in pieces]


def _check_alike(folder: Path, files: list[Path]) -> None:
    """Refuse files whose columns differ: what one of them lacks would be missing in a part of the rows."""
    first = pl.read_parquet_schema(files[0])
    for file in files[1:]:
        schema = pl.read_parquet_schema(file)
        if [*schema.items()] == [*first.items()]:  # in their order, with any release of polars
            continue
        raise InputError(
            f"{folder}: {_difference(files[0].name, first, file.name, schema)}; write all files with the same columns"
        )


def _difference(one: str, first: Schema, other: str, second: Schema) -> str:
    for name, kind in first.items():
        if name not in second:
            return f"column {name!r} is in {one} and not in {other}"
        if kind != second[name]:
            return f"column {name!r} is {kind} in {one} and {second[name]} in {other}"
    strange = [name for name in second if name not in first]
    if strange:
        return f"column {strange[0]!r} is in {other} and not in {one}"
    return f"the columns of {other} are in another order than those of {one}"
