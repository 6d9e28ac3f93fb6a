"""Beyond the paper: how well somebody who knows some rows recovers a party's other rows, by what they hold.

Breast cancer (30 columns, three parties), digits (64 pixels, four parties) and GSE2187 (8466 genes, 60 parties). Each
cell is the range over the first party's columns of R squared on rows that were not known, the mean over draws.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from dkpca import DKPCA
from dkpca.kernels import RBF, Linear
from dkpca.party import summarize
from dkpca.party.recovery import Matrix, Seen, Truth, points, regressed
from dkpca.party.recovery import run as attacked
from dkpca.rank import Auto
from experiments.command import Options, described, expression, main


@dataclass(frozen=True)
class Settings:
    """Rows known, and components of the result."""

    known_rows: tuple[int, ...] = (30, 100)
    n_components: tuple[int, ...] = (10, 3)
    n_samples: int = 1000
    expression_parties: int = 60
    data: str | None = None


QUICK = Settings(n_components=(3,), n_samples=130, expression_parties=2)


def tables(settings: Settings) -> dict[str, dict[str, Matrix]]:
    """Standardized columns of the parties, by data set."""
    tumors, digits = load_breast_cancer().data, load_digits().data
    digits = digits[:, digits.std(axis=0) > 0]
    genes = expression(settings.data).X
    cut = {"breast cancer": (tumors, 3), "digits": (digits, 4), "GSE2187": (genes, settings.expression_parties)}
    return {
        name: {f"party{j}": part for j, part in enumerate(np.array_split(_prepared(X, settings), parties, axis=1))}
        for name, (X, parties) in cut.items()
    }


def _prepared(X: Matrix, settings: Settings) -> Matrix:
    rows = np.sort(np.random.default_rng(0).permutation(len(X))[: settings.n_samples])
    X = np.asarray(X[rows], dtype=np.float64)
    deviation = X.std(axis=0)
    return (X[:, deviation > 0] - X[:, deviation > 0].mean(axis=0)) / deviation[deviation > 0]


def held(parties: dict[str, Matrix], model: DKPCA, n_components: tuple[int, ...]) -> Iterator[tuple[str, str, Seen]]:
    """Who holds what, in which mode, as the attacks see it."""
    first, width = parties["party0"], sum(X.shape[1] for X in parties.values())
    kernel, n = RBF(1.0 / width), first.shape[0]

    def seen(factor: Matrix, kernel: RBF | Linear, left_out: float = 0.0) -> Seen:
        return Seen(np.asarray(factor), kernel, left_out, first.shape[1])

    for mode, precision in (("factors", "float32"), ("compact factors", "compact")):
        summary, _ = summarize(first, party="party0", kernel=kernel, rank=Auto(10), precision=precision)
        left_out = max(0.0, summary.trace_left_out) / n
        yield mode, "center, or an outsider with the message", seen(summary.factor.decode(), kernel, left_out)
    joint = sum(kernel.partial(X, X) for X in parties.values())
    yield "masked sums", "center", seen(points(joint), Linear())
    yield "masked sums", "center and all other parties", seen(points(kernel.partial(first, first)), Linear())
    blind = DKPCA(n_components[0], kernel="linear", protect="blind").fit(parties)
    received = [summary.factor.decode() for summary in blind.model_.summaries.values()]
    yield "blind", "center, or an outsider with the messages", seen(np.hstack(received), Linear())
    own, _ = summarize(first, party="party0", kernel=Linear(), rank=Auto(n_components[0]))
    yield "blind", "center and another party, who has the key", seen(own.factor.decode(), Linear())
    for count in n_components:
        yield f"the result, {count} components", "whoever gets it", seen(_scores(model)[:, :count], Linear())


def recovered(settings: Settings, seed: int) -> list[dict[str, object]]:
    """R squared by data set, mode, who and known rows: lowest, middle and highest column."""
    rows: list[dict[str, object]] = []
    for name, parties in tables(settings).items():
        truth = Truth.of(parties["party0"], Linear())
        model = DKPCA(settings.n_components[0], gamma=None, protect="sums").fit(parties)
        for mode, who, seen in held(parties, model, settings.n_components):
            for known in settings.known_rows:
                draws = [np.random.default_rng((seed, known)).permutation(len(seen.factor))[:known]]
                best = np.max(list(attacked(seen, truth, draws).values()), axis=0)
                rows.append({"on": name, "mode": mode, "who": who, "known_rows": known, **_range(best)})
        rows += _another_party(name, parties["party1"], _scores(model), truth, settings, seed)
    return rows


def _another_party(
    name: str, own: Matrix, scores: Matrix, truth: Truth, settings: Settings, seed: int
) -> list[dict[str, object]]:
    """What the second party's own columns say about the first's, without and with the result."""
    scores = scores / scores.std(axis=0)
    views = {"its own columns": own, "its own columns, and the result": np.hstack([own, scores])}
    rows: list[dict[str, object]] = []
    for what, features in views.items():
        for known in settings.known_rows:
            drawn = np.random.default_rng((seed, known)).permutation(len(own))[:known]
            found = regressed(features, truth, [drawn])[0]
            rows.append({"on": name, "mode": what, "who": "another party", "known_rows": known, **_range(found)})
    return rows


def _scores(model: DKPCA) -> Matrix:
    return np.asarray(model.eigenvectors_ * np.sqrt(model.eigenvalues_))


def _range(columns: Matrix) -> dict[str, float]:
    found = np.clip(columns, 0.0, 1.0)
    return {"low": float(found.min()), "middle": float(np.median(found)), "high": float(found.max())}


def run(options: Options, settings: Settings) -> None:
    """What 30 and 100 known rows recover, by mode and by who holds what."""
    count = 1 if options.quick else 5
    trials = options.repeat("disclosure", recovered, settings, real_data=True, count=count)
    rows = [
        row
        | {what: round(float(np.mean([trial[n][what] for trial in trials])), 4) for what in ("low", "middle", "high")}
        for n, row in enumerate(trials[0])
    ]
    options.write("disclosure", {"settings": described(settings), "repetitions": count, "rows": rows})


if __name__ == "__main__":
    main(run, Settings(), QUICK)
