"""Rounds of masked sums: offers from all, then everybody's numbers under masks, piece by piece.

Whoever can carry a question to all parties can run them. The center gets the sum over parties and no addend.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dkpca.errors import InputError, ProtectionError
from dkpca.exchange import rounds
from dkpca.exchange.questions import OfferWanted, ShareOfferWanted, SumsWanted
from dkpca.exchange.rounds import Fit, Parties
from dkpca.kernels import Kernel
from dkpca.linalg.leading import DENSE_UP_TO
from dkpca.messages import CommonTokens, MaskedSum, Offer, Offers, Rows, Summary
from dkpca.protection import joint, member, quantities
from dkpca.protection.ring import Numbers

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

    def positions(self) -> Numbers | None:
        """Positions of the landmarks; None where all samples are compared."""
        agreed = self.offers[0].agreed
        if agreed.kind != quantities.COLUMNS:
            return None
        return quantities.landmarks(agreed.run, agreed.rows, agreed.columns)


def for_fit(
    parties: Parties, kernel: Kernel, *, run: str, bits: int, n_landmarks: int, common: CommonTokens | None = None
) -> Received:
    """Have the parties add up what the kernel of all samples, or of all with landmarks, is formed of."""
    up_to = quantities.MOST_PAIRED if quantities.has_diagonal(kernel) else DENSE_UP_TO
    return _added(parties, OfferWanted(run, kernel, bits, n_landmarks, up_to, common=common), kernel)


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
    return joint.rows_of(summary, _added(parties, wanted, summary.kernel), positions)


def shares(parties: Parties, *, run: str, batch: str, common: CommonTokens | None = None) -> Received:
    """Have the parties score new samples by the scorers that they have, under masks."""
    return _added(parties, ShareOfferWanted(run, batch, common), None)


def one_kernel(parties: Parties, settings: Fit, common: CommonTokens | None = None) -> Kernel:
    """Kernel of the joined table; `InputError` for what masked sums do not go with."""
    if isinstance(settings.kernel, Mapping) or settings.weights is not None:
        raise InputError(
            "protect='sums' takes one kernel for all parties, without weights: the center applies it to the sum"
        )
    kernel = rounds.kernels_of(parties, settings, common)[parties.names[0]]
    if kernel.law is None or (settings.law is not None and settings.law != kernel.law.name):
        raise InputError(
            f"protect='sums' forms the {kernel.name} kernel of the joined table by its own law, not by another; "
            "leave law=None"
        )
    return kernel


def check_parties(names: Sequence[str], protect: str) -> None:
    """Refuse a roster among which nobody can be hidden."""
    if len(names) < 2:
        raise InputError(f"protect={protect!r} hides a party among others, and there is only {list(names)}")
    if len(names) > MOST_PARTIES:
        raise InputError(f"protect={protect!r} is for up to {MOST_PARTIES} parties, and there are {len(names)}")
    if joint.JOINED in names:
        raise InputError(f"protect={protect!r}: a party is called {joint.JOINED!r}, as the sum of all is; rename it")


def new_run() -> str:
    """Name of a sum that nobody has used."""
    return f"sum-{secrets.token_hex(8)}"


def _added(parties: Parties, wanted: OfferWanted | ShareOfferWanted, kernel: Kernel | None) -> Received:
    answered = parties.ask(wanted)
    offers = tuple(answered[name] for name in parties.names)
    for offer in offers[1:]:
        if offer.agreed != offers[0].agreed:
            raise ProtectionError(
                f"parties {offers[0].party!r} and {offer.party!r} offer different sums, of {offers[0].agreed} and "
                f"{offer.agreed}; they need the same samples in the same order: align them"
            )
    n_parts = member.n_parts_of(offers[0].agreed, kernel)
    passed_on = Offers(offers)
    return Received(
        offers, [parties.ask(SumsWanted(passed_on, part, wanted.batch)) for part in range(1, n_parts + 1)]
    )
