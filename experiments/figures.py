"""Results drawn: one function a figure, from the result file alone."""

from operator import itemgetter
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.published import N_FEATURES

# Okabe and Ito's palette: told apart with every common kind of color vision, and each has its own marker here.
BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000",
)  # fmt: skip
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "svg.hashsalt": "dkpca",  # the same results give the same file
    "figure.constrained_layout.use": True,
}
ERROR_LABEL = "subspace error  $D - \\|V^\\top\\hat{V}\\|_F^2$"
FLOOR = 1e-16  # what the error of an exact answer is drawn as; the paper draws 1e-17
MARKERS = "osD^vPX"
LABELS_ACROSS = 5  # numbers that stand side by side under a panel

Result = Any


def save(figure: Figure, name: str, folder: Path) -> None:
    """Write a figure as SVG and PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=150, metadata={"Software": None})
    plt.close(figure)


def fig2(result: Result) -> Figure:
    """Error over the number of parties."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    _band(left, result["simulated"], "n_parties", BLUE, "o", f"mean and std of {result['repetitions']} draws")
    s = result["settings"]
    log_axes(left, "number of parties $J$", ERROR_LABEL)
    left.set_title(f"(a) simulated, linear, rank {s['rank']}")
    words = f"exact: one party, or parties\nof at most {s['rank']} columns"
    left.annotate(words, (0.37, 0.1), xycoords="axes fraction", ha="center", fontsize=8)
    once = result["real_in_file_order"]
    _band(right, result["real"], "n_parties", BLUE, "o", f"{result['repetitions']} random gene orders")
    parties = [row["n_parties"] for row in once]
    right.plot(parties, [row["code"]["error"] for row in once], "s--", color=ORANGE, label="gene order of the record")
    right.plot(parties, [row["text"]["error"] for row in once], "^:", color=GREEN, label="the same, width as printed")
    log_axes(right, "number of parties $J$", ERROR_LABEL)
    right.set_title(f"(b) GSE2187, RBF, rank {s['real_rank']}")
    for axes in (left, right):
        axes.legend(loc="best")
    return figure


