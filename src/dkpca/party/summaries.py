"""Computations of a party. Its columns and private state stay with it; only messages are sent."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dkpca import messages, wire
from dkpca.errors import InputError
from dkpca.kernels import Kernel, Precomputed
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.arrays import Array, MemoryLimit, dtype_name, namespace, quiet, sent_to, to_numpy
from dkpca.linalg.arrays import device as device_of
from dkpca.linalg.gram import Centered, Gram
from dkpca.linalg.leading import leading
from dkpca.linalg.precision import COMPACT, DIGITS, Rounded, largest, round_by, round_to
from dkpca.linalg.rows import Index, away_from, by_strips, column_scales, pick, standardized, threads_of_our_own
from dkpca.messages import AuditRequest, AuditRows, Partials, Rows, Statistics, Summary, check_party_name
from dkpca.party.candidates import Candidate, Candidates, choose_rank
from dkpca.party.limits import ANYTHING, Limits
from dkpca.party.questions import StatisticsWanted, SummaryWanted
from dkpca.party.state import PartyState, State, SumState, measured_for
from dkpca.protection.rotation import Rotation

FLAT = 0.5  # of the largest effective rank there is, (trace K)^2 / |K|_F^2: beyond it a spectrum is flat
LEAST = {"float32": 1e-30, COMPACT: 2.0**-900}  # a factor smaller than this has lost digits


@threads_of_our_own()
def statistics(X: Array, asked: StatisticsWanted, *, party: str, limits: Limits = ANYTHING) -> Statistics:
    """Return the statistics from which the center derives gamma."""
    limits.check_samples(X.shape[0])
    if asked.standardize and asked.kernel.columns_are == "quantities":
        X = standardized(X, *column_scales(X))
    # The mean of what gamma multiplies, over all pairs of different samples.
    xp, kernel = namespace(X), asked.kernel
    with quiet():
        scale = kernel.scale_statistic(X)
    smallest = float(xp.finfo(X.dtype).smallest_normal)
    if not math.isfinite(scale) or (kernel.has_width and scale < smallest and bool(xp.any(X[:1, :] != X))):
        raise InputError(
            f"party {party!r}: distances ({scale:.1e}) beyond the range of {dtype_name(X)}; scale, or give gamma"
        )
    return Statistics(party, X.shape[0], X.shape[1], scale)


def summarize(
    X: Array,
    asked: SummaryWanted,
    *,
    party: str,
    sample_ids: Sequence[str] | None = None,
    prepared: bool = False,
    limits: Limits = ANYTHING,
    known_rows: int = 0,
    blind: Rotation | None = None,
    device: str | None = None,
    memory: MemoryLimit | None = None,
) -> tuple[Summary, PartyState]:
    """The one message that a party sends, attacked by `known_rows` (0: not), and the state that it keeps."""
    check_party_name(party)
    limits.check_samples(X.shape[0])
    if X.shape[0] < 2:
        raise InputError(f"party {party!r} has 1 row; a fit needs at least 2 samples")
    limits.check_form(asked.precision, "none" if blind is None else "blind")
    rank = limits.bounded(asked.rank.sent_in(asked.precision))
    # A decorator would hold the caller's X to the end, beside what is made of it.
    with threads_of_our_own(), _naming(party):
        about: dict[str, Any] = {"standardize": asked.standardize, "balance": asked.balance, "prepared": prepared}
        X, how, error = measured_for(asked.kernel, X, party, memory, **about)
        kernel = how["kernel"]
        if asked.keep_training:
            kernel.partial(X[:1, :], X[:1, :])  # refused now, and not when new samples come

        # K, the party's Gram matrix: entries are evaluated on demand, and only the dense solver stores it. A blind
        # center cannot center it, so the party does.
        gram: Gram = KernelGram(kernel, X, how["origin"], standardized=error, memory=memory)
        if blind is not None:
            _check_blind(kernel, X, asked.law)
            gram = Centered(gram)

        # Leading eigenpairs of K, lambda and V (linalg/leading.py picks the solver): as many as the rule first asks
        # for, and more if it needs them. The rule reads the spectrum, and goals are measured on the message.
        candidates = Candidates(
            gram=gram,
            table=X,
            message=partial(
                Summary,
                party=party,
                kernel=kernel if blind is None else Precomputed(),
                sample_digest=_digest(sample_ids, X) if blind is None else blind.hidden_digest,
                n_features=X.shape[1],
                diagonal=_diagonal(kernel, X),  # a blind center has none
                turned=blind is not None,
            ),
            precision=asked.precision,
            digits=DIGITS[limits.precision],
            most=min(limits.rank, gram.n),
            eigenpairs=partial(leading, gram, solver=asked.solver, random_state=asked.random_state, device=device),
            turn=None if blind is None else blind.turned,
            device=device,
        )
        candidates.eigendecompose(rank)  # the solver runs here
        if limits.recovery < 1:  # no message stays within the limits if the coarsest does not
            known_rows, coarsest = limits.known_rows, candidates.at(0)
            limits.check_recovery(coarsest.summary.rank, coarsest.recovery(known_rows).worst)
        # A candidate has the factor A = V sqrt(lambda), so that K ~ A A', rounded for the wire already.
        chosen, decided = choose_rank(candidates, rank)

        # The one message of the protocol: that factor, and bounds on what was left out and rounded.
        _check_range(gram.trace(), X, chosen)
        if blind is not None:
            _check_spectrum(to_numpy(chosen.pairs.values), chosen.summary.trace_left_out, gram)
        recovered = chosen.recovery(known_rows) if known_rows else None
        limits.check_recovery(chosen.summary.rank, 0.0 if recovered is None else recovered.worst)
        state = _kept(X, chosen, blind, decided=decided, recovery=recovered, **how)
        return chosen.summary, replace(state, training=X, keep_training=True) if asked.keep_training else state


def _kept(X: Array, chosen: Candidate, blind: Rotation | None, kernel: Kernel, **known: Any) -> PartyState:
    """What places new samples: kernel(y, anchors) @ weights is a further row of the factor that was sent."""
    summary, extension = chosen.summary, chosen.pairs.extension
    if blind is not None:
        R = blind.columns(summary.rank)
        extension = replace(extension, weights=extension.weights @ R, offset=extension.offset @ R)
    return PartyState(
        party=summary.party,
        summary_id=wire.fingerprint(summary),
        kernel=kernel,
        anchors=kernel.anchors(X, extension.anchors),
        positions=extension.anchors,
        weights=extension.weights,
        precision=summary.factor.precision,
        solver=chosen.pairs.solver,
        steps=summary.factor.scale if summary.factor.precision == COMPACT else None,
        protect="none" if blind is None else "blind",
        offset=None if blind is None else extension.offset,
        **known,
    )


def _check_spectrum(values: Array, left_out: float, gram: Gram) -> None:
    """Refuse a kernel matrix close to the identity: its known eigenvectors would reveal the rotation."""
    # Eigenvalues not sent are taken as equal, which minimizes their sum of squares.
    # Effective rank (sum lambda)^2 / sum lambda^2: n - 1 for the centered identity, 1 for one component alone.
    squares = float((values**2).sum()) + max(0.0, left_out) ** 2 / max(1, gram.n - 1 - len(values))
    if gram.trace() ** 2 > FLAT * (gram.n - 1) * squares:
        raise InputError("its kernel matrix is nearly the identity and would reveal the rotation; lower gamma")


@contextmanager
def _naming(party: str) -> Iterator[None]:
    """Prefix errors about the numbers or the rule with the party's name, where they lack it."""
    try:
        yield
    except InputError as error:
        if str(error).startswith("party "):
            raise
        raise InputError(f"party {party!r}: {error}") from error


