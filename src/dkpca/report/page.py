"""One self-contained page that works offline: it loads nothing, and may send nothing."""

import base64
import hashlib
import json
import re
from html import escape
from importlib.resources import files
from string import Template

from dkpca.report.content import Content, drawn_samples, packed
from dkpca.report.sections import drawn_words, headline, sections, subtitle

LARGEST_PAGE = 6_000_000  # bytes
PARTS = files("dkpca.report")
# Each file after those it imports: joined, they are one module.
SCRIPTS = (
    *("dom", "theme", "data", "colors", "view", "webgl", "canvas2d", "axes", "legend", "neighbors", "selection"),
    *("details", "search", "pointer", "svg", "charts", "explorer", "main"),
)
IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE | re.DOTALL)
EXPORT = re.compile(r"^export ", re.MULTILINE)


def render(content: Content, *, points: int) -> str:
    """Return the page; as many samples are drawn as are asked for and as its size allows."""
    page = _render(content, points)
    while len(page.encode()) > LARGEST_PAGE and points > 1000:
        points = int(min(points, len(content.source.names)) * 0.95 * LARGEST_PAGE / len(page.encode()))
        page = _render(content, points)
    return page


def _render(content: Content, points: int) -> str:
    drawn = drawn_samples(content, points)
    header, bundle = packed(content, drawn)
    style, script = _text("style.css"), joined_scripts()
    return Template(_text("page.html")).substitute(
        title=escape(content.title),
        policy=_policy(style, script),
        style=style,
        script=script,
        subtitle=subtitle(content),
        headline=headline(content),
        drawn=drawn_words(content, drawn),
        sections=sections(content),
        # In a script element the browser looks for nothing but its end and comments, both of which need this sign.
        header=json.dumps(header, separators=(",", ":")).replace("<", "\\u003c"),
        bundle=bundle,
    )


def joined_scripts() -> str:
    """All scripts as one module: imports go, since everything they name is there."""
    parts = (_text(f"script/{name}.js") for name in SCRIPTS)
    return "\n".join(EXPORT.sub("", IMPORT.sub("", part)) for part in parts)


def _policy(style: str, script: str) -> str:
    """Only this script and this style, and nothing from or to anywhere else."""
    return (
        f"default-src 'none'; script-src '{_fingerprint(script)}'; style-src '{_fingerprint(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _fingerprint(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _text(name: str) -> str:
    return PARTS.joinpath(name).read_text(encoding="utf-8")
