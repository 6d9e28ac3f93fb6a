"""What no party can send that computed as this library does: found before anything is fused, from its message alone.

Write K for the party's own Gram matrix and B for the factor as sent. The message states that

    -slack * I  <=  K - B B'  <=  (left_out_norm + slack) * I

where the slack is its rounding. B has orthogonal columns, longest first, up to rounding; the kernel knows something
of K. A message that contradicts this, or itself, is refused. A lie that agrees with itself is not found out.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from dkpca import wire
from dkpca.certificate import Certificate
from dkpca.errors import FusionError
from dkpca.linalg.arrays import Array, namespace, quiet, to_numpy
from dkpca.linalg.precision import Rounded, as_received, largest, row_squares, square
from dkpca.messages import AuditRows, Partials, Rows, Summary

DOUBLE = float(np.finfo(np.float64).eps)  # the precision in which all of this is computed
SAME_SAMPLES = (
    "sort and filter the tables by id, so that all have the same samples in the same order, or let ids match them: "
    "'dkpca fit' with --id, or a study"
)


def check_summary(summary: Summary, device: str | None = None) -> None:
    """Raise `FusionError`, naming the party, if the summary cannot be one."""
    with quiet():
        reason = _contradiction(summary, device)
    if reason is not None:
        raise FusionError(f"party {summary.party!r}: {reason}; its summary was not made by dkpca, or was altered")


def check_certificate(certificate: Certificate, summaries: Mapping[str, Summary]) -> None:
    """Raise `FusionError` if what the parties state, each of them possible, adds up to more than can be counted."""
    unusable = [name for name, value in certificate.bounds().items() if not math.isfinite(value)]
    if unusable:
        most, party = max((_largest_stated(summary), name) for name, summary in summaries.items())
        raise FusionError(
            f"the sum of the parties' stated errors overflows ({', '.join(unusable)}); the largest are those of "
            f"party {party!r} ({most:.3g}): leave it out, or ask it again"
        )


def _largest_stated(summary: Summary) -> float:
    stated = (summary.left_out_norm, summary.trace_left_out, summary.rounding_norm, summary.rounding_nuclear)
    return max(map(abs, stated))


def _contradiction(summary: Summary, device: str | None) -> str | None:
    """Why the message cannot be, in words; None if it can."""
    if summary.n_features < 1:
        return f"it states {summary.n_features} columns"
    B = as_received(summary.factor, "float64")
    products = to_numpy(square(B, device))
    lengths = np.diagonal(products)
    if not np.isfinite(products).all():
        most = f"{largest(B):.3g}"
        return f"its factor holds numbers as large as {most}, whose squares are too large for any computer number"
    # Most by which rounding can have moved any eigenvalue. `rounding_norm` takes n roundings to cancel as sqrt(n),
    # here none does; and eigensolvers may lose half of the digits where eigenvalues lie close together.
    slack = (1.0 + math.sqrt(summary.n_samples)) * summary.rounding_norm + math.sqrt(DOUBLE) * float(lengths.max())
    stated = _largest_stated(summary)
    if not math.isfinite(summary.n_samples * (slack + stated)):
        return f"it states {stated:.3g} for what it left out or rounded, too large to compute with"
    slanted = None if summary.turned else _about_columns(products, summary.factor, slack)
    return slanted or _about_trace(summary, slack) or _about_diagonal(summary, row_squares(B), slack)


def _about_columns(products: Array, factor: Rounded, slack: float) -> str | None:
    # A column b is off by at most c = share |b| + sqrt(n) step, so b_i'b_j by |b_i| c_j + c_i |b_j| + c_i c_j.
    squares = np.diagonal(products)
    lengths, (share, step) = np.sqrt(squares), factor.entry_error()
    change = share * lengths + math.sqrt(factor.shape[0]) * to_numpy(step)
    moved = np.outer(lengths, change) + np.outer(change, lengths) + np.outer(change, change)
    # B'B must be diagonal and descending, but for rounding: off-diagonal entries and rises beyond it are refused.
    slanted = np.abs(products - np.diag(squares)) > slack + moved
    if slanted.any():
        first, second = np.argwhere(slanted)[0] + 1
        return f"columns {first} and {second} of its factor are not orthogonal"
    rising = squares[1:] > squares[:-1] + 2.0 * slack + np.diagonal(moved)[1:] + np.diagonal(moved)[:-1]
    if rising.any():
        position = int(np.argmax(rising)) + 1
        return f"column {position + 1} of its factor is longer than column {position}"
    return None


def _about_trace(summary: Summary, slack: float) -> str | None:
    # 0 <= trace left out <= (n - rank) times the largest eigenvalue left out, but for rounding.
    n, rank, left = summary.n_samples, summary.rank, summary.trace_left_out
    nuclear = summary.rounding_nuclear + rank * slack
    if left < -nuclear:
        return f"it states that {left:.6g} of its trace is left out, which cannot be negative"
    stated = f"but that no eigenvalue left out exceeds {summary.left_out_norm:.6g}"
    if summary.left_out_overlap is not None and summary.left_out_overlap > summary.left_out_norm + slack:
        return f"it states that {summary.left_out_overlap:.6g} of what it left out overlaps what it sent, {stated}"
    most = max(n - rank, 1) * summary.left_out_norm + n * slack + nuclear
    if left > most:
        return (
            f"it states that {left:.6g} of its trace is left out, {stated}: all of them together are at most "
            f"{most:.6g}"
        )
    return None


def _about_diagonal(summary: Summary, found: Array, slack: float) -> str | None:
    """Compare the diagonal of B B' with that of K, where the kernel or the party says what that is."""
    # diag(B B') <= diag(K) <= diag(B B') + left_out, and the traces agree.
    n, name, xp = summary.n_samples, summary.kernel.name, namespace(found)
    if summary.diagonal is not None:
        share, step = summary.diagonal.entry_error()
        true = summary.diagonal.decode()[:, 0]
        allowed = slack + 2.0 * share * float(xp.max(xp.abs(true))) + float(to_numpy(step).max())
        most = float(xp.max(true))
        if summary.kernel.unit_diagonal and most > 1.0 + allowed:
            return f"it states a {name} kernel of {most:.6g} of a sample with itself, which is at most 1"
    elif summary.kernel.unit_diagonal:
        true, allowed = xp.ones_like(found), slack
    else:
        return None
    longest, shortest = int(xp.argmax(found - true)), int(xp.argmin(found - true))
    if float(found[longest]) > float(true[longest]) + allowed:
        return (
            f"row {longest + 1} of its factor has the squared length {float(found[longest]):.6g}, and the {name} "
            f"kernel of that sample with itself is {float(true[longest]):.6g}"
        )
    total, expected, left = float(xp.sum(found)), float(xp.sum(true)), summary.trace_left_out
    if abs(left + total - expected) > n * (allowed - slack) + summary.rank * n * DOUBLE * expected + slack:
        return (
            f"its factor has the trace {total:.6g} and it states that {left:.6g} is left out, but its {name} matrix "
            f"has the trace {expected:.6g}"
        )
    if float(found[shortest]) + summary.left_out_norm + allowed < float(true[shortest]):
        return (
            f"it states that no eigenvalue left out exceeds {summary.left_out_norm:.6g}, but row {shortest + 1} of "
            f"its factor has the squared length {float(found[shortest]):.6g} where the kernel is "
            f"{float(true[shortest]):.6g}"
        )
    if total == 0.0 and expected > 0.0:
        return f"its factor is zero, and its {name} matrix is not"
    return None


