"""What a message tells whoever holds it, in words and numbers, before it is sent."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca import messages, wire
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.precision import as_received, column_squares, square
from dkpca.messages import POINT_BYTES


@dataclass(frozen=True)
class Disclosure:
    """One message, described for the person who decides whether to send it."""

    kind: str
    facts: dict[str, Any]
    reveals: tuple[str, ...]
    does_not_contain: tuple[str, ...]


def describe(message: messages.Message) -> Disclosure:
    """Describe any message."""
    facts, reveals, absent = SAID[type(message)]
    known: dict[str, Any] = {"bytes": wire.size(message)}
    known |= {"party": message.party} if hasattr(message, "party") else {}
    known |= facts(message)
    named = {name.replace(" ", "_"): value for name, value in known.items()}
    told = reveals(message) if callable(reveals) else [sentence.format(**named) for sentence in reveals]
    if isinstance(message, messages.Summary) and message.turned:
        absent = "any sample, similarity or mean: rows are mixtures of all samples by a secret rotation"
    return Disclosure(wire.kind_of(message), known, tuple(told), (absent,))


@dataclass(frozen=True)
class LedgerEntry:
    """What one party sent for a fit, beside what its raw columns would have been in the same precision.

    Attributes
    ----------
    party : str
        Name of the party.
    n_features : int
        Columns it holds.
    rank : int
        Eigenpairs it sent; 0 for masked sums.
    bytes_sent : int
        Length of its message, or of its masked numbers.
    bytes_raw : int
        Length of its columns in the precision of the message: float32 for a compact one, float64 for masked sums.
    decided : str
        The rule that decided how much was sent, and those that could not be met; empty where only the party knows.

    Examples
    --------
    >>> import numpy as np
    >>> from dkpca import DKPCA
    >>> X = np.random.default_rng(0).normal(size=(50, 8))
    >>> entry = DKPCA(2, parties=2, rank=3).fit(X).ledger_[0]
    >>> entry.party, entry.n_features, entry.rank, entry.bytes_raw
    ('party0', 4, 3, 800)
    """

    party: str
    n_features: int
    rank: int
    bytes_sent: int
    bytes_raw: int
    decided: str = ""


def spectrum(summary: messages.Summary) -> list[float]:
    """Eigenvalues that the factor carries: its squared column norms, unless a rotation has mixed the columns."""
    factor = as_received(summary.factor, "float64")  # decoded a few rows at a time
    if summary.turned:
        return [float(value) for value in np.linalg.eigvalsh(to_numpy(square(factor)))[::-1]]
    return [float(value) for value in to_numpy(column_squares(factor))]


def share_sent(summary: messages.Summary) -> float:
    """Share of the party's kernel matrix, by trace, that the factor reproduces."""
    sent = sum(spectrum(summary))
    total = sent + summary.trace_left_out
    return min(1.0, sent / total) if total > 0 else 1.0


NO_VALUE, NO_COLUMN = "any value, name or id", "column names, sample ids or raw values of a column"
GUESSES = "a fingerprint of the sample ids in their order; it confirms a correct guess of all ids"
SIZE = "how many rows and columns the party has"


def _size(message: Any) -> dict[str, Any]:
    return {"samples": message.n_samples, "columns": message.n_features}


def _of_summary(message: messages.Summary) -> dict[str, Any]:
    return {
        **_kernel_facts(message.kernel),
        "combined with the others": _combined(message.kernel),
        **_size(message),
        "rank": message.rank,
        "numbers": message.n_samples * (message.rank + (message.diagonal is not None)),
        "precision": message.factor.precision,
        "share of the kernel matrix sent": share_sent(message),
        "largest eigenvalues": [round(value, 6) for value in spectrum(message)[:5]],
    }


def _by_summary(message: messages.Summary) -> list[str]:
    if message.turned:
        return [
            "the party's leading eigenvalues, and how its factor goes together with those of the other parties",
            f"that the party has {message.n_features} columns and {message.n_samples} samples",
            "to anyone who has the parties' key: all that a summary in the open reveals",
        ]
    return [
        "how similar any two samples look to this party: factor @ factor.T is its kernel matrix, "
        f"{share_sent(message):.1%} of it",
        message.kernel.revealed(message.rank, message.n_features),
        "groups, outliers and near-duplicates among the samples, as this party sees them",
        f"that the party has {message.n_features} columns",
        GUESSES,
    ]


def _of_scores(message: messages.Scores) -> dict[str, Any]:
    n_samples, n_components = message.scores.shape
    return {
        "parties": message.n_parties,
        **({} if message.kernel is None else _kernel_facts(message.kernel)),
        **({"stands for": message.meaning} if message.meaning else {}),
        "samples": n_samples,
        "components": n_components,
        "variance captured, at least": message.captured_share_at_least,
        "share of the best possible, at least": message.optimality_at_least,
    }


