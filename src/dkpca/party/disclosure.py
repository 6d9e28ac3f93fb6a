"""What a message tells whoever holds it, in words and numbers, before it is sent."""

from dataclasses import dataclass
from typing import Any, get_type_hints

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
    """Describe any message: a summary in words of its own, others by what their class says of them."""
    if isinstance(message, messages.Summary):
        facts, told = _of_summary(message)
    else:
        header, arrays = codec.encode(message)
        hints = get_type_hints(type(message), include_extras=True)
        facts = {name: value for name, value in header.items() if hints.get(name) != messages.Secret}
        facts |= {name: list(array.shape) for name, array in arrays.items()}
        told = (" ".join(str(message.__doc__).partition("\n\n")[0].split()), NO_COLUMN)
    absent = () if isinstance(message, messages.CovariateRows) else told[-1:]
    return Disclosure(wire.kind_of(message), {"bytes": wire.size(message), **facts}, told[:-1], absent)


@dataclass(frozen=True)
class LedgerEntry:
    """What one party sent for a fit, beside what its raw columns would have been in the same precision.

    Attributes
    ----------
    party, n_features, rank : str, int and int
        Name of the party, number of its columns, and eigenpairs it sent (0 for masked sums).
    bytes_sent, bytes_raw : int
        Length of its message or masked numbers, and of its columns in the same precision: float32 for a compact
        message, float64 for masked sums.
    decided : str
        The rule that decided how much was sent, and those that could not be met; empty where only the party knows.

    Examples
    --------
    >>> import numpy as np
    >>> from dkpca import DKPCA
    >>> entry = DKPCA(2, parties=2, rank=3).fit(np.eye(8)).ledger_[0]
    >>> entry.party, entry.n_features, entry.rank, entry.bytes_raw
    ('party0', 4, 3, 128)
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


NO_COLUMN = "column names, sample ids or raw values of a column"


def _of_summary(message: messages.Summary) -> tuple[dict[str, Any], tuple[str, ...]]:
    kernel, share = message.kernel.to_dict(), share_sent(message)
    facts = {
        "party": message.party,
        "kernel": kernel.pop("name"),
        **kernel,
        "samples": message.n_samples,
        "columns": message.n_features,
        "rank": message.rank,
        "numbers": message.n_samples * (message.rank + (message.diagonal is not None)),
        "precision": message.factor.precision,
        "share of the kernel matrix sent": share,
        "largest eigenvalues": [round(value, 6) for value in spectrum(message)[:5]],
    }
    if message.turned:
        return facts, (
            "the party's leading eigenvalues, and how its factor goes together with those of the other parties",
            f"that the party has {message.n_features} columns and {message.n_samples} samples",
            "to anyone who has the parties' key: all that a summary in the open reveals",
            "any sample, similarity or mean: rows are mixtures of all samples by a secret rotation",
        )
    return facts, (
        f"how similar any two samples look to this party: factor @ factor.T is its kernel matrix, {share:.1%} of it",
        message.kernel.revealed(message.rank, message.n_features),
        "groups, outliers and near-duplicates among the samples, as this party sees them",
        f"that the party has {message.n_features} columns",
        "a fingerprint of the sample ids in their order; it confirms a correct guess of all ids",
        NO_COLUMN,
    )
