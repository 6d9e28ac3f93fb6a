"""Three hospitals' tables about partly the same patients, as exports look: for the tutorial.

Run it with: python -m examples.hospitals --out hospitals
"""

import argparse
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

PATIENTS = 240


def patients(seed: int = 5) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Ids, diagnoses, and for each patient how high sugar and pressure are; no hospital measures both well."""
    rng = np.random.default_rng(seed)
    ids = [f"{number:05d}" for number in rng.choice(99_999, PATIENTS, replace=False)]
    sugar, pressure = rng.random(PATIENTS) < 0.5, rng.random(PATIENTS) < 0.5
    with_sugar = np.where(pressure, "kidney disease", "diabetes")
    names = np.where(sugar, with_sugar, np.where(pressure, "hypertension", "healthy"))
    noise = 0.7 * rng.normal(size=(2, PATIENTS))
    return ids, names, 3.0 * sugar + noise[0], 3.0 * pressure + noise[1]


def write(folder: Path) -> None:
    """Write one folder per hospital, and the diagnoses, which only the clinic has."""
    rng = np.random.default_rng(1)
    ids, diagnosis, sugar, pressure = patients()
    for name in ("clinic", "laboratory", "pharmacy"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "clinic" / "clinic.csv").write_bytes("".join(_clinic(ids, pressure, rng)).encode("cp1252"))
    _workbook(folder / "laboratory" / "laboratory.xlsx", "Results", _laboratory(ids, sugar, rng))
    (folder / "pharmacy" / "pharmacy.csv").write_text("".join(_pharmacy(ids, sugar, pressure, rng)))
    lines = [f"{i};{name}\r\n" for i, name in zip(ids, diagnosis, strict=True)]
    (folder / "clinic" / "diagnoses.csv").write_bytes("".join(["Patienten-Nr;Diagnose\r\n", *lines]).encode("cp1252"))


def _some(rng: np.random.Generator, share: float) -> list[int]:
    """Patients a hospital knows, in its own order."""
    return rng.permutation(PATIENTS)[: int(share * PATIENTS)].tolist()


def _clinic(ids: Sequence[str], pressure: np.ndarray, rng: np.random.Generator) -> Iterable[str]:
    """A German export: semicolons, decimal commas, dates, text, gaps."""
    yield "Patienten-Nr;Geschlecht;Aufnahme;Alter;Puls;Blutdruck (mmHg)\r\n"
    for i in _some(rng, 0.9):
        day, month = rng.integers(1, 29), rng.integers(1, 12)
        pulse = f"{70 + 6 * pressure[i] + 3 * rng.normal():.1f}".replace(".", ",")
        systolic = f"{115 + 14 * pressure[i] + 4 * rng.normal():.1f}".replace(".", ",")
        age = 45 + 6 * pressure[i] + 5 * rng.normal()
        cells = [ids[i], "mw"[rng.integers(0, 2)], f"{day:02d}.{month:02d}.2024", f"{age:.0f}", pulse]
        yield ";".join([*cells, "k.A." if rng.random() < 0.03 else systolic]) + "\r\n"


def _laboratory(ids: Sequence[str], sugar: np.ndarray, rng: np.random.Generator) -> Iterable[list[object]]:
    """A sheet of a workbook."""
    yield ["PatientID", "Glucose", "HbA1c", "Cholesterol"]
    for i in _some(rng, 0.85):
        long_term = round(5.4 + 0.8 * sugar[i] + 0.2 * rng.normal(), 2)
        glucose, fat = round(95 + 25 * sugar[i] + 8 * rng.normal(), 1), round(190 + 12 * sugar[i] + 15 * rng.normal())
        yield [ids[i], glucose, long_term if rng.random() > 0.04 else None, fat]


def _pharmacy(ids: Sequence[str], sugar: np.ndarray, pressure: np.ndarray, rng: np.random.Generator) -> Iterable[str]:
    """An English export: commas between thousands, quotes."""
    yield "patient_id,packs,cost,generic\n"
    for i in _some(rng, 0.9):
        packs = max(0, round(6 + 2 * sugar[i] + 2 * pressure[i] + rng.normal()))
        cost = max(10.0, 400 + 500 * sugar[i] + 150 * rng.normal())
        yield f'{ids[i]},{packs},"{cost:,.2f}",{rng.integers(20, 95)}\n'


def _workbook(path: Path, sheet: str, rows: Iterable[Sequence[object]]) -> None:
    """Write the least that a program for spreadsheets opens."""

    def cell(value: object) -> str:
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
        return "<c/>" if value is None else f"<c><v>{value}</v></c>"

    lines = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType='
        f'"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" '
        f'ContentType="{kinds}.sheet.main+xml"/><Override PartName="/xl/sheet1.xml" '
        f'ContentType="{kinds}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {space} xmlns:r="{office}"><sheets><sheet name="{sheet}" sheetId="1" '
        'r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/worksheet" Target="sheet1.xml"/></Relationships>',
        "xl/sheet1.xml": f"<worksheet {space}><sheetData>{lines}</sheetData></worksheet>",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("hospitals"))
    write(parser.parse_args().out)
