"""What a data holder computes. Its columns and its private state never leave; messages do."""

from collections.abc import Callable, Sequence
from functools import partial

from dkpca import messages, wire
from dkpca.errors import InputError
from dkpca.fields import check_party_name
from dkpca.kernels import RBF, Kernel, Precomputed
from dkpca.kernels.grams import KernelGram
from dkpca.kernels.laws import adds_up
from dkpca.linalg.arrays import Array, like, namespace, sent_to, to_numpy
from dkpca.linalg.deviations import column_scales, standardized, standardizing_error
from dkpca.linalg.gram import Centered, Gram
from dkpca.linalg.leading import Solver
from dkpca.linalg.precision import COMPACT, DIGITS, Rounded
from dkpca.linalg.rounding import quiet
from dkpca.linalg.rows import away_from, by_strips, column_means
from dkpca.messages import Partials, PartScores, Rows, Scorer, Statistics, Summary
from dkpca.party.drafts import Draft, Drafts, Turned, settle
from dkpca.party.reach import check_not_lost, check_not_vanished, moved, rounded, scale_statistic
from dkpca.party.state import PartyState
from dkpca.policy import LOWER, Policy
from dkpca.rank import RankRule
from dkpca.recovery import Measurement
from dkpca.wording import counted

ANYTHING = Policy()


