"""What a study would make of a party's table: all that would leave, what could be rebuilt from it, red or green.

The plan is run on the party's own table. Where the center sees a joint matrix (`protect="sums"`), or the members a
result, the other parties' columns are simulated as independent ones, under the kernels that the plan gives them: a
kernel that makes the others constant, or too narrow, leaves this party's numbers alone in the sum, and shows here.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkpca import party, wire
from dkpca.errors import DKPCAError
from dkpca.exchange import protocols
from dkpca.exchange.identity import shown
from dkpca.exchange.memory import Memory, StudyMemory, write
from dkpca.exchange.own_table import OwnTable
from dkpca.exchange.plan import Plan, Study
from dkpca.kernels import Kernel, Linear
from dkpca.kernels.combination import combination
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.deviations import column_scales, standardized
from dkpca.party import recovery
from dkpca.party.limits import PRECISIONS, Limits
from dkpca.party.questions import Derived
from dkpca.party.recovery import Matrix, Seen
from dkpca.rank import Recovery
from dkpca.settings import Fit
from dkpca.wording import in_bytes

SHARED = 0.5  # share of common samples from which two masked sums are about nearly the same ones
LEFT, ABOUT = "left.npz", "left.json"  # what a signed study lets out, for the union with later ones
SHOWN_COLUMNS = 8


@dataclass(frozen=True)
class Leaving:
    """One thing that leaves, or is made known by it: who reads it, and what an attacker sees in it."""

    what: str
    to: str
    bytes: int
    seen: Seen | None  # None: nothing without the other parties' help


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
        }

    def words(self) -> list[str]:
        """One screen for a person."""
        plan = self.study.plan
        lines = [f"Study of {', '.join(plan.parties)}; {plan.center} fuses; until {plan.ends}.", ""]
        lines += [f"  {each.what}, to {each.to}: {in_bytes(each.bytes)}" for each in self.leaving]
        worst = sorted(self.columns.items(), key=lambda item: -item[1])[:SHOWN_COLUMNS]
        lines += ["", "Recovered by somebody who knows some rows, from all that leaves and ever left (R²):"]
        lines += [f"  {name}: {value:.2f}" for name, value in worst]
        lines += [""]
        for finding in self.findings:
            word = "green" if finding.ok else "RED  "
            lines.append(f"{word} {finding.limit}: {finding.asked} (limits.toml: {finding.allowed})")
        if self.nearest:
            lines.append(f"Nearest plan within your limits: {self.nearest}.")
        verdict = "GREEN: you may sign." if self.green else "RED: 'sign' refuses this plan."
        return [*lines, "", f"Fingerprint: {shown(self.study.fingerprint)}", verdict]


def review(study: Study, name: str, memory: Memory, table: OwnTable, limits: Limits, fit: Fit) -> Review:
    """Measure a study against a party's limits; nothing leaves."""
    plan = study.plan
    columns = {party: study.members[party].columns for party in plan.parties}
    worst, leaving = _worst(plan, fit, name, columns, table, limits, memory)
    findings = _findings(plan, fit, leaving, max(worst.values(), default=0.0), limits, memory, table, name)
    green = all(finding.ok for finding in findings)
    nearest = "" if green else _nearest(plan, fit, name, columns, table, limits, memory)
    return Review(study, leaving, worst, findings, nearest)


def keep(memory: StudyMemory, found: Review, table: OwnTable) -> None:
    """Keep what the study would let out, so that later reviews measure the union with it once this one is signed."""
    factors = [each.seen.factor for each in found.leaving if each.seen is not None]
    rows = recovery.some_rows(len(table.X))
    keys = [str(row) for row in rows] if table.keys is None else [table.keys[row] for row in rows]
    plan = found.study.plan
    about = {"parties": plan.parties, "protect": plan.protect, "keys": keys, "columns": dict(found.columns)}
    arrays = {f"factor{number}": factor.astype(np.float32) for number, factor in enumerate(factors)}
    memory.replace(f"reviewed-{ABOUT}", json.dumps(about).encode())
    write(memory.path / f"reviewed-{LEFT}", lambda file: np.savez(file, allow_pickle=False, **arrays))


def commit(memory: StudyMemory) -> None:
    """Count what was reviewed as left, before the signature lets it."""
    for name in (LEFT, ABOUT):
        memory.replace(name, memory.kept(f"reviewed-{name}") or b"")


