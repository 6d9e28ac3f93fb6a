"""Rounds of masked sums: offers from all, then everybody's numbers under masks, piece by piece.

Whoever can carry a question to all parties can run them. The center gets the sum over parties and no addend.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dkpca import kernels
from dkpca.errors import InputError, ProtectionError
from dkpca.exchange import rounds
from dkpca.exchange.questions import OfferWanted, Question, ShareOfferWanted, SumsWanted
from dkpca.exchange.rounds import Parties
from dkpca.kernels import Kernel
from dkpca.kernels.laws import adds_up
from dkpca.messages import CommonTokens, MaskedSum, Offer, Offers, Rows, Summary
from dkpca.protection import joint, member, quantities
from dkpca.protection.keys import difference
from dkpca.protection.member import Sum
from dkpca.protection.ring import Numbers
from dkpca.settings import Fit

PAIRS_UP_TO = 4_000  # samples: beyond, their pairs would take more bytes than a message should
MOST_PARTIES = 100  # of one sum: the offers of all of them are one message


@dataclass(frozen=True)
class Received:
    """Masked numbers of all parties, piece by piece; read anew whenever they are gone through."""

    offers: Sequence[Offer]
    answers: Sequence[Mapping[str, MaskedSum]]  # by piece, then by party

    def __call__(self) -> Iterator[list[MaskedSum]]:
        """All pieces, from the beginning."""
        for piece in self.answers:
            yield [piece[name] for name in piece]


def for_fit(
    parties: Parties, settings: Fit, *, run: str, bits: int, common: CommonTokens | None = None
) -> tuple[Summary, Received]:
    """Run the rounds of a fit; return the summary of the joined table, and what it was made of."""
    kernel, derived = _one_kernel(settings, parties.names)
    up_to = quantities.MOST_PAIRED if quantities.has_diagonal(kernel) else PAIRS_UP_TO
    wanted = OfferWanted(run, kernel, bits, settings.n_landmarks, up_to, open_width=derived, common=common)
    received = _added(parties, wanted)
    n_features = sum(offer.n_features for offer in received.offers)
    return joined(settings, parties.names, n_features, received), received


def joined(settings: Fit, names: Sequence[str], n_features: int, pieces: joint.Pieces) -> Summary:
    """Return the summary of the joined table.

    A width that has to be derived is derived of the sum: no party tells anything about its own columns for it.
    """
    kernel, derived = _one_kernel(settings, names)
    if derived:
        width = 1.0 / n_features if settings.gamma is None else joint.width_of(kernel, pieces)
        kernel = replace(kernel, gamma=width)  # type: ignore[type-var]  # a kernel with a width
    return joint.summary_of(kernel, pieces)


def new_rows(
    parties: Parties,
    summary: Summary,
    positions: Numbers | None,
    *,
    run: str,
    bits: int,
    batch: str,
    common: CommonTokens | None = None,
) -> Rows:
    """Have the parties compare new samples with those of the fit; return their rows of the joint factor."""
    wanted = OfferWanted(run, summary.kernel, bits, batch=batch, common=common)
    return joint.rows_of(summary, _added(parties, wanted), positions)


def shares(parties: Parties, *, run: str, batch: str, common: CommonTokens | None = None) -> Received:
    """Have the parties score new samples by the scorers that they have, under masks."""
    return _added(parties, ShareOfferWanted(run, batch, common))


def asked_for(question: OfferWanted) -> Sum:
    """What a question about a fit asks a party to add up."""
    return Sum(
        question.run,
        question.kernel,
        question.bits,
        question.n_landmarks,
        question.pairs_up_to,
        question.open_width,
    )


def _one_kernel(settings: Fit, names: Sequence[str]) -> tuple[Kernel, bool]:
    """Kernel of the joined table, and whether its width is still to be derived."""
    if isinstance(settings.kernel, Mapping) or isinstance(settings.gamma, Mapping) or settings.weights is not None:
        raise InputError(
            "protect='sums' takes one kernel for all parties, without weights: the center applies it to the sum"
        )
    given = settings.kernel
    family = type(given) if isinstance(given, Kernel) else kernels.family(given)
    derived = not isinstance(given, Kernel) and family.has_width and isinstance(settings.gamma, str | None)
    derived = derived and (settings.gamma is not None or family.default_gamma is None)
    kernel = rounds.kernels_of(_Nobody(names), replace(settings, gamma=1.0) if derived else settings)[names[0]]
    if kernel.law is None or (settings.law is not None and settings.law != kernel.law.name):
        raise InputError(
            f"protect='sums' forms the {kernel.name} kernel of the joined table by its own law, not by another; "
            "leave law=None"
        )
    return kernel, derived


@dataclass(frozen=True)
class _Nobody:
    """Parties that are not asked anything."""

    names: Sequence[str]

    def ask(self, question: Question) -> Mapping[str, Any]:
        raise TypeError(f"masked sums need no answer to {question}")


def check_parties(names: Sequence[str], protect: str) -> None:
    """Refuse a roster among which nobody can be hidden."""
    if len(names) < 2:
        raise InputError(f"protect={protect!r} hides a party among others, and there is only {list(names)}")
    if len(names) > MOST_PARTIES:
        raise InputError(f"protect={protect!r} is for up to {MOST_PARTIES} parties, and there are {len(names)}")
    if joint.JOINED in names:
        raise InputError(f"protect={protect!r}: a party is called {joint.JOINED!r}, as the sum of all is; rename it")


def check_blind(names: Sequence[str], fit: Fit) -> None:
    """Refuse what a blind center cannot do."""
    check_parties(names, "blind")
    if not fit.center:
        raise InputError("protect='blind': parties center their matrices, since the center cannot; use center=True")
    if fit.law is not None and not adds_up(fit.law):
        raise InputError("protect='blind' needs the sum law, which the center can form on turned samples; law='sum'")
    given = fit.kernel
    if isinstance(given, str):
        given = kernels.family(given).from_settings(gamma=1.0, centered=True)
    if fit.law is None and isinstance(given, Kernel) and not given.adds_up:
        raise InputError(
            f"protect='blind': a blind center can only add matrices up; use law='sum' with the {given.name} kernel"
        )


def new_run() -> str:
    """Name of a sum that nobody has used."""
    return f"sum-{secrets.token_hex(8)}"


def _added(parties: Parties, wanted: OfferWanted | ShareOfferWanted) -> Received:
    answered = parties.ask(wanted)
    offers = tuple(answered[name] for name in parties.names)
    for offer in offers[1:]:
        differ = difference(offers[0].agreed, offer.agreed)
        if differ:
            raise ProtectionError(
                f"parties {offers[0].party!r} and {offer.party!r} offer different sums: {differ}; they need the same "
                "samples in the same order: align them"
            )
    n_parts = member.n_parts_of(offers[0].agreed)
    passed_on = Offers(offers)
    return Received(
        offers, [parties.ask(SumsWanted(passed_on, part, wanted.batch)) for part in range(1, n_parts + 1)]
    )
