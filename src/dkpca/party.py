"""What a data holder computes. Its columns and its private state never leave; messages do."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dkpca import messages, wire
from dkpca.errors import InputError
from dkpca.fields import check_party_name
from dkpca.kernels import Kernel
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.arrays import Array, dtype_name, like, namespace, to_numpy
from dkpca.linalg.deviations import column_scales, standardized
from dkpca.linalg.eigenpairs import Eigenpairs
from dkpca.linalg.leading import Solver, leading
from dkpca.linalg.precision import Rounded, round_to, rounding_norms
from dkpca.linalg.rounding import growth, quiet, unit
from dkpca.linalg.strips import by_strips
from dkpca.messages import Partials, PartScores, Rows, Scorer, Statistics, Summary
from dkpca.policy import Policy
from dkpca.rank import RankRule

ANYTHING = Policy()
LEAST_FLOAT32 = 1e-30  # a factor smaller than this has lost digits in float32


@dataclass(frozen=True)
class PartyState:
    """What a party keeps to itself so that it can place new samples. It contains data: never send it.

    Attributes
    ----------
    party : str
        Name of the party.
    summary_id : str
        Fingerprint of the summary it belongs to.
    kernel : Kernel
        Kernel of the fit.
    origin : array of shape (n_features,)
        Point from which the columns are measured.
    anchors : array of shape (n_anchors, n_features), optional
        Rows that new samples are compared with; None where they can be had from the table again.
    positions : array of shape (n_anchors,), optional
        Of the anchors among the training samples; None: all of them.
    weights : array of shape (n_anchors, rank)
        Factor row of y = kernel(y, anchors) @ weights.
    precision : str
        How numbers are sent.
    solver : str
        Which one, what it did, and why it was chosen.
    training : array of shape (n_samples, n_features), optional
        All rows, for the paper's way to place new samples only.
    keep_training : bool
        Whether they were to be kept.
    shift, scale : array of shape (n_features,), optional
        Means and deviations of the training columns, in which new columns are measured; None: as they are.
    preparation : mapping, optional
        How the commands turn the party's table into these columns; None: it came as numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> _, state = dkpca.summarize(X, party="bank", kernel=dkpca.kernels.Linear(), rank=2)
    >>> state.party, state.origin.shape, state.weights.shape
    ('bank', (4,), (50, 2))
    """

    party: str
    summary_id: str
    kernel: Kernel
    origin: Array
    anchors: Array | None
    positions: Array | None
    weights: Array
    precision: str
    solver: str
    training: Array | None = None
    keep_training: bool = False
    shift: Array | None = None
    scale: Array | None = None
    preparation: Mapping[str, Any] | None = None

    def without_rows(self) -> "PartyState":
        """Return the state without the rows of the table, for a holder who can open the table again."""
        return replace(self, anchors=None, training=None)

    def with_rows(self, X: Array) -> "PartyState":
        """Return the state with the rows of the table it was made from."""
        X = standardized(X, self.shift, self.scale) - self.origin[None, :]
        anchors = self.kernel.anchors(X, self.positions)
        return replace(self, anchors=anchors, training=X if self.keep_training else None)


def statistics(X: Array, *, party: str, standardize: bool = False, policy: Policy = ANYTHING) -> Statistics:
    """Return the numbers from which the center derives gamma."""
    policy.check_samples(X.shape[0])
    n_samples, n_features = X.shape
    X = standardized(X, *column_scales(X)) if standardize else X
    with quiet():
        variance = float(namespace(X).sum(namespace(X).var(X, axis=0, correction=1))) if n_samples > 1 else 0.0
    smallest = float(namespace(X).finfo(X.dtype).smallest_normal)
    if not math.isfinite(2.0 * variance) or (variance < smallest and bool(namespace(X).any(X[:1, :] != X))):
        raise InputError(
            f"party {party!r}: squared distances between its samples are beyond the range of {dtype_name(X)} "
            f"({2.0 * variance:.1e}); scale the columns, or give gamma"
        )
    return Statistics(party, n_samples, n_features, mean_squared_distance=2.0 * variance)


def summarize(
    X: Array,
    *,
    party: str,
    kernel: Kernel,
    rank: RankRule,
    precision: str = "float32",
    solver: str | Solver = "auto",
    random_state: int = 0,
    keep_training: bool = False,
    sample_ids: Sequence[str] | None = None,
    standardize: bool = False,
    balance: float = 0.0,
    law: str | None = None,
    policy: Policy = ANYTHING,
) -> tuple[Summary, PartyState]:
    """Turn a party's columns into the one message it sends, and the state it keeps.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        The party's columns, finite numbers.
    party : str
        Name under which the center knows this party.
    kernel : Kernel
        The same at every party.
    rank : RankRule
        How many eigenpairs to send. Eigenvalues that are only rounding are never sent.
    precision : {"float64", "float32", "float16"}
        How numbers go over the wire.
    solver, random_state
        See `dkpca.linalg.leading.leading`.
    keep_training : bool
        Whether the state keeps all training rows, which the paper's way of placing new samples needs.
    sample_ids : sequence of str, optional
        In row order. Without ids, rows of all parties match by position.
    standardize : bool
        Whether columns are measured from their means, in units of their deviations; the state keeps both.
    balance : float
        Mean exponent that the kernel gets by a width of the party's own; 0: the width of the kernel as it is.
    law : str, optional
        How the center says it combines the answers, for the policy; None: as the kernel implies.
    policy : Policy
        What this party is willing to answer; a request beyond it raises `PolicyError`.

    Returns
    -------
    (Summary, PartyState)
    """
    check_party_name(party)
    policy.check_samples(X.shape[0])
    shift, scale = column_scales(X) if standardize and kernel.columns_are == "quantities" else (None, None)
    X = standardized(X, shift, scale)
    kernel.check(X)
    kernel = kernel.balanced(X, balance) if balance else kernel
    policy.check_kernel(kernel)
    policy.check_law(kernel, law)
    policy.check_precision(precision)
    if X.shape[0] < 2:
        raise InputError(f"party {party!r} has {X.shape[0]} row; a fit needs at least 2 samples")
    rank = policy.limit(rank.sent_in(precision))
    origin = kernel.origin(X)
    X = _moved(X, origin, party)
    gram = KernelGram(kernel, X, origin)
    try:
        pairs = _pairs_by_rule(gram, rank, solver, random_state)
    except InputError as error:
        raise InputError(f"party {party!r}: {error}") from error
    factor = pairs.factor()
    sent = _rounded(factor, precision, party)
    _check_not_lost(factor, sent, party)
    spectral, nuclear = rounding_norms(factor, sent)
    trace = gram.trace()
    if trace == 0.0 and bool(namespace(X).any(X != 0)):
        raise InputError(f"party {party!r}: squares of its numbers vanish in {dtype_name(X)}; scale the columns up")
    summary = Summary(
        party=party,
        kernel=kernel,
        sample_digest=_digest(sample_ids, X),
        n_features=X.shape[1],
        factor=sent,
        left_out_norm=pairs.left_out_norm,
        trace_left_out=trace - _squared_norm(sent),
        rounding_norm=spectral + pairs.residual_norm,
        rounding_nuclear=nuclear + pairs.residual_nuclear + growth(X.shape[0] * sent.shape[1]) * unit(X) * trace,
        diagonal=_diagonal(kernel, X),
        left_out_overlap=pairs.missed_trace,
    )
    state = PartyState(
        party=party,
        summary_id=wire.fingerprint(summary),
        kernel=kernel,
        origin=origin,
        anchors=kernel.anchors(X, pairs.extension.anchors),
        positions=pairs.extension.anchors,
        weights=pairs.extension.weights,
        precision=precision,
        solver=pairs.solver,
        training=X if keep_training else None,
        keep_training=keep_training,
        shift=shift,
        scale=scale,
    )
    return summary, state


def extend(
    state: PartyState, X_new: Array, *, sample_ids: Sequence[str] | None = None, policy: Policy = ANYTHING
) -> Rows:
    """Return the factor rows of new samples: a(y) = k(y, X) V / sqrt(lambda)."""
    policy.check_projection()
    policy.check_precision(state.precision)
    X_new = _measured(state, X_new)
    with quiet():
        factor = by_strips(
            lambda rows: state.kernel(X_new[rows, :], state.anchors) @ state.weights, X_new, state.weights
        )
    sent = _rounded(factor, state.precision, state.party)
    return Rows(state.party, state.summary_id, _digest(sample_ids, X_new), sent, _diagonal(state.kernel, X_new))


def score(
    state: PartyState,
    scorer: Scorer,
    X_new: Array,
    *,
    sample_ids: Sequence[str] | None = None,
    policy: Policy = ANYTHING,
) -> PartScores:
    """Return the party's own share of the scores of new samples, under the sum law: a(y) W."""
    policy.check_projection()
    if scorer.party != state.party or scorer.summary_id != state.summary_id:
        raise InputError(
            f"party {state.party!r}: the scorer is for {scorer.party!r} and another fit than this state is of; "
            "use the one that the center sent for this fit"
        )
    X_new = _measured(state, X_new)
    weights = state.weights @ like(to_numpy(scorer.weights.decode()), state.weights)
    with quiet():
        scores = by_strips(lambda rows: state.kernel(X_new[rows, :], state.anchors) @ weights, X_new, weights)
    sent = _rounded(scores, "float64", state.party)
    return PartScores(state.party, state.summary_id, _digest(sample_ids, X_new), sent)


