"""At the center: whether a message that came is one that answers the question, and from the party that was asked."""

from collections.abc import Mapping
from typing import Any

from dkpca import messages
from dkpca.errors import WireError
from dkpca.exchange import alignment
from dkpca.exchange.questions import (
    AuditWanted,
    OfferWanted,
    Question,
    RowsWanted,
    ShareOfferWanted,
    StatisticsWanted,
    SummaryWanted,
    SumsWanted,
    TokensWanted,
)
from dkpca.messages import AuditRows, MaskedSum, Message, Offer, Partials, Rows, SampleTokens, Statistics, Summary
from dkpca.protection.keys import offers_digest

KINDS: Mapping[type[Any], tuple[type[Any], ...]] = {
    TokensWanted: (SampleTokens,),
    StatisticsWanted: (Statistics,),
    SummaryWanted: (Summary,),
    RowsWanted: (Rows, Partials),
    AuditWanted: (AuditRows,),
    OfferWanted: (Offer,),
    ShareOfferWanted: (Offer,),
    SumsWanted: (MaskedSum,),
}


def check(message: Message, party: str, question: Question) -> None:
    """Raise `WireError` unless the message is from this party and answers this question."""
    if getattr(message, "party", party) != party:
        raise WireError(f"the message calls its sender {message.party!r}, its certificate {party!r}")  # type: ignore[union-attr]
    if isinstance(message, Summary) and isinstance(question, SummaryWanted):
        _check_summary(message, party, question)
    if isinstance(message, Offer) and isinstance(question, OfferWanted | ShareOfferWanted):
        _check_offer(message, question)
    if question.common is not None and isinstance(message, Summary | Rows | Partials | Offer):
        digest = message.agreed.sample_digest if isinstance(message, Offer) else message.sample_digest
        hidden = isinstance(message, Summary) and message.turned
        if not hidden and digest != messages.digest(alignment.names(question.common)):
            raise WireError("it is not about the common samples in their order")
    if isinstance(question, RowsWanted) and isinstance(message, Partials) != question.exact:
        raise WireError("it places new samples in another way than was asked for")
    if isinstance(question, AuditWanted) and isinstance(message, AuditRows):
        asked = question.request
        if (message.samples, message.sample_digest) != (asked.samples, asked.sample_digest):
            raise WireError("its rows are not those that were drawn")
    if isinstance(question, SumsWanted) and isinstance(message, MaskedSum):
        offers = {offer.party: offer for offer in question.offers.offers}
        if (message.offers, message.part) != (offers_digest(offers), question.part):
            raise WireError("its masked numbers are of another sum, or another piece, than was asked for")


def _check_summary(message: Summary, party: str, question: SummaryWanted) -> None:
    blind = question.protect == "blind"
    if message.turned != blind:
        raise WireError("its samples are not turned" if blind else "its samples are turned, and were to be open")
    if not blind and not question.asks_for(party, message.kernel):
        raise WireError(f"its kernel is {message.kernel}, not {question.kernel_of(party)}")
    if message.factor.precision != question.precision:
        raise WireError(f"its numbers are {message.factor.precision}, not {question.precision}")
    most = question.rank.stated() or message.rank
    if message.rank > most:
        raise WireError(f"its rank is {message.rank}, more than the {most} asked for")


def _check_offer(message: Offer, question: OfferWanted | ShareOfferWanted) -> None:
    agreed = message.agreed
    if agreed.run != question.run:
        raise WireError(f"it offers the sum {agreed.run!r}, not {question.run!r}")
    kinds = (
        ("scores",)
        if isinstance(question, ShareOfferWanted)
        else ("new",)
        if question.batch
        else ("pairs", "columns")
    )
    if agreed.kind not in kinds:
        raise WireError(f"it offers a sum of kind {agreed.kind!r}, not of {' or '.join(kinds)}")
    if isinstance(question, OfferWanted) and (agreed.kernel, agreed.bits) != (question.kernel.name, question.bits):
        raise WireError(f"it offers {agreed.bits} bits for the {agreed.kernel} kernel, which was not asked for")
