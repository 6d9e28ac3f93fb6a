"""Print the first program of the README, for `make build` to run with what it built."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def first_program(text: str) -> str:
    """The first Python block of a Markdown text."""
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]


if __name__ == "__main__":
    print(first_program(README.read_text()), end="")
