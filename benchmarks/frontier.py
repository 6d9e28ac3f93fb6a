"""Error against processor time: our fit by landmarks, and what somebody would do who holds all columns.

`python -m benchmarks.frontier` runs, on all flights: pooled uniform Nystroem and PCA (scikit-learn), pooled block
randomly pivoted Cholesky and PCA, and `DKPCA` with four parties, proof included. The methods take turns, one seed
after the other, and time is the processor time of everything that a method does, parties and center together.
Errors are subspace errors of ten components against the pooled answer of 2,500 landmarks, computed once.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from benchmarks.flights import flights
from benchmarks.measure import report
from dkpca import DKPCA, subspace_error
from dkpca.certificate.proof import certify
from dkpca.linalg.landmark import residual_bound

Matrix = np.ndarray[Any, np.dtype[np.float64]]
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "frontier.svg"
COMPONENTS, BLOCK, STRIP = 10, 100, 4000
REFERENCE = 2500  # landmarks of the answer that errors are measured against
UNIFORM = (500, 1000)
CHOLESKY = (400, 570)
OURS = ((25, 400), (40, 500))  # rank of a party, landmarks at the center


def pivoted_cholesky(X: Matrix, gamma: float, landmarks: int, seed: int, block: int = BLOCK) -> Matrix:
    """Factor F of the RBF kernel by randomly pivoted Cholesky, a block of pivots at a time."""
    rng, n = np.random.default_rng(seed), len(X)
    F, left, squares = np.empty((n, landmarks)), np.ones(n), (X**2).sum(axis=1)
    done = 0
    while done < landmarks:
        drawn = rng.choice(n, min(block, landmarks - done), replace=False, p=left / left.sum())
        new = slice(done, done + len(drawn))
        Y, above = X[drawn].T, F[drawn, :done].T

        def columns(rows: Any, Y: Matrix = Y, above: Matrix = above, drawn: Any = drawn, done: int = done) -> Matrix:
            """Columns of the kernel at the pivots, less what earlier pivots explain."""
            tile = X[rows] @ Y
            tile *= 2.0
            tile -= squares[rows][:, None]
            tile -= squares[drawn][None, :]
            tile *= gamma
            np.exp(tile, out=tile)
            tile -= F[rows, :done] @ above
            return tile

        own = columns(drawn)
        L = cholesky(own + 1e-12 * np.eye(len(own)), lower=True)
        inverse = solve_triangular(L, np.eye(len(L)), lower=True).T
        for start in range(0, n, STRIP):
            rows = slice(start, start + STRIP)
            F[rows, new] = columns(rows) @ inverse
            left[rows] -= np.einsum("ij,ij->i", F[rows, new], F[rows, new])
        np.clip(left, 0.0, None, out=left)
        done += len(drawn)
    return F


def components_of(F: Matrix) -> Matrix:
    """Leading eigenvectors of the centered F F'."""
    mean = F.mean(axis=0)
    values, U = np.linalg.eigh(F.T @ F - len(F) * np.outer(mean, mean))
    U = U[:, ::-1][:, :COMPONENTS]
    return (F @ U - mean @ U) / np.sqrt(values[::-1][:COMPONENTS])


def by_cholesky(X: Matrix, gamma: float, landmarks: int, seed: int) -> Matrix:
    return components_of(pivoted_cholesky(X, gamma, landmarks, seed))


def by_nystroem(X: Matrix, gamma: float, landmarks: int, seed: int) -> Matrix:
    scores = make_pipeline(
        Nystroem(gamma=gamma, n_components=landmarks, random_state=seed), PCA(COMPONENTS)
    ).fit_transform(X)
    return scores / np.linalg.norm(scores, axis=0)


