"""What a study would make of a party's table: all that would leave, what could be rebuilt from it, red or green.

The protocols of the plan are run on the party's own table, by the same code as in the study, with stand-ins for the
other parties' columns, under the kernels that the plan gives them. A plan that cannot be run so counts as if it told
everything. Two stand-ins count: independent columns, and columns as much alike as the party's own (its rows,
shuffled). What could be recovered if nothing hid the party's own part is only shown.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, product
from typing import Any

import numpy as np

from dkpca import wire
from dkpca.errors import DKPCAError, InputError
from dkpca.exchange import in_process, protocols
from dkpca.exchange.identity import sha256, shown
from dkpca.exchange.memory import ABOUT, LEFT, Memory, StudyMemory, write
from dkpca.exchange.own_table import OwnTable, told_apart
from dkpca.exchange.plan import Plan, Study
from dkpca.exchange.protocols import Terms
from dkpca.fusion import FusedModel
from dkpca.fusion.covariates import Covariates
from dkpca.kernels import Kernel, Linear
from dkpca.kernels.base import BALANCED
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.rows import column_scales, standardized
from dkpca.messages import Go, Reveal, Seed, Shape, Statistics, Summary
from dkpca.party import recovery
from dkpca.party.answers import Party
from dkpca.party.limits import ANYTHING, PRECISIONS, Limits
from dkpca.party.questions import BoundsWanted, Derived, SummaryWanted
from dkpca.party.recovery import Matrix, Seen
from dkpca.protection import quantities
from dkpca.protection.masks import POWERS
from dkpca.rank import Recovery, stated
from dkpca.settings import Compute, Fit
from dkpca.wording import counted, in_bytes, in_percent, some, visible

DECIDE = "exclude such columns in party.toml, or list those that may be known under recoverable in limits.toml"
ASSUMED = (
    "This assumes that no two other members put together what they have, and that the other parties' columns are "
    "real, unrelated to yours, vary in as many ways and have as many digits."
)
NONE_NEAR = (
    "No small change would bring this plan within your limits and still send enough for its components: "
    f"{DECIDE}, ask for fewer components, or have limits.toml changed."
)
TOO_MANY = (
    "Close earlier studies ('dkpca study close'): those that sent no number about your table then no longer count. "
    "For more, raise studies in limits.toml."
)
SUMMED_OTHERWISE = (
    "masked sums of the same samples with other parties, columns or numbers, or beside a study in the open"
)
UNMEASURED = "something that cannot be measured"  # and counts as recovered
SHOWN_COLUMNS = 8  # or more, if more are above the limit
HALVES = 4  # of the samples that a green plan is measured on once more
LITTLE = 0.2  # of the variance
LEAST = 1e-300  # kernel value that tells a distance
MOST_ROWS, FEWEST_ROWS = 3000, 200  # of all parties together in a rehearsal, and of each
MANY_NUMBERS, MOST_NUMBERS = 2**25, 2**27  # of a rehearsal: beyond, it has fewer rows; or is not made
INDEPENDENT, ALIKE, COPIES = "independent columns", "own rows, shuffled", "own rows"  # in the place of the others'
COUNTED = (INDEPENDENT, ALIKE)
TURNED = "turned"  # arrays of a study that another one may undo the rotation of
Heard = dict[str, tuple[Any, Any]]  # in a rehearsal, by step: questions and answers by party


@dataclass(frozen=True)
class Leaving:
    """One thing that leaves, or is made known by it: who reads it, and what an attacker sees in it."""

    what: str
    to: str
    bytes: int
    seen: Seen | None  # None: nothing without the other parties' help
    rank: int = 0
    share: float = 1.0  # of the variance of the party's own kernel matrix, about
    beside: Seen | None = None  # seen in it beside another study of these samples, which may undo a rotation


@dataclass(frozen=True)
class Finding:
    """One limit, and whether the plan keeps it."""

    limit: str
    allowed: Any
    asked: Any
    ok: bool
    file: str = "limits.toml"  # which says what is allowed; empty: dkpca itself

    def words(self) -> str:
        """One line."""
        allowed = f"{self.file}: {self.allowed}" if self.file else f"must be {self.allowed}"
        return f"{'green' if self.ok else 'RED  '} {self.limit}: {self.asked} ({allowed})"


@dataclass(frozen=True)
class Review:
    """What a person decides on."""

    study: Study
    leaving: tuple[Leaving, ...]
    columns: Mapping[str, float]  # R squared by column, from the union of all that leaves and ever left
    findings: tuple[Finding, ...]
    nearest: str  # the nearest plan that is green; empty if this one is, or none is known
    case: "Case | None" = None  # of a party; the center has none
    at_worst: float | None = None  # R squared where the others' columns hide nothing; None: they are not to hide any
    to_close: bool = False  # whether an earlier study counts that would not, were it closed
    dominant: str = ""  # the column with nearly all of the distances between samples, in words
    elsewhere: Mapping[str, float] = field(default_factory=dict)  # R squared of more columns on half of the samples
    signed: bool = False  # whether this member has signed already

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
            "recovery_at_worst": self.at_worst,
            "limits": [vars(finding) for finding in self.findings],
            "nearest": self.nearest,
            "public": list(self.case.limits.public) if self.case else [],
            "recovery_on_half": dict(self.elsewhere),
        }

    def words(self) -> list[str]:
        """One screen for a person."""
        plan = self.study.plan
        lines = [f"Study by {', '.join(plan.parties)}. Center: {plan.center}. Last day: {plan.ends}.", ""]
        for each in self.leaving:
            is_sent = each.bytes or each.what.startswith(UNMEASURED)
            size = in_bytes(each.bytes) if is_sent else f"{each.to} can compute this; nothing is sent"
            lines.append(f"  to {each.to}: {each.what} ({size})")
        for owner, names in plan.covariates.items():
            lines.append(f"  taken out of the components: {', '.join(names)} of {owner}")
            if plan.protect == "blind":
                lines.append(f"  {plan.center}, if it knows these, learns how similar their groups are in your table")
        lines += ["", *self._recovered()] if self.case else []
        lines += [] if self.at_worst is None else [f"{ASSUMED} If they hid nothing: {self.at_worst:.2f}."]
        lines += ["", *(finding.words() for finding in self.findings), *self._to_consider()]
        if not self.green:
            beyond = {finding.limit for finding in self.findings if not finding.ok}
            if "covariates" in beyond:
                may = f"If {plan.center} may read these columns, list them under covariates in limits.toml"
                lines.append(f"{may}; they are not hidden.")
            none_near = TOO_MANY if self.to_close or beyond == {"studies"} else NONE_NEAR
            if plan.fit.get("n_components") == 1:
                none_near = none_near.replace(" ask for fewer components,", "")
            lines.append(f"Nearest plan within your limits: {self.nearest}." if self.nearest else none_near)
        only_if = ", if that assumption holds" * ((self.at_worst or 0.0) > self._allowed)
        verdict = f"GREEN{only_if}" if self.green else "RED"
        then = "you have signed" if self.signed else "you may sign" if self.green else "'sign' refuses this plan"
        least = min((each.share for each in self.leaving), default=1.0)
        worth = f"the summary has only {in_percent(least)} of the variance of your kernel matrix"
        but = f" But {worth}: expect little of the result." * (self.green and not self.signed and least < LITTLE)
        # Names of columns and covariates are other people's words: a line must stay a line.
        fingerprint = f'Fingerprint (for --fingerprint, in quotes): "{shown(self.study.fingerprint)}"'
        return [*map(visible, lines), "", fingerprint, f"{verdict}: {then}.{but}"]

    @property
    def _allowed(self) -> float:
        """R squared with which a column may be recovered, unless limits.toml names it."""
        return next((each.allowed for each in self.findings if each.limit == "recovery"), 1.0)

    def _recovered(self) -> Iterator[str]:
        """Columns and how well they could be recovered, the worst first; all that a party may exclude."""
        assert self.case is not None
        known, allowed, free = counted(self.case.limits.known_rows, "row"), self._allowed, self.case.free
        worst = sorted(self.columns.items(), key=lambda item: -item[1])
        above = [name for name, value in worst if value > allowed]
        share = f"{len(above)} of {counted(len(worst), 'column')}"
        yield f"An attacker who knows {known} could recover {share} with R² above {allowed:g} (1 = exactly):"
        listed = max(SHOWN_COLUMNS, len(above))
        for name, value in worst[:listed]:
            yield f"  {name}: {value:.2f}{' (may be recovered: limits.toml)' * (name in free)}"
        if more := worst[listed:]:
            yield f"  {counted(len(more), 'more column')}: at most {more[0][1]:.2f}"
        if self.elsewhere:
            found = ", ".join(f"{name} {value:.2f}" for name, value in self.elsewhere.items())
            yield f"On a random half of your samples also: {found}. If it is so on those that all parties have,"
            yield f"'run' refuses before any data leave. To be safe, {DECIDE}."

    def _to_consider(self) -> list[str]:
        """What a member should know of the plan beyond its limits."""
        plan = self.study.plan
        lines = [] if self.findings else [f"Nothing of {plan.center}'s leaves: it has no table."]
        apart = (
            f"{self.dominant} of the distances between your samples; ask {plan.center} for a plan with --standardize."
        )
        lines += [apart] if self.dominant else []
        if self.leaving and plan.protect == "blind":
            already = f"If {plan.center} might already hold another party's columns, list that party under public"
            known = self.case.limits.public if self.case else ()
            lines.append(f"{already} in limits.toml. Now: {', '.join(known) or 'none'}.")
        if self.leaving and plan.fit.get("lacking") in ("mean", "complete"):
            told = {"mean": "; your mean row is used in their place"}
            also = told.get(plan.fit["lacking"], ", and what the others predict about them")
            lines.append(f"{plan.center} learns which samples are missing from your table{also}.")
        rank, wanted = max((each.rank for each in self.leaving), default=0), plan.fit.get("n_components")
        if isinstance(wanted, int) and 0 < rank < wanted:
            lines.append(
                f"Your summary has rank {rank}, and the plan asks for {wanted} components: some may be zero."
            )
        return lines


@dataclass(frozen=True)
class Case:
    """A plan, as one party sees it: what its table would let out, and how that compares with its limits."""

    plan: Plan
    fit: Fit
    name: str  # of the party
    roster: Mapping[str, str]  # identity of each party
    columns: Mapping[str, int]  # number of columns of each party
    table: OwnTable
    limits: Limits
    memory: Memory
    others: str = INDEPENDENT  # what is put in the place of the other parties' columns
    made: dict[Any, Any] = field(default_factory=dict)  # of the whole table, the same whatever these are

    @classmethod
    def of(cls, study: Study, fit: Fit, name: str, table: OwnTable, limits: Limits, memory: Memory) -> "Case":
        """Return a study as a party sees it; another number of own columns than it joined with is a finding."""
        columns = {party: study.members[party].columns for party in study.plan.parties} | {name: table.X.shape[1]}
        return cls(study.plan, fit, name, study.roster, columns, table, limits, memory)

    @property
    def free(self) -> set[str]:
        """Columns that may be recovered, however well."""
        return self.table.named(self.limits.recoverable)

    @cached_property
    def rows(self) -> Matrix:
        """Rows that are attacked, fewer beside many others: by their numbers, so that a row more changes few."""
        fitting = min(MOST_ROWS // len(self.plan.parties), MANY_NUMBERS // max(1, sum(self.columns.values())))
        return np.sort(self._drawn[: min(recovery.MOST_ROWS, max(FEWEST_ROWS, fitting))])

    @property
    def more(self) -> Matrix:
        """Further rows, among which independent components are looked for with these."""
        most = min(recovery.MOST_SAMPLES, recovery.MOST_NUMBERS // max(1, sum(self.columns.values())))
        return np.sort(self._drawn[len(self.rows) : most])

    @cached_property
    def _drawn(self) -> Matrix:
        if (about := ("drawn", id(self.table))) not in self.made:
            drawn = np.argsort(np.array(self.table.rows), kind="stable")
            known = np.isin(drawn, [*chain.from_iterable(self.again)])  # to be seen in other studies, too
            drawn = np.concatenate([drawn[known], drawn[~known]])
            self.made[about] = recovery.rare_first(drawn, self.table.X)
        return np.asarray(self.made[about])

    @cached_property
    def before(self) -> list[tuple[dict[str, Any], dict[str, Matrix]]]:
        """What the other studies of this table let out, which were signed."""
        found = []
        for kept in _signed(self.memory, self.plan.id).values():
            about = json.loads(kept.kept(ABOUT) or b"")
            if "digests" not in about:  # as 0.2.0 kept it: nothing tells its samples apart, and all counts as told
                about |= {"digests": [""] * len(about["keys"]), "named_by": None, "numbers": {}, "standardize": True}
                about |= {"columns": dict.fromkeys(about["columns"], 1.0), "roster": {}}
            with np.load(kept.path / LEFT, allow_pickle=False) as arrays:
                found.append((about, dict(arrays)))
        return found

    @cached_property
    def again(self) -> list[dict[int, int]]:
        """For each other study of this table, which of the rows attacked there these rows are."""
        digests, names, found = told_apart(self.table.rows), self.table.samples, []
        here, named_by = set(digests) - {""}, self.table.preparation.reading.id_column
        for about, _ in self.before:
            there = about["digests"]
            # By their numbers; where these changed, by their names.
            by_digest = {digest: place for place, digest in enumerate(there) if digest}
            gone = [(key, place) for place, key in enumerate(about["keys"]) if there[place] not in here]
            by_name = dict(gone) if about["named_by"] == named_by else {}
            places = [by_digest.get(digest, by_name.get(name)) for digest, name in zip(digests, names, strict=True)]
            found.append({row: place for row, place in enumerate(places) if place is not None})
        return found

    @cached_property
    def undone_by(self) -> str:
        """What may give the rotation of a blind fit away: columns, or another study of these samples."""
        known = sorted(set(self.limits.public) & set(self.plan.parties) - {self.name})
        if known:
            return f"the columns of {', '.join(known)}"
        return "another study of these samples" * any(self.shares(about) for about, _ in self.before)

    def shares(self, about: Mapping[str, Any], table: OwnTable | None = None) -> bool:
        """Whether another study may have had one of these samples, by their names or by their rows."""
        now = _named(table or self.table)
        if about["named_by"] is None or about["named_by"] != now["named_by"]:  # rows match by position, or otherwise
            return True
        return not now["numbers"].keys().isdisjoint(about["numbers"]) or bool(_alike(about, now))

    def summed_otherwise(self, table: OwnTable) -> int:
        """Count the studies of some of these samples that together with this one tell one party's part of them."""
        found, own, now = 0, sorted([*self.table.columns, *self.in_the_clear]), set(self.roster.items())
        for about, _ in self.before:
            then, modes = set(about["roster"].items()), {self.plan.protect, about["protect"]}
            if modes <= {"none"}:
                differs = False
            elif modes == {"none", "sums"}:  # the sum, less what the others send openly, is this party's part
                differs = True
            elif "none" in modes:  # a blind fit, and what some of its parties send openly
                differs = not (now <= then if about["protect"] == "none" else then <= now)
            else:
                differs = then != now or sorted(about["columns"]) != own
                differs = differs or ("sums" in modes and _renewed(about, _named(table)))
            found += differs and self.shares(about, table)
        return found

    @property
    def summarizes_within(self) -> Limits:
        """Limits under which a summary is made: a rule stops at the largest rank; a number beyond it is refused."""
        stops = self.fit.protect == "none" and (stated(self.fit.rank_rule) or 0) <= self.limits.rank
        return replace(ANYTHING, rank=self.limits.rank) if stops else ANYTHING

    @property
    def in_the_clear(self) -> list[str]:
        """Covariates that the center reads, or may come to read, sample by sample; as the table names them."""
        # The rotation hides them; but a made-up result has a blind center's choice of slopes for new samples.
        hidden = self.plan.protect == "blind" and not self.undone_by and not self.plan.batches
        return [] if hidden else [*self.table.covariates]