@threads_of_our_own()
def extend(
    state: PartyState,
    X_new: Array,
    *,
    exact: bool = False,
    sample_ids: Sequence[str] | None = None,
    limits: Limits = ANYTHING,
    device: str | None = None,
    memory: MemoryLimit | None = None,
) -> Any:
    """Factor rows of new samples as `Rows`; exact, distances or inner products to training samples as `Partials`."""
    limits.check_new(exact=exact)
    _check_open(state, limits, state.precision, "so are its new samples: answer with masked numbers (protect='sums')")
    about, digits = (state.party, state.summary_id, _digest(sample_ids, X_new)), DIGITS[limits.precision]
    if exact and state.training is None:
        raise InputError(f"party {state.party!r} did not keep its training rows; fit with projection='exact'")
    with _naming(state.party), quiet():
        if exact:
            # |y - x|^2 or y'x over the party's columns: the paper adds them up over the parties before the kernel.
            apart = state.kernel.partial(state.measured(X_new, memory), state.training)
            return Partials(*about, round_to(apart, state.precision, digits=digits))
        A = factor_rows(state, X_new, device, memory)
        rounded = partial(round_to, A, state.precision) if state.steps is None else partial(round_by, A, state.steps)
        return Rows(*about, rounded(digits=digits), _diagonal(state.kernel, X_new))


def _check_open(state: PartyState, limits: Limits, precision: str, reason: str) -> None:
    """Refuse numbers in the open beyond the limits, and those of a protected fit."""
    limits.check_form(precision, "none")
    if state.protect != "none":
        raise InputError(f"party {state.party!r}: its fit was protected (protect={state.protect!r}), and {reason}")


def factor_rows(
    state: PartyState, X_new: Array, device: str | None = None, memory: MemoryLimit | None = None
) -> Array:
    """Rows of the party's factor: a(y) = k(y, X) V / sqrt(lambda)."""
    X_new = state.measured(X_new, memory)
    away = away_from(device, X_new)
    place = X_new if away is None else away
    anchors, weights = sent_to(state.anchors, place), sent_to(state.weights, place)

    def strip(rows: slice) -> Array:
        return sent_to(state.kernel(sent_to(X_new[rows, :], place), anchors) @ weights, X_new)

    # a(y) = k(y, X) V / sqrt(lambda), a further row of the factor; with landmarks, k(y, landmarks) times their
    # weights. A blind fit adds the offset that centers the new row as the fit was centered.
    with quiet():
        made = by_strips(strip, X_new, state.weights)
    return made if state.offset is None else made + state.offset[None, :]


