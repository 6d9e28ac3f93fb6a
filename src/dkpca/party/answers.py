"""A party: a table, its secrets, and one table that says how each question is answered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dkpca import messages, wire
from dkpca.errors import InputError, ProtectionError
from dkpca.linalg.arrays import Array, MemoryLimit, to_numpy
from dkpca.linalg.eigenpairs import signs_of
from dkpca.linalg.precision import Rounded
from dkpca.party import alignment, summaries
from dkpca.party import questions as q
from dkpca.party.limits import ANYTHING, Limits
from dkpca.party.state import PartyState, SumState, measured_for
from dkpca.protection import keys, masks, quantities
from dkpca.protection.quantities import Addends, Compared
from dkpca.protection.rotation import Rotation

CONSTANT = 1e-3  # deviation of what a party adds, as a share of its size, below which it would leave the others alone
LEAST_STEPS = 16  # of the ring: a deviation below this is lost in the sum
OWN_LIST = -1  # hop under which a party keeps the list that it sent itself
Opened = Callable[[str], Array]  # from what columns are ("quantities", "categories", "samples") to the numbers


class ConstantAddendError(ProtectionError):
    """What a party would add to a sum hardly varies, so that the sum would be that of the others."""


def _constant(party: "Party", what: str, advice: str) -> ConstantAddendError:
    return ConstantAddendError(f"party {party.name!r}: its {what}, so sums would reveal that of the others; {advice}")


@dataclass(frozen=True)
class Union:
    """Where a party's samples are among all, where some parties lack some."""

    n_samples: int  # that at least one party has
    shared: Mapping[int, int]  # places of own rows that all parties have, in one order


