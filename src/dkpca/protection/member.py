"""At a party: its offer for a masked sum, and its answer once it has the offers of all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dkpca import messages, party
from dkpca.errors import InputError, ProtectionError
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array
from dkpca.linalg.deviations import column_scales, standardized
from dkpca.linalg.rounding import quiet
from dkpca.messages import Agreed, MaskedSum, Offer, Scorer
from dkpca.party.state import PartyState
from dkpca.policy import Policy
from dkpca.protection import quantities
from dkpca.protection.keys import Identity, SumKey, make_offer
from dkpca.protection.ring import Numbers
from dkpca.protection.sums import masked
from dkpca.wording import counted

HIDDEN = "precomputed"  # name of the kernel of shares: which one it was, is for the party alone, as in its summary
BITS = {"float64": 64, "float32": 32, "compact": 20, "float16": 16}  # of the ring, by how finely numbers are sent


@dataclass(frozen=True)
class Sum:
    """One sum that the parties are asked to form: the same words for all of them."""

    run: str
    kernel: Kernel
    bits: int = 32
    n_landmarks: int = 0  # 0: all pairs of samples
    pairs_up_to: int = 0  # samples, of which all pairs are added up whatever the number of landmarks
    open_width: bool = False  # whether the width of the kernel is chosen when all has been added up


def join_fit(
    X: Array,
    asked: Sum,
    *,
    party_name: str,
    identity: Identity,
    standardize: bool = False,
    sample_ids: Sequence[str] | None = None,
    policy: Policy = party.ANYTHING,
) -> tuple[SumKey, PartyState]:
    """Return a party's key for a fit, with its offer, and the state that it keeps.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        The party's columns, finite numbers.
    asked : Sum
        The same at all parties.
    party_name : str
        Name of the party.
    identity : Identity
        With which it signs.
    standardize, sample_ids, policy
        As in `dkpca.party.summarize`.
    """
    kernel, n = asked.kernel, X.shape[0]
    if n <= asked.pairs_up_to:
        asked = replace(asked, n_landmarks=0)
    elif asked.pairs_up_to:
        asked = replace(asked, n_landmarks=min(asked.n_landmarks, n))
    policy.check_samples(n)
    policy.check_kernel(kernel, open_width=asked.open_width)
    policy.check_law(kernel, None)
    policy.check_protection("sums")
    _check(X, asked, party_name)
    shift, scale = column_scales(X) if standardize and kernel.columns_are == "quantities" else (None, None)
    X = standardized(X, shift, scale)
    kernel.check(X)
    origin = kernel.origin(X)
    positions = quantities.landmarks(asked.run, n, asked.n_landmarks) if asked.n_landmarks else None
    X = X - origin
    state = PartyState(
        party=party_name,
        summary_id=messages.digest([asked.run]),
        kernel=kernel,
        origin=origin,
        anchors=X if positions is None else X[positions],
        positions=positions,
        weights=None,
        precision=f"{asked.bits} bits",
        solver="masked sum",
        shift=shift,
        scale=scale,
        protect="sums",
        dominant=kernel.dominant_column(X),
    )
    agreed = Agreed(
        run=asked.run,
        kind=quantities.PAIRS if positions is None else quantities.COLUMNS,
        kernel=kernel.name,
        rows=n,
        columns=n if positions is None else len(positions),
        sample_digest=digest_of(sample_ids, n),
        bits=asked.bits,
        signed=positions is None and quantities.are_products(kernel),
    )
    return _offered(identity, party_name, agreed, state, X), state


def join_new(
    state: PartyState,
    X_new: Array,
    run: str,
    *,
    identity: Identity,
    bits: int = 32,
    sample_ids: Sequence[str] | None = None,
    policy: Policy = party.ANYTHING,
) -> SumKey:
    """Return a party's key, with its offer, for new samples of a fit by masked sums."""
    policy.check_projection()
    if state.protect != "sums" or state.anchors is None:
        raise InputError(f"party {state.party!r}: this state is not of a fit by masked sums; use the one that is")
    X = party.measured(state, X_new)
    agreed = Agreed(
        run=run,
        kind=quantities.NEW,
        kernel=state.kernel.name,
        rows=X.shape[0],
        columns=state.anchors.shape[0],
        sample_digest=digest_of(sample_ids, X.shape[0]),
        bits=bits,
        signed=quantities.has_diagonal(state.kernel),
    )
    return _offered(identity, state.party, agreed, state, X)