def _worst(
    plan: Plan, fit: Fit, name: str, columns: Mapping[str, int], table: OwnTable, limits: Limits, memory: Memory
) -> tuple[dict[str, float], tuple[Leaving, ...]]:
    """R squared by column, the worst over the widths that the plan allows; and what leaves at that width."""
    rows = recovery.some_rows(len(table.X))
    before = _left_before(memory, plan.id, table, rows)
    # What was recovered from earlier studies stays so, however this one is attacked.
    earlier = [about["columns"] for about, _ in _studies_before(memory, plan.id)]
    found = {name: max(each.get(name, 0.0) for each in earlier) for name in table.columns} if earlier else {}
    leaving: tuple[Leaving, ...] = ()
    for gamma in _widths(plan, fit, columns, len(table.X)):
        now = tuple(_leaves(plan, replace(fit, gamma=gamma), name, columns, table, rows))
        seen = [each.seen for each in now if each.seen is not None]
        values = _recovered([*seen, *before], table.X[rows], limits.known_rows)
        here = dict(zip(table.columns, values, strict=True))
        if not leaving or max(here.values()) > max(found.values()):
            leaving = now
        found = {column: max(value, found.get(column, 0.0)) for column, value in here.items()}
    return found, leaving


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
        table, X=table.X[list(rows)], keys=None if table.keys is None else [table.keys[row] for row in rows]
    )
    widths = {each: kernel.gamma for each, kernel in derived.kernels.items() if hasattr(kernel, "gamma")}
    known = isinstance(fit.gamma, str) and fit.protect != "sums" and bool(widths)
    found, _ = _worst(plan, replace(fit, gamma=widths) if known else fit, name, derived.columns, part, limits, memory)
    return max(found.values(), default=0.0)


def _widths(plan: Plan, fit: Fit, columns: Mapping[str, int], n_samples: int) -> list[Any]:
    """Widths with which the plan may come out."""
    if not any(each.has_width for each in fit.families()) or isinstance(fit.gamma, float | int | Mapping):
        return [fit.gamma]
    total = sum(columns.values())
    if fit.gamma is None:
        return [1.0 / total]
    if fit.standardize:  # the mean squared distance of a standardized column is 2 T / (T - 1)
        return [(n_samples - 1) / (2.0 * n_samples * total)]
    low, high = plan.gamma
    return [low, math.sqrt(low * high), high]


def _leaves(
    plan: Plan, fit: Fit, name: str, columns: Mapping[str, int], table: OwnTable, rows: Matrix
) -> Iterator[Leaving]:
    """Everything that leaves under one width, with what an attacker sees of some rows."""
    T, members = len(table.X), f"{plan.center} and all who get the result"
    kernels = _kernels(plan, fit, columns, T)
    if plan.align == "tokens":
        yield Leaving("keyed tokens of the sample ids", plan.center, 16 * T, None)
    if kernels[name].columns_are == "samples":
        yield Leaving(
            "what cannot be measured: a precomputed kernel", plan.center, 8 * T * T, _everything(table, rows)
        )
        return
    joint = _joint(kernels, fit, name, columns, table.X[rows])
    if plan.protect == "none":
        summary, _ = party.summarize(
            table.X,
            party=name,
            kernel=kernels[name],
            rank=fit.rank_rule,
            precision=fit.precision,
            solver=fit.solver,
            standardize=fit.standardize,
            law=fit.law,
        )
        yield Leaving(
            f"summary of rank {summary.rank}", plan.center, wire.size(summary), recovery._seen(summary, rows)
        )
    elif plan.protect == "sums":
        values, vectors = np.linalg.eigh(joint)
        factor = vectors * np.sqrt(np.clip(values, 0.0, None))
        seen = Seen(factor, kernels[name] if fit.law is None else Linear(), 0.0, sum(columns.values()))
        yield Leaving("masked sums: the joint matrix", plan.center, 4 * T * T, seen)
    else:
        yield Leaving("turned factor: no row of it is a sample", plan.center, 4 * T * min(T, 100), None)
    if fit.audit:
        X = _measured(table.X, fit)
        some = np.sort(np.random.default_rng(0).permutation(len(rows))[: fit.audit])
        true = to_numpy(kernels[name](X[rows], X[rows][some]))
        yield Leaving(f"{fit.audit} true rows for an audit", plan.center, 4 * fit.audit * T, _plain(true, table))
    count = int(fit.n_components) if fit.n_components is not None and fit.n_components >= 1 else len(rows) // 2
    # In the open and under masked sums the result is made of what the center has anyway; a blind center has less.
    result = _plain(_scores(joint, count), table) if plan.protect == "blind" else None
    yield Leaving(f"result: {count} components", members, 8 * T * count, result)
    for batch in range(plan.batches):
        yield Leaving(f"batch {batch + 1} of new samples", plan.center, 8 * plan.batch_samples * count, None)