@dataclass
class Party:
    """One party of a fit: it answers questions, each by one message, from a table that never leaves."""

    name: str
    open: Opened  # the table of the fit as numbers
    roster: Sequence[str]  # all parties, in the order of the plan
    run: str  # name of the fit; in a study the digest of the agreement
    secret: bytes = field(repr=False)  # from which its seeds and its rotation are derived
    coin: bytes = field(default=b"\0" * 32, repr=False)  # nonce for the rows of an audit
    open_new: Callable[[str, str], Array] | None = None  # a batch of new samples: its name, and what columns are
    ids: Sequence[str] | None = None  # of the samples in row order; None: rows match by position
    ids_new: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by batch
    contents: dict[str, str] = field(default_factory=dict)  # digests by batch: other content has other masks
    covariates: Callable[[str, Mapping[str, list[int]]], Any] | None = None  # of their owner: from the batch and the
    # rows that take part, by batch, to orthonormal columns
    limits: Limits = ANYTHING  # what the party is willing to answer
    here: bool = False  # whether the center is in this process: audited rows are made where they are looked at
    device: str | None = None  # where to compute with landmarks
    memory: MemoryLimit | None = None  # that arrays with a row for each sample may take
    received: dict[tuple[str, str], messages.Seed] = field(default_factory=dict, repr=False)  # by batch and sender
    order: dict[str, list[int]] = field(default_factory=dict)  # rows that take part, in the common order, by batch
    normalization: str = ""  # how its ids were brought into one form
    raised: dict[tuple[str, int], messages.RaisedIds] = field(default_factory=dict, repr=False)  # by batch and hop
    rings: dict[str, Any] = field(default_factory=dict, repr=False)  # by batch: this party of a ring
    union: dict[str, Union] = field(default_factory=dict)  # by batch, where samples that some parties lack are kept
    state: PartyState | SumState | None = None
    sent: messages.Summary | None = None  # its own summary of a blind fit, of which its share of the result is made
    slopes: Any = None  # (q, n_components): what its covariates add to scores of new samples in a blind fit

    def answer(self, question: q.Question) -> Any:
        """Answer a question; what has to be kept for later questions is kept."""
        return ANSWERS[type(question)](self, question)

    @cached_property
    def group_key(self) -> bytes:
        """Key that all parties share."""
        return keys.group_key(self.secret, self.run, self.name, self.roster, self._seeds_of(""))

    def pair_keys(self, batch: str = "") -> dict[str, bytes]:
        """Key of each pair that this party is in; a batch with a digest has keys of its own."""
        secret, seeds = self.secret_of(batch), self._seeds_of(batch if batch in self.contents else "")
        return {n: keys.pair_key(secret, self.run, self.name, self.roster, seed) for n, seed in seeds.items()}

    def secret_of(self, batch: str) -> bytes:
        """Secret from which seeds are derived: for a batch with a digest it follows from its content too."""
        bound = batch in self.contents
        return keys.own(self.secret, self.run, f"{batch} {self.contents[batch]}") if bound else self.secret

    def table(self, columns_are: str, batch: str = "") -> Array:
        """Rows that take part, in the order of all parties."""
        if batch and self.open_new is None:
            raise InputError(f"party {self.name!r} has no new samples")
        X = self.open_new(batch, columns_are) if batch and self.open_new else self.open(columns_are)
        order = self.order.get(batch)
        return X if order is None else X[order, :]

    def all_ids(self, batch: str = "") -> Sequence[str] | None:
        """Ids of all rows of a table, those that take part and the others."""
        return self.ids_new.get(batch) if batch else self.ids

    def own_ids(self, batch: str) -> Sequence[str]:
        """Ids of all rows of a table, by which samples are matched."""
        ids = self.all_ids(batch)
        if ids is None:
            raise InputError(f"party {self.name!r}: samples are matched by their ids, and its table has none")
        return ids

    def sample_ids(self, batch: str = "") -> Sequence[str] | None:
        """Names of the rows that take part, as all parties know them."""
        ids, order = self.all_ids(batch), self.order.get(batch)
        return ids if ids is None or order is None else [ids[row] for row in order]

    def common_digest(self, n_samples: int, batch: str = "") -> str:
        """Fingerprint of the samples that all have and of their places; of its own, where nobody lacks any."""
        all_ids, ids = self.all_ids(batch), self.sample_ids(batch)
        if all_ids is None or ids is None:
            return messages.row_number_digest(n_samples)
        if batch in self.union:
            ids = [f"{place} {all_ids[row]}" for row, place in self.union[batch].shared.items()]
        return messages.digest(ids)

    def rotation(self, n_samples: int, batch: str = "") -> Rotation:
        """Rotation of the samples of a blind fit, which all parties know."""
        return Rotation(self.group_key, self.run, self.common_digest(n_samples, batch), n_samples)

    def whole_state(self, kind: type[Any]) -> Any:
        """State of the fit."""
        if not isinstance(self.state, kind):
            raise InputError(f"party {self.name!r} has no fit for this question")
        return self.state

    def _seeds_of(self, batch: str) -> dict[str, messages.Seed]:
        """Seeds of all other parties, by sender."""
        seeds = {sender: seed for (about, sender), seed in self.received.items() if about == batch}
        lacking = sorted(set(self.roster) - {self.name} - set(seeds))
        if lacking:
            raise ProtectionError(f"party {self.name!r} has no seeds from {lacking}")
        return seeds


def _seeds(party: Party, question: q.SeedsWanted) -> dict[str, messages.Seed]:
    if tuple(party.roster) != question.roster or party.run != question.run:
        raise ProtectionError(f"party {party.name!r} was asked for seeds of another fit")
    return keys.seeds_for(party.secret_of(question.batch), party.run, party.name, party.roster)


def _tokens(party: Party, question: q.TokensWanted) -> messages.SampleTokens:
    tokens = alignment.tokens(party.own_ids(question.batch), party.group_key, question.batch)
    return messages.SampleTokens(party.name, messages.sorted_tokens(tokens))


def _ring(party: Party, batch: str, union: bool) -> Any:
    """Part of this party in a ring: each batch, and each agreement, has a secret of its own."""
    from dkpca.protection.psi import Ring, RingMember  # cryptography is needed where a ring is asked for

    if batch not in party.rings:
        ring = Ring(f"{party.run}/{batch}", tuple(party.roster), party.normalization)
        seed = keys.own(party.secret, party.run, f"ring {batch}")
        party.rings[batch] = RingMember(ring, party.name, party.own_ids(batch), seed, pad=not union)
    return party.rings[batch]


def _hop(party: Party, question: q.HopWanted) -> Any:
    member, batch = _ring(party, question.batch, question.union), question.batch
    if not question.hop:
        return member.first()
    received = party.raised.get((batch, question.hop - 1))
    if received is None or received.hop != question.hop - 1:  # so that no list is raised at two hops
        raise ProtectionError(f"party {party.name!r} got no list, or a list of another hop than {question.hop - 1}")
    if (batch, OWN_LIST) in party.raised:
        member.remember(party.raised[batch, OWN_LIST])
    return member.raise_list(received)


