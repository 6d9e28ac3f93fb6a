"""Beyond the paper: how well somebody who knows some rows recovers a party's other rows, by what they hold.

Breast cancer (30 columns, three parties), digits (64 pixels, four parties) and GSE2187 (8466 genes, 60 parties). Each
cell is the range over the first party's columns of R squared on rows that were not known, the mean over five draws.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from dkpca import DKPCA, summarize
from dkpca.errors import InputError
from dkpca.kernels import RBF, Kernel, Linear
from dkpca.messages import Summary, row_number_digest
from dkpca.party import summaries
from dkpca.party.questions import SummaryWanted
from dkpca.party.recovery import DRAWS, Matrix, Seen, Truth, points, regressed
from dkpca.party.recovery import run as attacked
from dkpca.protection.rotation import Rotation
from dkpca.rank import Auto, Fixed
from experiments.command import Options, described, expression, main
from experiments.public_columns import with_public_columns


@dataclass(frozen=True)
class Settings:
    """Rows known, and components of the result."""

    known_rows: tuple[int, ...] = (30, 100)
    n_components: tuple[int, ...] = (10, 3)
    n_samples: int = 300
    expression_parties: int = 60
    data: str | None = None


ROTATED = "center, or an outsider with the messages"
PUBLIC = "center that has the second party's columns"
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
    yield "blind", ROTATED, seen(np.hstack(received), Linear())
    own, _ = summarize(first, party="party0", kernel=Linear(), rank=Auto(n_components[0]))
    yield "blind", "center and another party, who has the key", seen(own.factor.decode(), Linear())
    for count in n_components:
        yield f"the result, {count} components", "whoever gets it", seen(_scores(model)[:, :count], Linear())


def recovered(settings: Settings, seed: int) -> list[dict[str, object]]:
    """R squared by data set, mode, who and known rows: lowest, middle and highest column."""
    rows: list[dict[str, object]] = []
    for name, parties in tables(settings).items():
        truth = Truth.of(parties["party0"])
        model = DKPCA(settings.n_components[0], gamma=None, protect="sums").fit(parties)
        for mode, who, seen in held(parties, model, settings.n_components):
            for known in settings.known_rows:
                draws = _draws(len(seen.factor), known, seed)
                found = attacked(seen, truth, draws)
                if who == ROTATED:  # its rows are no samples: what is contained in them is there by chance
                    del found["content"]
                best = np.max(list(found.values()), axis=0)
                rows.append({"on": name, "mode": mode, "who": who, "known_rows": known, **_range(best)})
        rows += [{"on": name, **row} for row in _with_public(parties, settings, seed)]
        rows += _another_party(name, parties["party1"], _scores(model), truth, settings, seed)
    return rows


def _with_public(parties: dict[str, Matrix], settings: Settings, seed: int) -> list[dict[str, object]]:
    """A blind center that has the second party's columns: RBF at full rank there, linear at the first party."""
    gamma = 1.0 / parties["party1"].shape[1]
    sent = [_turned("party0", parties["party0"], [Linear()])]
    sent.append(_turned("party1", parties["party1"], [RBF(gamma), RBF(gamma / 4), RBF(gamma / 16)]))
    rows: list[dict[str, object]] = []
    for known in settings.known_rows:
        found = with_public_columns(sent[0], sent[1], known_rows=known, random_state=seed).columns
        rows.append({"mode": "blind", "who": PUBLIC, "known_rows": known, **_range(np.array(found))})
    return rows


def _turned(name: str, X: Matrix, kernels: Sequence[Kernel]) -> tuple[Summary, Matrix, Kernel]:
    """Blind summary by the first of these kernels that is not refused as nearly the identity."""
    blind = Rotation(b"of the parties", "run", row_number_digest(len(X)), len(X), name.encode())
    for kernel in kernels:
        try:
            asked = SummaryWanted(kernel, Fixed(len(X) - 1), "float64", law="sum", blind=True)
            summary, _ = summaries.summarize(X, asked, party=name, blind=blind)
        except InputError as error:
            refused = error
        else:
            return summary, X, kernel
    raise refused


def _draws(n_samples: int, known: int, seed: int) -> list[Matrix]:
    return [np.random.default_rng((seed, known, draw)).permutation(n_samples)[:known] for draw in range(DRAWS)]


def _another_party(
    name: str, own: Matrix, scores: Matrix, truth: Truth, settings: Settings, seed: int
) -> list[dict[str, object]]:
    """What the second party's own columns say about the first's, without and with the result."""
    scores = scores / scores.std(axis=0)
    views = {"its own columns": own, "its own columns, and the result": np.hstack([own, scores])}
    rows: list[dict[str, object]] = []
    for what, features in views.items():
        for known in settings.known_rows:
            found = np.mean(regressed(features, truth, _draws(len(own), known, seed)).clip(0.0, 1.0), axis=0)
            rows.append({"on": name, "mode": what, "who": "another party", "known_rows": known, **_range(found)})
    return rows


def _scores(model: DKPCA) -> Matrix:
    return np.asarray(model.eigenvectors_ * np.sqrt(model.eigenvalues_))


def _range(columns: Matrix) -> dict[str, float]:
    found = np.clip(columns, 0.0, 1.0)
    figures = {"low": found.min(), "middle": np.median(found), "high": found.max()}
    return {what: round(float(value), 4) for what, value in figures.items()}


def run(options: Options, settings: Settings) -> None:
    """What 30 and 100 known rows recover, by mode and by who holds what."""
    (rows,) = options.repeat("disclosure", recovered, settings, real_data=True, count=1)
    options.write("disclosure", {"settings": described(settings), "rows": rows})


if __name__ == "__main__":
    main(run, Settings(), QUICK)