def statistics(
    X: Array, *, party: str, kernel: Kernel | None = None, standardize: bool = False, policy: Policy = ANYTHING
) -> Statistics:
    """Return the numbers from which the center derives the width of a kernel, the RBF kernel if none is given."""
    policy.check_samples(X.shape[0])
    n_samples, n_features = X.shape
    kernel = RBF(1.0) if kernel is None else kernel
    if standardize and kernel.columns_are == "quantities":
        X = standardized(X, *column_scales(X))
    return Statistics(party, n_samples, n_features, mean_squared_distance=scale_statistic(kernel, X, party))


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
    prepared: bool = False,
    balance: float = 0.0,
    law: str | None = None,
    policy: Policy = ANYTHING,
    known_rows: int = 0,
    blind: Callable[[str, int], Turned] | None = None,
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
    prepared : bool
        Whether that was done before: its rounding is part of the bounds then, too.
    balance : float
        Mean exponent that the kernel gets by a width of the party's own; 0: the width of the kernel as it is.
    law : str, optional
        How the center says it combines the answers, for the policy; None: as the kernel implies.
    policy : Policy
        What this party is willing to answer; a request beyond it raises `PolicyError`.
    known_rows : int
        With how many rows as known the message is attacked before it leaves, for the state; 0: it is not.
    blind : function, optional
        For a center that is not to see any sample: the rotation of so many samples with this fingerprint. The Gram
        matrix is centered first, since the center cannot do it.

    Returns
    -------
    (Summary, PartyState)
    """
    _check_samples(X, party, policy)
    shift, scale = column_scales(X) if standardize and kernel.columns_are == "quantities" else (None, None)
    X = standardized(X, shift, scale)
    kernel.check(X)
    kernel = kernel.balanced(X, balance) if balance else kernel
    protect = "none" if blind is None else "blind"
    _check_allowed(policy, kernel, law, precision, protect)
    rank = policy.limit(rank.sent_in(precision))
    prepared = prepared or shift is not None
    origin = kernel.origin(X)
    if prepared and not bool(namespace(X).any(origin != 0)):
        origin = column_means(X)  # that of standardized columns is zero, but for the rounding of a far mean
    X = moved(X, origin, party)
    gram: Gram = KernelGram(kernel, X, origin, standardized=standardizing_error(X) if prepared else 0.0)
    digest, sent_as, turn = _digest(sample_ids, X), kernel, None
    if blind is not None:
        _check_sum(kernel, law, party)
        rotation = blind(digest, X.shape[0])
        gram, sent_as, digest, turn = Centered(gram), Precomputed(), rotation.hidden_digest, rotation.turn
    message = partial(
        Summary,
        party=party,
        kernel=sent_as,
        sample_digest=digest,
        n_features=X.shape[1],
        diagonal=_diagonal(sent_as, X, party),
        turned=blind is not None,
    )
    drafts = Drafts(
        gram,
        X,
        message,
        precision=precision,
        digits=DIGITS[policy.max_precision],
        most=rank.most(),
        solver=solver,
        random_state=random_state,
        turn=turn,
    )
    draft, decided = _settled(drafts, rank, policy, party)
    summary, pairs = draft.summary, draft.pairs
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
        protect=protect,
        offset=None if blind is None else pairs.extension.offset,
        recovery=_recovered(draft, policy, known_rows),
        dominant=kernel.dominant_column(X),
    )
    return summary, state


def _check_samples(X: Array, party: str, policy: Policy) -> None:
    check_party_name(party)
    policy.check_samples(X.shape[0])
    if X.shape[0] < 2:
        raise InputError(f"party {party!r} has {counted(X.shape[0], 'row')}; a fit needs at least 2 samples")


def _check_allowed(policy: Policy, kernel: Kernel, law: str | None, precision: str, protect: str) -> None:
    """Refuse what the policy does not allow, before anything is computed."""
    policy.check_kernel(kernel)
    policy.check_law(kernel, law)
    policy.check_precision(precision)
    policy.check_protection(protect)


def _settled(drafts: Drafts, rank: RankRule, policy: Policy, party: str) -> tuple[Draft, str]:
    """Return the message to send and the rule that decided; refuse one that has lost what it is about."""
    try:
        if policy.limits_recovery and policy.if_beyond == LOWER:
            coarsest = drafts.at(0)  # may even this be sent?
            policy.check_recovery(coarsest.summary.rank, coarsest.recovery(policy.known_rows).worst)
        draft, decided = settle(drafts, rank)
    except InputError as error:
        raise InputError(f"party {party!r}: {error}") from error
    check_not_vanished(drafts.gram.trace(), drafts.table, party)
    check_not_lost(draft.exact, draft.summary.factor, party)
    return draft, decided


def _recovered(draft: Draft, policy: Policy, known_rows: int) -> Measurement | None:
    """Attack the message as the policy says, or else with so many known rows; refuse it beyond the policy."""
    known_rows = policy.known_rows if policy.limits_recovery else known_rows
    if not known_rows:
        return None
    found = draft.recovery(known_rows)
    policy.check_recovery(draft.summary.rank, found.worst)
    return found


def extend(
    state: PartyState, X_new: Array, *, sample_ids: Sequence[str] | None = None, policy: Policy = ANYTHING
) -> Rows:
    """Return the factor rows of new samples: a(y) = k(y, X) V / sqrt(lambda)."""
    policy.check_projection()
    _check_open(state)
    policy.check_precision(state.precision)
    X_new = measured(state, X_new)
    with quiet():
        factor = _beside_anchors(state, X_new, state.weights)
    digits = DIGITS[policy.max_precision]
    sent = rounded(factor, state.precision, state.party, steps=state.steps, digits=digits)
    return Rows(
        state.party, state.summary_id, _digest(sample_ids, X_new), sent, _diagonal(state.kernel, X_new, state.party)
    )


def _beside_anchors(state: PartyState, X: Array, weights: Array) -> Array:
    """k(X, anchors) @ weights, a strip of rows at a time, on the device that was asked for."""
    place = away_from(X)
    if place is None:
        return by_strips(lambda rows: state.kernel(X[rows, :], state.anchors) @ weights, X, weights)
    anchors, there = sent_to(state.anchors, place), sent_to(weights, place)
    return by_strips(lambda rows: sent_to(state.kernel(sent_to(X[rows, :], place), anchors) @ there, X), X, weights)


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
    if state.weights is None:
        _check_open(state)
    X_new = measured(state, X_new)
    own = like(to_numpy(scorer.weights.decode()), state.weights)
    weights = state.weights @ own
    with quiet():
        scores = _beside_anchors(state, X_new, weights)
    scores = scores if state.offset is None else scores + (state.offset @ own)[None, :]
    sent = rounded(scores, "float64", state.party)
    return PartScores(state.party, state.summary_id, _digest(sample_ids, X_new), sent)


def self_values(state: PartyState, X_new: Array) -> Array:
    """Kernel value of each new sample with itself."""
    if state.kernel.columns_are == "samples":
        raise InputError(
            f"party {state.party!r}: rows of a kernel matrix do not say how like itself a new sample is, so that its "
            "variance is not known"
        )
    return state.kernel.diagonal(measured(state, X_new))


def partials(
    state: PartyState, X_new: Array, *, sample_ids: Sequence[str] | None = None, policy: Policy = ANYTHING
) -> Partials:
    """Return the paper's message for new samples: what adds up over parties, against every training sample."""
    policy.check_projection(exact=True)
    _check_open(state)
    policy.check_precision(state.precision)
    if state.training is None:
        raise InputError(
            f"party {state.party!r} did not keep its training rows; fit with projection='exact' (keep_training) first"
        )
    X_new = measured(state, X_new)
    with quiet():
        distances = state.kernel.partial(X_new, state.training)
    sent = rounded(distances, state.precision, state.party, digits=DIGITS[policy.max_precision])
    return Partials(state.party, state.summary_id, _digest(sample_ids, X_new), sent)


def _check_open(state: PartyState) -> None:
    """Refuse to say in the open about new samples what the fit has hidden."""
    if state.protect != "none":
        raise InputError(
            f"party {state.party!r}: its fit was protected (protect={state.protect!r}), and so are its new samples: "
            "answer with masked numbers (protect='sums')"
        )


def _check_sum(kernel: Kernel, law: str | None, party: str) -> None:
    """Refuse what a center cannot add up on samples that it does not see."""
    if not (adds_up(law) if law else kernel.adds_up) or kernel.sends_diagonal:
        raise InputError(f"party {party!r}: a blind center can only add matrices up; use law='sum' (--law sum)")


def measured(state: PartyState, X_new: Array) -> Array:
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
