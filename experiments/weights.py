"""Beyond the paper: how much each party counts, and what that does downstream.

Breast cancer, cut into means, errors and extremes of ten measurements; handwritten digits, seen as pixels, as sums of
rows and of columns, and as magnitudes of their Fourier coefficients: parties of 64, 8, 8 and 40 columns.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkpca import DKPCA
from dkpca.errors import DataWarning
from experiments.command import Options, described, main, mean_std

Views = dict[str, np.ndarray]
WAYS: dict[str, dict[str, Any]] = {
    "product, one gamma": {"gamma": None},
    "product, balanced": {"weights": "balanced"},
    "sum, one gamma": {"gamma": None, "law": "sum"},
    "sum, balanced": {"law": "sum", "weights": "balanced"},
}


@dataclass(frozen=True)
class Settings:
    """A fifth of the samples is held out."""

    n_components: int = 10
    rank: int = 60
    n_samples: int = 1797


QUICK = Settings(n_components=3, rank=10, n_samples=150)


def breast_cancer(n_samples: int) -> tuple[Views, np.ndarray]:
    """Three parties of ten columns."""
    data = load_breast_cancer()
    names = ("means", "errors", "extremes")
    views = {name: data.data[:n_samples, 10 * j : 10 * j + 10] for j, name in enumerate(names)}
    return views, data.target[:n_samples]


def digits(n_samples: int) -> tuple[Views, np.ndarray]:
    """Four views of different widths."""
    data = load_digits()
    images = data.images[:n_samples]
    views = {
        "pixels": images.reshape(len(images), -1),
        "rows": images.sum(axis=2),
        "columns": images.sum(axis=1),
        "fourier": np.abs(np.fft.rfft2(images)).reshape(len(images), -1),
    }
    return views, data.target[:n_samples]


DATA: dict[str, Callable[[int], tuple[Views, np.ndarray]]] = {"breast cancer": breast_cancer, "digits": digits}


def accuracies(settings: Settings, seed: int) -> dict[str, dict[str, float]]:
    """Accuracy on held-out samples, by data and way."""
    found: dict[str, dict[str, float]] = {}
    for name, load in DATA.items():
        views, labels = load(settings.n_samples)
        fitted, held = train_test_split(np.arange(len(labels)), test_size=0.2, random_state=seed, stratify=labels)
        fit, new = ({party: X[rows] for party, X in views.items()} for rows in (fitted, held))
        found[name] = {}
        for way, chosen in WAYS.items():
            model = DKPCA(settings.n_components, rank=settings.rank, standardize=True, **chosen)
            scores = model.fit_transform(fit)
            classify = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(scores, labels[fitted])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # of a few tumors that are unlike all others
                found[name][way] = float(classify.score(model.transform(new), labels[held]))
    return found


def run(options: Options, settings: Settings) -> None:
    """Accuracy by weights."""
    trials = options.repeat("weights", accuracies, settings)
    rows = [
        {"on": name, "way": way, **mean_std([trial[name][way] for trial in trials])} for name in DATA for way in WAYS
    ]
    options.write("weights", {"settings": described(settings), "repetitions": options.repetitions, "rows": rows})


if __name__ == "__main__":
    main(run, Settings(), QUICK)
