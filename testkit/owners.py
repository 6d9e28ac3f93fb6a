"""Three owners that hold different columns about the same sixty people."""

import numpy as np
import polars as pl

GAMMA = 0.05
OWNERS = ("bank", "clinic", "shop")


def numbers(n_samples: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    """Columns of three owners that see the same three hidden causes."""
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(n_samples, 3))
    return {
        owner: causes @ rng.normal(size=(3, width)) + 0.3 * rng.normal(size=(n_samples, width))
        for owner, width in zip(OWNERS, (4, 6, 5), strict=True)
    }


def frame(X: np.ndarray, ids) -> pl.DataFrame:
    """A table whose column `person` holds the ids."""
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return pl.DataFrame({"person": list(ids), **columns})


def people(n: int = 60) -> list[str]:
    """The ids of the people in every table."""
    return [f"p{i:02d}" for i in range(n)]


def standardized(X: np.ndarray) -> np.ndarray:
    """Each column with mean 0 and standard deviation 1."""
    return (X - X.mean(axis=0)) / X.std(axis=0)
