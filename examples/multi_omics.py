"""Three laboratories measure the same animals: genes, proteins and metabolites. No block shows all treatments.

The blocks are made up, in the manner of GSE2187: few animals, thousands of correlated genes, groups of compounds that
move different pathways. Run it with: python -m examples.multi_omics
"""

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from dkpca import DKPCA
from examples.pictures import picture_file, scatters

ANIMALS = 180
GENES, PROTEINS, METABOLITES = 2000, 300, 60
TREATMENTS = np.array(["azole", "control", "fibrate", "toxicant"])


def pathways(rng: np.random.Generator, active: np.ndarray, width: int) -> np.ndarray:
    """Columns that follow a few pathways; the treatment that acts here switches two of them on."""
    hidden = rng.normal(size=(ANIMALS, 6))
    hidden[active, :2] += 3.0
    return hidden @ rng.normal(size=(6, width)) + 2.0 * rng.normal(size=(ANIMALS, width))


def measured(seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Blocks by laboratory, and the treatment of each animal."""
    rng = np.random.default_rng(seed)
    treatment = rng.choice(TREATMENTS, size=ANIMALS)
    return {
        "genes": pathways(rng, treatment == "fibrate", GENES),
        "proteins": pathways(rng, treatment == "toxicant", PROTEINS),
        "metabolites": pathways(rng, treatment == "azole", METABOLITES),
    }, treatment


def told_apart(Z: np.ndarray, treatment: np.ndarray) -> float:
    """Share of animals whose nearest neighbors give their treatment away, cross-validated."""
    return float(cross_val_score(KNeighborsClassifier(7), Z, treatment, cv=5).mean())


def main() -> dict[str, float]:
    """Compare each block alone with all of them; return how well each tells the treatments apart."""
    out = picture_file(__doc__ or "")
    blocks, treatment = measured()
    alone = {name: DKPCA(6, standardize=True).fit_transform({name: X}) for name, X in blocks.items()}
    # A laboratory with 2000 columns would drown one with 60: "balanced" gives each the same say.
    together = DKPCA(6, law="sum", weights="balanced", standardize=True).fit(blocks)
    panels = {**{f"{name} alone": Z for name, Z in alone.items()}, "all three": together.model_.scores}
    found = {name: told_apart(Z, treatment) for name, Z in panels.items()}
    for name, share in found.items():
        print(f"{name}: treatment told apart in {share:.0%} of animals")
    print(together.certificate_)
    scatters(panels, treatment, out)
    return found


if __name__ == "__main__":
    main()