def _by_scores(message: messages.Scores) -> list[str]:
    means = "to each party: how similar each sample is to the others on average, in all parties' columns"
    where = "to each party: where its samples lie among the components of all parties' columns together"
    return [where] if message.row_means is None else [where, means]


# Facts of each kind of message beside its party, what it reveals, in words that may name facts, and what it does not
# contain.
SAID: Mapping[type[Any], tuple[Callable[[Any], dict[str, Any]], Any, str]] = {
    messages.Summary: (_of_summary, _by_summary, NO_COLUMN),
    messages.Scores: (_of_scores, _by_scores, "sample ids, and any party's own factor or columns"),
    messages.Statistics: (
        lambda m: _size(m) | {"mean squared distance": m.mean_squared_distance},
        [f"{SIZE}, and how far apart two rows are on average"],
        NO_VALUE,
    ),
    messages.Rows: (
        lambda m: {"new samples": m.n_samples, "rank": m.factor.shape[1], "precision": m.factor.precision},
        ["how similar each new sample looks to every training sample, as this party sees it"],
        NO_COLUMN,
    ),
    messages.Partials: (
        lambda m: {"new samples": m.n_samples, "training samples": m.partial.shape[1]},
        [
            "the squared distance (or inner product) of each new sample to every training sample, not approximated: "
            "with more new samples than columns, the whole table of the fit up to a rotation"
        ],
        NO_COLUMN,
    ),
    messages.SampleTokens: (
        lambda m: {"samples": m.tokens.shape[0]},
        [
            "that the party has {samples} samples, and how many of them it shares with each other party",
            "to anyone who has the parties' key: which ids these are, by trying them out",
        ],
        "ids in the clear, and the order of the rows",
    ),
    messages.RaisedIds: (
        lambda m: {"samples of": m.owner, "samples": m.points.shape[0] // POINT_BYTES, "hop": m.hop},
        [
            "that the list of {samples_of} has {samples} entries, which its owner may have padded",
            "together with the lists of all parties, raised by all: how many samples they have in common",
        ],
        "ids, anything by which a guess could be tested offline, and the order of the rows",
    ),
    messages.CommonTokens: (
        lambda m: {"parties": m.n_parties, "samples in common": m.tokens.shape[0]},
        ["to each party: which of its own samples all the others have too"],
        "anything about samples that are not shared by all",
    ),
    messages.Seed: (
        lambda m: {"for": m.to},
        ["to its reader: a secret of these two parties, and a share of the key of all"],
        "any data",
    ),
    messages.Shape: (_size, [SIZE, GUESSES], NO_VALUE),
    messages.Go: (lambda m: {}, ["that the party agrees to the derived values"], NO_VALUE),
    messages.Reveal: (lambda m: {}, ["a random number by which rows are drawn"], NO_VALUE),
    messages.Told: (lambda m: {}, ["that the party has read what it was told"], NO_VALUE),
    messages.MaskedSum: (
        lambda m: {"bytes": m.n_bytes},
        [
            "alone, or without one of the others: nothing but that the party takes part",
            "together with those of all parties: the sum over all of them, and no addend",
            "to all other parties together, if they join against this one: what it added",
        ],
        "anything that can be read without the messages of all other parties",
    ),
    messages.AuditRequest: (
        lambda m: {"samples": m.n_samples, "rows asked for": len(m.samples), "seed": m.seed},
        ["to each party: which samples are looked at, by their positions"],
        "anything about a sample",
    ),
    messages.AuditRows: (
        lambda m: {"rows": m.rows.shape[0], "samples": m.n_samples},
        [
            "how similar {rows} of the samples look to each of the {samples}, not approximated",
            "with more rows than columns: the whole table up to a rotation, whatever the rank of the summary",
        ],
        NO_COLUMN,
    ),
    messages.CovariateRows: (
        lambda m: {"samples": m.rows.shape[0], "columns": m.rows.shape[1]},
        ["which samples have the same batch, site or age, and how far apart these are; nothing of it is hidden"],
        "names of batches or sites, and any other column",
    ),
}


def _combined(kernel: Kernel) -> str:
    """Say what the center makes of this kernel at every party."""
    if kernel.law is None:
        return "by the product or sum of the parties' kernels, as the center chooses"
    how = {"product": "multiplication", "sum": "addition"}[kernel.law.name]
    return f"by {how}, which gives the {kernel.name} kernel of the joined table if all parties use this kernel"


def _kernel_facts(kernel: Kernel) -> dict[str, Any]:
    described = kernel.to_dict()
    return {"kernel": described.pop("name"), **described}