def _matched(party: Party, question: q.MatchedGiven) -> messages.Told:
    """Take the common samples, in their common order; or all own samples, in the order of their places."""
    name, batch, length = party.name, question.batch, question.length
    # Rows of the table, by positions in the list that the party sent.
    if question.ring:
        member = _ring(party, batch, question.places is not None)
        sent, rows_at = member.length, member.rows
    else:
        ids = party.own_ids(batch)
        order = sorted(range(len(ids)), key=alignment.tokens(ids, party.group_key, batch).__getitem__)
        sent, rows_at = len(order), lambda positions: [order[position] for position in positions]
    if sent != length:
        raise ProtectionError(f"party {name!r} sent {sent:,} entries, and {length:,} arrived: a list was changed")
    common = q.numbers_in(question.common).tolist()
    if len(set(common)) < len(common) or max(common, default=0) >= length:
        raise ProtectionError(f"party {name!r}: the common samples are not entries of its list, each once")
    party.order[batch] = shared = rows_at(common)
    if question.places is not None:
        places = q.numbers_in(question.places)
        if len(places) != length or len(set(places.tolist())) != length or int(places.max()) >= question.n_samples:
            raise ProtectionError(f"party {name!r}: the places of its samples are not one for each")
        party.order[batch] = rows_at(np.argsort(places, kind="stable").tolist())
        party.union[batch] = Union(question.n_samples, dict(zip(shared, places[common].tolist(), strict=True)))
    return messages.Told(name)


def _shape(party: Party, question: q.ShapeWanted) -> messages.Shape:
    X, batch = party.table(question.columns_are, question.batch), question.batch
    party.limits.check_samples(int(X.shape[0]))
    n = party.union[batch].n_samples if batch in party.union else int(X.shape[0])
    samples = party.rotation(n, batch).hidden_digest if question.hidden else party.common_digest(n, batch)
    return messages.Shape(party.name, n, int(X.shape[1]), samples)


def _statistics(party: Party, question: q.StatisticsWanted) -> messages.Statistics:
    X = party.table(question.kernel.columns_are)
    return summaries.statistics(X, question, party=party.name, limits=party.limits)


def _go(party: Party, question: q.GoWanted) -> messages.Go:
    derived = question.derived
    if party.name not in derived.kernels or set(derived.columns) != set(party.roster):
        raise ProtectionError(f"party {party.name!r}: the derived values are not for the plan's parties")
    party.limits.check_samples(derived.n_samples)
    return messages.Go(party.name, q.digest(question))


def _summary(party: Party, question: q.SummaryWanted) -> messages.Summary:
    X = party.table(question.kernel.columns_are)
    blind = None
    if question.blind:
        blind = replace(party.rotation(X.shape[0]), own=keys.own(party.secret, party.run, "columns"))
    summary, state = summaries.summarize(
        X,
        question,
        party=party.name,
        sample_ids=party.sample_ids(),
        limits=party.limits,
        blind=blind,
        device=party.device,
        memory=party.memory,
        prepared=getattr(party.open, "standardized", False),
    )
    party.state = replace(state, preparation=getattr(party.open, "preparation", None))
    party.sent = summary if question.blind else None
    return summary


def _bounds(party: Party, question: q.BoundsWanted) -> messages.MaskedSum:
    sizes = quantities.largest(question.what, _addends(party, question, 0.0))
    # Random numbers below the party's own power of two and zeros above it, under masks: the sum over parties shows
    # the largest power, and not whose it is.
    seed = keys.own(party.secret, party.run, f"bounds {question.step}")
    random = keys.uniform(seed, 2 * len(masks.POWERS)).reshape(2, -1)
    packed = [
        _under_masks(party, masks.bits_of(largest, draws), question, part)
        for largest, draws, part in zip(sizes, random, ("values", "lengths"), strict=True)
    ]
    return messages.MaskedSum(party.name, q.digest(question), *packed)


