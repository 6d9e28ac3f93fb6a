"""What a message tells whoever holds it, in words and numbers, before it is sent."""

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from dkpca import messages, wire
from dkpca.kernels import Kernel
from dkpca.linalg.precision import PRECISIONS
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
    facts, reveals, absent = _described(message)
    facts = {"bytes": wire.size(message), **facts}
    return Disclosure(wire.kind_of(message), facts, tuple(reveals), tuple(absent))


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
        Eigenpairs it sent.
    bytes_sent : int
        Length of its message.
    bytes_raw : int
        Length of its columns, in the precision of the message; beside a compact one, in float32.
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


def ledger_entry(summary: messages.Summary, decided: str = "") -> LedgerEntry:
    """Say what one summary costs."""
    size, raw = wire.size(summary), raw_bytes(summary)
    return LedgerEntry(summary.party, summary.n_features, summary.rank, size, raw, decided)


def spectrum(summary: messages.Summary) -> list[float]:
    """Eigenvalues that the factor carries: its squared column norms, unless a rotation has mixed the columns."""
    factor = summary.factor.decode()
    if summary.turned:
        return [float(value) for value in np.linalg.eigvalsh(np.asarray(factor.T @ factor))[::-1]]
    return [float(value) for value in np.asarray((factor * factor).sum(axis=0))]


def raw_bytes(summary: messages.Summary) -> int:
    """Bytes of the party's columns in the precision of its factor."""
    return summary.n_samples * summary.n_features * PRECISIONS[summary.factor.precision]


def share_sent(summary: messages.Summary) -> float:
    """Share of the party's kernel matrix, by trace, that the factor reproduces."""
    sent = sum(spectrum(summary))
    total = sent + summary.trace_left_out
    return min(1.0, sent / total) if total > 0 else 1.0


Description = tuple[dict[str, Any], list[str], list[str]]
NO_VALUE, NO_COLUMN = ["any value, name or id"], ["column names, sample ids or raw values of a column"]
GUESSES = "a fingerprint of the sample ids in their order; it confirms a correct guess of all ids"


@singledispatch
def _described(message: Any) -> Description:
    """Facts about a message, what it reveals, and what it does not contain; one function for each kind."""
    raise TypeError(f"{type(message).__name__} is no message")


@_described.register
def _(message: messages.Statistics) -> Description:
    facts = {
        "party": message.party,
        "samples": message.n_samples,
        "columns": message.n_features,
        "mean squared distance": message.mean_squared_distance,
    }
    reveals = ["how many rows and columns the party has, and how far apart two rows are on average"]
    return facts, reveals, NO_VALUE


@_described.register
def _(message: messages.Summary) -> Description:
    sent = share_sent(message)
    facts = {
        "party": message.party,
        **_kernel_facts(message.kernel),
        "combined with the others": _combined(message.kernel),
        "samples": message.n_samples,
        "columns": message.n_features,
        "rank": message.rank,
        "numbers": message.n_samples * (message.rank + (message.diagonal is not None)),
        "precision": message.factor.precision,
        "share of the kernel matrix sent": sent,
        "largest eigenvalues": [round(value, 6) for value in spectrum(message)[:5]],
    }
    if message.turned:
        reveals = [
            "the party's leading eigenvalues, and how its factor goes together with those of the other parties",
            f"that the party has {message.n_features} columns and {message.n_samples} samples",
            "to anyone who has the parties' key: all that a summary in the open reveals",
        ]
        hidden = "any sample, similarity or mean: rows are mixtures of all samples by a secret rotation"
        return facts, reveals, [hidden]
    reveals = [
        f"how similar any two samples look to this party: factor @ factor.T is its kernel matrix, {sent:.1%} of it",
        message.kernel.revealed(message.rank, message.n_features),
        "groups, outliers and near-duplicates among the samples, as this party sees them",
        f"that the party has {message.n_features} columns",
        GUESSES,
    ]
    return facts, reveals, NO_COLUMN


@_described.register
def _(message: messages.Rows) -> Description:
    n_new, rank = message.factor.shape
    facts = {"party": message.party, "new samples": n_new, "rank": rank, "precision": message.factor.precision}
    reveals = ["how similar each new sample looks to every training sample, as this party sees it"]
    return facts, reveals, NO_COLUMN


@_described.register
def _(message: messages.Partials) -> Description:
    n_new, n_samples = message.partial.shape
    facts = {"party": message.party, "new samples": n_new, "training samples": n_samples}
    reveals = [
        "the squared distance (or inner product) of each new sample to every training sample, not approximated: "
        "with more new samples than columns, the whole table of the fit up to a rotation"
    ]
    return facts, reveals, NO_COLUMN


