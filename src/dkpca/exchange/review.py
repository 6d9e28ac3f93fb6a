"""What a study would make of a party's table, red or green: the worst of all that could be rebuilt from what leaves.

A plan that cannot be rehearsed counts as if it told everything. What could be recovered if nothing hid the party's
own part is only shown.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from dkpca.errors import DKPCAError
from dkpca.exchange import earlier, protocols
from dkpca.exchange.earlier import Earlier, Samples
from dkpca.exchange.identity import shown
from dkpca.exchange.leaving import (
    ALIKE,
    COPIES,
    INDEPENDENT,
    UNMEASURED,
    Case,
    Leaving,
    leaves,
    left_before,
    plain,
)
from dkpca.exchange.own_table import told_apart
from dkpca.exchange.plan import Plan, Study
from dkpca.party import recovery
from dkpca.party.limits import PRECISIONS
from dkpca.party.questions import Derived
from dkpca.rank import Recovery
from dkpca.settings import Fit
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
SHOWN_COLUMNS = 8  # or more, if more are above the limit
NEAR = 0.8  # of a limit
HALVES = 4  # of the samples that a green plan is measured on once more
LITTLE = 0.2  # of the variance
COUNTED = (INDEPENDENT, ALIKE)


@dataclass(frozen=True)
class Finding:
    """One limit, and whether the plan keeps it."""

    limit: str
    allowed: Any
    asked: Any
    ok: bool
    file: str = "limits.toml"  # which says what is allowed; empty: dkpca itself
    columns: tuple[str, ...] = ()  # that exceed it

    def words(self) -> str:
        """One line."""
        allowed = f"{self.file}: {self.allowed}" if self.file else f"must be {self.allowed}"
        return f"{'green' if self.ok else 'RED  '} {self.limit}: {self.asked} ({allowed})"

    def reason(self) -> str:
        """Why a party refuses."""
        which = f" ({some(self.columns)})" if self.columns else ""
        return f"{self.limit} {self.asked}{which}, where {self.file or 'dkpca'} allows {self.allowed}"


@dataclass(frozen=True)
class Review:
    """What a person decides on."""

    study: Study
    leaving: tuple[Leaving, ...]
    columns: Mapping[str, float]  # R squared by column, from the union of all that leaves and ever left
    findings: tuple[Finding, ...]
    nearest: str  # the nearest plan that is green; empty if this one is, or none is known
    case: Case | None = None  # of a party; the center has none
    at_worst: float | None = None  # R squared where the others' columns hide nothing; None: they are not to hide any
    relies: bool = False  # whether that is above the limit in a column that may not be recovered
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
        free = len(self.case.free) if self.case else 0
        given = f", with {counted(free, 'column')} that may become known" * bool(free)
        only_if = ", if that assumption holds" * self.relies
        unsure = f", but {counted(len(self.elsewhere), 'column')} may exceed your limit in the study" * bool(
            self.elsewhere
        )
        verdict = f"GREEN{given}{only_if}{unsure}" if self.green else "RED"
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
            yield f"On random halves of your samples, these come near your limit or exceed it: {found}. If one"
            yield f"exceeds it on the samples that all parties have, 'run' refuses before any data leave: {DECIDE}."

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


def review(case: Case, study: Study) -> Review:
    """Measure a study against a party's limits; nothing leaves. With other columns than it joined with it is red."""
    worst, leaving = _worst(case)
    findings = _findings(case, worst, leaving)
    nearest, here = "", "the same plan"
    beyond = {finding.limit for finding in findings if not finding.ok}
    idle = any(not each.sent_numbers() for each in earlier.studies(case.memory, case.plan.id).values())
    to_close = idle and not beyond.isdisjoint({"recovery", "studies"})
    if beyond:
        nearest = here = "" if to_close else _nearest(case)
    joined, now = study.members[case.name].columns, case.columns[case.name]
    if now != joined:
        findings += (Finding("columns", f"{joined}, with which you joined", now, ok=False, file=""),)
        nearest = here and f"{here}, once {study.plan.center} has written it as the next plan and you have joined it"
    hidden = case.plan.protect != "none"
    # A member whose table is copies of any v gets a component near (K_own + K_others) v: known rows aim v at a
    # column. Where the others hide nothing, no aim tells more than K_own itself, measured as if it were sent.
    exposed = replace(case, limits=replace(case.limits, public=case.plan.parties))
    exposes = _worst(exposed, COPIES)[0] if hidden else {}
    at_worst = max(exposes.values(), default=0.0) if hidden else None
    elsewhere = {} if beyond - {"recovery"} or case.limits.recovery >= 1.0 else _on_halves(case, worst)
    relies = bool(_above(case, exposes))
    columns = worst | dict.fromkeys(case.in_the_clear, 1.0)
    found = None if case.fit.standardize else protocols.unscaled(case.fit, case.name).dominant_column(case.table.X)
    dominant = "" if found is None else f"{case.table.columns[found[0]]!r} makes up {in_percent(found[1])}"
    return Review(study, leaving, columns, findings, nearest, case, at_worst, relies, to_close, dominant, elsewhere)


