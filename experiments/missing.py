"""Beyond the paper: what it costs downstream when a party is missing where new samples are placed.

Handwritten digits, cut into four parties of pixels. A classifier is trained on the scores of the fit, of all parties;
held-out digits are placed with all parties, and without each of them.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkpca import DKPCA
from dkpca.errors import MissingPartyWarning
from experiments.command import Options, described, main, mean_std

LAWS: dict[str, dict[str, Any]] = {
    "sum, linear": {"kernel": "linear"},
    "sum, RBF balanced": {"law": "sum", "weights": "balanced"},
    "product, RBF": {"gamma": "scale"},
}
PARTS = {"top left": (0, 0), "top right": (0, 1), "bottom left": (1, 0), "bottom right": (1, 1)}


@dataclass(frozen=True)
class Settings:
    """Half of the digits are held out."""

    n_components: int = 20
    rank: int = 40
    n_samples: int = 1797


QUICK = Settings(n_components=5, rank=10, n_samples=200)


def parties(n_samples: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Pixels of each quarter of the images, and what they show."""
    digits = load_digits()
    images = digits.images[:n_samples] / 16.0
    quarters = {
        name.replace(" ", "-"): images[:, 4 * i : 4 * i + 4, 4 * j : 4 * j + 4].reshape(n_samples, -1)
        for name, (i, j) in PARTS.items()
    }
    return quarters, digits.target[:n_samples]


def accuracies(settings: Settings, seed: int) -> dict[str, dict[str, float]]:
    """Accuracy on held-out digits by law: with all parties, and without each."""
    tables, labels = parties(settings.n_samples)
    fitted, held = train_test_split(np.arange(len(labels)), test_size=0.5, random_state=seed, stratify=labels)
    fit = {name: X[fitted] for name, X in tables.items()}
    new = {name: X[held] for name, X in tables.items()}
    found = {}
    for law, chosen in LAWS.items():
        model = DKPCA(settings.n_components, rank=settings.rank, lacking="mean", **chosen)
        scores = model.fit_transform(fit)
        classify = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(scores, labels[fitted])
        found[law] = {"all": float(classify.score(model.transform(new), labels[held]))}
        for absent in tables:
            there = {name: X for name, X in new.items() if name != absent}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MissingPartyWarning)
                found[law][absent] = float(classify.score(model.transform(there), labels[held]))
    return found


def run(options: Options, settings: Settings) -> None:
    """Accuracy without a party."""
    trials = options.repeat("missing", accuracies, settings)
    rows = [
        {"law": law, "missing": party, **mean_std([trial[law][party] for trial in trials])}
        for law in LAWS
        for party in trials[0][law]
    ]
    options.write("missing", {"settings": described(settings), "repetitions": options.repetitions, "rows": rows})


if __name__ == "__main__":
    main(run, Settings(), QUICK)
