"""A study from what lies in its folder: center and parties run the same protocol from its start each time.

Each stops where a file is missing: a crash loses nothing, and nobody keeps the state of a conversation. What the
center told once counts. A party makes the questions itself from the plan, and answers each step once. What the center
has to tell (common samples, derived values, summaries that arrived) is checked against the plan and the own table.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import numpy as np

from dkpca import wire
from dkpca.certificate.statements import proved
from dkpca.errors import DKPCAError, FusionError, InputError, PolicyError, ProtectionError, WireError
from dkpca.exchange import earlier, own_table, protocols
from dkpca.exchange import review as reviews
from dkpca.exchange.identity import sha256
from dkpca.exchange.leaving import Case
from dkpca.exchange.member import ALL, CENTER, WHY_FEW, Membership, OtherQuestionError, WaitingError, file_of
from dkpca.exchange.memory import StudyMemory, write
from dkpca.exchange.own_table import OwnTable, write_result
from dkpca.exchange.plan import Plan
from dkpca.exchange.protocols import Ask, Terms
from dkpca.exchange.sealed import Part, canonical
from dkpca.fusion.covariates import Covariates
from dkpca.kernels import Kernel
from dkpca.kernels.base import combination
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.eigenpairs import signs_of
from dkpca.messages import RaisedIds, Reveal, Scores, Seed, Summary, Told
from dkpca.party import questions as q
from dkpca.party.answers import OWN_LIST, ConstantAddendError, Party
from dkpca.party.limits import Limits
from dkpca.settings import Fit
from dkpca.store import runs, storage
from dkpca.store.files import decode_model, encode_model, encode_state, read_state
from dkpca.wire import codec
from dkpca.wording import some

NOTHING = 1e-6  # of the length of the first component: one that is shorter holds no variance
ALIGNS = (q.HopWanted, q.MatchedGiven)
TOLD_OF_A_PARTY = 2**12  # bytes: its kernel, its bounds, or the digest of its summary
STATE, SUMMARY, MODEL = "table/state", "table/summary", "opened/model"  # what a fit leaves for later steps


def terms_of(member: Membership) -> Terms:
    """Terms of a study, from its plan."""
    plan = member.study.plan
    columns = {name: member.study.members[name].columns for name in plan.parties}
    about = (member.study.agreement, plan.align, columns, plan.samples, plan.gamma)
    return Terms(*about, study=True, taken_out=plan.covariates)


def at_center(member: Membership, fit: Fit, folder: Path) -> list[str]:
    """Go on as far as the answers reach; keep the model, the embedding and the certificate; return notes."""
    plan, terms = member.study.plan, terms_of(member)
    model = replay(member, protocols.fit(plan.parties, fit, terms))
    write_result(folder, None, to_numpy(model.scores), model.certificate.to_dict())
    kept = member.memory.kept(MODEL)
    if kept is None:
        member.memory.replace(MODEL, kept := encode_model(model))
    write(folder / "model.safetensors", kept)
    told = (member.memory.kept(f"asked/result.{part}") for part in (ALL, plan.parties[0]))
    result = cast("q.ResultGiven", q.decode(next(filter(None, told)))).scores
    go = cast("q.GoWanted", q.decode(member.memory.kept(f"asked/go.{ALL}") or b""))
    _write_settings(folder, member, go.derived, model.n_components, model.kernel)
    notes = [model.certificate.verdict()]
    for batch in takewhile(member.has_begun, plan.batch_names):
        scores = replay(member, protocols.place(plan.parties, fit, model, batch, terms, result))
        write_result(folder / batch, None, to_numpy(scores), {})
        notes.append(f"{len(scores):,} new samples are placed: {folder / batch}")
    return notes


def _write_settings(
    folder: Path, member: Membership, agreed: q.Derived, n_components: int, joint: Kernel | None
) -> None:
    """Keep beside a result how it was made: the plan's settings of the fit, and what followed from the data."""
    plan = member.study.plan
    masked = plan.protect == "sums" and joint is not None  # all have its kernel, whose width may follow from the sums
    law = plan.fit["law"] if plan.fit["law"] != "none" else combination(agreed.kernels).law.name
    settings = codec.plain(plan.fit) | {
        "law": law,
        "plan": member.study.number,
        "n_samples": agreed.n_samples,
        "n_components": n_components,
        "align": plan.align,
        "covariates": [f"{party}: {', '.join(names)}" for party, names in plan.covariates.items()],
        "kernel": codec.plain(dict.fromkeys(plan.parties, joint) if masked else agreed.kernels),
        "columns": agreed.columns,
        "versions": runs.versions(),
    }
    write(folder / runs.SETTINGS, storage.as_json(settings))


