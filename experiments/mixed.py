"""An example: sequences at a lab, categories at a clinic and numbers at a bank, in one embedding.

The people are invented, of twelve kinds: three ancestors of their sequences, two habits, two incomes. The lab alone
can see the ancestor, the clinic the habit, the bank the income. The lab brings its own matrix, a spectrum kernel that
counts common words of three letters; no party gives away a letter, a category or an amount.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import silhouette_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import dkpca
from dkpca.kernels import RBF, Overlap, Precomputed
from experiments.figures import BLUE, GREEN, MARKERS, ORANGE, STYLE, save

DOCS = Path(__file__).parents[1] / "docs"
LETTERS = np.array(list("ACGT"))
WORD = 3
COLORS = (BLUE, ORANGE, GREEN)


def people(n_samples: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What the three parties hold, and of which kind each person is: ancestor, habit, income."""
    rng = np.random.default_rng(seed)
    kinds = np.column_stack([rng.integers(0, count, n_samples) for count in (3, 2, 2)])
    ancestors = rng.choice(LETTERS, (3, 60))
    mutated = rng.random((n_samples, 60)) < 0.15
    sequences = np.where(mutated, rng.choice(LETTERS, (n_samples, 60)), ancestors[kinds[:, 0]])
    usual = rng.permuted(np.tile(np.arange(2), (8, 1)), axis=1)  # answer of each habit to each of eight questions
    differs = rng.random((n_samples, 8)) < 0.2
    answers = np.where(differs, rng.integers(0, 4, (n_samples, 8)), usual[:, kinds[:, 1]].T)
    amounts = rng.normal(size=(n_samples, 5)) + 3.0 * kinds[:, 2:] * rng.random(5)
    return {"lab": sequences, "clinic": answers.astype(float), "bank": amounts}, kinds


def spectrum_kernel(sequences: np.ndarray) -> np.ndarray:
    """Common words of two sequences, over their lengths: positive semidefinite, being inner products of counts."""
    words = ["".join(row[i : i + WORD]) for row in sequences for i in range(row.size - WORD + 1)]
    known, codes = np.unique(words, return_inverse=True)
    counts = np.zeros((len(sequences), len(known)))
    np.add.at(counts, (np.repeat(np.arange(len(sequences)), sequences.shape[1] - WORD + 1), codes), 1.0)
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    return counts @ counts.T


def summaries(tables: dict[str, np.ndarray]) -> dict[str, dkpca.Summary]:
    """The one message of each party."""
    amounts = tables["bank"]
    prepared = {
        "lab": (spectrum_kernel(tables["lab"]), Precomputed()),
        "clinic": (tables["clinic"], Overlap(0.5)),
        "bank": ((amounts - amounts.mean(axis=0)) / amounts.std(axis=0), RBF(0.2)),
    }
    return {name: dkpca.summarize(X, party=name, kernel=kernel, rank=30)[0] for name, (X, kernel) in prepared.items()}


def embeddings(messages: dict[str, dkpca.Summary]) -> dict[str, np.ndarray]:
    """Scores from each party's message alone, and from all of them."""
    alone = {f"{name} alone": dkpca.fuse([message], n_components=4) for name, message in messages.items()}
    together = dkpca.fuse(messages.values(), n_components=4, law="sum", weights="balanced")
    return {name: model.scores for name, model in {**alone, "all three, sum law": together}.items()}


def accuracy(scores: np.ndarray, kinds: np.ndarray) -> float:
    """How often the nearest neighbors tell the kind of a person, of twelve."""
    return float(cross_val_score(KNeighborsClassifier(10), scores, _one_number(kinds), cv=5).mean())


def figure(found: dict[str, np.ndarray], kinds: np.ndarray) -> Figure:
    """Two components of each embedding, all four of the last; color: ancestor, marker: habit and income."""
    panels = [(name, scores, 0) for name, scores in found.items()]
    panels.append((*panels[-1][:2], 2))
    with plt.rc_context(STYLE):
        drawn, axes = plt.subplots(1, len(panels), figsize=(14, 3.2))
        for axis, (name, scores, first) in zip(axes, panels, strict=True):
            for ancestor, habit, income in np.unique(kinds, axis=0):
                rows = (kinds == (ancestor, habit, income)).all(axis=1)
                axis.scatter(
                    scores[rows, first],
                    scores[rows, first + 1],
                    s=14,
                    color=COLORS[ancestor],
                    marker=MARKERS[2 * habit + income],
                    alpha=0.7,
                    linewidths=0,
                )
            axis.set_title(f"{name}: {accuracy(scores, kinds):.0%} told apart", fontsize=9)
            axis.set_xlabel(f"component {first + 1}")
            axis.set_ylabel(f"component {first + 2}")
            axis.set_xticks([])
            axis.set_yticks([])
    return drawn


def _one_number(kinds: np.ndarray) -> np.ndarray:
    return kinds @ np.array([4, 2, 1])


def main() -> None:
    """Draw the picture of the page on kernels."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--n-samples", type=int, default=600)
    parser.add_argument("--figures", type=Path, default=DOCS / "figures")
    given = parser.parse_args()
    tables, kinds = people(given.n_samples)
    found = embeddings(summaries(tables))
    for name, scores in found.items():
        print(
            f"{name}: {accuracy(scores, kinds):.1%} of twelve kinds, silhouette "
            f"{silhouette_score(scores, _one_number(kinds)):.2f}"
        )
    save(figure(found, kinds), "mixed", given.figures)


if __name__ == "__main__":
    main()