def partials(
    state: PartyState, X_new: Array, *, sample_ids: Sequence[str] | None = None, policy: Policy = ANYTHING
) -> Partials:
    """Return the paper's message for new samples: what adds up over parties, against every training sample."""
    policy.check_projection(exact=True)
    policy.check_precision(state.precision)
    if state.training is None:
        raise InputError(
            f"party {state.party!r} did not keep its training rows; fit with projection='exact' (keep_training) first"
        )
    X_new = _measured(state, X_new)
    with quiet():
        partial = _rounded(state.kernel.partial(X_new, state.training), state.precision, state.party)
    return Partials(state.party, state.summary_id, _digest(sample_ids, X_new), partial)


def _pairs_by_rule(gram: KernelGram, rule: RankRule, solver: str | Solver, random_state: int) -> Eigenpairs:
    """Compute eigenpairs until the rule has seen enough of the spectrum."""
    wanted = rule.first_guess(gram.n)
    while True:
        pairs = leading(gram, wanted, solver=solver, random_state=random_state)
        rank = rule.choose(to_numpy(pairs.values), gram.n)
        found = pairs.numerical_rank()
        if rank is not None or found < wanted:  # the rest is rounding: there is nothing more to see
            return pairs.head(max(1, min(found if rank is None else rank, found)))
        if wanted == gram.n:
            raise InputError(f"rank rule {rule!r} has seen all {gram.n} eigenvalues and gives no rank; correct it")
        wanted = min(2 * wanted, gram.n)


