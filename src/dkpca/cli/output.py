"""What a person reads on the terminal, and what a script does."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dkpca.wording import visible

out = Console(highlight=False, emoji=False, soft_wrap=True, width=None if sys.stdout.isatty() else 80)
aside = Console(stderr=True, highlight=False, emoji=False)


def show(as_json: bool, result: Mapping[str, Any], lines: Sequence[str | Table]) -> None:
    """Print the result: as one JSON object, or in words."""
    if as_json:
        print(json.dumps(result))
        return
    for line in lines:
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


def at_work(task: str) -> None:
    """Say on a terminal that something long runs."""
    if aside.is_terminal:
        aside.print(visible(f"{task} ..."), markup=False)
