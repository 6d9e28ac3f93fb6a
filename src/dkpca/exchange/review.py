"""What a study would make of a party's table: all that would leave, what could be rebuilt from it, red or green.

The protocols of the plan are run on the party's own table, by the same code as in the study, with independent columns
in the place of the other parties', under the kernels that the plan gives them: a kernel that makes the others
constant, or too narrow, leaves this party's numbers alone in the sum, and shows here. A plan that cannot be run so
cannot be measured, and counts as if it told everything.
"""

import json
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dkpca import wire
from dkpca.errors import DKPCAError
from dkpca.exchange import in_process, protocols
from dkpca.exchange.identity import sha256, shown
from dkpca.exchange.memory import Memory, StudyMemory, write
from dkpca.exchange.own_table import OwnTable
from dkpca.exchange.plan import Plan, Study
from dkpca.exchange.protocols import Ask, Terms
from dkpca.fusion import FusedModel
from dkpca.fusion.covariates import Covariates
from dkpca.kernels import Linear
from dkpca.linalg.arrays import to_numpy
from dkpca.messages import Go, Reveal, Shape
from dkpca.party import recovery
from dkpca.party.answers import Party
from dkpca.party.limits import PRECISIONS, Limits
from dkpca.party.questions import Derived, SumsWanted
from dkpca.party.recovery import Matrix, Seen
from dkpca.protection import quantities
from dkpca.rank import Recovery
from dkpca.settings import Compute, Fit
from dkpca.wording import in_bytes

SHARED = 0.5  # share of common samples from which two masked sums are about nearly the same ones
LEFT, ABOUT = "left.npz", "left.json"  # what a signed study lets out, for the union with later ones
SHOWN_COLUMNS = 8
MOST_ROWS, FEWEST_ROWS = 3000, 200  # of all parties together in a rehearsal, and of each


@dataclass(frozen=True)
class Leaving:
    """One thing that leaves, or is made known by it: who reads it, and what an attacker sees in it."""

    what: str
    to: str
    bytes: int
    seen: Seen | None  # None: nothing without the other parties' help
    rank: int = 0


@dataclass(frozen=True)
class Finding:
    """One limit, and whether the plan keeps it."""

    limit: str
    allowed: Any
    asked: Any
    ok: bool