def replay(member: Membership, protocol: Generator[Ask, Any, Any]) -> Any:
    """Run a protocol with what lies in the folder; return its outcome, or raise `WaitingError`."""
    given: Any = None
    while True:
        try:
            ask = protocol.send(given)
        except StopIteration as end:
            return end.value
        if callable(ask.asked):
            _tell(member, ask)
        if ask.step == "result" and (kept := member.memory.kept(MODEL)) is not None:
            return decode_model(kept)  # what was told is of this model, and another fit may have other last digits
        if ask.readers in ("parties", "next"):
            given = {}
        elif all(question.answer is Told for question in ask.questions.values()):
            given = {party: Told(party) for party in ask.questions}  # nobody has to be waited for
        else:
            given = received(member, ask.step, ask.questions, CENTER, ALL)


def _tell(member: Membership, ask: Ask) -> None:
    """Write what only the center can tell: one part where it is the same for all, else one for each party."""
    plan, name = member.study.plan, file_of(ask.step)

    def kept(*parts: str) -> dict[str, bytes]:
        files = {part: member.memory.kept(f"asked/{name}.{part}") for part in parts}
        return {part: data for part, data in files.items() if data is not None}

    told = kept(ALL) or kept(*plan.parties)
    if ALL not in told and len(told) < len(plan.parties):  # nothing yet, or cut short
        told = {party: q.encode(question) for party, question in ask.questions.items()}
        if len(set(told.values())) == 1:
            told = {ALL: told[plan.parties[0]]}
        for part, data in told.items():
            member.memory.replace(f"asked/{name}.{part}", data)
    ask.questions = {party: q.decode(told.get(party) or told[ALL]) for party in plan.parties}
    readers = [party for party in plan.parties if party in plan.result_to or not ask.step.endswith("result")]
    if readers:
        to = {ALL: tuple(readers)} if ALL in told else {party: (party,) for party in readers}
        member.send(name, [Part(part, who, [told[part]]) for part, who in to.items()], kind="question")


def received(member: Membership, step: str, questions: Mapping[str, q.Question], *parts: str) -> dict[str, Any]:
    """Return the answers to these questions, checked by them; raise `WaitingError` with all who lack one."""
    found: dict[str, Any] = {}
    waiting: list[str] = []
    for party, question in questions.items():
        about: dict[str, Any] = {"at_most": question.most_bytes(), "question": q.digest(question)}
        try:
            path = member.receive(party, file_of(step), *parts, **about)
        except WaitingError:
            waiting.append(party)
            continue
        try:
            found[party] = wire.decode(storage.mapped(path))
        except WireError as error:
            raise FusionError(f"party {party!r}, step {step!r}: {error}") from error
        question.check(party, found[party])
        if isinstance(found[party], Reveal):
            member.check_nonce(party, found[party].nonce)
    if waiting:
        raise WaitingError(step, *waiting)
    return found