def _largest(case: Case, columns: Mapping[str, float]) -> float:
    """R squared of the column that is recovered best, of those that may not be."""
    return max((value for name, value in columns.items() if name not in case.free), default=0.0)


def _on_halves(case: Case, known: Mapping[str, float]) -> dict[str, float]:
    """Columns that come near the limit on a random half of the samples: at 'go' the samples are others, too."""
    T, found, random = len(case.table.X), dict[str, float](), np.random.default_rng(0)
    size = min(T, max((T + 1) // 2, case.plan.samples))
    for _ in range(HALVES):
        half = np.sort(random.permutation(T)[:size]).tolist()
        part = replace(case, table=case.table.of_rows(half), made={}, n_draws=recovery.FEW_DRAWS)
        columns, _ = _worst(part)
        found |= {name: max(value, found.get(name, 0.0)) for name, value in columns.items()}
    return {name: value for name, value in _above(case, found, NEAR).items() if name not in _above(case, known)}


def _above(case: Case, columns: Mapping[str, float], share: float = 1.0) -> dict[str, float]:
    """Columns that exceed this share of the limit, of those that may not be recovered."""
    most = share * case.limits.recovery
    return {name: value for name, value in columns.items() if value > most and name not in case.free}


def kept(found: Review, case: Case) -> Earlier:
    """Return what the study would let out, for later reviews to measure the union with."""
    names, digests, samples = case.table.samples, told_apart(case.table.rows), Samples.of(case.table)
    seen = [(f"factor{number}", each.seen) for number, each in enumerate(found.leaving)]
    seen += [(f"turned{number}", each.beside) for number, each in enumerate(found.leaving)]
    return Earlier(
        protect=case.plan.protect,
        standardize=case.fit.standardize,
        columns=dict(found.columns),
        roster=dict(case.roster),
        named_by=samples.named_by,
        numbers=samples.numbers,
        keys=[names[row] for row in case.rows],
        digests=[digests[row] for row in case.rows],
        factors={name: each.factor for name, each in seen if each is not None},
    )


def _worst(case: Case, *others: str) -> tuple[dict[str, float], tuple[Leaving, ...]]:
    """R squared by column, the worst over the plan's widths and over what the others may have; what leaves there."""
    table, before = case.table, left_before(case)
    # What was recovered from earlier studies stays so, however this one is attacked.
    ever = [study.columns for study in case.before]
    found = {name: max(columns.get(name, 0.0) for columns in ever) for name in table.columns if ever}
    # What differs between this study and another one comes out of both: two rotations hide no result.
    columns, samples = sorted([*table.columns, *case.in_the_clear]), Samples.of(table)
    told_by_two = any(sorted(each.columns) != columns or samples.renewed(each.samples) for each in case.shared)
    leaving, most_pairs = tuple[Leaving, ...](), 0
    widths, columns_are = _widths(case.plan, case.fit), case.fit.family_of(case.name).columns_are
    known = case.limits.known_rows
    attack = partial(recovery.against, columns_are=columns_are, known_rows=known, n_draws=case.n_draws)
    others = others or COUNTED[: len(COUNTED) if case.plan.protect != "none" else 1]  # in the open nobody hides it
    for gamma, stand_in in product(widths, others):
        here_case = replace(case, fit=replace(case.fit, gamma=gamma), others=stand_in)
        here = dict.fromkeys(table.columns, 0.0)
        try:
            now = tuple(leaves(here_case, is_known=len(widths) == 1))
            own = [each.seen for each in now if each.seen is not None]
            seen = own + before
            # Two full matrices X W X' with other weights W have the columns as their generalized eigenvectors.
            full = before and recovery.are_crowded(sum(each.factor.shape[1] for each in seen), len(case.rows))
            if told_by_two or full or any(each.what.startswith(UNMEASURED) for each in now):  # and no row is needed
                here = dict.fromkeys(table.columns, 1.0)
            elif seen:
                X = table.X[case.rows]
                here = dict(zip(table.columns, attack(seen, X).columns, strict=True))
                # What a column that may be recovered tells of another one counts at the other.
                free = [
                    j for j, name in enumerate(table.columns) if name in case.free and here[name] > recovery.RECOVERED
                ]
                if free:
                    told = recovery.told_by(free, X, columns_are, known)
                    of_others = {n: value for n, value in zip(here, told, strict=True) if n not in case.free}
                    here |= {name: max(here[name], value) for name, value in of_others.items()}
        except (DKPCAError, ValueError, np.linalg.LinAlgError) as error:  # as of numbers that overflow under a width
            now = (Leaving(f"{UNMEASURED}: {error}", case.plan.center, 0, plain(table.X[case.rows], table)),)
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
    return [each for each in _findings(case, *measured) if not each.ok]


def _widths(plan: Plan, fit: Fit) -> list[Any]:
    """Widths with which the plan may come out: one, or the plan's bounds where it follows from the data."""
    if protocols.widths_from(plan.parties, fit) != "data":
        return [fit.gamma]
    low, high = plan.gamma
    return [low, math.sqrt(low) * math.sqrt(high), high]  # their product may be no number


def _findings(case: Case, columns: Mapping[str, float], leaving: Sequence[Leaving]) -> tuple[Finding, ...]:
    plan, fit, limits, table = case.plan, case.fit, case.limits, case.table
    worst, above, rank = (
        _largest(case, columns),
        _above(case, columns),
        max((each.rank for each in leaving), default=0),
    )
    sent = plan.covariates.get(case.name, ()) if case.in_the_clear else ()
    willing = limits.recovery >= 1.0 or set(sent) <= set(limits.covariates)
    masked, strangers = case.singled_out_by(table), sorted(set(limits.public) - set(plan.parties))
    unknown = [name for name in limits.recoverable if not table.named([name])]
    finer = PRECISIONS.index(fit.precision) <= PRECISIONS.index(limits.precision)
    studies = len(case.before) + 1
    fewest = min(plan.samples, plan.batch_samples if plan.batches else plan.samples)
    return (
        Finding("recovery", limits.recovery, round(worst, 2), not above, columns=tuple(above)),
        Finding("samples", f"at least {limits.samples}", fewest, fewest >= limits.samples),
        Finding("precision", limits.precision, fit.precision, finer or plan.protect != "none"),
        Finding("rank", limits.rank, rank or "no unprotected factor", rank <= limits.rank),
        Finding("audit_rows", limits.audit_rows, fit.audit or 0, (fit.audit or 0) <= limits.audit_rows),
        Finding("batches", limits.batches, plan.batches, plan.batches <= limits.batches),
        Finding("protect", ", ".join(limits.protect), plan.protect, plan.protect in limits.protect),
        Finding("covariates", ", ".join(limits.covariates) or "none", ", ".join(sent) or "none", willing),
        Finding("studies", limits.studies, studies, studies <= limits.studies),
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
                    new = f"with {batches} batch{'es' * (batches > 1)} of at least {size} samples"
                    same = batches == plan.batches and (not batches or size == plan.batch_samples)
                    said = [new if batches else "without batches"] * (not same)
                    shares = [each.share for each in measured[1] if each.rank]
                    less = f" (your summary then has {in_percent(shares[0])} of the variance)" if shares else ""
                    return ", ".join([words + less, *within, *said])
    return ""
