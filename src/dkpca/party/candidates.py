"""Messages that a party may send, from coarse to fine, and the one that meets what is asked of it.

In compact precision a cut decides: eigenvalues under it are not sent, and the rest is rounded so that every column
moves the Gram matrix by about as much. In the other precisions the rank decides.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from dkpca import wire
from dkpca.errors import InputError
from dkpca.linalg import precision as precisions
from dkpca.linalg.arrays import Array, dtype_name, growth, namespace, to_numpy, unit
from dkpca.linalg.eigenpairs import Eigenpairs, numerical_rank
from dkpca.linalg.gram import Gram
from dkpca.linalg.precision import COMPACT, Factor, Rounded, Tall, round_by, round_to, whole
from dkpca.linalg.rows import on_workers
from dkpca.messages import Summary
from dkpca.party.recovery import Measurement, measure
from dkpca.rank import ROUNDING_SHARE, RankRule, Recovery, Spectrum

COARSEST, FINEST = 2.0**-4, 2.0**-24  # the cut, as a share of lambda_1: sixteen levels for its column; float32
RUNGS = 16  # cuts to each halving: two or three percent of the bytes apart
LONGEST = -1.2345678901234567e-100  # no number of a message takes more characters
NEGLIGIBLE = 1e-3  # rounding, as a share of what is left out: a bound does for it
START = 63  # pairs to begin with, where nobody says how many


@dataclass(frozen=True)
class Candidate:
    """One message that the party may send, exactly as it would leave, and what it was made from."""

    among: "Candidates"
    factor: Rounded
    exact: Factor  # (n_samples, rank), before it was rounded
    pairs: Eigenpairs
    trace_left_out: float
    trace_rounding: float  # what arithmetic may have done to it
    fineness: float  # rung of its cut, or its rank
    measured: dict[Any, Measurement] = field(default_factory=dict)  # by the number of known rows, and whether roughly

    @cached_property
    def summary(self) -> Summary:
        """The message."""
        pairs = self.pairs
        enough = NEGLIGIBLE * pairs.left_out_norm, NEGLIGIBLE * self.trace_left_out
        spectral, nuclear = precisions.rounding_norms(self.exact, self.factor, self.among.device, enough=enough)
        return self.among.message(
            factor=self.factor,
            left_out_norm=pairs.left_out_norm,
            trace_left_out=self.trace_left_out,
            rounding_norm=spectral + pairs.residual_norm,
            rounding_nuclear=nuclear + pairs.residual_nuclear + self.trace_rounding,
            left_out_overlap=pairs.missed_norm,
        )

    def size(self) -> int:
        """Bytes of the whole message, its five numbers taken as long as numbers get."""
        names = ("left_out_norm", "trace_left_out", "rounding_norm", "rounding_nuclear", "left_out_overlap")
        return wire.size(self.among.message(factor=self.factor, **dict.fromkeys(names, LONGEST)))

    def error(self) -> float:
        """What the message adds to the certificate's bound on the kernel error."""
        return self.summary.left_out_norm + self.summary.rounding_norm

    def recovery(self, known_rows: int, *, roughly: bool = False) -> Measurement:
        """What somebody who knows so many rows recovers of the others from the message; roughly: of few others."""
        if on_workers(self.among.table):
            raise InputError("recovery is measured on all rows, which here stay on workers of a cluster; gather them")
        if (how := (known_rows, roughly)) not in self.measured:
            self.measured[how] = measure(self.summary, self.among.table, known_rows=known_rows, roughly=roughly)
        return self.measured[how]