@dataclass
class PartySide:
    """One party of an agreed study."""

    member: Membership
    fit: Fit
    table: OwnTable
    limits: Limits
    new: Mapping[str, OwnTable] = field(default_factory=dict)  # batches of new samples, once there is a result
    agreed: q.Derived | None = None  # values that all parties agreed to
    notes: list[str] = field(default_factory=list)  # what the result lacks
    ended: DKPCAError | None = None  # raised before anything is answered that was not before
    told: q.ResultGiven | None = None  # of the fit, until it is taken

    def __post_init__(self) -> None:
        member = self.member
        self.plan: Plan = member.study.plan
        self.names: tuple[str, ...] = self.plan.parties
        place = self.names.index(member.name)
        self.preceding, self.following = self.names[place - 1], self.names[(place + 1) % len(self.names)]  # in a ring
        self.terms = replace(terms_of(member), fewest_samples=2)  # too few are refused by `_check_samples`
        about = (member.study, self.fit, member.name, self.table, self.limits, member.memory.memory)
        self.case = Case.of(*about)  # the plan as a review of it sees it
        me = member.memory.secrets()
        self.party = Party(
            member.name,
            lambda columns_are: self.table.X,
            self.names,
            member.study.agreement,
            me.derive("party", member.study.agreement),
            coin=me.derive("nonce", "second"),
            open_new=lambda batch, columns_are: self.new[batch].X,
            ids=self.table.keys,
            normalization=",".join(self.table.preparation.reading.id_normalize),
            covariates=self._covariates if self.table.covariates else None,
            limits=self.case.summarizes_within,
        )

    def run(self, folder: Path, new: Path) -> Path | None:
        """Answer all steps that can be answered; keep the result with this party's own ids, if it gets one.

        Then the tables of new samples are read, in the folder `new`.
        """
        told = self._drive(protocols.fit(self.names, self.fit, self.terms))
        if told is None:
            return None
        self.told = told
        lengths = np.linalg.norm(np.asarray(told.scores.scores.decode()), axis=0)
        empty = np.flatnonzero(lengths <= NOTHING * lengths.max()) + 1
        if len(empty):
            self.notes.append(f"components from {empty[0]} on are zero: the parties sent too few eigenpairs")
        self.notes.append(proved(told.scores.optimality_at_least, told.scores.captured_share_at_least))
        self._write(folder, told.scores, "")
        assert self.agreed is not None  # no result comes before it
        _write_settings(folder, self.member, self.agreed, told.scores.scores.shape[1], told.scores.kernel)
        self.notes.append("{:,} of your {:,} samples are in all tables".format(*self._in_all("")))
        allowed = [(self.plan.batches, "the plan"), (self.limits.batches, "limits.toml")]
        self.new, said = batches_in(new, self.table, *min(allowed, key=lambda each: each[0]), self.member.memory)
        self.party.ids_new = {batch: table.keys or () for batch, table in self.new.items()}
        self.notes += said
        for batch in self.new:
            if self.ended is not None and not any((self.member.memory.path / "sent").glob(f"{batch}.*")):
                raise self.ended
            self._begin(batch, told)
            placed = self._drive(protocols.place(self.names, self.fit, told.scores, batch, self.terms))
            assert placed is not None
            self._write(folder / batch, placed.scores, batch)
            counts = "{:,} of your {:,} new samples".format(*self._in_all(batch))
            self.notes.append(f"{counts} are placed: {folder / batch}")
        return folder

    def _drive(self, protocol: Generator[Ask, Any, Any]) -> q.ResultGiven | None:
        """Walk through a protocol up to its result, as this party is told it; None if it does not get it."""
        given: Any = None
        while True:
            ask = protocol.send(given)
            last = ask.step.endswith("result")
            if last and self.member.name not in self.plan.result_to:
                return None
            if callable(ask.asked):
                self._take(ask)
            if self.member.name not in ask.questions:  # the covariates are another party's
                given = {}
                continue
            question = ask.questions[self.member.name]
            if isinstance(question, q.GoWanted):
                self.agreed = question.derived
            if last:
                assert isinstance(question, q.ResultGiven)  # as `Ask.expects` says
                return question
            given = self._answers(ask, question)

    def _covariates(self, batch: str, order: Mapping[str, list[int]]) -> Any:
        """Orthonormal columns of the covariates, or the rows of new samples in them."""
        own = {name: values[order.get("", slice(None))] for name, values in self.table.covariates.items()}
        known = Covariates.of(own)
        if self.fit.protect == "blind":
            known.check_blind()
        if not batch:
            return known.basis
        new = self.new[batch].covariates
        return known.rows({name: values[order.get(batch, slice(None))] for name, values in new.items()})

    def _take(self, ask: Ask) -> None:
        """Take what the center told at a step, if it is what the protocol expects there."""
        about: dict[str, Any] = {"at_most": self._most_told(*ask.step.rpartition("/")), "kind": "question"}
        path = self.member.receive(self.plan.center, file_of(ask.step), ALL, self.member.name, **about)
        try:
            told = q.decode(path.read_bytes())
        except DKPCAError as error:
            self.member.refuse(ask.step, "question", f"the center's {ask.step} cannot be read: {error}")
        if not ask.expects(told) or (isinstance(told, q.ResultGiven) and not self._fits(told)):
            self.member.refuse(ask.step, "question")
        ask.questions = dict.fromkeys(self.names, told)

    def _fits(self, told: q.ResultGiven) -> bool:
        """Whether a result has the agreed kernel, a row for each sample, slopes where due, and no huge numbers."""
        scores, slopes = told.scores.scores, told.slopes
        owns = self.fit.protect == "blind" and self.table.covariates and not told.batch
        n_slopes = self._covariates("", self.party.order).shape[1] if owns else 0
        if slopes is not None and slopes.shape != (n_slopes, scores.shape[1]):
            return False
        if self.fit.protect == "sums" and not told.batch and not self._is_joint(told.scores.kernel):
            return False
        numbers = [told.weight, *(each.decode() for each in (scores, slopes) if each is not None)]
        with np.errstate(over="ignore"):
            small = all(np.isfinite(np.sum(np.square(each))) for each in numbers)
        same = scores.shape[0] == len(self._rows(told.batch)) and told.scores.n_parties == len(self.names)
        return small and same

    def _is_joint(self, kernel: Kernel | None) -> bool:
        """Whether this is the plan's kernel of the joined table, whose width may follow from the sums."""
        agreed: Any
        agreed, derived = protocols.joint_kernel(self.names, self.fit)
        if derived:
            known = protocols.known_widths(self.names, self.fit, self.terms, self.agreed)
            width = getattr(kernel, "gamma", None) if known is None else known[self.names[0]]
            if known is None and not self._is_within(width):
                return False
            agreed = replace(agreed, gamma=width)
        return bool(kernel == agreed)

    def _is_within(self, width: Any) -> bool:
        """Whether a width that follows from the data is within the plan's bounds."""
        return isinstance(width, float) and self.plan.gamma[0] <= width <= self.plan.gamma[1]

    def _most_told(self, batch: str, _: str, step: str) -> int:
        """Bytes that the center may tell at a step, as the plan and the samples say."""
        if step == "matched":  # about own samples only
            return 2**16 + 64 * len(self._table(batch).X)
        if step != "result":  # some numbers of each party
            return q.HEADER + TOLD_OF_A_PARTY * len(self.names)
        n = len(self._rows(batch))
        wanted = self.fit.n_components or 0  # below 1 a share of the variance
        components = int(wanted) if wanted >= 1 else n
        return q.HEADER + 8 * n * 2 * components  # scores, slopes of covariates

    def _table(self, batch: str) -> OwnTable:
        """Table of the fit, or of a batch of new samples."""
        return self.new[batch] if batch else self.table

    def _rows(self, batch: str) -> Sequence[int]:
        """Rows of a table that take part, in the order of the result."""
        return self.party.order.get(batch, range(len(self._table(batch).X)))

    def _in_all(self, batch: str) -> tuple[int, int]:
        """Own samples that all parties have, and all own samples; in a batch, those that take part."""
        union = None if batch else self.party.union.get("")
        return len(self._rows(batch) if union is None else union.shared), len(self._table(batch).X)

    def _fewest(self, batch: str) -> tuple[int, str]:
        """Samples that have to be there at least, and the file that says so."""
        of_plan = self.plan.batch_samples if batch else self.plan.samples
        return max((of_plan, "the plan"), (self.limits.samples, "limits.toml"))

    def _answers(self, ask: Ask, question: q.Question) -> dict[str, Any]:
        """Answer a step; return the answers of others that this party may read, and its own shape."""
        if question.answer is Told:
            with self._refusing(ask.step, question):
                self.party.answer(question)
            return {}
        self._answer(ask, question)
        if ask.readers == CENTER:
            return {self.member.name: self.party.answer(question)} if isinstance(question, q.ShapeWanted) else {}
        return self._of_others(ask, question)

    def _answer(self, ask: Ask, question: q.Question) -> None:
        """Write the answer, unless an earlier command has; a question that cannot be answered ends the study."""
        name, digest = file_of(ask.step), q.digest(question)
        if self.member.publish(name, digest):
            kept = self.member.memory.kept(f"own.{name}")
            if isinstance(question, q.HopWanted) and kept is not None:
                self.party.raised[question.batch, OWN_LIST] = cast("RaisedIds", wire.decode(kept))
            if isinstance(question, q.SummaryWanted | q.SumsWanted) and self.member.memory.kept(STATE) is None:
                self._made(ask.step, question)  # sent by dkpca 0.2, which kept none
            return
        if self.ended is not None:
            raise self.ended
        if isinstance(question, q.ShapeWanted):  # before any number about the samples
            self._check_samples(ask.step, question.batch)
        if isinstance(question, q.GoWanted):
            self._check_derived(ask.step, question.derived)
        made = self._made(ask.step, question)
        if isinstance(made, Summary) and not made.turned and made.rank > self.limits.rank:
            self.member.refuse(ask.step, "limits", f"rank {made.rank}, where limits.toml allows {self.limits.rank}")
        if isinstance(question, q.HopWanted) and not question.hop:
            self.member.memory.replace(f"own.{name}", wire.encode(made))  # so that no later hop computes it again
        if ask.readers == "parties":
            parts = [Part(other, (other,), wire.pieces(each)) for other, each in made.items()]
        else:
            after, center = self.following, self.plan.center
            part, to = {"next": (after, (after,)), "all": (ALL, ()), CENTER: (CENTER, (center,))}[ask.readers]
            parts = [Part(part, to, wire.pieces(made))]
        self.member.send(name, parts, question=digest)

    def _made(self, step: str, question: q.Question) -> Any:
        memory = self.member.memory
        with self._refusing(step, question):
            if self.party.state is None and (kept := memory.path / STATE).exists():
                self.party.state, summary = read_state(kept), memory.kept(SUMMARY)
                self.party.sent = None if summary is None else cast("Summary", wire.decode(summary))
            if self.told is not None:
                self.party.answer(self.told)
                self.told = None
            before, part = self.party.state, getattr(question, "part", 1)
            made, state = self.party.answer(question), self.party.state
            if state is not None and state is not before and part == 1:  # kept before anything of it leaves
                if self.party.sent is not None:
                    memory.replace(SUMMARY, wire.encode(self.party.sent))
                memory.replace(STATE, encode_state(state))
            return made

    @contextmanager
    def _refusing(self, step: str, question: q.Question) -> Iterator[None]:
        """End the study for all where this party cannot go on, and say of what kind the reason is."""
        try:
            yield
        except (InputError, PolicyError, ProtectionError) as error:
            told = "constant" if isinstance(error, ConstantAddendError) else "question"
            reason = told if isinstance(error, ProtectionError) else "data"
            self.member.refuse(step, "ids" if isinstance(question, ALIGNS) else reason, str(error))

    def _of_others(self, ask: Ask, question: q.Question) -> dict[str, Any]:
        """Read what the other parties answered to the same question; whoever was told another one is noticed."""
        others = [self.preceding] if ask.readers == "next" else [n for n in self.names if n != self.member.name]
        try:
            found = received(self.member, ask.step, dict.fromkeys(others, question), self.member.name, ALL)
        except OtherQuestionError:
            self.member.refuse(ask.step, "agree")
        except FusionError as error:  # signed by its member, so that no host has made it
            self.member.refuse(ask.step, "fusion", str(error))
        for name, message in found.items():
            if isinstance(question, q.HopWanted):
                self.party.raised[question.batch, question.hop] = message
            if isinstance(message, Seed):
                if message.to != self.member.name:
                    self.member.refuse(ask.step, "fusion", f"{name}: its seeds are not for {self.member.name}")
                self.party.received[question.batch, name] = message  # type: ignore[attr-defined]
        return found | ({self.member.name: self._made(ask.step, question)} if ask.readers == "all" else {})

    def _check_samples(self, step: str, batch: str) -> None:
        """Refuse to go on with too few common samples."""
        (fewest, file), (n_common, n_own) = self._fewest(batch), self._in_all(batch)
        if n_common < fewest:
            of_plan = self.plan.batch_samples if batch else self.plan.samples
            why = f"; {WHY_FEW}" * (2 * n_common < n_own)
            here = f"{n_common:,} of the {n_own:,} here, where {file} asks for at least {fewest:,}"
            self.member.refuse(step, "samples" if n_common < of_plan else "few", here + why)

    def _check_derived(self, step: str, derived: q.Derived) -> None:
        """Refuse derived values that do not follow from the plan and the samples, or exceed this party's limits."""
        union, blind = self.party.union.get(""), self.fit.protect == "blind"
        n = len(self._rows("")) if union is None else union.n_samples
        samples = self.party.rotation(n).hidden_digest if blind else self.party.common_digest(n)
        if (derived.n_samples, derived.samples, dict(derived.columns)) != (n, samples, dict(self.terms.columns)):
            self.member.refuse(step, "question")
        expected = self._kernels(derived)
        if expected != dict(derived.kernels):
            self.member.refuse(step, "question" if expected else "gamma")
        exceeded = reviews.at_go(self.case, derived, self._rows(""))
        if exceeded:
            told = ", ".join(each.reason() for each in exceeded)
            self.member.refuse(step, "limits", f"on the samples that all have, not all of this table: {told}")

    def _kernels(self, derived: q.Derived) -> dict[str, Kernel] | None:
        """Kernels that follow from the plan with the widths told; None if a width is outside the plan's bounds."""
        if self.fit.protect == "sums":
            return dict.fromkeys(self.names, protocols.joint_kernel(self.names, self.fit)[0])
        try:
            widths = protocols.known_widths(self.names, self.fit, self.terms, derived)
        except FusionError:
            return None
        if widths is None:
            of = protocols.open_widths(self.names, self.fit)
            widths = {name: getattr(derived.kernels.get(name), "gamma", None) for name in of}
            if not all(map(self._is_within, widths.values())):
                return None
            alike = {(protocols.unscaled(self.fit, name), width) for name, width in widths.items()}
            if len(alike) > len({kernel for kernel, _ in alike}):
                return None
        return protocols.kernels_of(self.names, self.fit, widths)

    def _begin(self, batch: str, told: q.ResultGiven) -> None:
        """Refuse a batch that is too small, or that has a sample which was answered before; fix what it has."""
        table, (fewest, file) = self.new[batch], self._fewest(batch)
        if len(table.X) < fewest:
            raise InputError(f"{batch} has {len(table.X)} samples; {file} asks for at least {fewest}")
        before = [self.table, *(self.new[name] for name in list(self.new)[: list(self.new).index(batch)])]
        again = _samples_in(table) & {sample for other in before for sample in _samples_in(other)}
        if again:
            raise InputError(f"{batch}: {len(again)} of its samples were placed before; leave them out")
        if self.case.singled_out_by(table):
            both = "were in another study, open or with other parties, columns or numbers; the two tell one's part"
            raise InputError(f"{batch}: some of its samples {both}")
        earlier.place(self.member.memory, table)
        # The masks are bound to all that the numbers follow from; a file that changes later changes nothing.
        about = canonical([q.digest(told), table.X.shape, list(table.keys or ()), list(table.covariates)])
        numbers = [np.asarray(each).tobytes() for each in (table.X, *table.covariates.values())]
        content = sha256(about + b"".join(numbers))
        self.member.memory.keep_once(f"{batch}.sha256", content.encode(), f"the table of {batch}")
        self.party.contents[batch] = content
        if not own_table.frozen_at(self.member.memory, batch):
            own_table.freeze(self.member.memory, table, batch)

    def _write(self, folder: Path, scores: Scores, batch: str) -> None:
        """Keep a result under this party's own ids; that of a blind fit is turned back, new samples never were."""
        values = np.asarray(scores.scores.decode())
        if self.fit.protect == "blind" and not batch:
            values = self.party.rotation(len(values)).turn_back(values)
            values = values * signs_of(values)  # as the parties' shares of new samples have them
        told = ("captured_share_at_least", "optimality_at_least", "meaning", "n_parties")
        ids = self._table(batch).ids
        samples = None if ids is None else [ids[row] for row in self._rows(batch)]
        write_result(folder, samples, values, {name: getattr(scores, name) for name in told})