def review(case: Case, study: Study) -> Review:
    """Measure a study against a party's limits; nothing leaves. With other columns than it joined with it is red."""
    worst, leaving = _worst(case)
    findings = _findings(case, worst, leaving)
    nearest, here = "", "the same plan"
    beyond = {finding.limit for finding in findings if not finding.ok}
    idle = any(not each.sent_numbers() for each in _signed(case.memory, case.plan.id).values())
    to_close = idle and not beyond.isdisjoint({"recovery", "studies"})
    if beyond:
        nearest = here = "" if to_close else _nearest(case)
    joined, now = study.members[case.name].columns, case.columns[case.name]
    if now != joined:
        findings += (Finding("columns", joined, now, ok=False, file="member.toml"),)
        nearest = here and f"{here}, once {study.plan.center} has written it as the next plan and you have joined it"
    hidden = case.plan.protect != "none"
    # A member whose table is copies of any v gets a component near (K_own + K_others) v: known rows aim v at a
    # column. Where the others hide nothing, no aim tells more than K_own itself, measured as if it were sent.
    exposed = replace(case, limits=replace(case.limits, public=case.plan.parties))
    at_worst = _largest(exposed, _worst(exposed, COPIES)[0]) if hidden else None
    elsewhere = {} if beyond or case.limits.recovery >= 1.0 else _on_halves(case)
    columns = worst | dict.fromkeys(case.in_the_clear, 1.0)
    found = None if case.fit.standardize else protocols.unscaled(case.fit, case.name).dominant_column(case.table.X)
    dominant = "" if found is None else f"{case.table.columns[found[0]]!r} makes up {in_percent(found[1])}"
    return Review(study, leaving, columns, findings, nearest, case, at_worst, to_close, dominant, elsewhere)