def fig3(result: Result) -> Figure:
    """Error and eigenvectors sent over the number of samples."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.4))
    for row, (part, title) in enumerate((("simulated", "simulated, linear"), ("real", "GSE2187, RBF"))):
        for column, quantity in enumerate(("error", "vectors")):
            _fig3_panel(axes[row][column], result[part], quantity)
            axes[row][column].set_title(f"({'abcd'[2 * row + column]}) {title}")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5)
    return figure


def _fig3_panel(axes: Axes, points: list[Result], quantity: str) -> None:
    names = {
        "fixed 5": "DKPCA-5",
        "fixed 10": "DKPCA-10",
        "fixed 15": "DKPCA-15",
        "adaptive": "adaptive, relative to $\\lambda_1$",
        "adaptive absolute": "adaptive, one $\\epsilon$ for all",
    }
    n = [point["n_samples"] for point in points]
    for (rule, label), color, marker in zip(
        names.items(), (SKY, BLUE, BLACK, VERMILION, PINK), MARKERS, strict=False
    ):
        values = [max(point[rule][quantity]["mean"], FLOOR) for point in points]
        axes.plot(n, values, marker=marker, color=color, label=label, linestyle="--" if "adaptive" in rule else "-")
    axes.set_xlabel("number of samples $T$")
    if quantity == "error":
        axes.set_yscale("log")
        axes.set_ylabel(ERROR_LABEL)
    else:
        axes.set_ylim(bottom=0)
        axes.set_ylabel("eigenvectors sent, all parties")


def fig3_tradeoff(result: Result) -> Figure:
    """Error against eigenvectors sent at the largest T."""
    parts = result["tradeoff"]
    figure, axes = plt.subplots(1, len(parts), figsize=(10, 3.3), sharey=True)
    for panel, (title, points) in zip(axes, parts.items(), strict=True):
        for family, label, color, marker in (
            ("fixed", "one rank for all (number: rank)", BLACK, "o"),
            ("adaptive", "adaptive (number: $\\epsilon/\\lambda_1$)", VERMILION, "^"),
        ):
            place = {"xytext": (4, 4)} if family == "fixed" else {"xytext": (-4, -9), "ha": "right"}
            chosen = sorted(
                (p["vectors"]["mean"], p["error"]["mean"], name) for name, p in points.items() if family in name
            )
            panel.plot([v for v, _, _ in chosen], [e for _, e, _ in chosen], marker=marker, color=color, label=label)
            for v, e, name in chosen:
                panel.annotate(name.split()[1], (v, e), textcoords="offset points", fontsize=7, **place)
        panel.set_yscale("log")
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("eigenvectors sent, all parties")
        panel.margins(x=0.2)
    axes[0].set_ylabel(ERROR_LABEL)
    axes[0].legend(loc="lower left")
    return figure


def table1(result: Result) -> Figure:
    """Numbers counted against the formula, and seconds over T and over M."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4))
    names = {"dkpca": "DKPCA", "dpca": "DPCA (Fan et al. 2019)", "kpca": "central KPCA"}
    for (method, label), color, marker in zip(names.items(), (BLUE, ORANGE, BLACK), MARKERS, strict=False):
        costs = [case[method] for case in result["cases"]]
        formula, counted = [c["formula_numbers"] for c in costs], [c["numbers_sent"] for c in costs]
        left.plot(formula, counted, marker, color=color, label=label, alpha=0.8)
        for axes, swept in ((middle, "n_samples"), (right, "n_features")):
            cases = sorted(_sweep(result, swept), key=itemgetter(swept))
            seconds = [case[method]["slowest_party_s"] + case[method]["center_s"] for case in cases]
            axes.plot([case[swept] for case in cases], seconds, marker=marker, color=color, label=label)
    limits = np.array(left.get_xlim())
    left.plot(limits, limits, color=BLACK, linewidth=0.8, zorder=0)
    log_axes(left, "numbers a party sends, by formula", "numbers a party sends, counted")
    base = result["settings"]
    for axes, symbol, fixed in (
        (middle, "samples $T$", f"M = {base['n_features']}"),
        (right, "features $M$", f"T = {base['n_samples']}"),
    ):
        log_axes(axes, f"number of {symbol}", "seconds, slowest party + center")
        _ticks(axes, base["sweep_samples"] if axes is middle else base["sweep_features"])
        axes.set_title(f"{fixed}, J = {base['n_parties']}", fontsize=9)
    left.legend()
    return figure


def _sweep(result: Result, swept: str) -> list[Result]:
    """Cases that differ from the base case in one size only."""
    fixed = {"n_samples", "n_features", "n_parties"} - {swept}
    return [case for case in result["cases"] if all(case[size] == result["settings"][size] for size in fixed)]


def table2(rows: list[Result], published: Any) -> Figure:
    """Error rates beside the published ones."""
    tasks = list(published)
    figure, axes = plt.subplots(1, len(tasks), figsize=(11, 3.6))
    names = {"dkpca": "DKPCA", "kpca": "KPCA", "pca-published": "PCA as published", "pca": "PCA done right"}
    colors = (BLUE, BLACK, VERMILION, GREEN)
    for panel, task in zip(axes, tasks, strict=True):
        for (method, label), color, marker in zip(names.items(), colors, MARKERS, strict=False):
            mine = [row for row in rows if row["task"] == task and row["method"] == method]
            n = [row["n_features"] for row in mine]
            looks: dict[str, dict[str, Any]] = {
                "dkpca": {"linewidth": 5, "alpha": 0.5},
                "kpca": {"linewidth": 1, "linestyle": "--"},
            }
            look = looks.get(method, {})
            panel.plot(
                n, [row["mean"] for row in mine], marker=marker, color=color, label=label, markersize=4, **look
            )
            if method in published[task]:
                means, stds = np.array([published[task][method][N_FEATURES.index(k)] for k in n]).T
                shift = {"dkpca": 0.94, "kpca": 1.06}.get(method, 1.0)
                panel.errorbar(np.array(n) * shift, means, stds, fmt="_", color=color, alpha=0.5, capsize=2,
                               linewidth=1)  # fmt: skip
        panel.set_xscale("log")
        panel.set_xticks(n, [str(k) for k in n])
        panel.minorticks_off()
        panel.set_title(task.replace("-", " against "))
        panel.set_xlabel("number of features")
        panel.set_ylim(bottom=0)
    axes[0].set_ylabel("classification error rate")
    axes[0].legend(title="lines: here; bars: published ± std", title_fontsize=8)
    return figure


