"""What a person reads on the terminal, and what a script does."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from dkpca.wording import visible

out = Console(highlight=False, emoji=False, soft_wrap=True, width=None if sys.stdout.isatty() else 80)
aside = Console(stderr=True, highlight=False, emoji=False)


def show(as_json: bool, result: Mapping[str, Any], lines: Sequence[str | Text | Table]) -> None:
    """Print the result: as one JSON object, or in words."""
    if as_json:
        print(json.dumps(result))
        return
    for line in lines:
        if isinstance(line, Text):
            line.plain = visible(line.plain)
        out.print(visible(line) if isinstance(line, str) else line, markup=False)


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table, all but the first column to the right; where it is tight only the first one is folded."""
    made = Table(title=title or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    rows = [list(map(visible, row)) for row in rows]
    made.add_column(headings[0], overflow="fold")
    for position, heading in enumerate(headings[1:], start=1):
        widest = max(len(cell) for cell in (heading, *(row[position] for row in rows)))
        made.add_column(heading, justify="right", no_wrap=True, min_width=widest)
    for row in rows:
        made.add_row(*map(Text, row))  # a heading such as 'SBP [mmHg]' is no markup
    return made


@contextmanager
def progress(task: str, total: int | None = None) -> Iterator[Any]:
    """Progress on stderr while something long runs; yields a function to call after each step.

    Without a number of steps it listens how far a solver is, and shows an estimate of the time that is left.
    """
    from dkpca.linalg.rows import listening  # later: `--help` does without NumPy

    count = MofNCompleteColumn() if total else TimeRemainingColumn()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn())
    with Progress(*columns, console=aside, transient=True, disable=not aside.is_terminal) as bar:
        started = bar.add_task(task, total=total)

        def told(what: str, share: float) -> None:
            bar.update(started, total=1.0, completed=share, description=f"{task} ({what})")

        with nullcontext() if total else listening(told):
            yield lambda: bar.advance(started)