def _largest(case: Case, columns: Mapping[str, float]) -> float:
    """R squared of the column that is recovered best, of those that may not be."""
    return max((value for name, value in columns.items() if name not in case.free), default=0.0)


def _on_halves(case: Case) -> dict[str, float]:
    """Columns that exceed the limit on a random half of the samples: at 'go' the samples are others, too."""
    T, found, random = len(case.table.X), dict[str, float](), np.random.default_rng(0)
    size = min(T, max((T + 1) // 2, case.plan.samples))
    for _ in range(HALVES):
        half = np.sort(random.permutation(T)[:size]).tolist()
        columns, _ = _worst(replace(case, table=case.table.of_rows(half), made={}))
        found |= {name: max(value, found.get(name, 0.0)) for name, value in columns.items()}
    return _above(case, found)


def _above(case: Case, columns: Mapping[str, float]) -> dict[str, float]:
    """Columns that exceed the limit, of those that may not be recovered."""
    return {name: value for name, value in columns.items() if value > case.limits.recovery and name not in case.free}


def keep(memory: StudyMemory, found: Review, case: Case) -> None:
    """Keep what the study would let out, so that later reviews measure the union with it once this one is signed."""
    about: dict[str, Any] = {"parties": case.plan.parties, "protect": case.plan.protect}
    about |= {
        "standardize": case.fit.standardize,
        "columns": dict(found.columns),
        "roster": dict(case.roster),
        **_named(case.table),
    }
    both = {"keys": case.table.samples, "digests": told_apart(case.table.rows)}
    about |= {name: [each[row] for row in case.rows] for name, each in both.items()}  # of the samples attacked
    seen = [(f"factor{number}", each.seen) for number, each in enumerate(found.leaving)]
    seen += [(f"{TURNED}{number}", each.beside) for number, each in enumerate(found.leaving)]
    arrays: dict[str, Any] = {name: each.factor.astype(np.float32) for name, each in seen if each is not None}
    memory.replace(f"reviewed-{ABOUT}", json.dumps(about).encode())
    write(memory.path / f"reviewed-{LEFT}", lambda file: np.savez(file, **arrays))


def commit(memory: StudyMemory) -> None:
    """Count what was reviewed as left, before the signature lets it."""
    for name in (LEFT, ABOUT):
        memory.replace(name, memory.kept(f"reviewed-{name}") or b"")


def place(memory: StudyMemory, batch: OwnTable) -> None:
    """Count new samples as samples of this study, before their numbers leave."""
    about = json.loads(memory.kept(ABOUT) or b"")
    about["numbers"] |= _named(batch)["numbers"]
    memory.replace(ABOUT, json.dumps(about).encode())


def _named(table: OwnTable) -> dict[str, Any]:
    """How the samples of a table are found again: digests of their rows by name, and the column of the names."""
    numbers = dict[str, str]()
    for name, row in zip(table.samples, table.rows, strict=True):
        numbers[name] = numbers.get(name, "") + row  # of all samples whose ids may be written alike
    return {"named_by": table.preparation.reading.id_column, "numbers": numbers}


def _renewed(about: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a sample has other numbers than in another study: two sums of the same parties tell the difference."""
    then, here = about["numbers"], now["numbers"]
    if about["named_by"] != now["named_by"] or any(then.get(name, row) != row for name, row in here.items()):
        return True
    # Where rows are in both under other names, a sample that is in one only may be one of the other that changed.
    moved = _alike(about, now) - {row for name, row in here.items() if name in then}
    one, other = set(then.values()), set(here.values())
    return bool(moved) and not (one <= other or other <= one)


def _alike(about: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Digests of rows of both studies that one sample of each has; any, if a study has no such rows."""
    both = [each["numbers"].values() for each in (about, now)]
    single = [set(told_apart(each)) - {""} for each in both]
    one, other = single if all(single) else map(set, both)
    return one & other


def left_before(memory: Memory, study: str) -> dict[str, str]:
    """Digest of what each other signed study let out: a review holds as long as no study is added."""
    signed = _signed(memory, study)
    return {each: sha256((kept.kept(ABOUT) or b"") + (kept.kept(LEFT) or b"")) for each, kept in signed.items()}


def _signed(memory: Memory, study: str) -> dict[str, StudyMemory]:
    """Other studies of this table that were signed."""
    others = [each for each in memory.studies() if each.path.name != study]
    return {each.path.name: each for each in others if each.kept(ABOUT) is not None}


def _worst(case: Case, *others: str) -> tuple[dict[str, float], tuple[Leaving, ...]]:
    """R squared by column, the worst over the plan's widths and over what the others may have; what leaves there."""
    table, before = case.table, _left_before(case)
    # What was recovered from earlier studies stays so, however this one is attacked.
    ever = [about["columns"] for about, _ in case.before]
    found = {name: max(columns.get(name, 0.0) for columns in ever) for name in table.columns if ever}
    # What differs between this study and another one comes out of both: two rotations hide no result.
    columns, own_rows = sorted([*table.columns, *case.in_the_clear]), _named(table)
    shared = [about for about, _ in case.before if case.shares(about)]
    told_by_two = any(sorted(about["columns"]) != columns or _renewed(about, own_rows) for about in shared)
    leaving, most_pairs = tuple[Leaving, ...](), 0
    widths, columns_are = _widths(case.plan, case.fit), case.fit.family_of(case.name).columns_are
    attack = partial(recovery.against, columns_are=columns_are, known_rows=case.limits.known_rows)
    others = others or COUNTED[: len(COUNTED) if case.plan.protect != "none" else 1]  # in the open nobody hides it
    for gamma, stand_in in product(widths, others):
        here_case = replace(case, fit=replace(case.fit, gamma=gamma), others=stand_in)
        here = dict.fromkeys(table.columns, 0.0)
        try:
            now = tuple(_leaves(here_case, is_known=len(widths) == 1))
            own = [each.seen for each in now if each.seen is not None]
            seen = own + [each for each, _ in before]
            if told_by_two or any(each.what.startswith(UNMEASURED) for each in now):  # however few rows are known
                here = dict.fromkeys(table.columns, 1.0)
            elif seen:
                told = attack(seen, table.X[case.rows], united=bool(before)).columns
                reweighted = [each for each, otherwise in before if otherwise]
                twice = recovery.told_twice(own, reweighted, table.X[case.rows], len(table.X))
                here = dict(zip(table.columns, np.maximum(told, twice).tolist(), strict=True))
        except (DKPCAError, ValueError, np.linalg.LinAlgError) as error:  # as of numbers that overflow under a width
            now = (Leaving(f"{UNMEASURED}: {error}", case.plan.center, 0, _plain(table.X[case.rows], table)),)
            here = dict.fromkeys(table.columns, 1.0)
        most_pairs = max([most_pairs, *(each.rank for each in now)])
        if not leaving or max(here.values()) > max(found.values()):
            leaving = now
        found = {column: max(value, found.get(column, 0.0)) for column, value in here.items()}
    higher = f"rank up to {most_pairs},"  # under another width than the one that is shown
    return found, tuple(
        replace(each, rank=most_pairs, what=each.what.replace(f"rank {each.rank},", higher))
        if 0 < each.rank < most_pairs
        else each
        for each in leaving
    )


def at_go(case: Case, derived: Derived, rows: Sequence[int]) -> list[Finding]:
    """Limits that the plan exceeds with the real widths and the real samples; those of a batch are counted later."""
    table, fit, rows = case.table, case.fit, sorted(rows)  # in the table's order, as for the review
    widths = {each: kernel.gamma for each, kernel in derived.kernels.items() if hasattr(kernel, "gamma")}
    if isinstance(fit.gamma, str) and fit.protect != "sums" and widths:
        fit = replace(fit, gamma=widths)
    plan = replace(case.plan, samples=len(rows), batch_samples=len(rows))
    case = replace(case, plan=plan, fit=fit, table=table.of_rows(rows), made={}, columns=derived.columns)
    measured = _worst(case) if case.limits.recovery < 1.0 else ({}, ())  # no measure is above 1
    above = _above(case, measured[0])
    said = {"recovery": f" ({some(above)})"} if above else {}
    beyond = [each for each in _findings(case, *measured) if not each.ok]
    return [replace(each, asked=f"{each.asked}{said.get(each.limit, '')}") for each in beyond]


def _widths(plan: Plan, fit: Fit) -> list[Any]:
    """Widths with which the plan may come out: one, or the plan's bounds where it follows from the data."""
    if protocols.widths_from(plan.parties, fit) != "data":
        return [fit.gamma]
    low, high = plan.gamma
    return [low, math.sqrt(low) * math.sqrt(high), high]  # their product may be no number


def _leaves(case: Case, *, is_known: bool) -> Iterator[Leaving]:
    """Everything that leaves under one width, known or a bound of it, with what an attacker sees of some rows."""
    plan, fit, name, table, rows = case.plan, case.fit, case.name, case.table, case.rows
    T, center, members = len(table.X), plan.center, f"{plan.center} and all who get the result"
    yield from _of_ids(case)
    if table.covariates:
        covariates, blind = Covariates.of(table.covariates), plan.protect == "blind"
        if blind:
            covariates.check_blind()
        Q, seen = covariates.basis, _plain(covariates.basis[rows], table)
        how = "rotated with the samples" if blind else f"of every sample, in the clear to {center}"
        size = 8 * Q.shape[1] * (T + (not blind) * plan.batches * plan.batch_samples)  # else in scores of new ones
        what, clear = f"covariates {', '.join(plan.covariates[name])}, {how}", seen if case.in_the_clear else None
        yield Leaving(what, center, size, clear, beside=seen if blind else None)
    if fit.family_of(name).columns_are == "samples":
        yield Leaving(f"{UNMEASURED}: a precomputed kernel", center, 8 * T * T, _plain(table.X[rows], table))
        return
    heard, model, placed, tables = _rehearsed(case)
    own = {step: answers[name] for step, (_, answers) in heard.items()}
    small = sum(wire.size(answer) for answer in own.values() if isinstance(answer, Shape | Go | Reveal))
    yield Leaving("table size, consent and random numbers", center, small, None)
    protected = plan.protect != "none"
    if protected or plan.align == "tokens":
        size = (len(plan.parties) - 1) * wire.size(Seed(name, center, "0" * 64, "0" * 64))
        yield Leaving("random numbers from which masks and keys follow", "each other party", size, None)
    bounds = [answer for step, answer in own.items() if isinstance(heard[step][0][name], BoundsWanted)]
    if bounds or (protected and not is_known):
        what = "the power of two below which all numbers of all parties are, masked"
        yield Leaving(what, center, 16 * len(POWERS) * max(1, len(bounds)), None)
    kernel = protocols.unscaled(fit, name)
    balanced = fit.weights == BALANCED and kernel.has_width and kernel.unit_diagonal  # gamma is then its own
    if balanced or (not is_known and plan.protect != "sums"):
        masked = ", masked" * (protected and not balanced)
        what = f"mean distance between your samples, from which gamma follows{masked}"
        yield Leaving(what, center, wire.size(Statistics(name, T, table.X.shape[1], 1.0)), None)
    if plan.protect == "sums":
        yield from _sums(case, model, tables)
    else:
        yield _summary(case, own["summary"], heard["summary"][0][name], is_known=is_known)
    if "audit" in own:
        true = np.asarray(own["audit"].rows.decode())
        what, distances = f"{len(true)} true rows for an audit", own["summary"].kernel.undone(true, LEAST)
        yield Leaving(what, center, 8 * len(true) * T, _plain(true.T, table))
        yield Leaving("the distances that these rows tell", center, 0, _plain(distances.T, table))
    # In the open and under masked sums the result is made of what the center has anyway; a blind center has less.
    count, hidden = model.n_components, plan.protect == "blind"
    scores = np.asarray(to_numpy(model.scores))
    result = _plain(scores, table, None if placed is None else to_numpy(placed)[len(rows) :]) if hidden else None
    if result is not None:  # it mixes the columns of all
        n_features, mixed = min(sum(case.columns.values()), *scores.shape), _on_a_grid(case, tables)
        result = replace(result, n_features=n_features, mixed=mixed)
    yield Leaving(counted(count, "component"), members, 8 * T * count, result)
    if hidden:
        yield from _to_a_party(case, model, scores, tables)
    for owner, names in plan.covariates.items() if hidden else ():
        q = Q.shape[1] if owner == name else len(names)
        yield Leaving("result: what each covariate adds to a score", owner, 8 * q * count, None)
    # New samples are recovered as well as those of the fit, placed once more: by their scores, or by their rows. A
    # blind center may tell a made-up result of which the others' shares are nothing, and the sum is this party's.
    for batch in range(plan.batches):
        new = placed if plan.protect == "sums" else own["new/rows"].factor.decode()
        new = np.asarray(to_numpy(new))
        seen_new = None if batch else _plain(new[: len(rows)], table, new[len(rows) :])
        what = f"batch {batch + 1} of new samples" + ", measured as if the others' shares hid nothing" * hidden
        yield Leaving(what, center, 8 * plan.batch_samples * count, seen_new)


def _of_ids(case: Case) -> Iterator[Leaving]:
    """What is sent to find the samples that all parties have."""
    plan, T, center = case.plan, len(case.table.X), case.plan.center
    if plan.align == "tokens":
        yield Leaving("keyed tokens of the sample ids", center, 16 * T, None)
    if plan.align == "psi":
        J, after = len(plan.parties), plan.parties[(plan.parties.index(case.name) + 1) % len(plan.parties)]
        what = f"blinded sample ids, in a ring of {J} rounds (each party runs once a round)"
        is_padded = case.fit.lacking not in ("mean", "complete")
        length = 1 << max(0, T - 1).bit_length() if is_padded else T
        yield Leaving(what, f"{after}, and on to {center}", 32 * J * length, None)


def _on_a_grid(case: Case, tables: Mapping[str, Matrix], reader: str = "") -> Matrix:
    """Columns of the others, but for one that reads, of so few digits that they can be found as the own ones are."""
    others = [Z[: len(case.rows)] for each, Z in tables.items() if each not in (case.name, reader)]
    return np.hstack([np.empty((len(case.rows), 0)), *(Z[:, recovery.on_grid(Z)] for Z in others)])


def _to_a_party(case: Case, model: FusedModel, scores: Matrix, tables: Mapping[str, Matrix]) -> Iterator[Leaving]:
    """What a party makes of a blind result: it knows its own part, and so that of the rest. The largest counts."""
    # Scores are V sqrt(lambda) = K V / sqrt(lambda), and K is the sum of the K_j = A_j A_j' of all parties.
    V, found = np.asarray(to_numpy(model.eigenvectors)), dict[str, Matrix]()
    lengths = np.maximum(np.linalg.norm(scores, axis=0), 1e-300)
    for each in set(case.plan.result_to) & set(case.plan.parties) - {case.name}:
        A = np.asarray(to_numpy(model.summaries[each].factor.decode()))
        share = model.weights[each] * (A @ (A.T @ V)) / lengths
        found[each] = share - share.mean(axis=0)
    if found:
        other = max(sorted(found), key=lambda each: float(np.linalg.norm(found[each])))
        rest = _plain(scores - found[other], case.table)
        seen = replace(rest, n_features=scores.shape[1], mixed=_on_a_grid(case, tables, other))
        yield Leaving(f"the components less the part of {other}", other, 0, seen)


def _summary(case: Case, summary: Summary, asked: SummaryWanted, *, is_known: bool) -> Leaving:
    """What a party sends in the open or to a blind center; its summary is given as the rehearsal made it."""
    table, rows, T = case.table, case.rows, len(case.table.X)
    blind, undone_by = case.plan.protect == "blind", case.undone_by
    within = case.summarizes_within
    alone = Party(case.name, lambda _: table.X, (case.name,), "review", b"", limits=within)

    def message(asked: SummaryWanted) -> Summary:
        about = (asked, T, within.rank, *table.columns)
        if about not in case.made:
            case.made[about] = alone.answer(asked)
        summary: Summary = case.made[about]
        return summary

    if len(rows) < T and (undone_by or not blind):  # the message itself is made of the whole table
        summary = message(asked)
    # The rotated message itself, which is refused where the kernel would hand the rotation over.
    sent = message(replace(asked, blind=True)) if blind and is_known else summary
    what = f"{'rotated factor' if blind else 'summary'} of rank {sent.rank}"
    if blind:
        what += f", whose rotation {undone_by} may give away" * bool(undone_by)
        what += ", whose rows are mixtures of all samples" * (not undone_by)
    # With another party's columns and known rows a center undoes the rotation (experiments/public_columns.py), or
    # with the eigenvectors of a joint matrix that another study told.
    shown = recovery.seen_in(summary, rows if summary.n_samples == T else np.arange(len(rows)))
    beside = _plain(shown.factor, table) if blind else None
    seen_now = None if blind and not undone_by else shown
    F = sent.factor.decode()  # a rotated one was centered before
    kept = float(np.sum((F - F.mean(axis=0) if case.fit.center and not sent.turned else F) ** 2))
    share = kept / max(kept + sent.trace_left_out, 1e-300)
    what += f", with {in_percent(share)} of the variance of your kernel matrix"
    return Leaving(what, case.plan.center, wire.size(sent), seen_now, 0 if blind else sent.rank, share, beside)


def _sums(case: Case, model: FusedModel, tables: Mapping[str, Matrix]) -> Iterator[Leaving]:
    """What the center holds under masked sums: inner products or distances over all columns, whatever the width."""
    plan, n_samples = case.plan, len(case.table.X)
    (joined,) = model.summaries.values()
    added = quantities.of_fit(joined.kernel, n_samples, case.fit.n_landmarks, case.fit.precision)
    size = sum(added.count(piece) for piece in added.pieces) * added.bits // 8 + 8 * n_samples * added.lengths
    n_rows, n_features = joined.n_samples, sum(case.columns.values())
    what, kernel = "inner products" if added.lengths else "distances", joined.kernel
    if case.fit.standardize and kernel.columns_are == "quantities":
        tables = {each: standardized(Z, *column_scales(Z[:n_rows])) for each, Z in tables.items()}
    yield from _of_the_rest(case, model, tables)
    if n_features < n_samples:
        # Others' columns on a grid are found in the sums, as the own ones are: they hide nothing.
        tables = {each: Z if each == case.name else Z * ~recovery.on_grid(Z) for each, Z in tables.items()}
    apart = {each: _distances(kernel, Z, n_rows) for each, Z in tables.items()}
    total = np.sum([*apart.values()], axis=0)
    found = recovery.points(total[:n_rows])
    others = recovery.placed(found, total[:n_rows], total[n_rows:])
    seen = Seen(found, Linear(), 0.0, n_features, others)
    yield Leaving(f"masked sums: the joint {what}", plan.center, size, seen)
    # Its similar pairs are steps of paths, and its kernel says which columns are categories; its independent
    # components are those of the distances.
    matrix = replace(recovery.seen_in(joined, np.arange(n_rows)), n_features=0)
    yield Leaving("the joint kernel matrix, computed from these sums", plan.center, 0, matrix)
    known = sorted(set(case.limits.public) & set(plan.parties) - {case.name})
    if not known:
        return
    # A center that has another party's columns subtracts what these add.
    own = apart[case.name]
    alone, found = f"your own {what}, less what the columns of {', '.join(known)} add", recovery.points(own[:n_rows])
    others = recovery.placed(found, own[:n_rows], own[n_rows:])
    yield Leaving(alone, plan.center, 0, _plain(found, case.table, others))


def _of_the_rest(case: Case, model: FusedModel, tables: Mapping[str, Matrix]) -> Iterator[Leaving]:
    """What the party with most columns makes of the result of masked sums: it takes its own distances off."""
    (joined,), S = model.summaries.values(), np.asarray(to_numpy(model.scores))
    others = sorted(set(case.plan.result_to) & set(case.plan.parties) - {case.name})
    if not others:
        return
    # Scores are V sqrt(lambda): S S' is the centered joint matrix but for what the other components have. Its means,
    # which nobody is told, are given.
    K, kernel = S @ S.T, joined.kernel
    if not kernel.adds_up:
        F = np.asarray(to_numpy(joined.factor.decode()))
        means = kernel.finish(F @ F.T).mean(axis=0) if kernel.sends_diagonal else (F @ F.T).mean(axis=0)
        K += means + means[:, None] - means.mean()
    other = max(others, key=lambda each: case.columns[each])
    apart = kernel.alone().squared_distances(K, LEAST) - _distances(kernel, tables[other], len(S))[: len(S)]
    seen = Seen(recovery.points(apart), Linear(), 0.0, sum(case.columns.values()) - case.columns[other])
    yield Leaving(f"the distances that the components show, less those of {other}", other, 0, seen)


def _distances(kernel: Kernel, Z: Matrix, n_rows: int) -> Matrix:
    """Squared distances of a party's rows from those that are attacked, the first, as the kernel sees them."""
    if kernel.unit_diagonal:
        return quantities.Compared(kernel, Z[:n_rows], Z[:n_rows]).between(Z, Z[:n_rows])
    Z = Z - Z[:n_rows].mean(axis=0)  # which changes no distance, and keeps its digits
    lengths = np.array([kernel.partial(row, row).item() for row in Z[:, None]])  # |x - y|^2 = |x|^2 + |y|^2 - 2 x'y
    return np.asarray(lengths[:, None] + lengths[None, :n_rows] - 2.0 * np.asarray(kernel.partial(Z, Z[:n_rows])))


def _rehearsed(case: Case) -> tuple[Heard, FusedModel, Any, dict[str, Matrix]]:
    """Run the protocols of the plan in this process, with stand-ins for the others' columns; return all tables, too.

    The result of a blind fit is that of an open one by the sum law, in which further rows are placed as new samples.
    """
    plan, name, n_rows, hidden = case.plan, case.name, len(case.rows), case.fit.protect != "none"
    X = case.table.X[np.concatenate([case.rows, case.more if hidden else case.more[:0]])]
    fit = replace(case.fit, lacking=None)  # here nobody lacks any
    fit = replace(fit, protect="none", law="sum") if fit.protect == "blind" else fit
    _, widest = max((case.columns[each], each) for each in plan.parties)
    if len(X) * sum(case.columns.values()) > MOST_NUMBERS:
        raise InputError(f"{widest!r} says that it has {case.columns[widest]:,} columns, too many for a review")
    random = np.random.default_rng([2027, len(X)])  # no stream that a table was made with
    # One order for all others: together they vary in no more ways than the own columns, as real ones may.
    rows = {ALIKE: random.permutation(len(X)), COPIES: np.arange(len(X))}.get(case.others)
    parties, tables = {}, {}
    for each in plan.parties:
        Z = X if each == name else random.normal(size=(len(X), case.columns[each]))
        kernel, columns_are = protocols.unscaled(fit, each), fit.family_of(name).columns_are
        takes_own = kernel.columns_are == columns_are and (not kernel.of_counts or X.min() >= 0)
        if each != name and rows is not None and takes_own:
            Z = X[rows][:, np.arange(Z.shape[1]) % X.shape[1]]
        elif each != name:
            Z = _independent(kernel, Z, X)
        opened: Any = lambda *_, Z=Z[:n_rows]: Z  # noqa: E731
        again: Any = opened if case.fit.protect == "sums" else lambda *_, Z=Z: Z
        about = (each, opened, plan.parties, "review", each.encode(), each.encode())
        parties[each] = Party(*about, again, limits=case.summarizes_within if each == name else ANYTHING)
        tables[each] = Z
    heard: Heard = {}
    drive = partial(in_process.drive, parties=parties, compute=Compute(n_jobs=1), heard=heard)
    terms = Terms("review", columns=case.columns, study=True)
    model = drive(protocols.fit(plan.parties, fit, terms))[0]
    wanted = plan.batches or (case.fit.protect == "blind" and len(X) > n_rows)
    placed_again = drive(protocols.place(plan.parties, fit, model, "new", terms))[0] if wanted else None
    return heard, model, placed_again, tables


def _independent(kernel: Kernel, Z: Matrix, own: Matrix) -> Matrix:
    """Columns that have nothing to do with anybody's, as the kernel of their party takes them."""
    # Their spread is 1, or that of the party's own columns if it is smaller: beside larger ones its own would vanish.
    if kernel.columns_are == "samples":
        return np.asarray(Z @ Z.T)
    if kernel.columns_are == "categories":
        return np.asarray(np.floor(2.0 * Z))
    size = float(np.max(np.abs(own), initial=0.0)) or 1.0  # first, since squares may overflow
    spread = float(np.sqrt(np.mean(np.std(own / size, axis=0) ** 2)))
    if kernel.of_counts:  # (x - y)^2 / (x + y): a spread counts as a share of the level
        level = float(np.mean(np.abs(own / size)))
        return np.abs(Z) * (min(1.0, size * spread * min(1.0, spread / level)) or 1.0)
    return Z * (min(1.0, size * spread) or 1.0)


def _plain(factor: Matrix, table: OwnTable, others: Matrix | None = None) -> Seen:
    """Numbers that are seen as they are, and those of others; of size one, since squares of large ones overflow."""
    size = float(np.max(np.abs(factor), initial=0.0)) or 1.0
    others = None if others is None else np.clip(others / size, -recovery.WILD, recovery.WILD)
    return Seen(factor / size, Linear(), 0.0, table.X.shape[1], others)


def _left_before(case: Case) -> list[tuple[Seen, bool]]:
    """What earlier studies let out about these rows, zeros for others; and whether columns may weigh otherwise."""
    found = []
    for (about, arrays), again in zip(case.before, case.again, strict=True):
        if not case.shares(about):
            continue
        rows = [place for place, row in enumerate(case.rows) if row in again]
        reweighted = case.fit.standardize or about["standardize"]  # as other samples have other deviations
        for factor in arrays.values():
            here = np.zeros((len(case.rows), factor.shape[1]))
            here[rows] = factor[[again[row] for row in case.rows[rows]]]
            found.append((_plain(here, case.table), reweighted))
    return found


def _findings(case: Case, columns: Mapping[str, float], leaving: Sequence[Leaving]) -> tuple[Finding, ...]:
    plan, fit, limits, table = case.plan, case.fit, case.limits, case.table
    worst, rank = _largest(case, columns), max((each.rank for each in leaving), default=0)
    before = [about for about, _ in case.before]
    sent = plan.covariates.get(case.name, ()) if case.in_the_clear else ()
    willing = limits.recovery >= 1.0 or set(sent) <= set(limits.covariates)
    masked, strangers = case.summed_otherwise(table), sorted(set(limits.public) - set(plan.parties))
    unknown = [name for name in limits.recoverable if not table.named([name])]
    finer = PRECISIONS.index(fit.precision) <= PRECISIONS.index(limits.precision)
    fewest = min(plan.samples, plan.batch_samples if plan.batches else plan.samples)
    return (
        Finding("recovery", limits.recovery, round(worst, 2), worst <= limits.recovery),
        Finding("samples", f"at least {limits.samples}", fewest, fewest >= limits.samples),
        Finding("precision", limits.precision, fit.precision, finer or plan.protect != "none"),
        Finding("rank", limits.rank, rank or "no unprotected factor", rank <= limits.rank),
        Finding("audit_rows", limits.audit_rows, fit.audit or 0, (fit.audit or 0) <= limits.audit_rows),
        Finding("batches", limits.batches, plan.batches, plan.batches <= limits.batches),
        Finding("protect", ", ".join(limits.protect), plan.protect, plan.protect in limits.protect),
        Finding("covariates", ", ".join(limits.covariates) or "none", ", ".join(sent) or "none", willing),
        Finding("studies", limits.studies, len(before) + 1, len(before) + 1 <= limits.studies),
        *(Finding("public", f"one of {', '.join(plan.parties)}", each, ok=False, file="") for each in strangers),
        *(Finding("recoverable", "a column of the table", each, ok=False, file="") for each in unknown),
        Finding(SUMMED_OTHERWISE, 0, masked, not masked, file=""),
    )


def _nearest(case: Case) -> str:
    """Name the first of a few changes that makes the plan green; empty: none does."""
    fit, plan, limits = case.fit, case.plan, case.limits
    precision = PRECISIONS[min(PRECISIONS.index(fit.precision), PRECISIONS.index(limits.precision))]
    audit = fit.audit if (fit.audit or 0) <= limits.audit_rows else None
    samples, size = max(plan.samples, limits.samples), max(plan.batch_samples, limits.samples)
    within = [f"precision {precision}"] * (precision != fit.precision) + ["no audit"] * (audit != fit.audit)
    within += [f"with at least {samples} samples"] * (samples != plan.samples)
    blind = {"protect": "blind", "rank": "auto", "law": "sum"}
    tries: dict[str, dict[str, Any]] = {
        "the same plan": {},
        f"rank: recovery={limits.recovery:g}": {"rank": Recovery(limits.recovery, limits.known_rows)},
        "protect: blind, law: sum": blind,
        "protect: blind, law: sum, components: 1": blind | {"n_components": 1},
    }
    for batches, words in product(dict.fromkeys((min(plan.batches, limits.batches), 0)), tries):
        with suppress(DKPCAError):  # settings that exclude each other
            other = replace(fit, precision=precision, audit=audit, **tries[words])
            numbers: dict[str, Any] = {"samples": samples, "batches": batches, "batch_samples": size}
            near = replace(plan, **numbers, fit={**plan.fit, "protect": other.protect})
            changed = replace(case, fit=other, plan=near)
            if all(each.ok for each in _findings(changed, {}, ())):  # else red, whatever is measured
                measured = _worst(changed)
                too_few = 0 < max((each.rank for each in measured[1]), default=0) < min(2, other.n_components or 2)
                if all(each.ok for each in _findings(changed, *measured)) and not too_few:
                    some = f"with {batches} batch{'es' * (batches > 1)} of at least {size} samples"
                    same = batches == plan.batches and (not batches or size == plan.batch_samples)
                    said = [some if batches else "without batches"] * (not same)
                    shares = [each.share for each in measured[1] if each.rank]
                    less = f" (your summary then has {in_percent(shares[0])} of the variance)" if shares else ""
                    return ", ".join([words + less, *within, *said])
    return ""
