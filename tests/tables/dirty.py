"""Tables as people export them, made at random with a known truth.

Nothing here uses the library: what a careful person would match is worked out from what stands in the files.
"""

import unicodedata
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openpyxl
import polars as pl

MISSING = ("", "NA", "n/a", "-", "#NV", "NaN")
NAMES = ("Jürgen", "Zoë", "Ångström", "O'Neil", "de la Cruz", "Smith")


@dataclass
class Sheet:
    """One table: what stands in its id column, in its order, and the numbers beside it (NaN: missing)."""

    path: Path
    ids: list[str]
    values: np.ndarray
    kind: str


def make_pair(folder: Path, seed: int) -> tuple[list[Sheet], tuple[str, ...]]:
    """Two tables about partly the same people, and how their owners agreed to make ids alike."""
    rng = np.random.default_rng(seed)
    people = _people(rng, int(rng.integers(4, 25)))
    scale, digits = 10.0 ** rng.integers(0, 6), int(rng.integers(0, 5))
    truth = {person: rng.normal(scale=scale, size=2).round(digits) for person in people}
    sheets = []
    for name in ("a", "b"):
        chosen = [person for person in people if rng.random() < 0.85]
        chosen = [chosen[i] for i in rng.permutation(len(chosen))] or people[:1]
        spelled = [_spelled(person, rng) for person in chosen]
        values = np.array([truth[person] for person in chosen])
        values[rng.random(values.shape) < 0.1] = np.nan
        sheets.append(_write(folder, name, spelled, values, rng))
    ways = [(), ("strip",), ("unicode",), ("case",), ("strip", "unicode", "case")][rng.integers(0, 5)]
    return sheets, ways


def careful_match(sheets: list[Sheet], ways: tuple[str, ...]) -> list[list[str]] | None:
    """Ids of the samples that both tables have, in the order of the first; None: a careful person would ask first."""

    def alike(text: str) -> str:
        if "strip" in ways:
            text = text.strip()
        if "unicode" in ways:
            text = unicodedata.normalize("NFC", text)
        if "case" in ways:
            text = text.casefold()
        return text

    by_key = [{alike(text): text for text in sheet.ids} for sheet in sheets]
    if any(not text.strip() for sheet in sheets for text in sheet.ids):
        return None
    if any(len(keys) < len(sheet.ids) for keys, sheet in zip(by_key, sheets, strict=True)):
        return None
    common = [key for key in by_key[0] if key in by_key[1]]
    return [[keys[key] for key in common] for keys in by_key] if common else None


def _people(rng: np.random.Generator, count: int) -> list[str]:
    style = rng.integers(0, 5)
    numbers = rng.choice(5000, size=count, replace=False)
    if style == 0:
        return [f"{n:04d}" for n in numbers]
    if style == 1:
        return [f"{n}E{n % 3}" for n in numbers]
    if style == 2:
        return [f"{NAMES[n % len(NAMES)]} {n}" for n in numbers]
    return [str(n) for n in numbers] if style == 3 else [f"P-{n}.0" for n in numbers]


def _spelled(person: str, rng: np.random.Generator) -> str:
    dice = rng.random()
    if dice < 0.05:
        return person + " "
    if dice < 0.08:
        return " " + person
    if dice < 0.13:
        return unicodedata.normalize("NFD", person)
    if dice < 0.18:
        return person.upper()
    return person.lstrip("0") or "0" if dice < 0.2 else person


def _write(folder: Path, name: str, ids: list[str], values: np.ndarray, rng: np.random.Generator) -> Sheet:
    dice = rng.random()
    if dice < 0.05:
        ids[-1] = ids[0]
    elif dice < 0.1:
        ids[-1] = " "
    kind = str(rng.choice(["csv", "csv", "csv", "csv", "tsv", "parquet", "parquet", "xlsx"]))
    path = folder / f"{name}.{kind}"
    if kind in ("csv", "tsv"):
        _write_text(path, ids, values, rng)
    elif kind == "parquet":
        if all(text.isdecimal() and text == str(int(text)) for text in ids) and rng.random() < 0.7:
            stored = pl.Series([int(text) for text in ids]).cast(pl.Float64 if rng.random() < 0.5 else pl.Int32)
        else:
            stored = pl.Series(ids)
        pl.DataFrame({"id": stored, "x": values[:, 0], "y": values[:, 1]}).write_parquet(path)
    else:
        _write_workbook(path, ids, values, rng)
    return Sheet(path, ids, values, kind)


def _write_workbook(path: Path, ids: list[str], values: np.ndarray, rng: np.random.Generator) -> None:
    book = openpyxl.Workbook()
    book.active.append(["id", "x", "y"])
    for text, row in zip(ids, values, strict=True):
        book.active.append([text, *(None if np.isnan(number) else float(number) for number in row)])
    book.create_sheet("empty")
    book.save(path)


def _write_text(path: Path, ids: list[str], values: np.ndarray, rng: np.random.Generator) -> None:
    separator = "\t" if path.suffix == ".tsv" else str(rng.choice([",", ";", ";", "\t", "|"]))
    decimal = "," if rng.random() < 0.5 else "."
    quote_all = rng.random() < 0.2
    marks = rng.choice(MISSING, size=2)
    end = str(rng.choice(["\n", "\r\n"]))

    def cell(text: str) -> str:
        needs = quote_all or any(letter in text for letter in (separator, '"', "\n"))
        return '"' + text.replace('"', '""') + '"' if needs else text

    def number(value: float) -> str:
        if np.isnan(value):
            return str(rng.choice(marks))
        return f"{value:.10f}".rstrip("0").rstrip(".").replace(".", decimal)

    lines = [separator.join(["id", "x", "y"])]
    lines += [
        separator.join(cell(text) for text in (own, *map(number, row))) for own, row in zip(ids, values, strict=True)
    ]
    if rng.random() < 0.2:
        lines = [line + separator for line in lines]
    text = end.join(lines) + (end if rng.random() < 0.9 else "")
    encodings = ["utf-8", "utf-8-sig", "utf-16", "cp1252"]
    encoding = str(rng.choice(encodings))
    try:
        path.write_bytes(text.encode(encoding))
    except UnicodeEncodeError:  # a letter in parts, which Windows-1252 has not
        path.write_bytes(text.encode())
