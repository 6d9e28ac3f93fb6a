"""What a message tells whoever holds it, in words and numbers, before it is sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca import messages, wire
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.precision import as_received, column_squares, square
from dkpca.wire import codec


@dataclass(frozen=True)
class Disclosure:
    """One message, described for the person who decides whether to send it."""

    kind: str
    facts: dict[str, Any]
    reveals: tuple[str, ...]
    does_not_contain: tuple[str, ...]


def describe(message: messages.Message) -> Disclosure:
    """Describe any message."""
    if isinstance(message, messages.Summary):
        facts, told = _of_summary(message), _by_summary(message)
    else:
        header, arrays = codec.encode(message)
        facts, told = header | {name: list(array.shape) for name, array in arrays.items()}, SAID[type(message)]
    return Disclosure(wire.kind_of(message), {"bytes": wire.size(message), **facts}, told[:-1], told[-1:])


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


def _of_summary(message: messages.Summary) -> dict[str, Any]:
    kernel = message.kernel.to_dict()
    return {
        "party": message.party,
        "kernel": kernel.pop("name"),
        **kernel,
        "samples": message.n_samples,
        "columns": message.n_features,
        "rank": message.rank,
        "numbers": message.n_samples * (message.rank + (message.diagonal is not None)),
        "precision": message.factor.precision,
        "share of the kernel matrix sent": share_sent(message),
        "largest eigenvalues": [round(value, 6) for value in spectrum(message)[:5]],
    }


def _by_summary(message: messages.Summary) -> tuple[str, ...]:
    if message.turned:
        return (
            "the party's leading eigenvalues, and how its factor goes together with those of the other parties",
            f"that the party has {message.n_features} columns and {message.n_samples} samples",
            "to anyone who has the parties' key: all that a summary in the open reveals",
            "any sample, similarity or mean: rows are mixtures of all samples by a secret rotation",
        )
    return (
        "how similar any two samples look to this party: factor @ factor.T is its kernel matrix, "
        f"{share_sent(message):.1%} of it",
        message.kernel.revealed(message.rank, message.n_features),
        "groups, outliers and near-duplicates among the samples, as this party sees them",
        f"that the party has {message.n_features} columns",
        GUESSES,
        NO_COLUMN,
    )


# What each other kind of message reveals; and at last what it does not contain.
SAID: Mapping[type[Any], tuple[str, ...]] = {
    messages.Scores: (
        "to each party: where its samples lie among the components of all parties' columns together",
        "with row means: how similar each sample is to the others on average, in all parties' columns",
        "sample ids, and any party's own factor or columns",
    ),
    messages.Statistics: (f"{SIZE}, and how far apart two rows are on average", NO_VALUE),
    messages.Rows: ("how similar each new sample looks to every training sample, as this party sees it", NO_COLUMN),
    messages.Partials: (
        "the squared distance (or inner product) of each new sample to every training sample, not approximated: "
        "with more new samples than columns, the whole table of the fit up to a rotation",
        NO_COLUMN,
    ),
    messages.SampleTokens: (
        "how many samples the party has, and how many of them it shares with each other party",
        "to anyone who has the parties' key: which ids these are, by trying them out",
        "ids in the clear, and the order of the rows",
    ),
    messages.RaisedIds: (
        "how many entries the list of its owner has, which may have padded it",
        "together with the lists of all parties, raised by all: how many samples they have in common",
        "ids, anything by which a guess could be tested offline, and the order of the rows",
    ),
    messages.CommonTokens: (
        "to each party: which of its own samples all the others have too",
        "anything about samples that are not shared by all",
    ),
    messages.Seed: ("to its reader: a secret of these two parties, and a share of the key of all", "any data"),
    messages.Shape: (SIZE, GUESSES, NO_VALUE),
    messages.Go: ("that the party agrees to the derived values", NO_VALUE),
    messages.Reveal: ("a random number by which rows are drawn", NO_VALUE),
    messages.Told: ("that the party has read what it was told", NO_VALUE),
    messages.MaskedSum: (
        "alone, or without one of the others: nothing but that the party takes part",
        "together with those of all parties: the sum over all of them, and no addend",
        "to all other parties together, if they join against this one: what it added",
        "anything that can be read without the messages of all other parties",
    ),
    messages.AuditRequest: ("to each party: which samples are looked at, by their positions", "any data"),
    messages.AuditRows: (
        "how similar the audited samples look to each of the others, not approximated",
        "with more rows than columns: the whole table up to a rotation, whatever the rank of the summary",
        NO_COLUMN,
    ),
    messages.CovariateRows: (
        "which samples have the same batch, site or age, and how far apart these are; nothing of it is hidden",
        "names of batches or sites, and any other column",
    ),
}