@dataclass(frozen=True)
class Review:
    """What a person decides on."""

    study: Study
    leaving: tuple[Leaving, ...]
    columns: Mapping[str, float]  # R squared by column, from the union of all that leaves and ever left
    findings: tuple[Finding, ...]
    nearest: str  # the nearest plan that is green; empty if this one is, or none is known
    public: tuple[str, ...] = ()  # parties whose columns the center is taken to have

    @property
    def green(self) -> bool:
        """Whether the plan keeps all limits."""
        return all(finding.ok for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Everything for a program."""
        return {
            "fingerprint": self.study.fingerprint[: len(shown(self.study.fingerprint).replace(" ", ""))],
            "green": self.green,
            "members": {name: member.identity for name, member in self.study.members.items()},
            "leaves": [{"what": each.what, "to": each.to, "bytes": each.bytes} for each in self.leaving],
            "recovery": dict(self.columns),
            "limits": [vars(finding) for finding in self.findings],
            "nearest": self.nearest,
            "public": list(self.public),
        }

    def words(self) -> list[str]:
        """One screen for a person."""
        plan = self.study.plan
        lines = [f"Study of {', '.join(plan.parties)}; {plan.center} fuses; until {plan.ends}.", ""]
        lines += [f"  {each.what}, to {each.to}: {in_bytes(each.bytes)}" for each in self.leaving]
        for owner, names in plan.covariates.items():
            lines.append(f"  taken out of the components: {', '.join(names)} of {owner}")
        worst = sorted(self.columns.items(), key=lambda item: -item[1])[:SHOWN_COLUMNS]
        lines += ["", "Recovered by somebody who knows some rows, from all that leaves and ever left (R²):"]
        lines += [f"  {name}: {value:.2f}" for name, value in worst]
        lines += [""]
        for finding in self.findings:
            word = "green" if finding.ok else "RED  "
            lines.append(f"{word} {finding.limit}: {finding.asked} (limits.toml: {finding.allowed})")
        if plan.protect == "blind":
            public = ", ".join(self.public) or "none"
            lines.append(
                f"Whose columns could {plan.center} have? limits.toml says: public = {public}. Add those that are."
            )
        if plan.fit.get("lacking") in ("mean", "complete"):
            lines.append(_about_lacking(plan))
        if self.nearest:
            lines.append(f"Nearest plan within your limits: {self.nearest}.")
        verdict = "GREEN: you may sign." if self.green else "RED: 'sign' refuses this plan."
        return [*lines, "", f"Fingerprint: {shown(self.study.fingerprint)}", verdict]


def _about_lacking(plan: Plan) -> str:
    """What is told by keeping samples that some parties lack."""
    if plan.fit["lacking"] == "complete":
        return (
            f"{plan.center} learns which samples you lack, and what the others predict about persons you never had."
        )
    return f"{plan.center} learns which samples you lack; your mean stands in their place."


def review(study: Study, name: str, memory: Memory, table: OwnTable, limits: Limits, fit: Fit) -> Review:
    """Measure a study against a party's limits; nothing leaves."""
    plan = study.plan
    columns = {party: study.members[party].columns for party in plan.parties}
    worst, leaving = _worst(plan, fit, name, columns, table, limits, memory)
    roster = _roster(study)
    findings = _findings(plan, fit, leaving, max(worst.values(), default=0.0), limits, memory, table, roster)
    green = all(finding.ok for finding in findings)
    nearest = "" if green else _nearest(plan, fit, name, columns, table, limits, memory, roster)
    return Review(study, leaving, worst, findings, nearest, limits.public)


def keep(memory: StudyMemory, found: Review, table: OwnTable) -> None:
    """Keep what the study would let out, so that later reviews measure the union with it once this one is signed."""
    factors = [each.seen.factor for each in found.leaving if each.seen is not None]
    rows = _some_rows(found.study.plan, table)
    keys = [str(row) for row in rows] if table.keys is None else [table.keys[row] for row in rows]
    plan = found.study.plan
    about = {"parties": plan.parties, "protect": plan.protect, "keys": keys, "columns": dict(found.columns)}
    about["roster"] = _roster(found.study)
    arrays: dict[str, Any] = {f"factor{number}": factor.astype(np.float32) for number, factor in enumerate(factors)}
    memory.replace(f"reviewed-{ABOUT}", json.dumps(about).encode())
    write(memory.path / f"reviewed-{LEFT}", lambda file: np.savez(file, **arrays))


def commit(memory: StudyMemory) -> None:
    """Count what was reviewed as left, before the signature lets it."""
    for name in (LEFT, ABOUT):
        memory.replace(name, memory.kept(f"reviewed-{name}") or b"")


def left_before(memory: Memory, study: str) -> dict[str, str]:
    """Digest of what each other signed study let out: a review holds as long as no study is added."""
    others = {each: memory.study(each) for each in memory.studies() if each != study}
    parts = {each: [kept.kept(name) for name in (ABOUT, LEFT)] for each, kept in others.items()}
    return {each: sha256(b"".join(part or b"" for part in both)) for each, both in parts.items() if any(both)}


def _roster(study: Study) -> dict[str, str]:
    """Public key of each party: a name can be taken by another organization in another study."""
    return {party: study.public[party] for party in study.plan.parties}


def _worst(
    plan: Plan, fit: Fit, name: str, columns: Mapping[str, int], table: OwnTable, limits: Limits, memory: Memory
) -> tuple[dict[str, float], tuple[Leaving, ...]]:
    """R squared by column, the worst over the widths that the plan allows; and what leaves at that width."""
    rows = _some_rows(plan, table)
    before = _left_before(memory, plan.id, table, rows)
    # What was recovered from earlier studies stays so, however this one is attacked.
    earlier = [about["columns"] for about, _ in _studies_before(memory, plan.id)]
    found = {name: max(each.get(name, 0.0) for each in earlier) for name in table.columns} if earlier else {}
    leaving: tuple[Leaving, ...] = ()
    for gamma in _widths(plan, fit):
        try:
            now = tuple(_leaves(plan, replace(fit, gamma=gamma), name, columns, table, rows, limits.public))
        except DKPCAError as error:
            what = f"what cannot be measured: {error}"
            now = (Leaving(what, plan.center, 0, _plain(np.asarray(table.X[rows]), table)),)
        seen = [each.seen for each in now if each.seen is not None]
        here = dict.fromkeys(table.columns, 0.0)
        if seen or before:
            found_now = recovery.against([*seen, *before], table.X[rows], known_rows=limits.known_rows)
            here = dict(zip(table.columns, found_now.columns, strict=True))
        if not leaving or max(here.values()) > max(found.values()):
            leaving = now
        found = {column: max(value, found.get(column, 0.0)) for column, value in here.items()}
    return found, leaving


def _some_rows(plan: Plan, table: OwnTable) -> Matrix:
    """Rows that are attacked: fewer where many parties are put in the others' place."""
    most = min(recovery.MOST_ROWS, max(FEWEST_ROWS, MOST_ROWS // len(plan.parties)))
    return np.sort(np.random.default_rng(0).permutation(len(table.X))[:most])


def at_go(
    plan: Plan,
    fit: Fit,
    derived: Derived,
    name: str,
    memory: Memory,
    table: OwnTable,
    rows: Sequence[int],
    limits: Limits,
) -> float:
    """Worst recovery with the real widths and the real samples."""
    part = replace(
        table,
        X=table.X[list(rows)],
        keys=None if table.keys is None else [table.keys[row] for row in rows],
        covariates={column: values[list(rows)] for column, values in table.covariates.items()},
    )
    widths = {each: kernel.gamma for each, kernel in derived.kernels.items() if hasattr(kernel, "gamma")}
    known = isinstance(fit.gamma, str) and fit.protect != "sums" and bool(widths)
    found, _ = _worst(plan, replace(fit, gamma=widths) if known else fit, name, derived.columns, part, limits, memory)
    return max(found.values(), default=0.0)


def _widths(plan: Plan, fit: Fit) -> list[Any]:
    """Widths with which the plan may come out: one, or the plan's bounds where it follows from the data."""
    of_data = isinstance(fit.gamma, str) and protocols.open_widths(plan.parties, fit)
    if not of_data or protocols.scale_known(fit):
        return [fit.gamma]
    low, high = plan.gamma
    return [low, math.sqrt(low * high), high]


def _leaves(
    plan: Plan,
    fit: Fit,
    name: str,
    columns: Mapping[str, int],
    table: OwnTable,
    rows: Matrix,
    public: Sequence[str] = (),
) -> Iterator[Leaving]:
    """Everything that leaves under one width, with what an attacker sees of some rows."""
    T, center, members = len(table.X), plan.center, f"{plan.center} and all who get the result"
    if plan.align == "tokens":
        yield Leaving("keyed tokens of the sample ids", center, 16 * T, None)
    if plan.align == "psi":
        after = plan.parties[(plan.parties.index(name) + 1) % len(plan.parties)]
        J = len(plan.parties)
        what = f"blinded sample ids, in a ring of {J} rounds (each party runs once a round)"
        yield Leaving(what, f"{after}, and on to {center}", 32 * J * T, None)
    if table.covariates:
        Q = Covariates.of(table.covariates).basis
        how = "turned with the samples" if plan.protect == "blind" else f"of every sample, in the clear to {center}"
        what = f"covariates {', '.join(plan.covariates[name])}, {how}"
        seen = None if plan.protect == "blind" else _plain(Q[rows], table)
        yield Leaving(what, center, 8 * Q.shape[1] * (T + plan.batches * plan.batch_samples), seen)
    if fit.family_of(name).columns_are == "samples":
        what = "what cannot be measured: a precomputed kernel"
        yield Leaving(what, center, 8 * T * T, _plain(np.asarray(table.X[rows]), table))
        return
    heard, model, placed = _rehearsed(plan, fit, name, columns, table.X[rows])
    small = sum(wire.size(answer) for answer in heard.values() if isinstance(answer, Shape | Go | Reveal))
    yield Leaving("numbers of rows and columns, agreement, nonces", center, small, None)
    if plan.protect == "sums":
        yield from _sums(plan, fit, columns, heard, model, T)
    else:
        summary = heard["summary"]
        if len(rows) < T:  # the message itself is made of the whole table
            asked = heard.asked["summary"]
            summary = Party(name, lambda _: table.X, (name,), "review", b"").answer(asked)
        blind, known = plan.protect == "blind", sorted(set(public) & set(plan.parties) - {name})
        what = f"{'turned factor' if blind else 'summary'} of rank {summary.rank}"
        if blind:
            what += f", whose rotation the columns of {', '.join(known)} give away" * bool(known)
            what += ": no row of it is a sample" * (not known)
        # With another party's columns and known rows a center undoes the rotation (`recovery.without_rotation`).
        shown_rows = None if blind and not known else recovery.seen_in(summary, rows)
        yield Leaving(what, center, wire.size(summary), shown_rows, rank=0 if blind else summary.rank)
    if "audit" in heard:
        true = np.asarray(heard["audit"].rows.decode())
        what = f"{len(true)} true rows for an audit"
        yield Leaving(what, center, 8 * len(true) * T, _plain(true.T, table))
    # In the open and under masked sums the result is made of what the center has anyway; a blind center has less.
    count, hidden = model.n_components, plan.protect == "blind"
    result = _plain(np.asarray(to_numpy(model.scores)), table) if hidden else None
    yield Leaving(f"result: {count} components", members, 8 * T * count, result)
    # New samples are recovered as well as those of the fit, placed once more: by their rows, or by their scores.
    for batch in range(plan.batches):
        new = placed if hidden or plan.protect == "sums" else heard["new/rows"].factor.decode()
        seen_new = None if batch else _plain(np.asarray(to_numpy(new)), table)
        yield Leaving(f"batch {batch + 1} of new samples", center, 8 * plan.batch_samples * count, seen_new)


def _sums(
    plan: Plan, fit: Fit, columns: Mapping[str, int], heard: "Heard", model: FusedModel, n_samples: int
) -> Iterator[Leaving]:
    """What the center holds under masked sums: inner products or distances over all columns, whatever the width."""
    (joined,) = model.summaries.values()
    added = quantities.of_fit(joined.kernel, n_samples, fit.n_landmarks, fit.precision)
    size = sum(added.count(piece) for piece in added.pieces) * added.bits // 8 + 8 * n_samples * added.lengths
    n_rows, n_features = joined.n_samples, sum(columns.values())
    total, what = np.zeros((n_rows, n_rows)), "distances"
    for step, asked in heard.asked.items():
        if isinstance(asked, SumsWanted) and asked.what.kind == "pairs":  # a rehearsal has too few rows for landmarks
            protocols.add_piece(total, plan.parties, asked, asked.rows, heard.of_all[step])
            what = "inner products" if asked.what.lengths else "distances"
    squared = quantities.as_distances(total) if what == "inner products" else total
    seen = Seen(recovery.points(squared), Linear(), 0.0, min(n_features, n_rows))
    yield Leaving(f"masked sums: the joint {what}", plan.center, size, seen)
    # Its similar pairs are steps of paths, and its kernel says which columns are categories.
    matrix = replace(recovery.seen_in(joined, np.arange(n_rows)), n_features=n_features)
    yield Leaving("the joint kernel matrix, made of these sums", plan.center, 0, matrix)


class Heard(dict[str, Any]):
    """What a party answered in a rehearsal, by step; what it was asked, and what all parties answered."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, Any] = {}
        self.of_all: dict[str, Mapping[str, Any]] = {}


def _rehearsed(
    plan: Plan, fit: Fit, name: str, columns: Mapping[str, int], X: Matrix
) -> tuple[Heard, FusedModel, Any]:
    """Run the protocols of the plan in this process, with independent columns in the place of the others'.

    The result of a blind fit is that of an open one by the sum law, which nobody has to turn back.
    """
    fit = replace(fit, lacking=None)  # here nobody lacks any
    fit = replace(fit, protect="none", law="sum") if fit.protect == "blind" else fit
    random = np.random.default_rng([2027, len(X)])  # no stream that a table was made with
    parties = {}
    for each in plan.parties:
        Z = X if each == name else _independent(fit, each, random.normal(size=(len(X), columns[each])), X)
        opened = partial(_opened, Z)
        parties[each] = Party(
            each, opened, plan.parties, "review", each.encode(), each.encode(), open_new=partial(_opened_new, Z)
        )
    heard, terms = Heard(), Terms("review", columns=columns, go=True)

    def watched() -> Generator[Ask, Any, tuple[FusedModel, Any]]:
        model = yield from _noted(protocols.fit(plan.parties, fit, terms), name, heard)
        batch = protocols.place(plan.parties, fit, model, "new", terms)
        return model, (yield from _noted(batch, name, heard)) if plan.batches else None

    (model, placed), _ = in_process.drive(watched(), parties, Compute(n_jobs=1))
    return heard, model, placed


def _noted(protocol: Generator[Ask, Any, Any], name: str, heard: Heard) -> Generator[Ask, Any, Any]:
    """Pass a protocol on, and note what one party is asked and answers."""
    given: Any = None
    while True:
        try:
            ask = protocol.send(given)
        except StopIteration as end:
            return end.value
        given = yield ask
        heard[ask.step], heard.asked[ask.step] = given[name], ask.questions[name]
        heard.of_all[ask.step] = given


def _opened(X: Matrix, columns_are: str) -> Matrix:
    return X


def _opened_new(X: Matrix, batch: str, columns_are: str) -> Matrix:
    return X


def _independent(fit: Fit, name: str, Z: Matrix, own: Matrix) -> Matrix:
    """Columns that have nothing to do with anybody's, as the party's kernel takes them.

    Their spread is 1, or that of the party's own columns if it is smaller: beside larger ones its own would vanish.
    """
    family = fit.family_of(name)
    if family.columns_are == "samples":
        return np.asarray(Z @ Z.T)
    if family.columns_are == "categories":
        return np.asarray(np.floor(2.0 * Z))
    size = float(np.max(np.abs(own), initial=0.0)) or 1.0  # first, since squares may overflow
    spread = float(np.sqrt(np.mean(np.std(own / size, axis=0) ** 2)))
    if family.name == "chi2":  # (x - y)^2 / (x + y): a spread counts as a share of the level
        level = float(np.mean(np.abs(own / size)))
        return np.abs(Z) * (min(1.0, size * spread * min(1.0, spread / level)) or 1.0)
    return Z * (min(1.0, size * spread) or 1.0)


def _plain(factor: Matrix, table: OwnTable) -> Seen:
    return Seen(factor, Linear(), 0.0, min(table.X.shape[1], len(factor)))


def _left_before(memory: Memory, study: str, table: OwnTable, rows: Matrix) -> list[Seen]:
    """What earlier studies let out about these rows; rows that they did not have are zeros."""
    keys = [str(row) for row in rows] if table.keys is None else [table.keys[row] for row in rows]
    found = []
    for about, arrays in _studies_before(memory, study):
        place = {key: position for position, key in enumerate(about["keys"])}
        for factor in arrays.values():
            here = np.zeros((len(keys), factor.shape[1]))
            for position, key in enumerate(keys):
                if key in place:
                    here[position] = factor[place[key]]
            found.append(_plain(here, table))
    return found


def _studies_before(memory: Memory, study: str) -> Iterator[tuple[dict[str, Any], dict[str, Matrix]]]:
    for each in memory.studies():
        kept = memory.study(each)
        about = kept.kept(ABOUT)
        if each != study and about is not None:
            with np.load(kept.path / LEFT, allow_pickle=False) as arrays:
                yield json.loads(about), dict(arrays)


def _findings(
    plan: Plan,
    fit: Fit,
    leaving: Sequence[Leaving],
    worst: float,
    limits: Limits,
    memory: Memory,
    table: OwnTable,
    roster: Mapping[str, str],
) -> tuple[Finding, ...]:
    rank = max((each.rank for each in leaving), default=0)
    before = [about for about, _ in _studies_before(memory, plan.id)]
    keys = set(table.keys or [str(row) for row in range(len(table.X))])
    masked = [
        about
        for about in before
        if plan.protect != "none"
        and about["protect"] != "none"
        and about.get("roster") != roster
        and len(keys & set(about["keys"])) >= SHARED * len(about["keys"])
    ]
    finer = PRECISIONS.index(fit.precision) <= PRECISIONS.index(limits.precision)
    return (
        Finding("recovery", limits.recovery, round(worst, 2), worst <= limits.recovery),
        Finding("samples", f"at least {limits.samples}", plan.samples, plan.samples >= limits.samples),
        Finding("precision", limits.precision, fit.precision, finer or plan.protect != "none"),
        Finding("rank", limits.rank, rank or "no factor in the clear", rank <= limits.rank),
        Finding("audit_rows", limits.audit_rows, fit.audit or 0, (fit.audit or 0) <= limits.audit_rows),
        Finding("batches", limits.batches, plan.batches, plan.batches <= limits.batches),
        Finding("protect", ", ".join(limits.protect), plan.protect, plan.protect in limits.protect),
        Finding("studies", limits.studies, len(before) + 1, len(before) + 1 <= limits.studies),
        Finding("masked sums with other rosters on the same samples", 0, len(masked), not masked),
    )


def _nearest(
    plan: Plan,
    fit: Fit,
    name: str,
    columns: Mapping[str, int],
    table: OwnTable,
    limits: Limits,
    memory: Memory,
    roster: Mapping[str, str],
) -> str:
    """Name the first of a few changes that makes the plan green."""
    bounded = Recovery(limits.recovery, limits.known_rows)
    precision = (
        fit.precision if PRECISIONS.index(fit.precision) <= PRECISIONS.index(limits.precision) else limits.precision
    )
    plan = replace(plan, samples=max(plan.samples, limits.samples), batches=min(plan.batches, limits.batches))
    audit = fit.audit if (fit.audit or 0) <= limits.audit_rows else None
    few = 2 if fit.n_components is None else min(2, fit.n_components)
    blind = {"protect": "blind", "rank": "auto", "law": "sum"}
    tries: list[tuple[str, dict[str, Any]]] = [
        ("the same, within the limits on numbers", {}),
        (f"rank: recovery={limits.recovery:g}", {"rank": bounded}),
        *(
            (f"protect = blind, {count} components", blind | {"n_components": count})
            for count in (fit.n_components, few, 1)
        ),
    ]
    for words, changes in tries:
        try:
            other = replace(fit, precision=precision, audit=audit, **changes)
            changed = replace(plan, fit={**plan.fit, "protect": other.protect})
            worst, leaving = _worst(changed, other, name, columns, table, limits, memory)
        except DKPCAError:
            continue
        top = max(worst.values(), default=0.0)
        found = _findings(changed, other, leaving, top, limits, memory, table, roster)
        if all(finding.ok for finding in found):
            said = [words, f"precision {precision}" if precision != fit.precision else ""]
            said += [
                "no audit" if audit != fit.audit else "",
                f"at least {plan.samples} samples",
                f"{plan.batches} batches",
            ]
            return ", ".join(part for part in said if part)
    return ""