def timed(function: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    """Return the function, which notes the processor seconds of its thread each time."""

    def call(*arguments: Any, **named: Any) -> Any:
        start = time.thread_time()
        try:
            return function(*arguments, **named)
        finally:
            spent.append(time.thread_time() - start)

    return call


class Ours:
    """A fit of four parties; it keeps the certificate and the share of the proof in the processor time."""

    def __init__(self, tables: dict[str, Matrix], gamma: float, rank: int, landmarks: int) -> None:
        self.tables = tables
        self.settings: dict[str, Any] = {"gamma": gamma, "rank": rank, "n_landmarks": landmarks}
        self.proved: list[float] = []
        self.estimates: list[float] = []
        self.proof_shares: list[float] = []

    def __call__(self, seed: int) -> Matrix:
        spent: list[float] = []
        start = time.process_time()
        # The proof is what the center certifies, and blocks of what landmarks miss, at parties and center.
        with (
            patch("dkpca.fusion.fused_model.certify", timed(certify, spent)),
            patch("dkpca.linalg.landmark.residual_bound", timed(residual_bound, spent)),
        ):
            model = DKPCA(COMPONENTS, solver="landmark", random_state=seed, **self.settings).fit(self.tables)
        self.proof_shares.append(sum(spent) / (time.process_time() - start))
        self.proved.append(model.certificate_.optimality_at_least)
        self.estimates.append(model.certificate_.subspace_error_estimate)
        return model.eigenvectors_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--reference", type=Path, help="file that keeps the reference (NumPy); made if it is not there"
    )
    arguments = parser.parse_args()
    tables = flights()
    X = np.ascontiguousarray(np.hstack(list(tables.values())))
    gamma = 1.0 / (2.0 * float(X.var(axis=0).sum()))
    reference = kept_reference(X, gamma, arguments.reference)
    methods: dict[str, Callable[[int], Matrix]] = {}
    for m in UNIFORM:
        methods[f"pooled uniform Nystroem, {m} landmarks"] = partial(by_nystroem, X, gamma, m)
    for m in CHOLESKY:
        methods[f"pooled block RPCholesky, {m} landmarks"] = partial(by_cholesky, X, gamma, m)
    for rank, m in OURS:
        methods[f"DKPCA, 4 parties, rank {rank}, {m} landmarks"] = Ours(tables, gamma, rank, m)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    for seed in range(arguments.seeds):
        for name, method in methods.items():
            start = time.process_time()
            V = method(seed)
            seconds = time.process_time() - start
            found[name].append((subspace_error(reference, V), seconds))
            print(f"{name}, seed {seed}: error {found[name][-1][0]:.2e}, processor seconds {seconds:.1f}", flush=True)
        report("frontier", lines(found, methods))
    draw(found)


def draw(found: dict[str, list[tuple[float, float]]]) -> None:
    """Median error over processor time; a line joins the points of a method."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "frontier"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    colors = {
        "pooled uniform Nystroem": "#0072b2",
        "pooled block RPCholesky": "#d55e00",
        "DKPCA, 4 parties": "#009e73",
    }
    for start, color in colors.items():
        own = {name: np.array(runs) for name, runs in found.items() if name.startswith(start)}
        points = np.array([np.median(runs, axis=0) for runs in own.values()])
        axes.plot(points[:, 1], points[:, 0], "o-", color=color, label=start)
    axes.set(xscale="log", yscale="log", xlabel="processor seconds", ylabel="subspace error of ten components")
    axes.legend(fontsize=8)
    figure.savefig(FIGURE, metadata={"Date": None})


def kept_reference(X: Matrix, gamma: float, path: Path | None) -> Matrix:
    if path is not None and path.exists():
        return np.load(path)
    reference = by_cholesky(X, gamma, REFERENCE, seed=1000)
    if path is not None:
        np.save(path, reference)
    return reference


def lines(found: dict[str, list[tuple[float, float]]], methods: dict[str, Any]) -> list[dict[str, Any]]:
    measured: list[dict[str, Any]] = []
    for name, runs in found.items():
        errors, seconds = zip(*runs, strict=True)
        measured.append({"what": f"{name}: subspace error, median", "value": median(errors)})
        measured.append({"what": f"{name}: largest error / smallest", "value": max(errors) / min(errors)})
        measured.append({"what": f"{name}: processor seconds, median", "value": median(seconds)})
        method = methods[name]
        if isinstance(method, Ours):
            measured.append({"what": f"{name}: share of the best variance, proved", "value": min(method.proved)})
            measured.append(
                {
                    "what": f"{name}: proof's share of the time",
                    "value": max(method.proof_shares),
                    "limit": "<= 0.25",
                }
            )
            ratios = [estimate / error for estimate, error in zip(method.estimates, errors, strict=True)]
            measured.append({"what": f"{name}: error estimate / error, minimum", "value": min(ratios)})
            measured.append({"what": f"{name}: error estimate / error, maximum", "value": max(ratios)})
    return measured


if __name__ == "__main__":
    main()
