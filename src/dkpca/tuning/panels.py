"""Curves and bars as one SVG picture, which every browser shows; no plotting library is needed for it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 880, 660
PANEL_WIDTH, PANEL_HEIGHT = 340, 210
LEFT, TOP, STEP_X, STEP_Y = 60, 70, 430, 300
INK, FAINT = "#222222", "#bbbbbb"


@dataclass(frozen=True)
class Line:
    """One curve: a value from 0 to 1 for each position; a band of so much around it where it is known."""

    name: str
    color: str
    values: Sequence[float]
    errors: Sequence[float] = ()


@dataclass(frozen=True)
class Panel:
    """Curves over one choice; the one that is suggested has a mark."""

    title: str
    labels: Sequence[str]
    positions: Sequence[float]  # from 0 to 1
    lines: Sequence[Line]
    chosen: int | None


@dataclass(frozen=True)
class Group:
    """Bars about one thing: name, color and value of each."""

    name: str
    bars: Sequence[tuple[str, str, float]]


def drawn(title: str, subtitle: str, panels: Sequence[Panel], groups: Sequence[Group]) -> str:
    """All panels, and the groups of bars in one more."""
    parts = [_panel(panel, *_corner(number)) for number, panel in enumerate(panels)]
    parts.append(_bars(groups, *_corner(len(panels))))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{escape(title)}">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        f"{_text(LEFT, 22, title, size=15)}{_text(LEFT, 40, subtitle)}{''.join(parts)}</svg>\n"
    )


def _panel(panel: Panel, left: float, top: float) -> str:
    xs = [left + position * PANEL_WIDTH for position in panel.positions]
    parts = [_frame(panel.title, left, top)]
    if panel.chosen is not None:
        x = xs[panel.chosen]
        parts.append(f'<path d="M{x:.1f} {top}V{top + PANEL_HEIGHT}" stroke="{INK}" stroke-dasharray="4 4"/>')
    last = -math.inf
    for x, label in zip(xs, panel.labels, strict=True):
        if x - last > 7 * len(label) + 6:
            parts.append(_text(x, top + PANEL_HEIGHT + 16, label, anchor="middle"))
            last = x
    parts += [_line(line, xs, top) for line in panel.lines]
    parts.append(_legend([(line.name, line.color) for line in panel.lines], left, top + PANEL_HEIGHT + 36))
    return "".join(parts)


def _line(line: Line, xs: Sequence[float], top: float) -> str:
    points = [(x, _height(value, top)) for x, value in zip(xs, line.values, strict=True)]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    bars = "".join(
        f'<path d="M{x:.1f} {_height(v - e, top):.1f}V{_height(v + e, top):.1f}" stroke="{line.color}"/>'
        for x, v, e in zip(xs, line.values, line.errors or [0.0] * len(xs), strict=True)
        if e
    )
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.color}"/>' for x, y in points)
    return f'<path d="{path}" fill="none" stroke="{line.color}" stroke-width="2"/>{bars}{dots}'


def _bars(groups: Sequence[Group], left: float, top: float) -> str:
    """Groups of bars side by side."""
    parts = [_frame("weights", left, top)]
    slot = PANEL_WIDTH / len(groups)
    for number, group in enumerate(groups):
        middle = left + (number + 0.5) * slot
        parts.append(_text(middle, top + PANEL_HEIGHT + 16, group.name, anchor="middle"))
        width = slot * 0.7 / len(group.bars)
        for place, (_, color, value) in enumerate(group.bars):
            x, y = middle + (place - len(group.bars) / 2) * width, _height(value, top)
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{top + PANEL_HEIGHT - y:.1f}" '
                f'fill="{color}"/>'
            )
    parts.append(_legend([(name, color) for name, color, _ in groups[0].bars], left, top + PANEL_HEIGHT + 36))
    return "".join(parts)


def _frame(title: str, left: float, top: float) -> str:
    """Axes from 0 to 1."""
    parts = [_text(left, top - 8, title, size=14)]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _height(tick, top)
        parts.append(f'<path d="M{left} {y:.1f}H{left + PANEL_WIDTH}" stroke="{FAINT}" stroke-width="0.5"/>')
        parts.append(_text(left - 8, y + 4, f"{tick:g}", anchor="end"))
    return "".join(parts)


def _legend(named: Sequence[tuple[str, str]], left: float, top: float) -> str:
    parts = []
    for name, color in named:
        parts.append(f'<rect x="{left:.1f}" y="{top - 9}" width="10" height="10" fill="{color}"/>')
        parts.append(_text(left + 14, top, name))
        left += 14 + 6.6 * len(name) + 16
    return "".join(parts)


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{INK}">{escape(words)}</text>'
    )


def _height(value: float, top: float) -> float:
    """Where a share stands; a score below 0 is drawn as 0."""
    return top + PANEL_HEIGHT * (1.0 - min(1.0, max(0.0, value)))


def spread(values: Sequence[float]) -> list[float]:
    """Positions from 0 to 1."""
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.5 for value in values]


def _corner(number: int) -> tuple[float, float]:
    return LEFT + STEP_X * (number % 2), TOP + STEP_Y * (number // 2)
