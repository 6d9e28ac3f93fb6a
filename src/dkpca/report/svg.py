"""A small writer of SVG pictures, which every browser shows: a few curves and bars need no plotting library."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

INK, FAINT = "#222222", "#bbbbbb"
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"  # Okabe and Ito


def element(name: str, *inside: str, **attributes: Any) -> str:
    """One element; attributes as in SVG, with `_` for `-`, and `class_` for class."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"' for key, value in attributes.items()
    )
    return f"<{name}{given}>{''.join(inside)}</{name}>" if inside else f"<{name}{given}/>"


def text(x: float, y: float, words: str, anchor: str = "start", **more: Any) -> str:
    """Words that begin, end, or have their middle at a place."""
    return element("text", escape(words), x=x, y=y, text_anchor=anchor, **more)


def curve(points: Iterable[tuple[float, float]], **more: Any) -> str:
    """Points joined by straight lines."""
    return element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), **({"fill": "none"} | more))


def rows(names: Sequence[str], ys: Sequence[float], left: float, right: float) -> str:
    """Lines of a grid with their names to the left of them."""
    return "".join(
        element("line", class_="grid", stroke=FAINT, stroke_width=0.5, x1=left, x2=right, y1=y, y2=y)
        + text(left - 8, y + 4, name, "end")
        for name, y in zip(names, ys, strict=True)
    )


def picture(width: float, height: float, label: str, *inside: str) -> str:
    """A file of its own, on white."""
    paper = element("rect", width=width, height=height, fill="white")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" '
        f'font-size="12" fill="{INK}" role="img" aria-label="{escape(label)}">{paper}{"".join(inside)}</svg>\n'
    )


def _plain(value: Any) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
