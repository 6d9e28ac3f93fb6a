"""Estimates against the truth, by what limits the answer: truncation, a rank that is used up, rounding, landmarks.

An estimate is no bound, so a single one cannot be wrong. What is checked is how often it is far off, at a true gap of
at least `GAP` behind the components, over many fits of each kind.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca import DKPCA, rank
from dkpca.errors import DKPCAError
from dkpca.kernels import KERNELS, Kernel, Polynomial
from dkpca.kernels.combination import combination
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.rows import limit_blas_threads  # noqa: F401
from experiments.adversary import truth

KINDS = ("truncation", "rank used up", "rounding", "landmarks")
GAP = 0.05  # of the true eigenvalue, behind the last component
LEAST = 1e-20  # of the true error: below, both numbers are rounding of the arithmetic
SHAPES = ("normal", "columns fall", "correlated", "groups", "uniform", "few directions", "curve")

Table = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Trial:
    """One fit: what it said and what was true."""

    kind: str
    seed: int
    number: int
    gap: float
    error: float
    error_estimate: float
    loss: float  # share of the best variance that is lost
    loss_estimate: float

    @property
    def ratio(self) -> float:
        """Estimate over truth."""
        return self.error_estimate / self.error


def table(rng: np.random.Generator, T: int, M: int) -> Table:
    """Columns such as data have: independent, correlated, of unequal sizes, in groups, on a curve."""
    shape = str(rng.choice(SHAPES))
    X = rng.standard_normal((T, M))
    if shape == "columns fall":
        X = X * 10.0 ** np.linspace(0, -rng.uniform(0.5, 2), M)[rng.permutation(M)]
    elif shape == "correlated":
        X = X @ rng.standard_normal((M, M))
    elif shape == "groups":
        X = 3.0 * rng.standard_normal((int(rng.integers(2, 9)), M))[rng.integers(0, 2, T)] + X
    elif shape == "uniform":
        X = rng.random((T, M))
    elif shape == "few directions":
        X = rng.standard_normal((T, 2)) @ rng.standard_normal((2, M)) + 10.0 ** rng.uniform(-3, -0.5) * X
    elif shape == "curve":
        t = rng.random((T, 1))
        X = np.hstack([np.cos(3 * t * k + k) for k in range(1, M + 1)]) + 0.05 * X
    return X


def kernel_of(rng: np.random.Generator, X: Table) -> Kernel:
    """A kernel of a width that suits the table, by a factor of ten up and down."""
    name = str(rng.choice(["rbf"] * 5 + ["laplacian", "chi2", "linear", "poly", "cosine"]))
    spread = 2.0 * float(X.var(axis=0).sum())
    distance = {"laplacian": spread**0.5 * X.shape[1] ** 0.5, "chi2": 0.3 * spread}.get(name, spread)
    gamma = 10.0 ** float(rng.uniform(-1, 0.7)) / distance
    if name == "poly":
        return Polynomial(gamma, degree=int(rng.integers(2, 4)), coef0=1.0)
    return KERNELS[name].from_settings(gamma=gamma, centered=True)


def settings_of(kind: str, rng: np.random.Generator, T: int, D: int) -> dict[str, Any]:
    """How a fit is limited by what is to be studied."""
    enough = int(rng.integers(D + 6, max(D + 7, T // 2)))
    if kind == "truncation":
        rule = rank.Fixed(enough) if rng.random() < 0.8 else rank.Adaptive(10.0 ** float(rng.uniform(-4, -1)))
        rule = "auto" if rng.random() < 0.2 else rule
        return {"rank": rule, "precision": str(rng.choice(["float64", "float32"])), "solver": "dense"}
    if kind == "rank used up":
        return {"rank": max(1, D + int(rng.integers(-1, 5))), "precision": "float32", "solver": "dense"}
    if kind == "rounding":
        precision = str(rng.choice(["float16", "compact", "compact", "float32"]))
        rules: list[Any] = [T, T, enough]
        if precision == "compact":
            rules = ["auto", rank.Adaptive(10.0 ** float(rng.uniform(-6, -2))), rank.Budget(bytes=T * enough // 2)]
        return {"rank": rules[int(rng.integers(len(rules)))], "precision": precision, "solver": "dense"}
    return {
        "rank": enough,
        "solver": "landmark",
        "n_landmarks": int(rng.integers(D + 6, max(D + 7, T))),
        "precision": str(rng.choice(["float64", "float32"])),
    }


def trial(kind: str, seed: int, number: int) -> Trial | None:
    """One fit; None where the gap is small, nothing is wrong at all, or the fit is refused."""
    rng = np.random.default_rng([seed, number, KINDS.index(kind)])
    T, M, D = int(rng.integers(30, 160)), int(rng.integers(2, 13)), int(rng.integers(1, 9))
    if kind == "landmarks":
        T = int(rng.integers(110, 260))
    X = table(rng, T, M)
    few = kind == "rank used up"
    J = int(rng.integers(1, 1 + min(M, 2 if few else 6)))
    kernel = kernel_of(rng, X)
    X = np.abs(X) if kernel.name == "chi2" else X
    law = None if rng.random() < 0.8 else "sum"
    law = "sum" if few and J > 1 else law
    tables = {f"p{j}": block for j, block in enumerate(np.array_split(X, J, axis=1))}
    model = DKPCA(D, kernel=kernel, law=law, center=bool(rng.random() < 0.85), **settings_of(kind, rng, T, D))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(tables)
    except DKPCAError:
        return None
    kernels = {name: summary.kernel for name, summary in model.model_.summaries.items()}
    K = truth.true_matrix(tables, kernels, combination(kernels, law).law)
    K = (truth.centered(K) if model.center else K).astype(float)
    return judged(model, K, kind, seed, number)


def judged(model: DKPCA, K: Table, kind: str, seed: int, number: int) -> Trial | None:
    """Compare with the true matrix, centered if the model is."""
    D, proof = model.n_components, model.certificate_
    values, vectors = (a[..., ::-1] for a in np.linalg.eigh(K))
    gap = float((values[D - 1] - values[D]) / values[D - 1])
    V = to_numpy(model.eigenvectors_).astype(float)
    error = float(np.linalg.norm(vectors[:, :D] - V @ (V.T @ vectors[:, :D])) ** 2)
    if not (gap >= GAP and values[D - 1] > 1e-12 * values[0] and error > LEAST):
        return None
    best = float(values[:D].sum())
    loss = 1.0 - float(np.sum(V * (K @ V))) / best
    estimate = getattr(proof, "optimality_estimate", 1.0)
    return Trial(kind, seed, number, gap, error, proof.subspace_error_estimate, loss, 1.0 - estimate)
