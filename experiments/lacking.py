"""Beyond the paper: samples that parties lack, at random and not.

Six views of handwritten digits (`six_views`), and the paper's expression data with the genes dealt out to six
parties; product of RBF kernels. Some share of the rows of every view is hidden.
Compared with kernel PCA of the complete data: the error of the components, and a linear classifier on the scores.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkpca import subspace_error
from dkpca.fusion.completion import Held, complete
from experiments.command import Options, described, expression, main, mean_std

Array = np.ndarray
HOW = ("at random", "one site", "one class")


@dataclass(frozen=True)
class Settings:
    """Digits, shares of the rows that every view lacks, eigenpairs that a party sends."""

    n_samples: int = 200
    shares: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4)
    n_components: int = 10
    rank: int = 60
    data: str | None = None  # GSE2187


QUICK = Settings(n_samples=100, shares=(0.2,), rank=20, n_components=5)


def six_views(n_samples: int) -> tuple[dict[str, Array], Array]:
    """Views of images of 8 x 8 pixels, standardized, and what the images show."""
    digits = load_digits()
    images, labels = digits.images[:n_samples] / 16.0, digits.target[:n_samples]
    flat = images.reshape(n_samples, -1) - images.reshape(n_samples, -1).mean(axis=0)
    right, down = np.diff(images, axis=2)[:, :-1, :], np.diff(images, axis=1)[:, :, :-1]
    angle, slope = np.arctan2(down, right), np.hypot(right, down)
    quarters = [(slice(a, a + 4), slice(b, b + 4)) for a in (0, 4) for b in (0, 4)]
    bins = [(-np.pi + k * np.pi / 2, -np.pi + (k + 1) * np.pi / 2) for k in range(4)]
    place = np.arange(8) - 3.5
    views = {
        "fourier": np.abs(np.fft.fft2(images))[:, :5, :5].reshape(n_samples, -1),
        "karhunen": flat @ np.linalg.svd(flat, full_matrices=False)[2][:16].T,
        "pixels": images.reshape(n_samples, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(n_samples, -1),
        "profiles": np.concatenate([images.sum(axis=1), images.sum(axis=2)], axis=1),
        "gradients": np.stack(
            [
                (slope * ((angle >= low) & (angle < high)))[:, a, b].sum(axis=(1, 2))
                for a, b in quarters
                for low, high in bins
            ],
            axis=1,
        ),
        "moments": np.stack(
            [
                (images * place[:, None] ** p * place[None, :] ** q).sum(axis=(1, 2))
                for p in range(4)
                for q in range(4 - p)
            ],
            axis=1,
        ),
    }
    return {name: StandardScaler().fit_transform(X[:, X.std(axis=0) > 1e-9]) for name, X in views.items()}, labels


def six_parts(data: str | None) -> tuple[dict[str, Array], Array]:
    """Genes of the paper's data, dealt out to six parties, and the kind of compound."""
    known = expression(data)
    X = StandardScaler().fit_transform(known.X)
    return {f"part {j + 1}": X[:, j::6] for j in range(6)}, known.label


def kept(how: str, share: float, labels: Array, n_views: int, rng: np.random.Generator) -> Array:
    """Which samples (rows) each view (column) has."""
    n = len(labels)
    has = rng.random((n, n_views)) >= share
    if how == "one site":  # a site that collects half of the samples has nothing of the first view for them
        has = np.ones((n, n_views), dtype=bool)
        has[: int(2 * share * n), 0] = rng.random(int(2 * share * n)) < 0.5
    if how == "one class":  # the first view lacks most samples of one class, and few others
        has = np.ones((n, n_views), dtype=bool)
        one = labels == np.unique(labels)[3]
        has[one, 0] = rng.random(int(one.sum())) < 0.2
    has[~has.any(axis=1), 0] = True
    return has


def components(K: Array, n: int) -> Array:
    """Leading eigenvectors of the centered matrix, times the roots of their eigenvalues."""
    K = K - K.mean(axis=0)
    K = K - K.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    return vectors[:, ::-1][:, :n] * np.sqrt(np.clip(values[::-1][:n], 0.0, None))


def accuracy(scores: Array, labels: Array) -> float:
    """Cross-validated accuracy of a linear classifier."""
    classify = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    return float(cross_val_score(classify, scores, labels, cv=5).mean())


def factor(K: Array, rank: int) -> tuple[Array, float]:
    """Leading eigenpairs as a party sends them, and the largest eigenvalue left out."""
    values, vectors = np.linalg.eigh(K)
    A = vectors[:, ::-1][:, :rank] * np.sqrt(np.clip(values[::-1][:rank], 0.0, None))
    return A, float(max(0.0, values[::-1][rank])) if rank < len(K) else 0.0


def trial(settings: Settings, seed: int) -> dict[str, dict[str, float]]:
    """Errors and accuracies of one draw, by how much is lacking and how; those of the genes beside the digits'."""
    genes = {f"genes, {case}": row for case, row in _trial(settings, seed, *six_parts(settings.data)).items()}
    return _trial(settings, seed, *six_views(settings.n_samples)) | genes


def _trial(settings: Settings, seed: int, views: dict[str, Array], labels: Array) -> dict[str, dict[str, float]]:
    T, D = len(labels), settings.n_components
    gamma = 1.0 / sum(2.0 * X.shape[1] for X in views.values())
    grams = {name: np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1)) for name, X in views.items()}
    complete_data = components(np.prod(list(grams.values()), axis=0), D)
    best = complete_data / np.linalg.norm(complete_data, axis=0)
    found = {"complete data": {"accuracy": accuracy(complete_data, labels)}}
    for how in HOW:
        for share in settings.shares if how != "one class" else settings.shares[:1]:
            rng = np.random.default_rng([seed, HOW.index(how), int(100 * share)])
            has = kept(how, share, labels, len(views), rng)
            held = {}
            for j, (name, K) in enumerate(grams.items()):
                rows = np.flatnonzero(has[:, j])
                A, left_out = factor(K[np.ix_(rows, rows)], settings.rank)
                held[name] = Held(A, rows, left_out, 0.0, 1.0)
            completion = complete(held, T, seed=seed)
            by_mean = {}
            for name, part in held.items():
                by_mean[name] = np.tile(part.factor.mean(axis=0), (T, 1))
                by_mean[name][part.rows] = part.factor
            ways = {"mean": by_mean, "complete": {name: f.factor for name, f in completion.filled.items()}}
            row: dict[str, float] = {"common": float(has.all(axis=1).sum())}
            row["held-out R2"] = float(np.mean([completion.held_out[n] for n, h in held.items() if len(h.rows) < T]))
            row["norm of W squared"] = max(filled.norm_squared for filled in completion.filled.values())
            for mode, factors in ways.items():
                scores = components(np.prod([B @ B.T for B in factors.values()], axis=0), D)
                row[f"error {mode}"] = float(subspace_error(best, scores / np.linalg.norm(scores, axis=0)))
                row[f"accuracy {mode}"] = accuracy(scores, labels)
            found[f"{how}, {share:.0%}"] = row
    return found


def run(options: Options, settings: Settings) -> None:
    """Components and classifiers where parties lack samples."""
    trials = options.repeat("lacking", trial, settings, real_data=True)
    rows = [
        {"lacking": case, "measured": what, **mean_std([one[case][what] for one in trials])}
        for case in trials[0]
        for what in trials[0][case]
    ]
    options.write("lacking", {"settings": described(settings), "repetitions": options.repetitions, "rows": rows})


if __name__ == "__main__":
    main(run, Settings(), QUICK)