def _kernels(plan: Plan, fit: Fit, columns: Mapping[str, int], n_samples: int) -> dict[str, Kernel]:
    """Kernel of each party; every width is given, so that nobody is asked."""
    if fit.protect == "sums":
        made, derived = protocols.joint_kernel(plan.parties, fit)
        return dict.fromkeys(plan.parties, replace(made, gamma=fit.gamma) if derived else made)  # type: ignore
    shape = protocols.Common(n_samples, "", columns)
    widths = protocols.known_widths(plan.parties, fit, protocols.Terms(""), shape)
    assert widths is not None, "every width is given"
    return protocols.kernels_of(plan.parties, fit, widths)


def _joint(kernels: Mapping[str, Kernel], fit: Fit, name: str, columns: Mapping[str, int], X: Matrix) -> Matrix:
    """Joint matrix of this party's rows and independent columns in the place of the others'."""
    random, parts = np.random.default_rng(0), []
    for each, kernel in kernels.items():
        Z = _measured(X, fit) if each == name else random.normal(size=(len(X), columns[each]))
        Z = np.abs(Z) if kernel.name == "chi2" and each != name else Z
        parts.append(to_numpy(kernel(Z, Z)))
    diagonals = [np.diag(part) for part in parts]
    return np.asarray(combination(kernels, fit.law).law.combine(parts, diagonals, diagonals))


def _scores(joint: Matrix, count: int) -> Matrix:
    centered = joint - joint.mean(axis=0)
    centered = centered - centered.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(0.5 * (centered + centered.T))
    return np.asarray((vectors * np.sqrt(np.clip(values, 0.0, None)))[:, ::-1][:, :count])


def _measured(X: Matrix, fit: Fit) -> Matrix:
    return np.asarray(to_numpy(standardized(X, *column_scales(X)))) if fit.standardize else X


def _plain(factor: Matrix, table: OwnTable) -> Seen:
    return Seen(factor, Linear(), 0.0, min(table.X.shape[1], len(factor)))


def _everything(table: OwnTable, rows: Matrix) -> Seen:
    return _plain(np.asarray(table.X[rows]), table)


def _recovered(seen: Sequence[Seen], X: Matrix, known_rows: int) -> list[float]:
    """R squared by column of the strongest attack on each thing that was seen, and on all of them side by side."""
    if not seen:
        return [0.0] * X.shape[1]
    union = [_scaled(each.factor) for each in seen]
    attacked = list(seen)
    if len(union) > 1:
        attacked.append(Seen(np.hstack(union), Linear(), 0.0, min(X.shape[1], len(X))))
    found = [recovery.against(each, X, known_rows=known_rows).columns for each in attacked]
    return [float(value) for value in np.max(found, axis=0)]


def _scaled(factor: Matrix) -> Matrix:
    size = float(np.abs(factor).max(initial=0.0))
    return factor / size if size > 0 else factor


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
    name: str,
) -> tuple[Finding, ...]:
    rank = max((each.seen.factor.shape[1] for each in leaving if "rank" in each.what and each.seen), default=0)
    before = [about for about, _ in _studies_before(memory, plan.id)]
    keys = set(table.keys or [str(row) for row in range(len(table.X))])
    masked = [
        about
        for about in before
        if plan.protect != "none"
        and about["protect"] != "none"
        and set(about["parties"]) != set(plan.parties)
        and len(keys & set(about["keys"])) >= SHARED * len(about["keys"])
    ]
    finer = PRECISIONS.index(fit.precision) <= PRECISIONS.index(limits.precision)
    return (
        Finding("recovery", limits.recovery, round(worst, 2), worst <= limits.recovery),
        Finding("samples", f"at least {limits.samples}", plan.samples, plan.samples >= limits.samples),
        Finding("precision", limits.precision, fit.precision, finer or plan.protect != "none"),
        Finding("rank", limits.rank, rank, rank <= limits.rank),
        Finding("audit_rows", limits.audit_rows, fit.audit or 0, (fit.audit or 0) <= limits.audit_rows),
        Finding("batches", limits.batches, plan.batches, plan.batches <= limits.batches),
        Finding("protect", ", ".join(limits.protect), plan.protect, plan.protect in limits.protect),
        Finding("studies", limits.studies, len(before) + 1, len(before) + 1 <= limits.studies),
        Finding("masked sums with other rosters on the same samples", 0, len(masked), not masked),
    )


def _nearest(
    plan: Plan, fit: Fit, name: str, columns: Mapping[str, int], table: OwnTable, limits: Limits, memory: Memory
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
        found = _findings(changed, other, leaving, top, limits, memory, table, name)
        if all(finding.ok for finding in found):
            said = [words, f"precision {precision}" if precision != fit.precision else ""]
            said += [
                "no audit" if audit != fit.audit else "",
                f"at least {plan.samples} samples",
                f"{plan.batches} batches",
            ]
            return ", ".join(part for part in said if part)
    return ""
