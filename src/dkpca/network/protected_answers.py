"""At a party on a network: offers, masked numbers, scorers, and the rotation of a blind fit.

peers.toml      with whom it adds masked numbers, all of them or nothing; written by the party
identity.key    by which it signs
runs/RUN/       PARTY.sumkey, the key of the sum at hand; PARTY.scorer
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dkpca import messages, wire
from dkpca.errors import ProtectionError, WireError
from dkpca.exchange import alignment, files, sum_files, sum_rounds
from dkpca.exchange.questions import OfferWanted, Question, ScorerGiven, ShareOfferWanted, SummaryWanted, SumsWanted
from dkpca.exchange.sending import Holding, Sender
from dkpca.messages import CommonTokens, Scorer
from dkpca.network import vouching
from dkpca.network.configuration import CONFIGURATION, Configuration, read_configuration
from dkpca.network.results import COMMON
from dkpca.protection.keys import Identity
from dkpca.protection.rotation import Rotation
from dkpca.store import message_files, storage

ASKS = OfferWanted | ShareOfferWanted | SumsWanted


def answer(question: ASKS, configuration: Configuration, sender: Sender, *, folder: Path, state: Path) -> None:
    """Write a party's offer, or a piece of its masked numbers, to where the sender sends."""
    party, place = configuration.party, sender.message.parent
    peers = read_peers(configuration)
    key_file, scorer_file = place / f"{party}.sumkey", state.with_name(f"{party}.scorer")
    holding = configuration.holding(question.batch)
    if question.batch:
        holding = files.new_samples(holding.path, state, id_column=holding.reading.id_column, key=holding.key)
    if isinstance(question, SumsWanted):
        offers = question.offers.offers
        sum_files.numbers(
            _as_offered(holding, key_file, place),
            sender,
            state,
            key_file,
            offers,
            vouching.pinned(folder, peers, offers),
            part=question.part,
            scorer=message_files.read(scorer_file, Scorer) if scorer_file.exists() else None,
        )
        return
    _offer(question, holding.aligned(question.common), sender, vouching.own_identity(folder, party), key_file, state)


def _offer(
    question: OfferWanted | ShareOfferWanted,
    holding: Holding,
    sender: Sender,
    identity: Identity,
    key_file: Path,
    state: Path,
) -> None:
    if isinstance(question, ShareOfferWanted):
        scorer = message_files.read(state.with_name(f"{holding.party}.scorer"), Scorer)
        sum_files.offer_share(holding, sender, state, scorer, identity=identity, run=question.run, key_file=key_file)
    elif question.batch:
        sum_files.offer_new(
            holding, sender, state, identity=identity, run=question.run, bits=question.bits, key_file=key_file
        )
    else:
        asked = sum_rounds.asked_for(question)
        sum_files.offer_fit(holding, sender, asked, identity=identity, key_file=key_file, state=state)


def keep_scorer(question: ScorerGiven, state: Path) -> None:
    """Keep what the party needs to score new samples, if it is of the fit that the party's state is of.

    One scorer per fit: with many of them, chosen for it, sums of shares would tell a party's whole factor rows.
    """
    kept, _ = files.load_state(state)
    if (question.scorer.party, question.scorer.summary_id) != (kept.party, kept.summary_id):
        raise WireError("the scorer is for another party, or of another fit than this party's")
    file, data = state.with_name(f"{kept.party}.scorer"), wire.encode(question.scorer)
    if file.exists() and storage.read(file) != data:
        before = message_files.read(file, Scorer)
        if kept.protect == "blind" and before.summary_id == kept.summary_id:
            raise ProtectionError("refused: it has a scorer for this fit, and takes no other; fit under another name")
    storage.write(file, data)


def read_peers(configuration: Configuration) -> dict[str, str]:
    """With whom a party adds masked numbers; it says so itself, or does not take part."""
    if configuration.peers is None:
        raise ProtectionError(
            "refused: it has not written down with whom it adds masked numbers; it needs peers in its party.toml"
        )
    return sum_files.read_peers(configuration.peers, vouched=True)


def in_words(folder: Path, party: str) -> str:
    """Say with whom a party adds masked numbers, how it knows them, and by which fingerprint they may know it."""
    configuration = read_configuration(folder / CONFIGURATION)
    if configuration.peers is None:
        return "with nobody: no peers in party.toml"
    peers = read_peers(configuration)
    known = [
        f"{name} ({'by certificate' if pin == sum_files.CERTIFICATE else 'pinned'})" for name, pin in peers.items()
    ]
    own = vouching.own_identity(folder, party).fingerprint
    return f"with {', '.join(known)}; this party's own fingerprint is {own}"


def rotation(question: Question, holding: Holding, run: str) -> Callable[[str, int], Any] | None:
    """Return what turns the samples of a blind fit; None where they are not turned."""
    if not isinstance(question, SummaryWanted) or question.protect != "blind":
        return None
    key = holding.shared_key()
    return lambda digest, n: Rotation(key, run, digest, n)


def _as_offered(holding: Holding, key_file: Path, place: Path) -> Holding:
    """The rows that the offer was about: common ones, where these were."""
    if not (place / COMMON).exists():
        return holding
    common = message_files.read(place / COMMON, CommonTokens)
    offered = sum_files.read_key(key_file).offer.agreed.sample_digest
    return holding.aligned(common) if messages.digest(alignment.names(common)) == offered else holding
