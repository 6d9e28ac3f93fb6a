"""The idea in one picture: who looks like whom to each hospital, and to all of them together.

Run it with: python -m examples.idea
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from dkpca import DKPCA
from examples.hospitals import patients
from examples.pictures import COLORS, picture_file, save

SHOWN = 24  # patients in the squares


def main() -> dict[str, float]:
    """Draw likeness at two hospitals, their product, and the map; return how good the map is, certified."""
    out = picture_file(__doc__ or "")
    _, diagnosis, sugar, pressure = patients()
    tables = {"clinic\n(pressure)": pressure[:, None], "laboratory\n(sugar)": sugar[:, None]}
    named = {"clinic": pressure[:, None], "laboratory": sugar[:, None]}
    model = DKPCA(2, gamma=0.25, rank=8).fit(named)
    # The same number of patients of each diagnosis, side by side.
    order = np.concatenate([np.flatnonzero(diagnosis == name)[: SHOWN // 4] for name in np.unique(diagnosis)])
    likeness = {title: rbf_kernel(X[order], gamma=0.25) for title, X in tables.items()}
    squares = {**likeness, "together": np.prod(list(likeness.values()), axis=0)}
    figure, axes = plt.subplots(1, 4, figsize=(10.5, 3.1), layout="constrained", width_ratios=[1, 1, 1, 1.3])
    for axis, (title, K), sign in zip(axes, squares.items(), ("\u00d7", "=", "\u2192"), strict=False):
        axis.imshow(K, cmap="Blues", vmin=0, vmax=1)
        axis.set(title=title, xticks=[], yticks=[], xlabel=f"{SHOWN} patients")
        axis.text(1.09, 0.5, sign, transform=axis.transAxes, fontsize=26, ha="center", va="center")
    for color, name in zip(COLORS, np.unique(diagnosis), strict=False):
        axes[3].scatter(*model.model_.scores[diagnosis == name].T, s=9, color=color, label=name)
    axes[3].set(title="the map", xticks=[], yticks=[], xlabel="component 1", ylabel="component 2")
    axes[3].legend(fontsize=7, loc="center")
    save(figure, out)
    return {"optimality": model.certificate_.optimality_at_least}


if __name__ == "__main__":
    main()
