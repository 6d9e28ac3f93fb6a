"""Put the measurements into docs/performance.md, between its markers."""

import json
import re
from pathlib import Path

from benchmarks.measure import RESULTS

PAGES = [Path(__file__).parent.parent / "docs" / name for name in ("performance.md", "reliability.md")]


def main() -> None:
    for page in PAGES:
        page.write_text(filled(page.read_text()))


def filled(text: str) -> str:
    """Return the text with the tables of what was measured."""
    for name in re.findall(r"<!-- begin (\S+) -->", text):
        stored = RESULTS / f"{name}.json"
        if stored.exists():
            begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
            before, rest = text.split(begin, 1)
            text = before + begin + as_table(json.loads(stored.read_text())) + end + rest.split(end, 1)[1]
    return text


def as_table(document: dict) -> str:
    where = ", ".join(f"{key} {value}" for key, value in document["machine"].items())
    rows = [f"| {line['what']} | {line['value']:.3g} | {line.get('limit', '')} |" for line in document["lines"]]
    return "\n".join(["", "| what | measured | aim |", "|---|---|---|", *rows, "", f"Measured on: {where}.", "", ""])


if __name__ == "__main__":
    main()
