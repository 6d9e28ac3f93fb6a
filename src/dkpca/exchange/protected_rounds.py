"""Protected fits of one owner in one process, by the real protocol: masked sums, and a center that is blind.

`protect="sums"`: two rounds, offers and masked numbers; the center gets the summary of the joined table, as if one
party had all columns. `protect="blind"`: the one round of the paper on samples that the parties have turned; shares
of new samples' scores are added as masked sums.
"""

import functools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import delayed

from dkpca import fusion
from dkpca.exchange import in_process, rounds, sum_rounds
from dkpca.exchange.questions import OfferWanted, Question, ScorerGiven, ShareOfferWanted, SummaryWanted, SumsWanted
from dkpca.fusion import FusedModel, components
from dkpca.fusion.scoring import scorers
from dkpca.kernels.laws import SUM
from dkpca.linalg.arrays import Array
from dkpca.linalg.eigenpairs import signs_of
from dkpca.messages import MaskedSum, Offer, Scorer, row_number_digest
from dkpca.party.state import PartyState
from dkpca.protection import joint, member
from dkpca.protection.keys import Identity, SumKey
from dkpca.protection.member import BITS
from dkpca.protection.ring import Numbers
from dkpca.protection.rotation import Rotation
from dkpca.protection.shield import Shield
from dkpca.settings import Fit
from dkpca.tables.inputs import Source, is_source, opened


@dataclass
class Parties(in_process.Parties):
    """Parties of one owner that speak to the center as strangers would; their keys live as long as this object."""

    shield: Shield = field(default_factory=Shield)
    _identities: dict[str, Identity] = field(default_factory=dict)
    _keys: dict[str, SumKey] = field(default_factory=dict)
    _scorers: dict[str, Scorer] = field(default_factory=dict)
    _shares: dict[str, Numbers] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._identities = {name: Identity.new() for name in self.names}

    @property
    def pinned(self) -> dict[str, str]:
        """Fingerprints of the parties' identities, as each of them has noted them."""
        return {name: identity.fingerprint for name, identity in self._identities.items()}

    def ask(self, question: Question | Mapping[str, Question]) -> dict[str, Any]:
        """Answer for each party."""
        if isinstance(question, Mapping):
            self._scorers = {name: each.scorer for name, each in question.items() if isinstance(each, ScorerGiven)}
            return {}
        if isinstance(question, OfferWanted):
            joined = self._all(
                delayed(_join)(n, self.tables[n], question, self._identities[n], self.states.get(n), self.standardize)
                for n in self.names
            )
            self._keys = {name: key for name, (key, _) in joined.items()}
            self.states = {name: state for name, (_, state) in joined.items()}
            return {name: key.offer for name, key in self._keys.items()}
        if isinstance(question, ShareOfferWanted):
            shared = self._all(
                delayed(_share)(self.tables[n], self._whole(n), self._scorers[n], question.run, self._identities[n])
                for n in self.names
            )
            self._keys, self._shares = ({name: pair[i] for name, pair in shared.items()} for i in (0, 1))
            return {name: key.offer for name, key in self._keys.items()}
        if isinstance(question, SumsWanted):
            return self._masked(question)
        if isinstance(question, SummaryWanted):
            return self._summaries(
                question, functools.partial(Rotation, bytes.fromhex(self.shield.key), self.shield.run)
            )
        return super().ask(question)

    def _masked(self, question: SumsWanted) -> dict[str, MaskedSum]:
        offers, part = {offer.party: offer for offer in question.offers.offers}, question.part
        if self._shares:
            return {
                n: member.masked_scores(self._keys[n], values, offers, self.pinned, part)
                for n, values in self._shares.items()
            }
        return self._all(
            delayed(_masked)(self.tables[n], self._keys[n], self._whole(n), offers, self.pinned, part)
            for n in self.names
        )

    def _whole(self, name: str) -> PartyState:
        """State with its rows, from the table of the fit where they did not come along."""
        state = self.states[name]
        if state.anchors is not None:
            return state
        return state.with_rows(opened(name, self.fitted.get(name, self.tables[name])))


