"""What the examples share: where a picture goes, and how samples are drawn."""

import argparse
from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")  # a file, not a window

import matplotlib.pyplot as plt

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito


def picture_file(description: str) -> Path:
    """Read the file to write from the command line; else it has the name of the example."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=Path(f"{Path(parser.prog).stem}.png"))
    return Path(parser.parse_args().out)


def scatters(panels: Mapping[str, np.ndarray], kinds: np.ndarray, out: Path) -> None:
    """Draw the first two components of several results side by side, colored by what each sample is."""
    figure, axes = plt.subplots(1, len(panels), figsize=(2.7 * len(panels), 3.1), layout="constrained")
    for axis, (title, Z) in zip(axes, panels.items(), strict=True):
        for color, kind in zip(COLORS, np.unique(kinds), strict=False):
            axis.scatter(*Z[kinds == kind, :2].T, s=12, color=color, label=kind)
        axis.set(title=title, xlabel="component 1", ylabel="component 2", xticks=[], yticks=[])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(np.unique(kinds)))
    save(figure, out)


def save(figure: plt.Figure, out: Path) -> None:
    """Write a picture."""
    figure.savefig(out, dpi=140)
    plt.close(figure)
    print(f"wrote {out}")
