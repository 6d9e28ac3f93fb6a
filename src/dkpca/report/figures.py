"""The pictures of the report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dkpca.linalg.arrays import to_numpy
from dkpca.store.runs import Run
from dkpca.tables.reading import Matrix

# Okabe and Ito's colors, told apart by color-blind readers too; yellow is left out, too faint on white.
PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#5B4B9A", "#8C6D31"]
OTHER, INK, GRID = "#B8BCC4", "#1f2430", "#e6e8ec"
MANY_VALUES = 12  # numbers with more distinct values than this are colored on a scale

Figure = Any


@dataclass(frozen=True)
class Points:
    """The samples that are drawn."""

    scores: Matrix  # (n_drawn, n_components)
    names: Sequence[str]
    labels: Sequence[str] | None
    n_samples: int


def color(position: int) -> str:
    """Color of the party, or label, at this position."""
    return PALETTE[position % len(PALETTE)]


def drawn_points(run: Run, labels: Mapping[str, str] | None, most: int) -> Points:
    """Draw at random as many samples as a browser shows well."""
    scores = to_numpy(run.model.scores)
    rows = np.arange(len(scores))
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
    names = [run.sample_names[row] for row in rows.tolist()]
    known = None if labels is None else [labels.get(name, "no label") for name in names]
    return Points(scores[rows], names, known, len(scores))


def scatter(points: Points, label_name: str | None) -> Figure:
    """Components 1 and 2."""
    figure = go.Figure(layout=_layout(height=560))
    for group in _groups(points, label_name):
        x, y = _axis(points, 0)[group.rows], _axis(points, 1)[group.rows]
        figure.add_scatter(
            x=x,
            y=y,
            mode="markers",
            name=group.name,
            showlegend=group.in_legend,
            marker={"size": _size(points, 9.0, 6.0), "opacity": 0.75, "line": {"width": 0}} | group.marker,
            customdata=group.hover,
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_xaxes(title="component 1")
    figure.update_yaxes(title="component 2")
    return figure


def scatter_3d(points: Points, label_name: str | None) -> Figure:
    """Components 1, 2 and 3, to be turned with the mouse."""
    figure = go.Figure(layout=_layout(height=560))
    for group in _groups(points, label_name):
        x, y, z = (_axis(points, d)[group.rows] for d in range(3))
        figure.add_scatter3d(
            x=x,
            y=y,
            z=z,
            mode="markers",
            name=group.name,
            showlegend=group.in_legend,
            marker={"size": _size(points, 4.5, 2.6), "opacity": 0.75, "line": {"width": 0}} | group.marker,
            customdata=group.hover,
            hovertemplate="%{customdata}<extra></extra>",
        )
    axis = {"backgroundcolor": "#fafbfc", "gridcolor": GRID, "zerolinecolor": "#c9cdd5"}
    figure.update_scenes(
        {f"{letter}axis": axis | {"title": {"text": f"component {d + 1}"}} for d, letter in enumerate("xyz")},
        aspectmode="cube",
        camera={"eye": {"x": 1.6, "y": 1.6, "z": 0.9}, "center": {"x": 0, "y": 0, "z": -0.18}},
    )
    figure.update_layout(margin={"l": 0, "r": 0, "t": 8, "b": 8})
    return figure


def scree(run: Run) -> Figure:
    """Eigenvalues inside their certified bounds, as shares of the variance."""
    model, certificate = run.model, run.model.certificate
    total = certificate.total_variance_at_most or 1.0
    found = to_numpy(model.eigenvalues).astype(float)
    low, high = np.array(certificate.eigenvalues_at_least), np.array(certificate.eigenvalues_at_most)
    number = list(range(1, len(found) + 1))
    figure = go.Figure(layout=_layout(height=380))
    figure.add_bar(
        x=number,
        y=found / total,
        name="variance of the component",
        marker={"color": PALETTE[0], "opacity": 0.85},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": (high - found) / total,
            "arrayminus": (found - low) / total,
            "color": INK,
            "thickness": 1.2,
            "width": 5,
        },
        customdata=np.column_stack([low / total, high / total]),
        hovertemplate="component %{x}: %{y:.2%}<br>"
        "certified %{customdata[0]:.2%} to %{customdata[1]:.2%}<extra></extra>",
    )
    figure.add_scatter(
        x=number,
        y=np.cumsum(low) / total,
        name="all up to here, certified at least",
        mode="lines+markers",
        line={"color": PALETTE[4], "width": 2},
        marker={"size": 6},
        hovertemplate="components 1 to %{x}: at least %{y:.1%}<extra></extra>",
    )
    figure.update_xaxes(title="component", dtick=1 if len(found) <= 20 else None)
    figure.update_yaxes(title="share of the variance", tickformat=".0%", rangemode="tozero")
    return figure


def influence_bars(shares: Matrix, parties: Sequence[str]) -> Figure:
    """Who shapes which component."""
    figure = go.Figure(layout=_layout(height=340))
    number = list(range(1, shares.shape[1] + 1))
    for j, party in enumerate(parties):
        figure.add_bar(
            x=number,
            y=shares[j],
            name=escape(party),
            marker={"color": color(j), "line": {"color": "white", "width": 1}},
            hovertemplate=f"{escape(party)}: %{{y:.0%}} of component %{{x}}<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.25, legend_traceorder="normal")
    figure.update_xaxes(title="component", dtick=1 if shares.shape[1] <= 20 else None)
    figure.update_yaxes(title="share of influence", tickformat=".0%", range=[0, 1])
    return figure


def spark_line(values: Sequence[float]) -> str:
    """A spectrum as a small picture, on a logarithmic scale."""
    width, height = 120, 28
    logs = np.log10(np.maximum(np.asarray(values, dtype=float) / max(values), 1e-6))
    x = np.linspace(2, width - 2, len(logs)) if len(logs) > 1 else np.array([2.0])
    y = 2 + (height - 4) * logs / min(-1.0, float(logs.min()))
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return (
        f'<svg class="spark" width="{width}" height="{height}" role="img" aria-label="spectrum">'
        f'<polyline points="{path}" fill="none" stroke="{PALETTE[0]}" stroke-width="1.6"/></svg>'
    )


@dataclass(frozen=True)
class Group:
    """Points of one color."""

    name: str
    rows: Any
    marker: dict[str, Any]
    hover: list[str]
    in_legend: bool


def _groups(points: Points, label_name: str | None) -> list[Group]:
    """Points by label: named colors for categories, a scale for numbers, gray for the rarest."""
    # Plotly reads a little HTML in hover texts, and ids come from others.
    hover = [f"<b>{escape(name)}</b>" for name in points.names]
    everyone = np.arange(len(points.names))
    if points.labels is None:
        return [Group("samples", everyone, {"color": PALETTE[0]}, hover, in_legend=False)]
    title = escape(label_name or "label")
    hover = [f"{text}<br>{title}: {escape(label)}" for text, label in zip(hover, points.labels, strict=True)]
    numbers = _as_numbers(points.labels)
    if numbers is not None:
        marker = {
            "color": numbers,
            "colorscale": "Viridis",
            "showscale": True,
            "colorbar": {"title": {"text": title}},
        }
        return [Group(title, everyone, marker, hover, in_legend=False)]
    frequent = [label for label, _ in Counter(points.labels).most_common()]
    shown = frequent if len(frequent) <= len(PALETTE) else frequent[: len(PALETTE) - 1]
    colored = {label: {"color": PALETTE[j]} for j, label in enumerate(shown)}
    labels = np.array([label if label in colored else None for label in points.labels], dtype=object)
    groups = []
    if len(shown) < len(frequent):
        rest = np.flatnonzero(labels == None)  # noqa: E711
        name = f"{len(frequent) - len(shown)} others"
        groups.append(Group(name, rest, {"color": OTHER}, [hover[row] for row in rest], in_legend=True))
    for label, its_color in colored.items():
        rows = np.flatnonzero(labels == label)
        groups.append(Group(escape(label), rows, its_color, [hover[row] for row in rows], in_legend=True))
    return groups


def _as_numbers(labels: Sequence[str]) -> list[float] | None:
    """Labels as numbers, if they are and there are many of them."""
    if len(set(labels)) <= MANY_VALUES:
        return None
    try:
        return [float(label) if label not in ("missing", "no label") else float("nan") for label in labels]
    except ValueError:
        return None


def _axis(points: Points, component: int) -> Any:
    """Scores on a component; zero where the run has fewer."""
    if component < points.scores.shape[1]:
        return points.scores[:, component]
    return np.zeros(len(points.names))


def _size(points: Points, few: float, many: float) -> float:
    return few if len(points.names) <= 300 else many


def _layout(height: int) -> dict[str, Any]:
    return {
        "template": "plotly_white",
        "height": height,
        "margin": {"l": 64, "r": 16, "t": 16, "b": 56},
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 14, "color": INK},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "itemsizing": "constant"},
        "hoverlabel": {"bgcolor": "white", "bordercolor": INK, "font": {"color": INK}},
        "hovermode": "closest",
    }
