"""How well labels are predicted from scores, on samples that neither the components nor the prediction saw."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.linalg.arrays import Array

MANY_VALUES = 20  # numbers with more different values are predicted as numbers
FEWEST = 2  # folds

Place = Callable[[np.ndarray, np.ndarray], tuple[Array, Array]]


@dataclass(frozen=True)
class Labels:
    """Labels of some samples, and in which parts they are held out."""

    values: np.ndarray  # (n_labeled,)
    rows: np.ndarray  # (n_labeled,) into the samples
    as_numbers: bool
    n_folds: int
    notes: tuple[str, ...]

    @property
    def words(self) -> str:
        """How they are predicted."""
        how = "R2 of ridge regression" if self.as_numbers else "balanced accuracy of logistic regression"
        chance = 0.0 if self.as_numbers else 1.0 / len(np.unique(self.values))
        return f"{how} on the scores, {self.n_folds} folds; {chance:.2g} is chance"

    def folds(self, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Positions among the labeled samples to learn from, and to predict."""
        from sklearn.model_selection import KFold, StratifiedKFold

        cut = KFold if self.as_numbers else StratifiedKFold
        return list(cut(self.n_folds, shuffle=True, random_state=seed).split(self.values, self.values))


def labels_of(y: Any, n_samples: int, n_folds: int) -> Labels:
    """Take what can be predicted: labels that are there, of classes with a sample for every fold."""
    values = np.asarray(y)
    if values.shape != (n_samples,):
        raise InputError(f"labels have the shape {values.shape}; give one for each of the {n_samples} samples")
    there = np.array([value is not None and value == value and value != "" for value in values.tolist()], dtype=bool)
    notes = [] if there.all() else [f"{(~there).sum()} samples have no label, and are not predicted"]
    rows = np.flatnonzero(there)
    kept = values[rows]
    as_numbers = kept.dtype.kind in "iuf" and len(np.unique(kept)) > MANY_VALUES
    if not as_numbers:
        kept = np.array([str(value) for value in kept.tolist()])
        counts = Counter(kept.tolist())
        rare = sorted(name for name, count in counts.items() if count < n_folds)
        if rare:
            notes.append(f"classes with fewer than {n_folds} samples are not predicted: {', '.join(rare[:5])}")
        common = np.array([name not in rare for name in kept.tolist()], dtype=bool)
        rows, kept = rows[common], kept[common]
        if len(np.unique(kept)) < FEWEST:
            raise InputError(
                f"the labels have {len(np.unique(kept))} classes with at least {n_folds} samples; two are needed to "
                "tell them apart, so choose another column or fewer folds"
            )
    elif len(kept) < n_folds * FEWEST:
        raise InputError(f"{len(kept)} samples have a label, too few for {n_folds} folds; choose another column")
    return Labels(kept, rows, as_numbers, n_folds, tuple(notes))


def cross_validated(place: Place, labels: Labels, sizes: Sequence[int], seed: int) -> list[tuple[float, float]]:
    """Mean score over the folds and its standard error, by the first so many components.

    `place` fits on the samples it is given first, and returns the scores of both.
    """
    found = []
    for known, held_out in labels.folds(seed):
        learned, placed = place(labels.rows[known], labels.rows[held_out])
        y, y_held_out = labels.values[known], labels.values[held_out]
        found.append([_score(learned[:, :d], y, placed[:, :d], y_held_out, labels.as_numbers) for d in sizes])
    means = np.mean(found, axis=0)
    errors = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    return [(float(mean), float(error)) for mean, error in zip(means, errors, strict=True)]


def _score(Z: Array, y: np.ndarray, Z_new: Array, y_new: np.ndarray, as_numbers: bool) -> float:
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.metrics import balanced_accuracy_score, r2_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    learner = Ridge() if as_numbers else LogisticRegression(max_iter=1000)
    predicted = make_pipeline(StandardScaler(), learner).fit(Z, y).predict(Z_new)
    return float(r2_score(y_new, predicted) if as_numbers else balanced_accuracy_score(y_new, predicted))