def fit(
    parties: Parties,
    settings: Fit,
    *,
    n_components: int | float | None,
    n_landmarks: int,
    **fusing: Any,
) -> tuple[FusedModel, Shield]:
    """Run a protected fit; return what the center holds, and what the parties know beyond that."""
    if parties.shield.protect == "blind":
        return _fit_blind(parties, settings, n_components, n_landmarks=n_landmarks, **fusing)
    sum_rounds.check_parties(parties.names, "sums")
    summary, received = sum_rounds.for_fit(
        parties, replace(settings, n_landmarks=n_landmarks), run=parties.shield.run, bits=parties.shield.bits
    )
    sent = {name: sum(piece[name].n_bytes for piece in received.answers) for name in parties.names}
    fuse = functools.partial(fusion.fuse, [summary], center=settings.center, n_landmarks=n_landmarks, **fusing)
    model = components.fused(n_components, lambda count: fuse(n_components=count))
    return model, replace(parties.shield, sent=sent)


def place(parties: Parties, model: FusedModel) -> Array:
    """Scores of new samples after a protected fit."""
    run = sum_rounds.new_run()
    if parties.shield.protect == "blind":
        parties.ask({name: ScorerGiven(scorer) for name, scorer in scorers(model).items()})
        return joint.scores_of(sum_rounds.shares(parties, run=run, batch="new")) + model.extension.offset[None, :]
    (summary,) = model.summaries.values()
    positions = next(iter(parties.states.values())).positions
    rows = sum_rounds.new_rows(parties, summary, positions, run=run, bits=parties.shield.bits, batch="new")
    return fusion.project(model, [rows])


def turned_back(shield: Shield, A: Array) -> Array:
    """Rows of a blind fit as samples again, at the parties."""
    return Rotation(bytes.fromhex(shield.key), shield.run, row_number_digest(len(A)), len(A)).turn_back(np.asarray(A))


def shield_for(protect: str, precision: str, random_state: int) -> Shield:
    """Return what the parties agree on: the name decides landmarks, so that equal fits agree; the key is fresh."""
    key = secrets.token_hex(32) if protect == "blind" else ""
    return Shield(protect, f"fit-{random_state}", key, BITS[precision])


def _fit_blind(
    parties: Parties, settings: Fit, n_components: int | float | None, **fusing: Any
) -> tuple[FusedModel, Shield]:
    sum_rounds.check_blind(parties.names, settings)
    summaries, _ = rounds.summaries(parties, settings)
    fuse = functools.partial(
        fusion.fuse,
        list(summaries.values()),
        center=False,
        roster=parties.names,
        law=SUM.name,
        weights=settings.weights,
        **fusing,
    )
    model = components.fused(n_components, lambda count: fuse(n_components=count))
    # Signs as in an open fit: the entry of largest size is positive, among samples and not among what they became.
    signs = signs_of(turned_back(parties.shield, model.eigenvectors))
    extension = replace(
        model.extension, weights=model.extension.weights * signs, offset=model.extension.offset * signs
    )
    return replace(model, eigenvectors=model.eigenvectors * signs, extension=extension), parties.shield


def _join(
    name: str,
    table: Array | Source,
    question: OfferWanted,
    identity: Identity,
    state: PartyState | None,
    standardize: bool,
) -> tuple[SumKey, PartyState]:
    X = opened(name, table)
    if question.batch:
        assert state is not None
        return member.join_new(state, X, question.run, identity=identity, bits=question.bits), state
    asked = sum_rounds.asked_for(question)
    key, state = member.join_fit(X, asked, party_name=name, identity=identity, standardize=standardize)
    return key, state.without_rows() if is_source(table) else state


def _masked(
    table: Array | Source,
    key: SumKey,
    state: PartyState,
    offers: Mapping[str, Offer],
    pinned: Mapping[str, str],
    part: int,
) -> MaskedSum:
    return member.answer(key, state, opened(key.offer.party, table), offers, pinned, part)


def _share(
    table: Array | Source, state: PartyState, scorer: Scorer, run: str, identity: Identity
) -> tuple[SumKey, Numbers]:
    return member.scores(state, scorer, opened(state.party, table), run, identity=identity)
