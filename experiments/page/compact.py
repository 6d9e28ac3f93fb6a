"""Values for the section on compact messages, and its figure."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from experiments.figures import BLUE, ERROR_LABEL, GREEN, VERMILION, log_axes
from experiments.page.writing import Row, Values, plus_minus, short, table

WIDTHS = {"text": "kernel width as printed", "code": "kernel width as released"}


def values(curve: Row, rounding: Row) -> Values:
    """Error against bytes, and the ways to round."""
    lines = []
    for convention, words in WIDTHS.items():
        points = [_at(curve, convention, choice) for choice in ("paper", "times 1", "times 0.1")]
        cells = [f"{point['bytes'] / 1e3:.1f} kB, {plus_minus(point)}" for point in points]
        lines.append([words, *cells, f"{ratio(curve, convention):,.0f}"])
    over = [row["bytes"] / row["ideal_bytes"] for row in curve["rows"] if row["choice"] == "times 1"]
    return {
        "settings": curve["settings"],
        "repetitions": curve["repetitions"],
        "equal": table(
            ["", "rank 15, float64", "compact, as many bytes", "compact, a tenth of the bytes", "times lower"], lines
        ),
        "over_ideal": f"{max(over) - 1.0:.0%}",
        "rounding_repetitions": rounding["repetitions"],
        "ways": table(["steps", "error"], [[row["way"], short(row["mean"])] for row in rounding["rows"]]),
    }


def ratio(curve: Row, convention: str, choice: str = "times 1") -> float:
    """How many times lower the error is than in the paper's setting."""
    return float(_at(curve, convention, "paper")["mean"] / _at(curve, convention, choice)["mean"])


def figure(curve: Row) -> Figure:
    """Error against bytes in compact precision beside the ideal code, the paper's setting marked."""
    drawn, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), sharex=True, sharey=True)
    for panel, (convention, title) in zip(axes, WIDTHS.items(), strict=True):
        rows = [r for r in curve["rows"] if r["convention"] == convention and r["choice"].startswith("share")]
        errors = [row["mean"] for row in rows]
        panel.plot([row["bytes"] / 1e3 for row in rows], errors, "o-", color=BLUE, label="compact messages, whole")
        panel.plot([row["ideal_bytes"] / 1e3 for row in rows], errors, "--", color=GREEN, label="ideal code")
        paper = _at(curve, convention, "paper")
        panel.plot(paper["bytes"] / 1e3, paper["mean"], "o", markersize=10, markerfacecolor="none",
                   markeredgecolor=VERMILION, markeredgewidth=1.8, label="the paper's setting")  # fmt: skip
        panel.axvline(paper["bytes"] / 1e3, color=VERMILION, linewidth=0.8, linestyle=":")
        log_axes(panel, "kilobytes a party sends", ERROR_LABEL if convention == "text" else "")
        panel.set_title(title)
        panel.set_xticks([3, 10, 30, 100], ["3", "10", "30", "100"])
        panel.minorticks_off()
    axes[1].legend(loc="lower left")
    return drawn


def _at(curve: Row, convention: str, choice: str) -> Row:
    return next(row for row in curve["rows"] if (row["convention"], row["choice"]) == (convention, choice))