def _samples_in(table: OwnTable) -> set[Any]:
    """Samples by their ids; where there are none, by their numbers."""
    return set(table.keys) if table.keys is not None else {row.tobytes() for row in np.asarray(table.X)}


def batches_in(
    folder: Path, table: OwnTable, most: int, file: str = "the plan", memory: StudyMemory | None = None
) -> tuple[dict[str, OwnTable], list[str]]:
    """Tables of new samples by their batch: 1.csv, 2.csv and so on, without a gap, each read once; and notes."""
    found, notes, others = dict[str, OwnTable](), list[str](), sorted(folder.glob("[!.]*"))
    for number in range(1, most + 1):
        batch, files = f"batch-{number}", [path for path in others if path.name.startswith(f"{number}.")]
        if memory is not None and (since := own_table.frozen_at(memory, batch)):
            found[batch] = own_table.frozen(memory, batch)
            later = [path for path in files if path.stat().st_mtime_ns > since]
            notes += [f"{path} changed since its first message left; the study uses what it was" for path in later]
        elif not files:
            break
        elif len(files) > 1:
            raise InputError(f"{folder}: {files[0].name} and {files[1].name} are both batch {number}; keep one")
        else:
            found[batch] = table.new_rows(files[0])
        others = [path for path in others if path not in files]
    number, allowed = len(found) + 1, f"batches = {most} in {file}"
    then = f"name the next batch {number}.csv, or {number} with the suffix of another format ({allowed})"
    said = f"not read: {some((path.name for path in others), written=str)}; {then if number <= most else allowed}"
    return found, notes + [f"{folder}: {said}"] * bool(others)
