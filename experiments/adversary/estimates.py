"""Estimates against the truth, by what limits the answer: truncation, a rank that is used up, rounding, landmarks.

An estimate is no bound, so a single one cannot be wrong. What is checked is how often it is far off, at a true gap of
at least `GAP` behind the components, over many fits of each kind.
"""

import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any

import numpy as np

from dkpca import DKPCA, rank
from dkpca.errors import DKPCAError
from dkpca.kernels import KERNELS, Kernel, Polynomial
from dkpca.kernels.base import combination
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.rows import controller
from experiments.adversary import truth

KINDS = ("truncation", "rank used up", "rounding", "landmarks")
GAP = 0.05  # of the true eigenvalue, behind the last component
ENOUGH = 300  # fits of a kind, before they are judged
MOST_BELOW, MOST_ABOVE, MEDIAN = 0.01, 0.05, (0.7, 5.0)
AT_A_TIME, MOST_DRAWN = 25, 5
LEAST_LOSS = 1e-10
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


@dataclass(frozen=True)
class Judgement:
    """How far the estimates of one kind are from the truth, over many fits."""

    kind: str
    fits: int
    below: float  # share of estimates below a tenth of the truth
    above: float  # above a hundred times
    median: float  # of estimate over truth
    loss_median: float  # of the estimated loss of variance over the true one

    @property
    def broken(self) -> bool:
        """Whether they are further off than promised; of a few fits nothing can be said."""
        far = self.below > MOST_BELOW or self.above > MOST_ABOVE or not MEDIAN[0] <= self.median <= MEDIAN[1]
        return self.fits >= ENOUGH and far


def judge(kind: str, trials: Sequence[Trial]) -> Judgement:
    """Statistics of the trials of one kind."""
    ratios = np.array([each.ratio for each in trials] or [np.nan])
    losses = np.array([each.loss_estimate / each.loss for each in trials if each.loss > LEAST_LOSS] or [np.nan])
    below, above = float(np.mean(ratios < 0.1)), float(np.mean(ratios > 100.0))
    return Judgement(kind, len(trials), below, above, float(np.median(ratios)), float(np.median(losses)))


def stretch(kind: str, seed: int, numbers: Sequence[int]) -> list[Trial]:
    """Some trials of one kind, in a process of its own."""
    controller().limit(limits=1)
    return [found for number in numbers if (found := trial(kind, seed, number)) is not None]


def search(count: int, seed: int, pool: Executor) -> list[Judgement]:
    """So many fits of each kind that count: with a clear gap, and an error at all."""
    judged = []
    for kind in KINDS:
        trials: list[Trial] = []
        parts = (range(start, start + AT_A_TIME) for start in range(0, MOST_DRAWN * count, AT_A_TIME))
        while len(trials) < count and (wanted := list(islice(parts, 1 + (count - len(trials)) // AT_A_TIME))):
            for found in pool.map(stretch, repeat(kind), repeat(seed), wanted):
                trials += found
        judged.append(judge(kind, trials[:count] if count else []))
        print(judged[-1], flush=True)
    return judged


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
        rule: Any = rank.Fixed(enough) if rng.random() < 0.8 else rank.Adaptive(10.0 ** float(rng.uniform(-4, -1)))
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
