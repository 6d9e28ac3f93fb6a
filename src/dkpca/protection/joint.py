"""At the center: the sum of all parties' quantities becomes the summary of one party that has all columns.

From there on everything is as ever: it is fused, certified, reported, and new samples are placed by its rows. The
summary says how far rounding on the ring, and what landmarks leave out, can have moved it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import scipy.linalg

from dkpca import wire
from dkpca.errors import FusionError, InputError
from dkpca.kernels import Kernel
from dkpca.linalg.precision import Rounded
from dkpca.linalg.rounding import growth, solver_error
from dkpca.messages import Agreed, MaskedSum, Rows, Summary
from dkpca.protection import quantities, sums
from dkpca.protection.ring import EXACT_BITS, LENGTHS, Numbers

JOINED = "joined"  # name of the party that nobody is
DOUBLE = float(np.finfo(np.float64).eps)
KEPT = 1e-10  # eigenvalues of the landmarks' matrix, as a share of the largest, that can be divided by
SAFE = 100.0  # and how many times larger they have to be than the errors of that matrix
WORTH = 1e-3  # of what landmarks leave out anyway: so much more may be left out for a smaller rank
Pieces = Callable[[], Iterable[Sequence[MaskedSum]]]  # a sum piece by piece, from the beginning at each call


def check_kernel(kernel: Kernel, agreed: Agreed) -> None:
    """Raise unless this kernel can be formed from what was added up."""
    if kernel.name != agreed.kernel:
        raise FusionError(f"the parties added up what the {agreed.kernel} kernel needs, not the {kernel.name} kernel")
    if agreed.kind == quantities.COLUMNS and quantities.has_diagonal(kernel):
        raise InputError(
            f"landmarks are for distances; for many samples the {kernel.name} kernel goes with protect='blind'"
        )


def check_of_fit(agreed: Agreed) -> None:
    """Raise unless these are numbers from which a fit is made."""
    if agreed.kind == quantities.NEW:
        raise FusionError(
            "these are masked numbers of new samples; name the summary of the fit with --fit joined.summary (and the "
            "name of its sum with --fit-run, if it had landmarks)"
        )
    if agreed.kind == quantities.SCORES:
        raise FusionError("these are masked shares of scores, after a blind fit")


def summary_of(kernel: Kernel, pieces: Pieces) -> Summary:
    """Return the summary of the joined table.

    Parameters
    ----------
    kernel : Kernel
        To be formed of the sum; its width may be chosen now.
    pieces : function
        The masked sums of all parties, piece by piece; called twice where there are landmarks.
    """
    first = sums.check_complete(next(iter(pieces())))
    check_of_fit(first.agreed)
    check_kernel(kernel, first.agreed)
    return (_of_pairs if first.agreed.kind == quantities.PAIRS else _of_landmarks)(kernel, first, pieces)


def width_of(kernel: Kernel, pieces: Pieces) -> float:
    """Return one over the mean of what gamma multiplies: between different samples, or samples and landmarks.

    For a kernel of inner products that is the mean squared length of a sample. 1 if all of it is zero.
    """
    first = sums.check_complete(next(iter(pieces())))
    check_kernel(kernel, first.agreed)
    n, agreed = first.agreed.rows, first.agreed
    if quantities.has_diagonal(kernel):
        total, count = float(np.trace(_pairs(kernel, agreed, pieces))), n
    elif agreed.kind == quantities.PAIRS:
        total, count = float(_pairs(kernel, agreed, pieces).sum()), n * (n - 1)
    else:
        total, count = sum(float(values.sum()) for _, values in _blocks(agreed, pieces)), (n - 1) * agreed.columns
    return count / total if total > 0 else 1.0


def rows_of(summary: Summary, pieces: Pieces, positions: Numbers | None = None) -> Rows:
    """Return new samples as rows of the joint factor.

    Parameters
    ----------
    summary : Summary
        That `summary_of` made.
    pieces : function
        The masked sums about the new samples.
    positions : array, optional
        Of the landmarks of the fit; None: all samples.
    """
    first = sums.check_complete(next(iter(pieces())))
    A = np.asarray(summary.factor.decode())
    anchors = A if positions is None else A[positions]
    if first.agreed.kind != quantities.NEW or first.agreed.columns != len(anchors):
        raise FusionError("these masked sums are not about new samples of this fit; give those that go with it")
    weights = np.linalg.pinv(anchors.T)  # a(y) A' = k(y, anchors), solved for a(y) by least squares
    rows = [_gram(summary.kernel, values) @ weights for _, values in _blocks(first.agreed, pieces)]
    return Rows(JOINED, wire.fingerprint(summary), first.agreed.sample_digest, Rounded(np.vstack(rows)))


def scores_of(pieces: Pieces) -> Numbers:
    """Return the sum of all parties' shares of the scores of new samples."""
    first = sums.check_complete(next(iter(pieces())))
    if first.agreed.kind == quantities.NEW:
        raise FusionError("these are masked numbers of new samples, not yet added up")
    if first.agreed.kind != quantities.SCORES:
        raise FusionError("these are masked numbers of a fit")
    return np.vstack([values for _, values in _blocks(first.agreed, pieces)])