# Messages that belong together: one from each party, about the same samples in the same order.


M = TypeVar("M")
ReceivedT = TypeVar("ReceivedT", bound=Summary | Rows | Partials | AuditRows)
NewSamplesT = TypeVar("NewSamplesT", Rows, Partials)


def accept(
    summaries: Iterable[Summary], roster: Sequence[str] | None, *, aligned: bool = True, device: str | None = None
) -> dict[str, Summary]:
    """Summaries by party, sorted by name, if they belong together; where aligned, about the same samples."""
    accepted = dict(sorted(by_name(summaries, "summary", roster).items()))
    if not accepted:
        raise FusionError("no summary was given; fusion needs one from every party")
    if aligned:
        check_same(accepted, "number of samples", lambda s: s.n_samples, SAME_SAMPLES)
        check_samples(accepted)
    for summary in accepted.values():
        check_summary(summary, device)
    return accepted


def one_per_party(
    summaries: Mapping[str, Summary], received: Iterable[NewSamplesT], fits: Callable[[NewSamplesT, Summary], bool]
) -> dict[str, NewSamplesT]:
    """New-sample messages by party: one from each party that was fused, about the same samples."""
    known = by_name(received, "message about new samples", summaries)
    for name, message in known.items():
        summary = summaries[name]
        if message.summary_id != wire.fingerprint(summary) or not fits(message, summary):
            raise FusionError(f"party {name!r}: its new samples extend another summary than the one that was fused")
        if isinstance(message, Partials) and summary.kernel.unit_diagonal:
            least = float(namespace(message.partial.data).min(message.partial.data))
            if least < 0.0:
                raise FusionError(f"party {name!r}: it sent the distance {least:.6g}; its message was altered")
    check_samples(known)
    check_same(known, "number of new samples", lambda m: m.n_samples, "let all of them place the same samples")
    return known