def self_values(state: PartyState | SumState, X_new: Array) -> Array:
    """Kernel value of each new sample with itself."""
    if state.kernel.columns_are == "samples":
        raise InputError(f"party {state.party!r}: rows of a kernel matrix do not contain the diagonal entries needed")
    return state.kernel.diagonal(state.measured(X_new))


def _check_blind(kernel: Kernel, X: Array, law: str | None) -> None:
    """Refuse kernels and laws that a blind center cannot sum, and rows that are not here to be rotated."""
    if not isinstance(X, np.ndarray):
        raise InputError("samples are rotated on the host; give a NumPy array, or protect='none'")
    if kernel.sends_diagonal:
        raise InputError(f"the {kernel.name} kernel needs the length of every sample; give one with own=True")
    if not (law == "sum" if law else kernel.adds_up):
        raise InputError("a blind center can only add matrices up; use law='sum'")


def _diagonal(kernel: Kernel, X: Array) -> Rounded | None:
    """Return the diagonal that the center needs for polynomial and cosine kernels."""
    if not kernel.sends_diagonal:
        return None
    with quiet():
        diagonal = kernel.diagonal(X)
    return round_to(diagonal[:, None], "float64")


def _digest(sample_ids: Sequence[str] | None, X: Array) -> str:
    """Fingerprint of the ids, or of the row count where there are none."""
    if sample_ids is None:
        return messages.row_number_digest(X.shape[0])
    if len(sample_ids) == X.shape[0]:
        return messages.digest(sample_ids)
    raise InputError(f"{len(sample_ids)} sample ids for {X.shape[0]} rows")


def about_columns(state: State) -> list[str]:
    """Return a warning if one column accounts for nearly all of the distances between samples."""
    if state.dominant is None:
        return []
    column, share = state.dominant
    name = f"column {column + 1}" if state.columns is None else f"column {state.columns[column]!r}"
    told = f"party {state.party!r}: {name} makes up {share:.1%} of the distances between its samples"
    return [f"{told}; standardize the columns (standardize=True, --standardize)"]


# An audit: true rows of the Gram matrix, for samples that the center drew.


@dataclass(frozen=True)
class OpenRows:
    """True rows that are made where they are looked at, in the place of a `Rounded`."""

    shape: tuple[int, int]
    make: Callable[[Index], Array]

    def columns(self, index: Index) -> Rounded:
        """Some columns."""
        return Rounded(self.make(index))


def true_rows(
    state: PartyState, X: Array, request: AuditRequest, *, ids: Sequence[str] | None = None, limits: Limits = ANYTHING
) -> AuditRows:
    """Kernel of the samples asked for with all of the fit, whose table and ids these are; made when looked at."""
    limits.check_audit(len(request.samples))
    limits.check_samples(X.shape[0])
    _check_open(state, limits, COMPACT, "an audit sends rows in the open; fit without protection to have it audited")
    digest = _digest(ids, X)
    if X.shape[0] != request.n_samples or digest != request.sample_digest:
        about = f"party {state.party!r}: the audit is about {request.n_samples} samples of a fit"
        raise InputError(f"{about}, and the table has {X.shape[0]} rows or other ids; give the table of the fit")
    kernel, xp, where = state.kernel, namespace(X), device_of(X)
    positions = xp.asarray(list(request.samples), device=where)
    if kernel.columns_are == "samples":
        chosen, own = kernel.anchors(X, positions), kernel.rows(X, positions)
    else:
        chosen = own = state.measured(pick(X, positions))
    exact = xp.astype(kernel.diagonal(own), xp.float64)

    def columns(index: Index) -> Array:
        # k(x_i, x_j) for the samples i asked for and some j; where i = j the kernel's own diagonal, since a
        # difference may have rounded.
        rows = xp.astype(kernel(state.measured(pick(X, index)), chosen), xp.float64).T
        if isinstance(index, slice):
            index = xp.arange(*index.indices(X.shape[0]), device=where)
        return xp.where(positions[:, None] == index[None, :], exact[:, None], rows)

    rows: Any = OpenRows((len(request.samples), int(X.shape[0])), columns)
    return AuditRows(state.party, state.summary_id, digest, request.samples, rows)


# Numbers that a precision cannot hold are refused where a party meets them, with its name and what to do.


def _check_range(trace: float, X: Array, chosen: Candidate) -> None:
    """Refuse a kernel matrix that underflows to zero, and a factor that rounds to zero in its precision."""
    if trace == 0.0 and bool(namespace(X).any(X != 0)):
        raise InputError(f"squares of its numbers underflow {dtype_name(X)}; scale the columns up")
    reach, precision = largest(chosen.exact), chosen.factor.precision
    if 0.0 < reach < LEAST.get(precision, 0.0):
        remedy = "scale the columns, or send float64"
        raise InputError(f"numbers of size {reach:.1e} are lost in {precision}; {remedy}")