def bytes_sent(result: Result) -> Figure:
    """Error against bytes, the paper's setting marked."""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), sharex=True, sharey=True)
    titles = {"text": "kernel width as printed", "code": "kernel width as released"}
    for panel, (convention, title) in zip(axes, titles.items(), strict=True):
        rows = [row for row in result["rows"] if row["convention"] == convention]
        for precision, color, marker in zip(("float64", "float32", "float16"), (BLACK, BLUE, GREEN), MARKERS,
                                            strict=False):  # fmt: skip
            mine = [row for row in rows if row["method"] == "dkpca" and row["precision"] == precision]
            _rank_curve(panel, mine, color, marker, f"DKPCA, {precision}")
        landmarks = [row for row in rows if row["method"] == "nystroem"]
        panel.plot(
            [row["bytes_per_party"] / 1e3 for row in landmarks],
            [row["mean"] for row in landmarks],
            "v",
            color=ORANGE,
            label="one-shot Nystroem",
        )
        paper = next(r for r in rows if (r["method"], r["rank"], r["precision"]) == ("dkpca", 15, "float64"))
        panel.plot(paper["bytes_per_party"] / 1e3, paper["mean"], "o", markersize=13, markerfacecolor="none",
                   markeredgecolor=VERMILION, markeredgewidth=1.8, label="the paper's setting")  # fmt: skip
        panel.axvline(paper["bytes_per_party"] / 1e3, color=VERMILION, linewidth=0.8, linestyle=":")
        log_axes(panel, "kilobytes a party sends", ERROR_LABEL if convention == "text" else "")
        panel.set_title(title)
        panel.set_xticks([20, 50, 100, 200], ["20", "50", "100", "200"])
        panel.minorticks_off()
    axes[1].legend(*axes[0].get_legend_handles_labels(), loc="upper right")
    return figure


def _rank_curve(axes: Axes, rows: list[Result], color: str, marker: str, label: str) -> None:
    rows = sorted(rows, key=lambda row: row["rank"])
    x, y = [row["bytes_per_party"] / 1e3 for row in rows], [row["mean"] for row in rows]
    axes.plot(x, y, marker=marker, color=color, label=label)
    for row, a, b in zip(rows, x, y, strict=True):
        axes.annotate(str(row["rank"]), (a, b), xytext=(5, 3), textcoords="offset points", fontsize=7, color=color)


def rounds(result: Result) -> Figure:
    """Error against rounds."""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6))
    for panel, (part, title) in zip(axes, (("simulated", "simulated"), ("real", "GSE2187")), strict=True):
        data = result[part]
        for name, label, color, marker in (
            ("iteration", "subspace iteration, random start", ORANGE, "s"),
            ("iteration after dkpca", "the same, started from DKPCA", BLUE, "o"),
        ):
            panel.plot([p["round"] for p in data[name]], [max(p["mean"], FLOOR) for p in data[name]], marker=marker,
                       markersize=3, color=color, label=label)  # fmt: skip
        for point, marker in zip(data["dkpca"], "*Pd", strict=False):
            panel.plot(1, max(point["mean"], FLOOR), marker, markersize=9, color=VERMILION,
                       label=f"DKPCA, one round, rank {point['rank']}", linestyle="none")  # fmt: skip
        panel.set_yscale("log")
        panel.set_xlabel("rounds of communication")
        panel.set_title(f"{title}, linear kernel")
    axes[0].set_ylabel(ERROR_LABEL)
    axes[1].legend(fontsize=7)
    return figure


