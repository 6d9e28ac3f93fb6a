"""What a data holder computes. Its columns and its private state never leave; messages do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dkpca import messages, wire
from dkpca.drafts import Drafts, settle
from dkpca.errors import InputError
from dkpca.fields import check_party_name
from dkpca.kernels import Kernel
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.arrays import Array, like, to_numpy
from dkpca.linalg.deviations import column_scales, standardized
from dkpca.linalg.leading import Solver
from dkpca.linalg.precision import COMPACT, DIGITS, Rounded
from dkpca.linalg.rounding import quiet
from dkpca.linalg.strips import by_strips
from dkpca.messages import Partials, PartScores, Rows, Scorer, Statistics, Summary
from dkpca.policy import Policy
from dkpca.rank import RankRule
from dkpca.reach import check_not_lost, check_not_vanished, mean_squared_distance, moved, rounded

ANYTHING = Policy()


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
    decided : str
        The rule that decided how much was sent, and those that could not be met.
    steps : array of shape (rank,), optional
        By which the columns of the factor were rounded, if it was sent compact.
    training : array of shape (n_samples, n_features), optional
        All rows, for the paper's way to place new samples only.
    keep_training : bool
        Whether they were to be kept.
    shift, scale : array of shape (n_features,), optional
        Means and deviations of the training columns, in which new columns are measured; None: as they are.
    preparation : mapping, optional
        How the commands turn the party's table into these columns; None: it came as numbers.
    columns : tuple of str, optional
        Their names, in which order new samples have to have them; None: they had none.

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
    decided: str = ""
    steps: Array | None = None
    training: Array | None = None
    keep_training: bool = False
    shift: Array | None = None
    scale: Array | None = None
    preparation: Mapping[str, Any] | None = None
    columns: tuple[str, ...] | None = None

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
    return Statistics(party, n_samples, n_features, mean_squared_distance=mean_squared_distance(X, party))


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
    precision : {"float64", "float32", "float16", "compact"}
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
    X = moved(X, origin, party)
    gram = KernelGram(kernel, X, origin)
    message = partial(
        Summary,
        party=party,
        kernel=kernel,
        sample_digest=_digest(sample_ids, X),
        n_features=X.shape[1],
        diagonal=_diagonal(kernel, X, party),
    )
    try:
        drafts = Drafts(
            gram,
            X,
            message,
            precision=precision,
            digits=DIGITS[policy.max_precision],
            most=rank.most(),
            solver=solver,
            random_state=random_state,
        )
        draft, decided = settle(drafts, rank)
    except InputError as error:
        raise InputError(f"party {party!r}: {error}") from error
    check_not_vanished(gram.trace(), X, party)
    summary, pairs = draft.summary, draft.pairs
    check_not_lost(pairs.factor(), summary.factor, party)
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
        decided=decided,
        steps=summary.factor.scale if precision == COMPACT else None,
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
    digits = DIGITS[policy.max_precision]
    sent = rounded(factor, state.precision, state.party, steps=state.steps, digits=digits)
    return Rows(
        state.party, state.summary_id, _digest(sample_ids, X_new), sent, _diagonal(state.kernel, X_new, state.party)
    )


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
    sent = rounded(scores, "float64", state.party)
    return PartScores(state.party, state.summary_id, _digest(sample_ids, X_new), sent)


def self_values(state: PartyState, X_new: Array) -> Array:
    """Kernel value of each new sample with itself."""
    if state.kernel.columns_are == "samples":
        raise InputError(
            f"party {state.party!r}: rows of a kernel matrix do not say how like itself a new sample is, so that its "
            "variance is not known"
        )
    return state.kernel.diagonal(_measured(state, X_new))


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
        distances = state.kernel.partial(X_new, state.training)
    sent = rounded(distances, state.precision, state.party, digits=DIGITS[policy.max_precision])
    return Partials(state.party, state.summary_id, _digest(sample_ids, X_new), sent)


def _measured(state: PartyState, X_new: Array) -> Array:
    """Rows measured from the origin of the fit."""
    if X_new.shape[0] == 0:
        raise InputError(f"party {state.party!r}: there are no new samples; give at least one row")
    if X_new.shape[1] != state.origin.shape[0]:
        raise InputError(
            f"party {state.party!r}: new samples have {X_new.shape[1]} columns, the fit had {state.origin.shape[0]}"
        )
    return moved(standardized(X_new, state.shift, state.scale), state.origin, state.party)


def _diagonal(kernel: Kernel, X: Array, party: str) -> Rounded | None:
    """Return what the center needs of each sample to finish the kernel."""
    if not kernel.sends_diagonal:
        return None
    with quiet():
        diagonal = kernel.diagonal(X)
    return rounded(diagonal[:, None], "float64", party)


def _digest(sample_ids: Sequence[str] | None, X: Array) -> str:
    """Fingerprint of the ids, or of the row count where there are none."""
    if sample_ids is None:
        return messages.row_number_digest(X.shape[0])
    if len(sample_ids) == X.shape[0]:
        return messages.digest(sample_ids)
    raise InputError(f"{len(sample_ids)} sample ids for {X.shape[0]} rows")