@_described.register
def _(message: messages.SampleTokens) -> Description:
    n_samples = message.tokens.shape[0]
    reveals = [
        f"that the party has {n_samples} samples, and how many of them it shares with each other party",
        "to anyone who has the parties' key: which ids these are, by trying them out",
    ]
    return {"party": message.party, "samples": n_samples}, reveals, ["ids in the clear, and the order of the rows"]


@_described.register
def _(message: messages.RaisedIds) -> Description:
    n_samples = message.points.shape[0] // POINT_BYTES
    facts = {"party": message.party, "samples of": message.owner, "samples": n_samples, "hop": message.hop}
    reveals = [
        f"that the list of {message.owner} has {n_samples} entries, which its owner may have padded",
        "together with the lists of all parties, raised by all: how many samples they have in common",
    ]
    return facts, reveals, ["ids, anything by which a guess could be tested offline, and the order of the rows"]


@_described.register
def _(message: messages.CommonTokens) -> Description:
    facts = {"parties": message.n_parties, "samples in common": message.tokens.shape[0]}
    reveals = ["to each party: which of its own samples all the others have too"]
    return facts, reveals, ["anything about samples that are not shared by all"]


@_described.register
def _(message: messages.Scores) -> Description:
    n_samples, n_components = message.scores.shape
    facts = {
        "parties": message.n_parties,
        **({} if message.kernel is None else _kernel_facts(message.kernel)),
        **({"stands for": message.meaning} if message.meaning else {}),
        "samples": n_samples,
        "components": n_components,
        "variance captured, at least": message.captured_share_at_least,
        "share of the best possible, at least": message.optimality_at_least,
    }
    reveals = ["to each party: where its samples lie among the components of all parties' columns together"]
    if message.row_means is not None:
        reveals.append("to each party: how similar each sample is to the others on average, in all parties' columns")
    return facts, reveals, ["sample ids, and any party's own factor or columns"]


@_described.register
def _(message: messages.Seed) -> Description:
    facts = {"party": message.party, "for": message.to}
    return facts, ["to its reader: a secret of these two parties, and a share of the key of all"], ["any data"]


@_described.register
def _(message: messages.Shape) -> Description:
    facts = {"party": message.party, "samples": message.n_samples, "columns": message.n_features}
    reveals = [
        "how many rows and columns the party has",
        GUESSES,
    ]
    return facts, reveals, NO_VALUE


@_described.register
def _(message: messages.Go | messages.Reveal | messages.Told) -> Description:
    reveals = {
        messages.Go: "that the party agrees to the derived values",
        messages.Reveal: "a random number by which rows are drawn",
        messages.Told: "that the party has read what it was told",
    }
    return {"party": message.party}, [reveals[type(message)]], NO_VALUE


@_described.register
def _(message: messages.MaskedSum) -> Description:
    reveals = [
        "alone, or without one of the others: nothing but that the party takes part",
        "together with those of all parties: the sum over all of them, and no addend",
        "to all other parties together, if they join against this one: what it added",
    ]
    facts = {"party": message.party, "bytes": message.n_bytes}
    return facts, reveals, ["anything that can be read without the messages of all other parties"]


@_described.register
def _(message: messages.AuditRequest) -> Description:
    facts = {"samples": message.n_samples, "rows asked for": len(message.samples), "seed": message.seed}
    return facts, ["to each party: which samples are looked at, by their positions"], ["anything about a sample"]


@_described.register
def _(message: messages.AuditRows) -> Description:
    n_rows, n_samples = message.rows.shape
    facts = {"party": message.party, "rows": n_rows, "samples": n_samples}
    reveals = [
        f"how similar {n_rows} of the samples look to each of the {n_samples}, not approximated",
        "with more rows than columns: the whole table up to a rotation, whatever the rank of the summary",
    ]
    return facts, reveals, NO_COLUMN


@_described.register
def _(message: messages.CovariateRows) -> Description:
    n_samples, count = message.rows.shape
    facts = {"party": message.party, "samples": n_samples, "columns": count}
    reveals = ["which samples have the same batch, site or age, and how far apart these are; nothing of it is hidden"]
    return facts, reveals, ["names of batches or sites, and any other column"]


def _combined(kernel: Kernel) -> str:
    """Say what the center makes of this kernel at every party."""
    if kernel.law is None:
        return "by the product or sum of the parties' kernels, as the center chooses"
    how = {"product": "multiplication", "sum": "addition"}[kernel.law.name]
    return f"by {how}, which gives the {kernel.name} kernel of the joined table if all parties use this kernel"


def _kernel_facts(kernel: Kernel) -> dict[str, Any]:
    described = kernel.to_dict()
    return {"kernel": described.pop("name"), **described}
