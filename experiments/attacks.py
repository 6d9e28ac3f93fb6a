"""Beyond the paper: whether a party's own measure of recovery is fooled by attacks it does not make itself.

Six data sets, every kernel, three ranks, 30 known rows. `dkpca.recovery` says how well its own attacks recover the
columns. Beside it stand attacks made of other parts: rows of the kernel matrix, shortest paths at other thresholds,
scikit-learn's forests, neighbors, Gaussian processes and support vectors. The measure is to reach 0.9 of the best.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.csgraph import shortest_path
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as SMOOTH
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.linear_model import RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR

from dkpca import summarize
from dkpca.kernels import RBF, ChiSquared, CosineKernel, Kernel, Laplacian, Linear, Overlap, Polynomial
from dkpca.party.recovery import Matrix, Seen, Truth, points, seen_in
from dkpca.party.recovery import run as attacked
from dkpca.rank import Fixed
from experiments.command import Options, described, main

THRESHOLDS = (0.05, 0.2, 0.4)  # of similarity; not those that the measure itself takes
SEEN_ENOUGH = 0.1  # where no attack recovers more than this there is nothing to miss


@dataclass(frozen=True)
class Settings:
    """Ranks of the message and rows that are known."""

    ranks: tuple[int, ...] = (5, 20, 60)
    known_rows: int = 30
    n_samples: int = 300
    draws: int = 3
    sets: tuple[str, ...] = ("breast cancer", "digits", "wine", "diabetes", "iris", "factor model")


QUICK = Settings(ranks=(5,), n_samples=80, draws=1, sets=("iris",))


def table(name: str, n_samples: int) -> Matrix:
    """Standardized columns of one party."""
    random = np.random.default_rng(0)
    loaded = {
        "breast cancer": lambda: load_breast_cancer().data[:, :10],
        "digits": lambda: load_digits().data[:, 16:32],
        "wine": lambda: load_wine().data,
        "diabetes": lambda: load_diabetes().data,
        "iris": lambda: load_iris().data,
        "factor model": lambda: (
            random.normal(size=(300, 3)) @ random.normal(size=(3, 12)) + 0.4 * random.normal(size=(300, 12))
        ),
    }
    X = np.asarray(loaded[name](), dtype=np.float64)
    X = X[np.sort(random.permutation(len(X))[:n_samples])]
    X = X[:, X.std(axis=0) > 0]
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def cases(X: Matrix) -> Iterator[tuple[str, Kernel, Matrix]]:
    """Every kernel that we offer, with the columns as it wants them."""
    p = X.shape[1]
    positive, codes = X - X.min(axis=0), np.floor(np.clip(1.5 * X, -3.0, 3.0))
    yield "rbf, wide", RBF(1.0 / (3 * p)), X
    yield "rbf", RBF(1.0 / p), X
    yield "laplacian", Laplacian(0.5 / p), X
    yield "chi2", ChiSquared(1.0 / p), positive
    yield "linear", Linear(), X
    yield "poly", Polynomial(1.0 / p), X
    yield "poly, own", Polynomial(1.0 / p, own=True), X
    yield "cosine", CosineKernel(), X
    yield "cosine, own", CosineKernel(own=True), X
    yield "overlap", Overlap(3.0 / p), codes


def features(seen: Seen) -> Iterator[tuple[str, Matrix]]:
    """What an attacker makes of a message before any regression."""
    K = seen.factor @ seen.factor.T
    yield "factor", seen.factor
    yield "rows of the kernel matrix", K
    yield "coordinates", seen.coordinates
    own = np.sqrt(np.maximum(np.diagonal(K), 1e-300))
    apart = np.sqrt(np.maximum(seen.kernel.squared_distances(K, max(0.1 * seen.left_out, 1e-12)), 0.0))
    for threshold in THRESHOLDS:
        lengths = shortest_path(np.where(threshold * np.outer(own, own) <= K, apart, np.inf), directed=False)
        lengths[~np.isfinite(lengths)] = 1.5 * lengths[np.isfinite(lengths)].max()
        yield f"paths {threshold:g}", points(lengths**2)


def regressors() -> dict[str, Any]:
    """Regressions of scikit-learn, none of which the measure itself uses."""
    smooth = ConstantKernel(1.0) * SMOOTH(1.0) + WhiteKernel(1e-3)
    return {
        "ridge": RidgeCV(np.logspace(-9, 2, 12)),
        "neighbors": KNeighborsRegressor(3, weights="distance"),
        "forest": ExtraTreesRegressor(50, random_state=0),
        "Gaussian process": GaussianProcessRegressor(smooth, normalize_y=True, random_state=0),
        "support vectors": MultiOutputRegressor(SVR(C=10.0, gamma="scale")),
    }


def compared(settings: Settings, seed: int) -> list[dict[str, object]]:
    """R squared as the party measures it and as the best attack reaches it: best column, and mean over columns."""
    rows: list[dict[str, object]] = []
    for name in settings.sets:
        for kernel_name, kernel, X in cases(table(name, settings.n_samples)):
            truth = Truth.of(X)
            n, known = len(X), settings.known_rows
            draws = [np.random.default_rng((seed, draw)).permutation(n)[:known] for draw in range(settings.draws)]
            for rank in settings.ranks:
                summary, _ = summarize(X, party="party", kernel=kernel, rank=Fixed(rank))
                seen = seen_in(summary, np.arange(n))
                measured = np.max(list(attacked(seen, truth, draws).values()), axis=0)
                found = others(seen, truth, draws)
                strongest = max(found, key=lambda attack: float(found[attack].mean()))
                best = np.maximum(measured, np.max(list(found.values()), axis=0))
                rows.append({"on": name, "kernel": kernel_name, "rank": rank, "strongest other": strongest})
                rows[-1] |= _figures("measured", measured) | _figures("best", best)
    return rows


def others(seen: Seen, truth: Truth, draws: list[Matrix]) -> dict[str, Matrix]:
    """R squared by column of every pair of features and regression, the mean over the draws."""
    found: dict[str, Matrix] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a regression that does not converge is a guess as well
        for what, F in features(seen):
            F = F / max(float(np.sqrt((F**2).sum(axis=1).mean())), 1e-300)
            for how, regressor in regressors().items():
                guesses = [regressor.fit(F[known], truth.values[known]).predict(F) for known in draws]
                scores = [truth.score(guess, known) for guess, known in zip(guesses, draws, strict=True)]
                found[f"{what}, {how}"] = np.mean(np.clip(scores, 0.0, 1.0), axis=0)
    return found


def _figures(what: str, columns: Matrix) -> dict[str, float]:
    return {f"{what}, best column": round(float(columns.max()), 4), f"{what}, mean": round(float(columns.mean()), 4)}


def verdict(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Smallest share of the best attack that the measure reaches, where an attack reaches anything."""
    told = [row for row in rows if row["best, best column"] > SEEN_ENOUGH]
    shares = [min(row[f"measured, {of}"] / row[f"best, {of}"] for of in ("best column", "mean")) for row in told]
    return {"cases": len(rows), "looked at": len(told), "smallest share": min(shares, default=1.0)} | {
        "below 0.9": sum(share < 0.9 for share in shares)
    }


def run(options: Options, settings: Settings) -> None:
    """How much of what the best of many attacks recovers a party's own measure tells it."""
    (rows,) = options.repeat("attacks", compared, settings, count=1)
    options.write("attacks", {"settings": described(settings), "verdict": verdict(rows), "rows": rows})


if __name__ == "__main__":
    main(run, Settings(), QUICK)
