"""What is tried: drawn at random, or bent from what came closest to breaking a bound."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from dkpca import DKPCA
from dkpca.kernels import KERNELS, Kernel, Linear, Polynomial
from dkpca.rank import Adaptive, Budget, Error, Fixed, RankRule, Recovery

Generator = np.random.Generator
Table = np.ndarray[Any, Any]

SHAPES = (
    "normal", "low rank", "groups", "integers", "constant columns", "far clusters", "offset", "heavy tails",
    "unequal columns", "near duplicates", "one column", "equal distances", "large whole numbers",
)  # fmt: skip
SOLVERS = ("auto", "dense", "streamed", "landmark")
OTHERS = ("laplacian", "chi2", "overlap", "poly", "cosine")
PRECISIONS = ("float64", "float32", "float16", "compact")
LIBRARIES = ("numpy", "numpy", "torch float64", "torch float32")
STREAMED_FROM = 90  # samples; fewer are never streamed
ON_DASK = 0.004  # share of the configurations whose rows lie on a cluster, where a fit takes a second
ADJUSTED = 0.25  # share of the configurations with covariates
LACKING = 0.3  # share of the configurations in which parties lack samples
MOST_LACKING = 250  # samples where parties lack some
MOST_RANK, MOST_COMPONENTS = 200, 60  # "full", for all tables but the largest


@dataclass(frozen=True)
class Configuration:
    """One fit: everything that decides it."""

    seed: int  # of the table
    n_samples: int
    n_features: int
    n_parties: int
    shape: str
    log_scale: float
    kernel: str
    law: str | None
    centered: bool
    log_gamma: float
    relative_gamma: bool  # to one over the squared scale of the table
    rank: str
    rank_size: float
    precision: str
    solver: str
    n_landmarks: int
    n_components: int
    library: str
    lacking: str | None = None
    share_lacking: float = 0.0  # of the samples, at each party
    standardize: bool = False
    weights: str | None = None  # "balanced", or "numbers"
    protect: str = "none"
    audit: int | None = None
    covariates: int = 0  # columns that are taken out

    def described(self) -> dict[str, Any]:
        """Return the numbers that make it again."""
        return asdict(self)


def draw(seed: int, index: int, *, lacking: bool = False) -> Configuration:
    """Configuration number `index`."""
    rng = np.random.default_rng([seed, index])
    T = 2 + int(58 * rng.random() ** 2) if rng.random() < 0.98 else int(60 * 50 ** (rng.random() ** 2))
    solver = str(rng.choice(SOLVERS))
    if solver == "streamed" and T < STREAMED_FROM:
        T += STREAMED_FROM
    torch32 = (library := str(rng.choice(LIBRARIES))) == "torch float32"
    reach = 18.0 if torch32 and rng.random() < 0.8 else 150.0 if rng.random() < 0.5 else 10.0
    M = int(rng.integers(1, 9))
    configuration = Configuration(
        seed=int(rng.integers(2**31)),
        n_samples=T,
        n_features=M,
        n_parties=int(rng.integers(1, M + 1)),
        shape=str(rng.choice(SHAPES)),
        log_scale=float(rng.uniform(-reach, reach)) if rng.random() < 0.8 else 0.0,
        kernel=str(rng.choice(["rbf", "rbf", "linear"])) if rng.random() < 0.7 else str(rng.choice(OTHERS)),
        law=None if rng.random() < 0.8 else str(rng.choice(["product", "sum"])),
        centered=bool(rng.random() < 0.7),
        log_gamma=float(rng.uniform(-12, 6)) if rng.random() < 0.4 else float(rng.uniform(-3, 3)),
        relative_gamma=bool(rng.random() < 0.6),
        rank=str(rng.choice(["fixed", "fixed", "auto", "adaptive", "full"])),
        rank_size=float(rng.random()),
        precision=str(rng.choice(PRECISIONS)),
        solver=solver,
        n_landmarks=int(rng.integers(1, T + 3)),
        n_components=int(rng.integers(1, min(T, MOST_COMPONENTS if rng.random() < 0.3 else 5) + 1)),
        library=library,
        lacking=str(rng.choice(["mean", "complete"])) if rng.random() < LACKING else None,
        share_lacking=float(rng.choice([0.05, 0.2, 0.5])),
        standardize=bool(rng.random() < 0.25),
        audit=int(rng.integers(1, 30)) if rng.random() < 0.15 else None,
    )
    drawn = _in_a_mode(configuration, rng)
    if lacking:  # samples that parties lack, instead of modes that go without
        library = "numpy" if drawn.library == "dask" else drawn.library
        how = ("mean", "complete")[index % 2]
        drawn = replace(drawn, lacking=how, protect="none", weights=None, audit=None, library=library)
    return _small_enough(drawn)


def _small_enough(c: Configuration) -> Configuration:
    """True mixtures are products in long double, which has no BLAS: beyond a few hundred samples, minutes."""
    if c.lacking is None or c.n_samples <= MOST_LACKING:
        return c
    return replace(c, n_samples=MOST_LACKING, n_components=min(c.n_components, MOST_LACKING))


def _in_a_mode(c: Configuration, rng: Generator) -> Configuration:
    """Some configurations with goals, weights, protection, or rows on a cluster; these go with less than all else."""
    if rng.random() < 0.1:
        c = replace(c, rank=str(rng.choice(["error", "budget", "recovery"])))
    if rng.random() < 0.1:
        c = replace(c, weights=str(rng.choice(["balanced", "numbers"])), lacking=None)
        c = replace(c, law="sum") if c.weights == "numbers" and rng.random() < 0.8 else c
    if rng.random() < 0.05:
        plain = replace(c, library="numpy", lacking=None, weights=None, audit=None, n_samples=min(c.n_samples, 60))
        blind = {"protect": "blind", "law": "sum"} if rng.random() < 0.5 else {"protect": "sums"}
        c = replace(plain, n_components=min(c.n_components, plain.n_samples), **blind)  # type: ignore[arg-type]
    if rng.random() < ON_DASK:
        c = replace(c, library="dask", lacking=None, weights=None, audit=None, protect="none", rank="auto")
        c = replace(c, precision="float32", kernel=str(rng.choice(["rbf", "linear"])), solver="auto")
    if rng.random() < ADJUSTED:
        c = replace(c, covariates=int(rng.integers(1, 4)), centered=c.centered or bool(rng.random() < 0.9))
    return c


def bend(configuration: Configuration, rng: Generator) -> Configuration:
    """Change one or two things a little."""
    c = configuration
    changes: list[dict[str, Any]] = [
        {"seed": int(rng.integers(2**31))},
        {"log_scale": float(np.clip(c.log_scale + rng.normal(0, 2), -150, 150))},
        {"log_gamma": float(np.clip(c.log_gamma + rng.normal(0, 0.7), -12, 6))},
        {"rank_size": float(rng.random())},
        {"rank": str(rng.choice(["fixed", "auto", "adaptive", "full"]))},
        {"precision": str(rng.choice(PRECISIONS))},
        {"solver": str(rng.choice(SOLVERS))},
        {"n_landmarks": int(rng.integers(1, c.n_samples + 3))},
        {"n_components": int(rng.integers(1, min(c.n_samples, MOST_COMPONENTS) + 1))},
        {"shape": str(rng.choice(SHAPES))},
        {"centered": not c.centered},
        {"share_lacking": float(rng.uniform(0.02, 0.6))},
        {"standardize": not c.standardize},
        {"covariates": int(rng.integers(0, 4))},
    ]
    for change in rng.choice(len(changes), size=int(rng.integers(1, 3)), replace=False):
        c = replace(c, **changes[change])
    return c


def tables(c: Configuration) -> dict[str, Any]:
    """Columns of each party, in the array library of the configuration."""
    rng = np.random.default_rng(c.seed)
    if c.shape == "large whole numbers":
        whole = 2**53 + rng.integers(0, 12, (c.n_samples, c.n_features))
        return {f"p{j}": block for j, block in enumerate(np.array_split(whole, c.n_parties, axis=1))}
    X = _shaped(c, rng) * 10.0**c.log_scale
    X = np.abs(X) if "chi2" in c.kernel else X
    blocks = np.array_split(X, c.n_parties, axis=1)
    if c.library == "dask":
        import dask.array as da

        chunk = max(2, c.n_samples // 3)
        return {f"p{j}": da.from_array(block, chunks=(chunk, -1)) for j, block in enumerate(blocks)}
    if c.library.startswith("torch"):
        import torch

        kind = torch.float32 if c.library.endswith("32") else torch.float64
        return {f"p{j}": torch.asarray(block, dtype=kind) for j, block in enumerate(blocks)}
    return {f"p{j}": block for j, block in enumerate(blocks)}


def covariates_of(c: Configuration) -> pd.DataFrame | None:
    """Covariates by sample: two groups, numbers of the scale of the table, and a curve of these."""
    if not c.covariates:
        return None
    rng = np.random.default_rng([c.seed, 3])
    numbers = rng.standard_normal(c.n_samples) * 10.0 ** rng.uniform(-6, 6)
    columns = {"group": rng.choice(["a", "b"], c.n_samples), "number": numbers, "curve": numbers**2}
    return pd.DataFrame(dict(list(columns.items())[: c.covariates]))


def samples_of(c: Configuration) -> dict[str, np.ndarray[Any, Any]] | None:
    """Which samples each party has; None: all."""
    if c.lacking is None:
        return None
    has = np.random.default_rng([c.seed, 2]).random((c.n_samples, c.n_parties)) >= c.share_lacking
    has[~has.any(axis=1), 0] = True
    return {f"p{j}": np.flatnonzero(own) for j, own in enumerate(has.T)}


def kernel_of(c: Configuration) -> Kernel:
    """Kernel of the fit."""
    if c.kernel == "linear":
        return Linear(centered=c.centered)
    power = {"rbf": 2, "poly": 2, "overlap": 0}.get(c.kernel, 1)  # of the scale, in what gamma multiplies
    log_gamma = c.log_gamma - (power * c.log_scale if c.relative_gamma and not c.standardize else 0.0)
    gamma = 10.0 ** float(np.clip(log_gamma, -320, 305))
    if c.kernel == "poly":
        return Polynomial(gamma, degree=1 + c.seed % 4, coef0=float(c.seed % 2))
    return KERNELS[c.kernel].from_settings(gamma=gamma, centered=c.centered)


def estimator(c: Configuration) -> DKPCA:
    """Estimator that is put to the test."""
    size = 1 + int(c.rank_size**2 * min(c.n_samples, MOST_RANK))
    rank: dict[str, str | int | RankRule] = {
        "fixed": Fixed(size),
        "auto": "auto",
        "adaptive": Adaptive(10.0 ** (-12 * c.rank_size)),
        "full": MOST_RANK,
        "error": Error(10.0 ** (2 * c.log_scale - 6 * c.rank_size)),
        "budget": Budget(200 + size * c.n_samples),
        "recovery": Recovery(at_most=max(0.05, c.rank_size), known_rows=max(1, c.n_samples // 3)),
    }
    weights = {f"p{j}": 10.0 ** ((c.seed >> j) % 5 - 2) for j in range(c.n_parties)}
    return DKPCA(
        c.n_components,
        kernel=kernel_of(c),
        law=c.law,
        rank=rank[c.rank],
        center=c.centered,
        solver=c.solver,
        n_landmarks=c.n_landmarks,
        precision=c.precision,
        lacking=c.lacking,
        standardize=c.standardize,
        weights=weights if c.weights == "numbers" else c.weights,
        protect=c.protect,
        audit=c.audit,
        random_state=c.seed % 1000,
    )


def _shaped(c: Configuration, rng: Generator) -> Table:
    T, M = c.n_samples, c.n_features
    X = rng.standard_normal((T, M))
    if c.shape == "low rank":
        X = rng.standard_normal((T, 1)) @ rng.standard_normal((1, M)) + 1e-6 * X
    elif c.shape == "groups":  # as many equal rows as the group is large: stepped, flat spectra
        X = 5.0 * rng.standard_normal((T, M))[np.sort(rng.integers(0, 1 + T // 3, T))]
    elif c.shape == "integers":
        X = np.round(X)
    elif c.shape == "constant columns":
        X[:, rng.random(M) < 0.6] = rng.standard_normal()
    elif c.shape == "far clusters":
        X = X + 10.0 ** rng.uniform(2, 16) * rng.integers(0, 3, (T, 1))
    elif c.shape == "offset":
        X = X + 10.0 ** rng.uniform(2, 16)
    elif c.shape == "heavy tails":
        X = rng.standard_cauchy((T, M)) ** 3
    elif c.shape == "unequal columns":
        X = X * 10.0 ** rng.uniform(-9, 9, M)
    elif c.shape == "near duplicates":
        X = X[rng.integers(0, 1 + T // 4, T)] + 10.0 ** rng.uniform(-16, -4) * X
    elif c.shape == "equal distances":  # as many equal eigenvalues as columns
        X = np.eye(M)[np.arange(T) % M]
    elif c.shape == "one column":
        X[:, 1:] = 0.0
    return X
