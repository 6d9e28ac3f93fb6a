"""Messages that belong together: one from each party, about the same samples in the same order."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from dkpca import wire
from dkpca.errors import FusionError
from dkpca.fusion import plausibility
from dkpca.kernels.laws import adds_up
from dkpca.linalg.arrays import Array
from dkpca.linalg.rows import Index
from dkpca.messages import Partials, Rows, Summary

SAME_SAMPLES = "the rows are not the same samples in the same order; align them first, with one --id-normalize"


class TrueRows(Protocol):
    """What a party answered to an audit: received, or made where it is looked at."""

    @property
    def party(self) -> str:
        """Whose rows these are."""

    @property
    def summary_id(self) -> str:
        """Which summary is audited."""

    @property
    def samples(self) -> tuple[int, ...]:
        """Which rows these are."""

    @property
    def n_samples(self) -> int:
        """How long each is."""

    def columns(self, index: Index) -> Array:
        """Some columns of these rows."""


M = TypeVar("M")
ReceivedT = TypeVar("ReceivedT", Summary, Rows, Partials, TrueRows)
NewSamplesT = TypeVar("NewSamplesT", Rows, Partials)


def accept(summaries: Iterable[Summary], roster: Sequence[str] | None, *, aligned: bool = True) -> dict[str, Summary]:
    """Summaries by party, sorted by name, if they belong together; where aligned, about the same samples."""
    by_name = _by_name(summaries, "summary")
    if roster is not None:
        _check_roster(by_name, roster, "summary")
    if not by_name:
        raise FusionError("no summary was given; fusion needs one from every party")
    accepted = dict(sorted(by_name.items()))
    if aligned:
        check_same(accepted, "number of samples", lambda s: s.n_samples, "align the parties' samples first")
        check_same(accepted, "sample digest", lambda s: s.sample_digest, SAME_SAMPLES, shown=_first_digits)
    for summary in accepted.values():
        plausibility.check_summary(summary)
    return accepted


def complete(
    summaries: Mapping[str, Summary], received: Iterable[NewSamplesT], fits: Callable[[NewSamplesT, Summary], bool]
) -> dict[str, NewSamplesT]:
    """New-sample messages by party: one from each party that was fused, about the same samples."""
    by_name = _by_name(received, "message about new samples")
    _check_roster(by_name, list(summaries), "message about new samples")
    for name, message in by_name.items():
        summary = summaries[name]
        if message.summary_id != wire.fingerprint(summary) or not fits(message, summary):
            raise FusionError(f"party {name!r}: its new samples extend another summary than the one that was fused")
        plausibility.check_new_samples(message, summary)
    check_same(by_name, "sample digest", lambda m: m.sample_digest, SAME_SAMPLES, shown=_first_digits)
    check_same(by_name, "number of new samples", lambda m: m.n_samples, "let all of them place the same samples")
    return by_name


def audited_rows(
    summaries: Mapping[str, Summary], received: Iterable[TrueRows], samples: tuple[int, ...]
) -> dict[str, TrueRows]:
    """Answers to an audit by party: one from each party that was fused, about the samples asked for."""
    by_name = _by_name(received, "audit")
    _check_roster(by_name, list(summaries), "audit")
    for name, message in by_name.items():
        summary = summaries[name]
        if message.summary_id != wire.fingerprint(summary) or message.n_samples != summary.n_samples:
            raise FusionError(f"party {name!r}: its rows are for another summary than the one that was fused")
        if message.samples != samples:
            raise FusionError(f"party {name!r}: sent other rows than those that were drawn; let it answer this audit")
    return by_name


def check_turned(summaries: Mapping[str, Summary], center: bool, law: str | None) -> None:
    """Raise unless turned samples are only added up: all of them turned, by the sum law, and not centered again."""
    check_same(summaries, "whether samples are turned", lambda s: s.turned, "let all parties use one protection")
    if next(iter(summaries.values())).turned and (center or not adds_up(law)):
        raise FusionError(
            "these summaries are of turned samples, which the center can only add up, centered as they are; "
            "use law='sum' and center=False (--law sum --no-center)"
        )


def _by_name(received: Iterable[ReceivedT], what: str) -> dict[str, ReceivedT]:
    by_name: dict[str, ReceivedT] = {}
    for message in received:
        if message.party in by_name:
            raise FusionError(f"two messages of kind {what} from party {message.party!r}; keep one of them")
        by_name[message.party] = message
    return by_name


def _check_roster(received: Mapping[str, object], roster: Sequence[str], what: str) -> None:
    missing, unknown = sorted(set(roster) - set(received)), sorted(set(received) - set(roster))
    if missing:
        raise FusionError(f"no {what} from {missing}; fusion needs every party")
    if unknown:
        raise FusionError(f"{what} from {unknown}, not on the roster {sorted(roster)}")


def check_same(
    received: Mapping[str, M],
    what: str,
    value: Callable[[M], object],
    advice: str,
    shown: Callable[[object], str] = str,
) -> None:
    """Raise `FusionError` unless a value is the same for all."""
    first, *others = received
    for other in others:
        ours, theirs = value(received[first]), value(received[other])
        if ours != theirs:
            raise FusionError(
                f"parties {first!r} and {other!r} differ in {what} ({shown(ours)} and {shown(theirs)}); {advice}"
            )


def _first_digits(fingerprint: object) -> str:
    """Enough of a fingerprint to compare by eye."""
    return f"{str(fingerprint)[:8]}..."