@dataclass(kw_only=True)
class Candidates:
    """All messages about one Gram matrix, made when they are asked for."""

    gram: Gram
    table: Array  # (n_samples, n_features), what it was made from
    message: Callable[..., Summary]  # a summary, given the factor and its five numbers
    precision: str  # how numbers go over the wire
    digits: int  # most bits of a number in compact precision
    most: int  # largest rank
    eigenpairs: Callable[..., Eigenpairs]  # so many leading ones of the matrix
    pairs: Eigenpairs | None = None  # those that are known already
    turn: Callable[[Array], Array] | None = None  # of the samples of a factor, for a center that is not to see them
    device: str | None = None  # where to compute

    def eigendecompose(self, rule: RankRule) -> None:
        """Compute the pairs that a rule begins with; fewer, if those are enough once all eigenvalues are known."""
        need = next((part for part in rule.parts() if not part.limits), None)
        if need is None or need.measured():
            return  # measured on messages, which ask for theirs

        def enough(values: Array) -> int | None:
            rank = need.choose(to_numpy(values), self.gram.n)
            return None if rank is None else min(rank, self.most)

        self.pairs = self.eigenpairs(min(need.first_guess(self.gram.n), self.most), enough=enough)

    def at(self, number: int) -> Candidate:
        """Return one message of the sequence; a larger number is finer, 0 the coarsest."""
        if self.precision != COMPACT:
            return self._candidate(number + 1, 0.0)
        # Compact: a rung is a cut, a share of lambda_1; pairs are computed until their eigenvalues fall below it.
        enough = min(self.most + 1, self.gram.n)
        values = self._seen(min(START, enough))
        cut = float(values[0]) * COARSEST * 2.0 ** (-number / RUNGS)
        while values[-1] > cut and numerical_rank(self.gram.n, values) == len(values) < enough:
            values = self._seen(min(2 * len(values), enough))
        rank = int((values > cut).sum())
        if rank > self.most:
            rank, cut = self.most, max(cut, ROUNDING_SHARE * float(values[self.most]))
        return self._candidate(rank, cut)

    def by_rule(self, rule: RankRule) -> Candidate:
        """Return the message of a rule that reads the spectrum; pairs are computed until it has seen enough."""
        values = self._seen(min(rule.first_guess(self.gram.n), self.most))
        while True:
            rank = rule.choose(values, self.gram.n)
            found = numerical_rank(self.gram.n, values)
            enough = len(values) >= self.most < self.gram.n
            if rank is not None or enough or found < len(values):  # the rest is rounding, or more than is allowed
                rank = max(1, min(found, self.most, found if rank is None else rank))
                return self._candidate(rank, rule.cut(values, rank))
            if len(values) == self.gram.n:
                raise InputError(f"rank rule {rule!r} has seen all {len(values)} eigenvalues and gives no rank")
            values = self._seen(min(2 * len(values), self.gram.n))

    def _seen(self, k: int) -> Spectrum:
        """The k leading eigenvalues, and more if pairs of more are known."""
        if self.pairs is None or self.pairs.known().shape[0] < k:
            self.pairs = self.eigenpairs(k)
        return to_numpy(self.pairs.known())[: max(k, self.pairs.values.shape[0])]

    def _candidate(self, rank: int, cut: float) -> Candidate:
        if self.pairs is None or self.pairs.values.shape[0] < rank:
            self.pairs = self.eigenpairs(rank)
        # A = V sqrt(lambda) of the chosen rank, rounded as it travels, and what that leaves out of the trace.
        pairs = self.pairs.head(max(1, min(rank, numerical_rank(self.gram.n, self.pairs.values))))
        if self.turn is None:  # V as it is; sqrt(lambda) is multiplied in where rows are looked at
            roots = namespace(pairs.values).sqrt(pairs.values)
            factor: Factor = Tall(Rounded(pairs.vectors), dtype_name(pairs.vectors), roots)
        else:
            factor = self.turn(pairs.factor())
        if self.precision == COMPACT:
            # Steps by eigenvalue: each column may be rounded until its error in A A' is about the cut.
            largest = float(pairs.values[0])
            cut = max(cut, FINEST * largest)
            steps = precisions.steps_for(pairs.values, cut, self.gram.n)
            if self.turn is not None:  # every column is a mixture of all: one step, that of the finest
                steps = namespace(steps).zeros_like(steps) + namespace(steps).min(steps)
            sent = round_by(whole(factor), steps, digits=self.digits)
            fineness = RUNGS * math.log2(COARSEST * largest / cut) if largest > 0 else 0.0
        else:
            sent = round_to(factor, self.precision, memory=self.gram.memory)
            fineness = float(pairs.values.shape[0] - 1)
        trace = self.gram.trace()  # asked after the solver, which refuses numbers too large for it
        arithmetic = growth(math.prod(factor.shape)) * unit(self.table) * trace
        lengths = precisions.column_squares(Tall(sent, "float64"))
        left_out = trace - float(namespace(lengths).sum(lengths))
        return Candidate(self, sent, factor, pairs, left_out, arithmetic, fineness)


def choose_rank(candidates: Candidates, rule: RankRule) -> tuple[Candidate, str]:
    """Return the message that the rules ask for, and which of them decided: no limit is passed to meet a need."""
    # The finest of what is needed, and then the coarsest of what is allowed: limits win.
    chosen, decided, last = None, "", candidates.most - 1
    if candidates.precision == COMPACT:
        last = round(RUNGS * math.log2(COARSEST / FINEST))
    for part in sorted(rule.parts(), key=lambda part: part.limits):
        candidate: Candidate | None
        if not part.measured():
            candidate = candidates.by_rule(part)
        elif not part.limits:
            candidate = _last(part.met_by, lambda number: candidates.at(last - number), max(0, last - START), last)
        elif chosen is not None and part.met_by(chosen):
            continue
        else:
            end = last if chosen is None else int(min(chosen.fineness, last))
            start, stride = min(START, last), RUNGS
            # Few rows show, from the coarsest on, where a whole measurement is worth it.
            if isinstance(part, Recovery):
                near = _last(partial(part.met_by, roughly=True), candidates.at, 0, end, 1)
                start, stride = 0 if near is None else int(min(near.fineness, end)), 1
            candidate = _last(part.met_by, candidates.at, start, end, stride)
        if candidate is None:
            raise InputError(f"{part!r} cannot be met in {candidates.precision}; ask for something else")
        if chosen is None or (-1 if part.limits else 1) * (candidate.fineness - chosen.fineness) > 0:
            chosen, decided = candidate, repr(part)
    assert chosen is not None
    needs = [part for part in rule.parts() if part.measured() and not part.limits]
    return chosen, "; ".join([decided, *(f"{need!r} is not met" for need in needs if not need.met_by(chosen))])


def _last(
    meets: Callable[[Candidate], bool], at: Callable[[int], Candidate], start: int, end: int, stride: int = RUNGS
) -> Candidate | None:
    """Return the last message, of numbers 0 to `end`, that meets a condition met by all before it."""
    # Strides that double (16, 32, ...) from `start`, since finer messages take longer, until one message meets the
    # condition and a finer one does not; then bisection.
    low, high, number, found = -1, end + 1, min(start, end), None
    while high - low > 1:
        candidate = at(number)
        if meets(candidate):
            low, found = number, candidate
        else:
            high = number
        if low >= 0 and high <= end:
            number = (low + high) // 2
        else:
            number = min(end, low + stride) if low >= 0 else max(0, high - stride)
            stride *= 2
    return found
