"""How numbers and tables are written."""

from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]
Results = dict[str, Any]
Values = dict[str, Any]  # what the template's fields are filled with


def short(value: float) -> str:
    """Two digits that matter."""
    if value < 1e-20:
        return "0"
    return f"{value:.2g}" if 0.001 <= value < 1000 else f"{value:.1e}"


def plus_minus(row: Row) -> str:
    """Mean ± standard deviation, short."""
    return f"{short(row['mean'])} ± {short(row['std'])}"


def seconds(value: float) -> str:
    """A duration."""
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.1f} s"


def megabytes(value: float) -> str:
    """An amount of memory, given in megabytes."""
    return f"{value:.0f} MB"


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def holds(claim: bool) -> str:
    """A verdict."""
    return "holds" if claim else "does not hold"