def audited_rows(
    summaries: Mapping[str, Summary], received: Iterable[AuditRows], samples: tuple[int, ...]
) -> dict[str, AuditRows]:
    """Answers to an audit by party: one from each party that was fused, about the samples asked for."""
    known = by_name(received, "audit", summaries)
    for name, message in known.items():
        summary = summaries[name]
        if message.summary_id != wire.fingerprint(summary) or message.n_samples != summary.n_samples:
            raise FusionError(f"party {name!r}: its rows are for another summary than the one that was fused")
        if message.samples != samples:
            raise FusionError(f"party {name!r}: sent other rows than those that were drawn; let it answer this audit")
    return known


def check_turned(summaries: Mapping[str, Summary], center: bool, law: str | None) -> None:
    """Raise unless turned samples are only added up: all of them turned, by the sum law, and not centered again."""
    check_same(summaries, "whether samples are rotated", lambda s: s.turned, "let all parties use one protection")
    if next(iter(summaries.values())).turned and (center or law != "sum"):
        raise FusionError("rotated samples are centered and can only be added; use law='sum' and center=False")


def by_name(received: Iterable[ReceivedT], what: str, roster: Collection[str] | None = None) -> dict[str, ReceivedT]:
    """Messages by party, if each sent one; and if there is a roster, each of it and nobody else."""
    found: dict[str, ReceivedT] = {}
    for message in received:
        if message.party in found:
            raise FusionError(f"more than one {what} from party {message.party!r}; keep one of them")
        found[message.party] = message
    if roster is not None and set(roster) - set(found):
        raise FusionError(f"no {what} from {sorted(set(roster) - set(found))}; fusion needs every party")
    if roster is not None and set(found) - set(roster):
        raise FusionError(f"{what} from {sorted(set(found) - set(roster))}, not on the roster {sorted(roster)}")
    return found


def check_same(
    received: Mapping[str, M], what: str, value: Callable[[M], object], advice: str, shown: Callable[[Any], str] = str
) -> None:
    """Raise `FusionError` unless a value is the same for all."""
    first, *others = received
    for other in others:
        ours, theirs = value(received[first]), value(received[other])
        if ours != theirs:
            raise FusionError(
                f"parties {first!r} and {other!r} differ in {what} ({shown(ours)} and {shown(theirs)}); {advice}"
            )


def check_samples(received: Mapping[str, Any]) -> None:
    """Raise `FusionError` unless all messages are about the same samples in the same order."""
    order = "their samples or sample order"
    check_same(received, order, lambda m: m.sample_digest, SAME_SAMPLES, shown=lambda digest: f"{str(digest)[:8]}...")
