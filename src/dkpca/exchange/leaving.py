"""What leaves in a study, and what an attacker sees in it: the plan is rehearsed on the party's own table.

The protocols of the plan are run by the same code as in the study, with stand-ins for the other parties' columns,
under the kernels that the plan gives them. Two stand-ins count: independent columns, and columns as much alike as the
party's own (its rows, shuffled).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np

from dkpca import wire
from dkpca.errors import InputError
from dkpca.exchange import earlier, in_process, protocols
from dkpca.exchange.earlier import Earlier, Samples
from dkpca.exchange.memory import Memory
from dkpca.exchange.own_table import OwnTable
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
from dkpca.party.limits import ANYTHING, Limits
from dkpca.party.questions import BoundsWanted, SummaryWanted
from dkpca.party.recovery import Matrix, Seen
from dkpca.protection import quantities
from dkpca.protection.masks import POWERS
from dkpca.rank import stated
from dkpca.settings import Compute, Fit
from dkpca.wording import counted, in_percent

UNMEASURED = "something that cannot be measured"  # and counts as recovered
LEAST = 1e-300  # kernel value that tells a distance
MOST_ROWS, FEWEST_ROWS = 3000, 200  # of all parties together in a rehearsal, and of each
MANY_NUMBERS, MOST_NUMBERS = 2**25, 2**27  # of a rehearsal: beyond, it has fewer rows; or is not made
INDEPENDENT, ALIKE, COPIES = "independent columns", "own rows, shuffled", "own rows"  # in the place of the others'
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
    n_draws: int = recovery.DRAWS  # of known rows
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

    @cached_property
    def _drawn(self) -> Matrix:
        if (about := ("drawn", id(self.table))) not in self.made:
            drawn = np.argsort(np.array(self.table.rows), kind="stable")
            known = np.isin(drawn, [*chain.from_iterable(self.again)])  # to be seen in other studies, too
            drawn = np.concatenate([drawn[known], drawn[~known]])
            self.made[about] = recovery.rare_first(drawn, self.table.X)
        return np.asarray(self.made[about])

    @cached_property
    def before(self) -> list[Earlier]:
        """What the other studies of this table let out, which were signed."""
        return [*map(Earlier.read, earlier.studies(self.memory, self.plan.id).values())]

    @cached_property
    def again(self) -> list[dict[int, int]]:
        """For each of them, which of the rows attacked there these rows are."""
        return [study.places(self.table) for study in self.before]

    @cached_property
    def shared(self) -> list[Earlier]:
        """Those that may have had one of these samples."""
        samples = Samples.of(self.table)
        return [study for study in self.before if samples.may_share(study.samples)]

    def singled_out_by(self, table: OwnTable) -> int:
        """Count the studies that together with this one tell one party's part of some samples of a table."""
        about = self.plan.protect, self.roster, [*self.table.columns, *self.in_the_clear], Samples.of(table)
        return sum(study.single_out(*about) for study in self.before)

    @cached_property
    def undone_by(self) -> str:
        """What may give the rotation of a blind fit away: columns, or another study of these samples."""
        known = sorted(set(self.limits.public) & set(self.plan.parties) - {self.name})
        if known:
            return f"the columns of {', '.join(known)}"
        return "another study of these samples" * bool(self.shared)

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


def leaves(case: Case, *, is_known: bool) -> Iterator[Leaving]:
    """Everything that leaves under one width, known or a bound of it, with what an attacker sees of some rows."""
    plan, fit, name, table, rows = case.plan, case.fit, case.name, case.table, case.rows
    T, center, members = len(table.X), plan.center, f"{plan.center} and all who get the result"
    yield from _of_ids(case)
    if table.covariates:
        covariates, blind = Covariates.of(table.covariates), plan.protect == "blind"
        if blind:
            covariates.check_blind()
        Q, seen = covariates.basis, plain(covariates.basis[rows], table)
        how = "rotated with the samples" if blind else f"of every sample, in the clear to {center}"
        size = 8 * Q.shape[1] * (T + (not blind) * plan.batches * plan.batch_samples)  # else in scores of new ones
        what, clear = f"covariates {', '.join(plan.covariates[name])}, {how}", seen if case.in_the_clear else None
        yield Leaving(what, center, size, clear, beside=seen if blind else None)
    if fit.family_of(name).columns_are == "samples":
        yield Leaving(f"{UNMEASURED}: a precomputed kernel", center, 8 * T * T, plain(table.X[rows], table))
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
        yield Leaving(what, center, 8 * len(true) * T, plain(true.T, table))
        yield Leaving("the distances that these rows tell", center, 0, plain(distances.T, table))
    # In the open and under masked sums the result is made of what the center has anyway; a blind center has less.
    count, hidden = model.n_components, plan.protect == "blind"
    scores = np.asarray(to_numpy(model.scores))
    result = plain(scores, table) if hidden else None
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
        seen_new = None if batch else plain(np.asarray(to_numpy(new)), table)
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
    beside = plain(shown.factor, table) if blind else None
    seen_now = None if blind and not undone_by else shown
    F = sent.factor.decode()  # a rotated one was centered before
    kept = float(np.sum((F - F.mean(axis=0) if case.fit.center and not sent.turned else F) ** 2))
    share = kept / max(kept + sent.trace_left_out, 1e-300)
    what += f", with {in_percent(share)} of the variance of your kernel matrix"
    return Leaving(what, case.plan.center, wire.size(sent), seen_now, 0 if blind else sent.rank, share, beside)


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
        rest = plain(scores - found[other], case.table)
        seen = replace(rest, n_features=scores.shape[1], mixed=_on_a_grid(case, tables, other))
        yield Leaving(f"the components less the part of {other}", other, 0, seen)