def answer(
    own: SumKey, state: PartyState, X: Array, offers: Mapping[str, Offer], pinned: Mapping[str, str], part: int
) -> MaskedSum:
    """Return one piece of a party's masked quantities.

    Parameters
    ----------
    own : SumKey
        From `join_fit` or `join_new`.
    state : PartyState
        From `join_fit`.
    X : array of shape (n_samples, n_features)
        The rows of the offer, as they were given there.
    offers : mapping of party to Offer
        Of all parties.
    pinned : mapping of party to fingerprint
        Of the others' identities.
    part : int
        Which piece, from 1 on.
    """
    agreed, measured = own.offer.agreed, party.measured(state, X)
    kernel = quantities.for_rows(state.kernel, measured)
    rows, n_parts = _rows_of(agreed, part)
    values, lengths = quantities.addend(agreed, kernel, rows, measured, state.anchors)
    return masked(values, own, offers, pinned, lengths=lengths, part=part, n_parts=n_parts)


def answers(
    own: SumKey, state: PartyState, X: Array, offers: Mapping[str, Offer], pinned: Mapping[str, str]
) -> Iterator[MaskedSum]:
    """Yield all pieces of a party's masked quantities; see `answer`."""
    for part in range(1, n_parts_of(own.offer.agreed) + 1):
        yield answer(own, state, X, offers, pinned, part)


def n_parts_of(agreed: Agreed) -> int:
    """How many pieces a sum has."""
    return len(quantities.pieces(agreed))


def scores(
    state: PartyState,
    scorer: Scorer,
    X_new: Array,
    run: str,
    *,
    identity: Identity,
    sample_ids: Sequence[str] | None = None,
    policy: Policy = party.ANYTHING,
) -> tuple[SumKey, Numbers]:
    """Return a party's key and its own share of the scores of new samples, which it then masks: 64 bits each."""
    share = party.score(state, scorer, X_new, sample_ids=sample_ids, policy=policy)
    values = np.asarray(share.scores.decode())
    agreed = Agreed(
        run=run,
        kind=quantities.SCORES,
        kernel=HIDDEN,
        rows=values.shape[0],
        columns=values.shape[1],
        sample_digest=share.sample_digest,
        bits=64,
    )
    size = float(np.max(np.abs(values)))
    return make_offer(identity, state.party, agreed, n_features=len(state.origin), largest=size), values


def masked_scores(
    own: SumKey, values: Numbers, offers: Mapping[str, Offer], pinned: Mapping[str, str], part: int = 1
) -> MaskedSum:
    """Return one piece of a party's masked share of the scores of new samples."""
    rows, n_parts = _rows_of(own.offer.agreed, part)
    return masked(values[rows], own, offers, pinned, part=part, n_parts=n_parts)


def _rows_of(agreed: Agreed, part: int) -> tuple[slice, int]:
    """Rows of a piece, and how many pieces there are."""
    pieces = quantities.pieces(agreed)
    if not 1 <= part <= len(pieces):
        raise ProtectionError(f"piece {part} was asked for, and the sum {agreed.run!r} has {len(pieces)}")
    return pieces[part - 1], len(pieces)


def _offered(identity: Identity, name: str, agreed: Agreed, state: PartyState, X: Numbers) -> SumKey:
    with quiet():
        size = quantities.largest(agreed, state.kernel, X, state.anchors)
    return make_offer(identity, name, agreed, n_features=X.shape[1], largest=size)


def _check(X: Array, asked: Sum, name: str) -> None:
    kernel = asked.kernel
    if not isinstance(X, np.ndarray):
        raise InputError(f"party {name!r}: masked sums are formed on the host; give a NumPy array, or protect='none'")
    if X.shape[0] < 2:
        raise InputError(f"party {name!r} has {counted(X.shape[0], 'row')}; a fit needs at least 2 samples")
    if asked.n_landmarks and quantities.has_diagonal(kernel):
        raise InputError(
            f"landmarks are for kernels of distances, and all pairs of {X.shape[0]:,} samples are many; use "
            f"protect='blind' with the {kernel.name} kernel"
        )
    if asked.n_landmarks > X.shape[0]:
        raise InputError(f"party {name!r}: {asked.n_landmarks} landmarks of {X.shape[0]} samples; ask for fewer")
    with quiet():
        kernel.partial(X[:1], X[:1])  # an error of the kernel, where nothing of it adds up


def digest_of(sample_ids: Sequence[str] | None, n_samples: int) -> str:
    """Fingerprint of the ids, or of the number of rows where there are none."""
    return messages.row_number_digest(n_samples) if sample_ids is None else messages.digest(sample_ids)