def certificate(result: Result) -> Figure:
    """What is proved against what is true."""
    panels = (
        ("kernel_error", "kernel_error_bound", "$\\|K-\\hat{K}\\|_2$"),
        ("subspace_error", "subspace_error_bound", "subspace error"),
        ("optimality", "optimality_bound", "1 - share of the best variance"),
    )
    figure, axes = plt.subplots(2, 3, figsize=(10, 5.8))
    for row, (part, title) in enumerate((("simulated", "simulated, linear"), ("real", "GSE2187, RBF"))):
        ranks = [point["rank"] for point in result[part]]
        for panel, (true, bound, label) in zip(axes[row], panels, strict=True):
            pick = (lambda v: 1.0 - v) if true == "optimality" else (lambda v: v)
            for key, name, color, marker in (
                (true, "true", BLACK, "o"),
                (f"{true}_estimate", "estimated at the center", BLUE, "v"),
                (bound, "proved at the center", VERMILION, "^"),
            ):
                if key not in result[part][0]:  # of the kernel error there is no estimate
                    continue
                values = [max(pick(point[key]["mean"]), FLOOR) for point in result[part]]
                panel.plot(ranks, values, marker=marker, color=color, label=name)
            if true == "subspace_error":
                values = [max(point["theorem_1_squared"]["mean"], FLOOR) for point in result[part]]
                panel.plot(ranks, values, "s:", color=SKY, label="Theorem 1, squared")
            panel.set_yscale("log")
            panel.set_xlabel("rank at every party")
            panel.set_ylabel(label)
            panel.set_title(title)
    handles, labels = axes[0][1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    return figure


def scale(result: Result) -> Figure:
    """Time, memory and error over T."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4))
    rows = result["rows"]
    n = [row["n_samples"] for row in rows]
    for key, label, color, marker in (
        ("slowest_party_s", "slowest party", SKY, "s"),
        ("center_s", "center", BLUE, "o"),
        ("fit_s", "all on one machine", BLACK, "D"),
        ("central_s", "central KernelPCA", ORANGE, "v"),
    ):
        _where_known(left, rows, key, color, marker, label)
    log_axes(left, "number of flights $T$", "seconds")
    _where_known(middle, rows, "peak_mb", BLACK, "D", "DKPCA")
    _where_known(middle, rows, "central_peak_mb", ORANGE, "v", "central KernelPCA")
    middle.plot(n, [8 * k * k / 2**20 for k in n], ":", color=VERMILION, label="one $T \\times T$ matrix")
    log_axes(middle, "number of flights $T$", "peak memory, MB")
    _where_known(right, rows, "subspace_error", BLACK, "D", "subspace error, true")
    right.plot(n, [1 - row["optimality_at_least"] for row in rows], "^--", color=VERMILION,
               label="variance lost to the best,\nproved at most")  # fmt: skip
    log_axes(right, "number of flights $T$", "error")
    for axes in (left, middle, right):
        axes.legend(fontsize=7)
        _ticks(axes, n)
    return figure


def _where_known(axes: Axes, rows: list[Result], key: str, color: str, marker: str, label: str) -> None:
    known = [row for row in rows if key in row]
    axes.plot(
        [row["n_samples"] for row in known], [row[key] for row in known], marker=marker, color=color, label=label
    )


def _band(axes: Axes, points: list[Result], x: str, color: str, marker: str, label: str) -> None:
    """Mean as a line, one standard deviation as a band."""
    at = np.array([p[x] for p in points])
    mean, std = np.array([p["mean"] for p in points]), np.array([p["std"] for p in points])
    axes.plot(at, np.maximum(mean, FLOOR), marker=marker, color=color, label=label)
    low = np.where(mean - std > 0, mean - std, mean * 0.3)
    axes.fill_between(at, np.maximum(low, FLOOR), np.maximum(mean + std, FLOOR), color=color, alpha=0.2, linewidth=0)


def log_axes(axes: Axes, x: str, y: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def _ticks(axes: Axes, values: list[int]) -> None:
    """Name the values that were computed, not powers of ten; from the largest down, those that have room."""
    room = (max(values) / min(values)) ** (1 / LABELS_ACROSS)
    named: list[int] = []
    for value in sorted(values, reverse=True):
        if not named or value * room <= named[-1]:
            named.append(value)
    axes.set_xticks(values, [f"{value:,}" if value in named else "" for value in values])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)


mpl.use("Agg")
mpl.rcParams.update(STYLE)