def _sums(party: Party, question: q.SumsWanted) -> messages.MaskedSum:
    # The party's own numbers of one piece, as whole multiples of the ring's step, under masks that cancel in the sum.
    ring, wide = question.rings
    values, lengths = _addends(party, question, ring.step, again=question.part > 1)(question.rows)
    sums = [_under_masks(party, ring.encode(values, question.bounds[party.name]), question, "values")]
    if lengths is not None:
        own = wide.encode(lengths, question.length_bounds[party.name])
        sums.append(_under_masks(party, own, question, "lengths"))
    return messages.MaskedSum(party.name, q.digest(question), *sums)


def _addends(party: Party, question: q.MaskedWanted, step: float, *, again: bool = False) -> quantities.Piecewise:
    """The party's own numbers of a sum and the lengths that go along, from the rows of a piece."""
    what = question.what
    if what.kind == "statistic":
        wanted = q.StatisticsWanted(question.kernel, question.standardize)
        number = np.array([_statistics(party, wanted).mean_squared_distance])
        return lambda rows: (number, None)
    if what.kind == "scores":
        shares = _share(party, question.batch, question.result, step)
        return lambda rows: (np.ravel(shares[rows]), None)
    compared = _compared(party, question)
    if not again:
        _check_addend(party, what, compared, step)
    return partial(quantities.addend, what, compared)


def _under_masks(party: Party, numbers: Any, question: q.MaskedWanted, part: str) -> messages.Packed:
    if question.run != party.run or question.roster != tuple(party.roster):
        raise ProtectionError(f"party {party.name!r} was asked for another sum than the one it agreed to")
    # Masks belong to the question and to the samples: other samples under the same masks would show a difference.
    ids, about = party.sample_ids(question.batch), q.digest(question)
    if ids is not None:
        about += f" of {party.common_digest(len(ids), question.batch)}"
    return masks.under_masks(numbers, party.name, party.roster, party.pair_keys(question.batch), about, part)


def _compared(party: Party, question: q.MaskedWanted) -> Compared:
    """Rows of a sum and what they are compared with, measured as the kernel takes them; of a fit, they are kept."""
    if question.batch:
        state: SumState = party.whole_state(SumState)
        X = state.measured(party.table(state.kernel.columns_are, question.batch))
        return Compared(state.kernel, X, np.asarray(state.anchors))
    X = party.table(question.kernel.columns_are)
    if not isinstance(X, np.ndarray):
        raise InputError(f"party {party.name!r}: masked sums take NumPy arrays; give one, or protect='none'")
    party.limits.check_samples(X.shape[0])
    party.limits.check_form("compact", "sums")
    X, how, _ = measured_for(question.kernel, X, party.name, standardize=question.standardize)
    positions = quantities.positions(question.what, party.run)
    party.state = state = SumState(
        party=party.name,
        run=party.run,
        anchors=X if positions is None else X[positions],
        positions=positions,
        bits=question.what.bits,
        preparation=getattr(party.open, "preparation", None),
        **how,
    )
    return Compared(state.kernel, X, np.asarray(state.anchors))


def _check_addend(party: Party, what: Addends, compared: Compared, step: float) -> None:
    """Refuse to take part where the sum would be that of the others: its own addend is nearly constant."""
    deviation, size = quantities.spread_of(what, compared)
    if not np.isfinite(size):
        raise InputError(f"party {party.name!r}: the numbers to be added are not finite; scale the columns")
    if deviation <= max(CONSTANT * size, LEAST_STEPS * step):
        raise _constant(party, "contribution is nearly the same for all samples", "standardize, or leave it out")


def _share(party: Party, batch: str, result: str, step: float) -> Any:
    """The party's own share of the scores of new samples: its factor rows times A' U / sqrt(lambda)."""
    state: PartyState = party.whole_state(PartyState)
    if state.share is None or state.result_id != result:
        raise InputError(f"party {party.name!r} has not seen the result that these scores are of")
    X = party.table(state.kernel.columns_are, batch)
    shares = np.asarray(to_numpy(summaries.factor_rows(state, X) @ state.share))
    deviations = np.std(shares, axis=0) if len(shares) > 1 else np.abs(shares[0])  # of one, from the mean of the fit
    if not np.any(deviations > np.maximum(CONSTANT * np.asarray(state.share_deviations), LEAST_STEPS * step)):
        raise _constant(party, "share of these scores is nearly constant", "place more samples, or others")
    if party.slopes is None:
        return shares
    own = _covariates(party, q.CovariatesWanted((), 0, batch=batch))
    return shares + np.asarray(own.rows.decode()) @ party.slopes


