"""Print the page of all commands, made from the commands: python -m testkit.reference > docs/commands.md"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from dkpca import cli

HEAD = """# Commands

`python -m testkit.reference` generates this page from the commands, and a test compares the two.
`dkpca COMMAND --help` prints the same text. Every command exits with 0 only on success. Errors are one sentence on
stderr, or with `--json` [one object](tables.md#errors-for-scripts).
"""


def page() -> str:
    """All of it, panel by panel as `dkpca --help` lists them."""
    parts = [HEAD]
    commands = {name: cli.load(name) for name in cli.MODULES}
    for panel in dict.fromkeys(command.rich_help_panel for command in commands.values()):
        parts.append(f"\n## {panel}\n")
        for name, command in commands.items():
            if command.rich_help_panel == panel:
                parts += _described(f"dkpca {name}", command)
    return "".join(parts)


def _described(name: str, command: Any) -> Iterator[str]:
    """One command, and those within it."""
    yield f"\n### `{name}`\n\n{_words(command.help)}\n"
    inside: dict[str, Any] = {}
    if hasattr(command, "list_commands"):  # some are loaded only when they are named
        inside = {part: command.get_command(None, part) for part in command.list_commands(None)}
    if not inside:
        arguments = [_argument(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
        yield f"\n```text\n{' '.join([name, *arguments])} [OPTIONS]\n```\n"
    shown = [p for p in command.params if not p.hidden and "--help" not in p.opts]
    if shown:
        yield "\n| argument or option | meaning |\n|---|---|\n"
        yield from (f"| {_named(parameter)} | {_meaning(parameter)} |\n" for parameter in shown)
    for part, within in inside.items():
        yield from _described(f"{name} {part}", within)


def _words(text: str | None) -> str:
    """Paragraphs, each on one line."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


def _argument(parameter: Any) -> str:
    shown = str(parameter.metavar or parameter.name.upper())
    shown += "..." if parameter.nargs == -1 and not shown.endswith("...") else ""
    return shown if parameter.required or shown.startswith("[") else f"[{shown}]"


def _named(option: Any) -> str:
    if option.param_type_name == "argument":
        return f"`{_argument(option)}`"
    names = "/".join([*option.opts, *option.secondary_opts])
    words = names if option.is_flag else f"{names} {_value(option)}"
    # A vertical bar ends a cell, also in backquotes; with a backslash some readers show the backslash.
    return f"<code>{words.replace('|', '&#124;')}</code>" if "|" in words else f"`{words}`"


def _value(option: Any) -> str:
    """What stands behind an option."""
    if option.metavar:
        return str(option.metavar)
    kind = option.type_descriptor.annotation
    kind = (get_args(kind) or [kind])[0]
    return {int: "N", float: "X", Path: "FILE"}.get(kind, "TEXT")


def _meaning(option: Any) -> str:
    words = _words(option.help).replace("|", "&#124;").replace("<", "&lt;")
    if option.param_type_name == "argument":
        return words
    if option.required:
        return f"{words} Required."
    shown = option.default not in (None, "", False, [], ()) and option.show_default and "default:" not in words
    return f"{words} Default: `{option.default}`." if shown and not option.is_flag else words


if __name__ == "__main__":
    print(page(), end="")