def _on_a_grid(case: Case, tables: Mapping[str, Matrix], reader: str = "") -> Matrix:
    """Columns of the others, but for one that reads, of so few digits that they can be found as the own ones are."""
    others = [Z for each, Z in tables.items() if each not in (case.name, reader)]
    return np.hstack([np.empty((len(case.rows), 0)), *(Z[:, recovery.on_grid(Z)] for Z in others)])


def _sums(case: Case, model: FusedModel, tables: Mapping[str, Matrix]) -> Iterator[Leaving]:
    """What the center holds under masked sums: inner products or distances over all columns, whatever the width."""
    plan, n_samples = case.plan, len(case.table.X)
    (joined,) = model.summaries.values()
    added = quantities.of_fit(joined.kernel, n_samples, case.fit.n_landmarks, case.fit.precision)
    size = sum(added.count(piece) for piece in added.pieces) * added.bits // 8 + 8 * n_samples * added.lengths
    n_features = sum(case.columns.values())
    what, kernel = "inner products" if added.lengths else "distances", joined.kernel
    if case.fit.standardize and kernel.columns_are == "quantities":
        tables = {each: standardized(Z, *column_scales(Z)) for each, Z in tables.items()}
    yield from _of_the_rest(case, model, tables)
    if n_features < n_samples:
        # Others' columns on a grid are found in the sums, as the own ones are: they hide nothing.
        tables = {each: Z if each == case.name else Z * ~recovery.on_grid(Z) for each, Z in tables.items()}
    apart = {each: _distances(kernel, Z) for each, Z in tables.items()}
    found = recovery.points(np.sum([*apart.values()], axis=0))
    seen = Seen(found, Linear(), 0.0, n_features, n_samples)
    yield Leaving(f"masked sums: the joint {what}", plan.center, size, seen)
    # Its similar pairs are steps of paths, and its kernel says which columns are categories.
    matrix = replace(recovery.seen_in(joined, np.arange(joined.n_samples)), n_features=0, n_samples=n_samples)
    yield Leaving("the joint kernel matrix, computed from these sums", plan.center, 0, matrix)
    known = sorted(set(case.limits.public) & set(plan.parties) - {case.name})
    if not known:
        return
    # A center that has another party's columns subtracts what these add.
    alone = f"your own {what}, less what the columns of {', '.join(known)} add"
    yield Leaving(alone, plan.center, 0, plain(recovery.points(apart[case.name]), case.table))


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
    apart = kernel.alone().squared_distances(K, LEAST) - _distances(kernel, tables[other])
    n_features = sum(case.columns.values()) - case.columns[other]
    seen = Seen(recovery.points(apart), Linear(), 0.0, n_features, len(case.table.X))
    yield Leaving(f"the distances that the components show, less those of {other}", other, 0, seen)


def _distances(kernel: Kernel, Z: Matrix) -> Matrix:
    """Squared distances of a party's rows as the kernel sees them."""
    if kernel.unit_diagonal:
        return quantities.Compared(kernel, Z, Z).between(Z, Z)
    Z = Z - Z.mean(axis=0)  # which changes no distance, and keeps its digits
    lengths = np.array([kernel.partial(row, row).item() for row in Z[:, None]])  # |x - y|^2 = |x|^2 + |y|^2 - 2 x'y
    return np.asarray(lengths[:, None] + lengths - 2.0 * np.asarray(kernel.partial(Z, Z)))


def _rehearsed(case: Case) -> tuple[Heard, FusedModel, Any, dict[str, Matrix]]:
    """Run the protocols of the plan in this process, with stand-ins for the others' columns; return all tables, too.

    The result of a blind fit is that of an open one by the sum law.
    """
    plan, name, X = case.plan, case.name, case.table.X[case.rows]
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
        opened: Any = lambda *_, Z=Z: Z  # noqa: E731
        about = (each, opened, plan.parties, "review", each.encode(), each.encode())
        parties[each] = Party(*about, opened, limits=case.summarizes_within if each == name else ANYTHING)
        tables[each] = Z
    heard: Heard = {}
    drive = partial(in_process.drive, parties=parties, compute=Compute(n_jobs=1), heard=heard)
    terms = Terms("review", columns=case.columns, study=True)
    model = drive(protocols.fit(plan.parties, fit, terms))[0]
    placed_again = drive(protocols.place(plan.parties, fit, model, "new", terms))[0] if plan.batches else None
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


def plain(factor: Matrix, table: OwnTable) -> Seen:
    """Numbers that are seen as they are; of size one, since squares of large ones overflow."""
    size = float(np.max(np.abs(factor), initial=0.0)) or 1.0
    return Seen(factor / size, Linear(), 0.0, table.X.shape[1], len(table.X))


def left_before(case: Case) -> list[Seen]:
    """What earlier studies let out about these rows, zeros for others."""
    found = []
    for study, again in zip(case.before, case.again, strict=True):
        if study not in case.shared:
            continue
        rows = [place for place, row in enumerate(case.rows) if row in again]
        for factor in study.factors.values():
            here = np.zeros((len(case.rows), factor.shape[1]))
            here[rows] = factor[[again[row] for row in case.rows[rows]]]
            found.append(plain(here, case.table))
    return found