def _measured(state: PartyState, X_new: Array) -> Array:
    """Rows measured from the origin of the fit."""
    if X_new.shape[0] == 0:
        raise InputError(f"party {state.party!r}: there are no new samples; give at least one row")
    if X_new.shape[1] != state.origin.shape[0]:
        raise InputError(
            f"party {state.party!r}: new samples have {X_new.shape[1]} columns, the fit had {state.origin.shape[0]}"
        )
    return _moved(standardized(X_new, state.shift, state.scale), state.origin, state.party)


def _moved(X: Array, origin: Array, party: str) -> Array:
    """Rows measured from a point, if the numbers allow it."""
    xp = namespace(X)
    with quiet():
        X = X - origin[None, :]
    finite = xp.all(xp.isfinite(X), axis=0)
    if not bool(xp.all(finite)):
        column = int(xp.argmax(xp.astype(~finite, xp.int64)))
        raise InputError(
            f"party {party!r}: the numbers of its column {column + 1} are too large for their mean to be taken in "
            f"{dtype_name(X)}; scale the column down"
        )
    return X


def _rounded(A: Array, precision: str, party: str) -> Rounded:
    """Matrix as the party sends it."""
    try:
        return round_to(A, precision)
    except InputError as error:
        raise InputError(f"party {party!r}: {error}") from error


def _check_not_lost(factor: Array, sent: Rounded, party: str) -> None:
    """Refuse a factor that the wire precision turns into nothing."""
    xp = namespace(factor)
    reach = float(xp.max(xp.abs(factor)))
    if sent.precision == "float32" and 0.0 < reach < LEAST_FLOAT32:
        raise InputError(
            f"party {party!r}: numbers of size {reach:.1e} are lost in float32; scale the columns, or send float64"
        )


def _diagonal(kernel: Kernel, X: Array) -> Rounded | None:
    """Return what the center needs of each sample to finish the kernel."""
    in_full = namespace(X).float64
    return Rounded(namespace(X).astype(kernel.diagonal(X), in_full)[:, None]) if kernel.sends_diagonal else None


def _digest(sample_ids: Sequence[str] | None, X: Array) -> str:
    """Fingerprint of the ids, or of the row count where there are none."""
    if sample_ids is None:
        return messages.row_number_digest(X.shape[0])
    if len(sample_ids) == X.shape[0]:
        return messages.digest(sample_ids)
    raise InputError(f"{len(sample_ids)} sample ids for {X.shape[0]} rows")


def _squared_norm(matrix: Rounded) -> float:
    """Trace of B B' for the matrix B as it was sent."""
    values = matrix.decode()
    return float(namespace(values).sum(values * values))
