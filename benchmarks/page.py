"""Put the measurements into docs/benchmarks.md and docs/performance.md, between their markers."""

import json
import operator
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS

PAGES = [Path(__file__).parent.parent / "docs" / name for name in ("benchmarks.md", "performance.md")]
MARKED = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
COMPARED = {"<=": operator.le, "<": operator.lt, ">=": operator.ge}
DEVICE = "device: "  # a line that names the GPU, for the caption

Line = dict[str, Any]


def main() -> None:
    for page in PAGES:
        page.write_text(filled(page.read_text()))


def filled(text: str) -> str:
    """Return the page with its tables as the result files give them, and the list of targets that were missed."""
    made = {"missed": missed_targets, "in-short": in_short}
    names = [name for _, name, _ in MARKED.findall(text)]
    tables = {name: made[name](names) if name in made else as_tables(read(name)) for name in names}
    return MARKED.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n\n{found[3]}", text)


def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return document


def as_tables(document: dict[str, Any]) -> str:
    """Lines as "case: measure". Measures that several cases share become columns; the other lines stay a list."""
    lines = [line for line in document["lines"] if not line["what"].startswith(DEVICE)]
    cases: dict[str, dict[str, Line]] = {}
    for line in lines:
        case, _, measure = line["what"].rpartition(": ")
        cases.setdefault(case, {})[measure] = line
    count = Counter(measure for case, measures in cases.items() if case for measure in measures)
    wide = {case: found for case, found in cases.items() if case and sum(count[name] > 1 for name in found) > 1}
    columns = [
        measure for measure, number in count.items() if number > 1 and any(measure in m for m in wide.values())
    ]
    rows = [
        f"| {case} | {' | '.join(with_target(found[name]) if name in found else '' for name in columns)} |"
        for case, found in wide.items()
    ]
    parts = ["\n".join([f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}", *rows])] if rows else []
    shown = {id(found[name]) for found in wide.values() for name in columns if name in found}
    rest = [f"| {line['what']} | {with_target(line)} |" for line in lines if id(line) not in shown]
    parts += ["\n".join(["| | measured |", "|---|---|", *rest])] if rest else []
    return "\n\n".join([*parts, caption(document)])


def with_target(line: Line) -> str:
    """Value, its target in parentheses, and whether it missed it."""
    value, limit = number(line["value"]), line.get("limit", "")
    if not limit:
        return value
    return f"**{value}** (missed: {limit})" if missed(line) else f"{value} ({limit})"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def missed(line: Line) -> bool:
    sign, _, most = line.get("limit", "").partition(" ")
    return bool(sign) and not COMPARED[sign](line["value"], float(most))


def missed_targets(names: list[str]) -> str:
    """Lines of these tables whose target was missed."""
    lines = [line for name in names if name != "missed" for line in read(name)["lines"] if missed(line)]
    return (
        "\n".join(f"- {line['what']}: {number(line['value'])} (target {line['limit']})" for line in lines) or "None."
    )


def in_short(names: list[str]) -> str:
    """Seconds and memory by number of samples: sums and maxima of lines of the other tables."""
    measured = {line["what"]: line["value"] for name in ("scale", "many-rows", "gpu") for line in read(name)["lines"]}
    flights, rows = "flights, T = 232412, 4 parties, rank 40, 500 landmarks", "10,000,000 rows, 7 components"
    synthetic, device = (
        "1,000,000 synthetic samples, 4 parties of 16 columns, rank 30",
        "samples by landmarks, 500 at",
    )
    whole = "the center: parties and center, seconds"
    cells: list[tuple[str, list[str], list[str], list[str]]] = [
        ("232,412 (flights)", [f"{flights}: seconds"], [f"{flights}: peak memory, GB"],
         ["flights: rank 30 and 400 landmarks, parties and center, seconds"]),
        ("1,000,000", [f"{synthetic}: seconds"], [f"{synthetic}: peak memory, GB"],
         ["1,000,000 samples, landmarks, parties and center, seconds"]),
        ("10,000,000", [f"{rows}: slowest party, seconds", f"{rows}: center, seconds"],
         [f"{rows}: largest party, GB", f"{rows}: center, GB"], [f"10,000,000 {device} {whole}"]),
        ("100,000,000", [], [], [f"100,000,000 {device} {whole}"]),
    ]  # fmt: skip

    def shown(combine: Callable[[list[float]], float], lines: list[str]) -> str:
        return number(combine([measured[line] for line in lines])) if lines else ""

    table = ["| samples | two cores, seconds | two cores, GB | one H200, seconds |", "|---|---|---|---|"]
    table += [
        f"| {samples} | {shown(sum, seconds)} | {shown(max, memory)} | {shown(sum, gpu)} |"
        for samples, seconds, memory, gpu in cells
    ]
    return "\n".join(table)


def caption(document: dict[str, Any]) -> str:
    machine = document["machine"]
    devices = [line["what"].removeprefix(DEVICE) for line in document["lines"] if line["what"].startswith(DEVICE)]
    where = [*devices, f"{machine['cores']} cores ({machine['machine']})"]
    where += [f"{name} {version}" for name, version in machine.items() if name not in ("cores", "machine")]
    return f"Measured on {document['date']}: {', '.join(where)}."


if __name__ == "__main__":
    main()