def _of_pairs(kernel: Kernel, first: MaskedSum, pieces: Pieces) -> Summary:
    n, total = first.agreed.rows, _pairs(kernel, first.agreed, pieces)
    entry = _entry_error(kernel, total, _uncertainty(first, kernel))
    K = _gram(kernel, total)
    own = np.diagonal(K).copy()
    trace = float(own.sum())
    values, vectors = scipy.linalg.eigh(K, overwrite_a=True, check_finite=False)
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = max(math.sqrt(n) * DOUBLE * float(values[0]), -float(values[-1]))
    rank = max(1, int((values > noise).sum()))
    factor = vectors[:, :rank] * np.sqrt(np.maximum(values[:rank], 0.0))
    # Entries off by so much, twice: the matrix, and the eigenvalues below zero that this gave it.
    moved = 2.0 * n * entry + solver_error(n, float(values[0]), factor)
    below_zero = -float(np.minimum(values[rank:], 0.0).sum())
    return _summary(
        kernel,
        first,
        factor,
        left_out_norm=max(0.0, float(values[rank])) if rank < n else 0.0,
        trace=trace,
        rounding_norm=moved,
        rounding_nuclear=math.sqrt(n) * moved + below_zero,
        diagonal=own,
    )


def _pairs(kernel: Kernel, agreed: Agreed, pieces: Pieces) -> Numbers:
    """What the kernel is formed of, for all pairs of samples."""
    total = np.zeros((agreed.rows, agreed.rows))
    for rows, received, values in _added(agreed, pieces):
        lengths = sums.added_lengths(received, rows.stop - rows.start) if quantities.have_lengths(agreed) else None
        quantities.fill(total, rows, values, lengths)
    return quantities.as_distances(total) if agreed.signed and kernel.unit_diagonal else total


def _of_landmarks(kernel: Kernel, first: MaskedSum, pieces: Pieces) -> Summary:
    """Nystrom in two passes over the pieces: matrices of the landmarks' size, then the factor."""
    agreed = first.agreed
    n, m = agreed.rows, agreed.columns
    positions = quantities.landmarks(agreed.run, n, m)
    among, products, entry = np.zeros((m, m)), np.zeros((m, m)), 0.0
    for rows, values in _blocks(agreed, pieces):
        entry = max(entry, _entry_error(kernel, values, _uncertainty(first, kernel)))
        C = _gram(kernel, values)
        inside = (positions >= rows.start) & (positions < rows.stop)
        among[inside] = C[positions[inside] - rows.start]
        products += C.T @ C
    lengths, U = np.linalg.eigh(0.5 * (among + among.T))
    kept = lengths > max(KEPT * float(lengths[-1]), SAFE * m * entry)
    if not kept.any():
        raise FusionError("the landmarks cannot be told apart with so few bits; take more of them, or a wider kernel")
    roots = U[:, kept] / np.sqrt(lengths[kept])
    spectrum, Z = np.linalg.eigh(roots.T @ products @ roots)
    spectrum, Z = np.maximum(spectrum[::-1], 0.0), Z[:, ::-1]
    rest = np.append(np.cumsum(spectrum[::-1])[::-1][1:], 0.0)
    rank = int(np.argmax(rest <= WORTH * max(0.0, n - float(spectrum.sum())))) + 1
    weights = roots @ Z[:, :rank]
    factor = np.empty((n, rank))
    for rows, values in _blocks(agreed, pieces):
        factor[rows] = _gram(kernel, values) @ weights
    stretch = m * entry * float(np.linalg.norm(weights, 2)) ** 2
    trace = float((factor**2).sum())
    moved = _moved(math.sqrt(n * m) * entry * float(np.linalg.norm(weights, 2)), stretch, float(spectrum[0]))
    moved += solver_error(m, float(spectrum[0]), factor) * growth(m)
    return _summary(
        kernel,
        first,
        factor,
        left_out_norm=max(0.0, n - trace) + stretch * trace,
        trace=float(n),
        rounding_norm=moved,
        rounding_nuclear=2 * rank * moved,
        diagonal=np.ones(n),
    )


