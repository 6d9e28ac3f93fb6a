"""Draw every figure and write the page."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from experiments import figures
from experiments.command import RESULTS
from experiments.page import beyond, compact, costs, kernels, parties, proofs, recovery, samples, table2
from experiments.page.writing import Results
from experiments.published import TABLE_2

DOCS = Path(__file__).parents[2] / "docs"
TEMPLATE = Path(__file__).with_name("template.md")
NAMES = (
    "fig2",
    "fig3",
    "table1",
    "table2",
    "table2_beyond",
    "bytes",
    "curve",
    "rounding",
    "rounds",
    "certificate",
    "scale",
    "missing",
    "weights",
    "disclosure",
    "error_bars",
)


def main(argv: Sequence[str] | None = None) -> None:
    """Read the results, draw the figures, write the page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=DOCS)
    given = parser.parse_args(argv)
    results = read(given.results)
    draw(results, given.docs / "figures")
    (given.docs / "reproduction.md").write_text(page(results))
    (given.docs / "kernels.md").write_text(kernels.filled((DOCS / "kernels.md").read_text(), results))
    (given.docs / "disclosure.md").write_text(recovery.filled((DOCS / "disclosure.md").read_text(), results))
    (given.docs / "certificate.md").write_text(proofs.filled((DOCS / "certificate.md").read_text(), results))


def read(folder: Path) -> Results:
    """All result files, by name."""
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in NAMES}


def draw(results: Results, folder: Path) -> None:
    """All figures, as SVG and PNG."""
    drawn = {
        "fig2": figures.fig2(results["fig2"]),
        "fig3": figures.fig3(results["fig3"]),
        "fig3_tradeoff": figures.fig3_tradeoff(results["fig3"]),
        "table1": figures.table1(results["table1"]),
        "table2": figures.table2(results["table2"], TABLE_2),
        "bytes": figures.bytes_sent(results["bytes"]),
        "curve": compact.figure(results["curve"]),
        "rounds": figures.rounds(results["rounds"]),
        "certificate": figures.certificate(results["certificate"]),
        "scale": figures.scale(results["scale"]),
    }
    for name, figure in drawn.items():
        figures.save(figure, name, folder)


def page(results: Results) -> str:
    """The page as Markdown."""
    values = {
        "table2": table2.values(results),
        "fig2": parties.values(results["fig2"]),
        "fig3": samples.values(results["fig3"]),
        "table1": costs.values(results["table1"]),
        "bytes": beyond.bytes_values(results["bytes"]),
        "compact": compact.values(results["curve"], results["rounding"]),
        "rounds": beyond.rounds_values(results["rounds"]),
        "certificate": beyond.certificate_values(results["certificate"]),
        "scale": beyond.scale_values(results["scale"]),
    }
    return TEMPLATE.read_text().format(**values)


if __name__ == "__main__":
    main()
