"""What a reader has to take in at once is small: the limits of CONTRIBUTING.md, counted."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "dkpca"


def lines_of_functions(source):
    """Lines of code of each function's body by name: no docstring, no comment, no empty line."""
    code = {number for number, line in enumerate(source.splitlines(), 1) if line.strip()[:1] not in ("", "#")}
    counts: dict[str, int] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = {line for statement in body for line in range(statement.lineno, (statement.end_lineno or 0) + 1)}
            counts[node.name] = max(len(lines & code), counts.get(node.name, 0))
    return counts


def test_only_lines_of_code_are_counted():
    source = 'def f(\n    a,\n):\n    """Say.\n\n    More.\n    """\n    # why\n    b = [\n        a,\n    ]\n\n'
    assert lines_of_functions(source) == {"f": 3}


@pytest.mark.longer
def test_a_function_has_60_lines_of_code_at_most():
    sources = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    functions = {module: lines_of_functions(source) for module, source in sources.items()}
    assert len(functions) > 80
    assert {(module, name) for module, counts in functions.items() for name in counts if counts[name] > 60} == set()