def _moved(columns: float, stretch: float, largest: float) -> float:
    """Bound on what errors of the landmarks' columns do to the approximation.

    With C the true columns, W the true matrix of the landmarks and M the weights, M' W M <= (1 + stretch) I, so that
    K >= C M M' C' / (1 + stretch); and the computed factor differs from C M by `columns` in norm at most.
    """
    return 2.0 * math.sqrt(largest) * columns + columns**2 + stretch * (math.sqrt(largest) + columns) ** 2


def _summary(
    kernel: Kernel,
    first: MaskedSum,
    factor: Numbers,
    *,
    left_out_norm: float,
    trace: float,
    rounding_norm: float,
    rounding_nuclear: float,
    diagonal: Numbers,
) -> Summary:
    return Summary(
        party=JOINED,
        kernel=kernel,
        sample_digest=first.agreed.sample_digest,
        n_features=first.n_features,
        factor=Rounded(factor),
        left_out_norm=left_out_norm,
        trace_left_out=trace - float((factor**2).sum()),
        rounding_norm=rounding_norm,
        rounding_nuclear=rounding_nuclear,
        diagonal=Rounded(diagonal[:, None]) if kernel.sends_diagonal else None,
    )


def _gram(kernel: Kernel, total: Numbers) -> Numbers:
    """Entries of the joint Gram matrix; a kernel that the law finishes stays as it is."""
    if kernel.sends_diagonal:
        return total
    return np.asarray(kernel.finish(np.maximum(total, 0.0) if kernel.unit_diagonal else total))


def _uncertainty(first: MaskedSum, kernel: Kernel) -> float:
    """Most by which a number can be wrong: half a step per party, and what their own arithmetic may have lost."""
    agreed = first.agreed
    reach = first.step * 2.0 ** (min(agreed.bits, EXACT_BITS) - agreed.signed)
    rounding = 0.5 * len(first.parties) * first.step
    if not quantities.have_lengths(agreed):
        return rounding + quantities.ARITHMETIC * reach
    rounding += 0.5 * len(first.parties) * sums.ring_at(first).for_lengths().step
    if kernel.unit_diagonal:
        rounding *= 2.0  # a squared distance is two lengths less twice a product
    return rounding + quantities.ARITHMETIC * LENGTHS * reach


def _entry_error(kernel: Kernel, total: Numbers, uncertainty: float) -> float:
    """Most by which an entry of the Gram matrix can be wrong; what finishes a kernel of distances is monotone."""
    if kernel.sends_diagonal or not kernel.unit_diagonal:
        return uncertainty
    largest = 0.0
    for row in total:
        low, high = kernel.finish(np.maximum(row - uncertainty, 0.0)), kernel.finish(row + uncertainty)
        largest = max(largest, float(np.max(low - high)))
    return largest


def _added(agreed: Agreed, pieces: Pieces) -> Iterator[tuple[slice, Sequence[MaskedSum], Numbers]]:
    """Rows of each piece, what came of it, and its sums."""
    wanted, given = quantities.pieces(agreed), 0
    for received in pieces():
        given += 1
        if given > len(wanted) or any(message.part != given for message in received):
            raise FusionError(f"the masked sum has {len(wanted)} pieces, and others than these came")
        rows = wanted[given - 1]
        yield rows, received, sums.added(received, quantities.count(agreed, rows))
    if given < len(wanted):
        raise FusionError(f"the masked sum has {len(wanted)} pieces, and only {given} came; wait for the others")


def _blocks(agreed: Agreed, pieces: Pieces) -> Iterator[tuple[slice, Numbers]]:
    """Rows and sums of each piece, as a matrix."""
    for rows, _, values in _added(agreed, pieces):
        yield rows, values.reshape(-1, agreed.columns)