def _reveal(party: Party, question: q.ReceivedGiven) -> messages.Reveal:
    if set(question.summaries) != set(party.roster):
        raise ProtectionError(f"party {party.name!r}: the list of summaries is not for the plan's parties")
    own = party.state.summary_id if isinstance(party.state, PartyState) else ""
    if question.summaries[party.name] != own:
        raise ProtectionError(f"party {party.name!r}: the list of summaries does not contain the one that it sent")
    return messages.Reveal(party.name, party.coin.hex())


def _audit(party: Party, question: q.AuditWanted) -> messages.AuditRows:
    state = party.whole_state(PartyState)
    X = party.table(state.kernel.columns_are)
    found = summaries.true_rows(state, X, question.request, ids=party.sample_ids(), limits=party.limits)
    return found if party.here else replace(found, rows=found.rows.columns(slice(None)))


def _covariates(party: Party, question: q.CovariatesWanted) -> messages.CovariateRows:
    if party.covariates is None:
        raise ProtectionError(f"party {party.name!r} is asked for covariates that the plan does not have")
    rows = np.asarray(party.covariates(question.batch, party.order))
    union = party.union.get(question.batch)
    if union is not None and len(rows) != union.n_samples:
        raise InputError(f"party {party.name!r} has covariates of {len(rows)} of {union.n_samples} samples")
    if question.blind:
        rows = party.rotation(len(rows)).turn(rows)
    return messages.CovariateRows(party.name, Rounded(rows))


def _rows(party: Party, question: q.RowsWanted) -> Any:
    state = party.whole_state(PartyState)
    X = party.table(state.kernel.columns_are, question.batch)
    return summaries.extend(
        state,
        X,
        exact=question.exact,
        sample_ids=party.sample_ids(question.batch),
        limits=party.limits,
        device=party.device,
        memory=party.memory,
    )


def _result(party: Party, question: q.ResultGiven) -> messages.Told:
    """Keep A' U / sqrt(lambda) of a blind fit: a factor row times these is the party's share of a score."""
    if party.sent is None or question.batch:
        return messages.Told(party.name)
    # U = scores / sqrt(lambda), so a factor row times A' U / sqrt(lambda) = A' scores / lambda is the party's share
    # of the score, times its weight. Signs are those of the samples turned back.
    A, scores = np.asarray(party.sent.factor.decode()), np.asarray(question.scores.scores.decode())
    if question.scores.sample_digest != party.sent.sample_digest or len(scores) != len(A):
        raise InputError(f"party {party.name!r}: the result is for other samples than its fit")
    values = np.sum(scores**2, axis=0)  # the eigenvalues
    signs = signs_of(party.rotation(len(scores)).turn_back(scores))
    party.slopes = None if question.slopes is None else np.asarray(question.slopes.decode()) * signs
    share = question.weight * (A.T @ (scores / np.where(values > 0, values, 1.0))) * signs
    deviations = np.sqrt(np.mean((A @ share) ** 2, axis=0))
    if np.all(deviations <= CONSTANT**2 * np.sqrt(np.mean(scores**2, axis=0))):
        raise _constant(party, "share of every component is nearly zero", "it does not take part")
    state, told = party.whole_state(PartyState), wire.fingerprint(question.scores)
    party.state = replace(state, share=share, share_deviations=tuple(deviations.tolist()), result_id=told)
    return messages.Told(party.name)


ANSWERS: Mapping[type[Any], Callable[[Party, Any], Any]] = {
    q.SeedsWanted: _seeds,
    q.TokensWanted: _tokens,
    q.HopWanted: _hop,
    q.MatchedGiven: _matched,
    q.ShapeWanted: _shape,
    q.StatisticsWanted: _statistics,
    q.GoWanted: _go,
    q.SamplesWanted: lambda party, question: messages.Go(party.name, q.digest(question)),
    q.SummaryWanted: _summary,
    q.BoundsWanted: _bounds,
    q.SumsWanted: _sums,
    q.ReceivedGiven: _reveal,
    q.AuditWanted: _audit,
    q.CovariatesWanted: _covariates,
    q.RowsWanted: _rows,
    q.ResultGiven: _result,
}
