"""Leading eigenpairs of a Gram matrix: one contract, three solvers, and the choice between them."""

import math
from collections.abc import Callable
from dataclasses import replace

from dkpca.errors import InputError, OutOfMemoryError
from dkpca.linalg.arrays import dtype_name, free_memory, memory_errors, namespace, on_gpu, quiet, same_place
from dkpca.linalg.dense import Dense, Enough
from dkpca.linalg.eigenpairs import Eigenpairs, repeated
from dkpca.linalg.gram import Centered, Gram
from dkpca.linalg.landmark import Landmark, default_landmarks
from dkpca.linalg.rows import away_from
from dkpca.linalg.streamed import SPARE, Streamed

Solver = Callable[[Gram, int], Eigenpairs]
NAMES = ("auto", "dense", "landmark", "streamed")

# Operations that "auto" takes for an exact answer: ten seconds or less, on two cores and on a GPU of 2024.
WORK, WORK_GPU = 2e11, 2e14
BUILDING = 0.25  # share of WORK for building the matrix where passing over it would take less: its answer is proved
LOG_10 = math.log(10.0)
HEADROOM = 1e-4  # share of the range of squares that sums and rounding are left
DENSE_PASSES = 15  # products with the matrix for each pair, by Lanczos
CHOLESKY = 0.4  # of n^3: the proof that Lanczos missed none
EIGENSOLVER_GPU = 60.0  # of n^3: a GPU has no partial solver
STREAMED_PASSES = 10  # products with a block, those that search for missed pairs included
PARTY_SHARE = 1 / 8  # share of WORK for landmarks whose number nobody gave: those of a party


def leading(
    gram: Gram,
    k: int,
    *,
    solver: str | Solver = "auto",
    n_landmarks: int | None = None,
    random_state: int = 0,
    device: str | None = None,
    enough: Enough | None = None,
) -> Eigenpairs:
    """Return the k leading eigenpairs, eigenvalues descending; the largest entry of each vector is positive.

    "auto" takes more landmarks than given if they cost no more than an exact answer may. Landmarks of rows in host
    memory are computed on the device. A solver that knows all eigenvalues before any vector returns `enough` pairs.
    """
    if not 1 <= k <= gram.n:
        raise InputError(f"{k} eigenpairs of a {gram.n} x {gram.n} matrix were asked for; ask for 1 to {gram.n}")
    few = gram.distinct if device is None else None
    if few is not None and few[0].n >= k:
        of_few = leading(few[0], k, solver=solver, n_landmarks=n_landmarks, random_state=random_state, enough=enough)
        return repeated(of_few, few[1], gram.memory)
    if isinstance(solver, str) and solver not in NAMES:
        raise InputError(f"solver {solver!r} is unknown; use one of {list(NAMES)} or a solver object")
    chosen, reason = choose(gram, k) if solver == "auto" else (solver, "as asked")
    by_landmarks = chosen == "landmark" or isinstance(chosen, Landmark)
    place = away_from(device, gram.reference) if by_landmarks or solver != "auto" else None
    if not by_landmarks and (place is not None or gram.chunks is not None):
        raise InputError(
            f"solver {chosen!r} compares all {gram.n} samples with all where they lie, not on another device or on "
            "workers of a cluster; use solver='landmark', or bring the rows to one place"
        )
    gram = gram if place is None else gram.sent_to(place)
    if solver == "auto" and by_landmarks:
        n_landmarks = enough_landmarks(gram, k, n_landmarks)
    solvers: dict[str, Solver] = {
        "dense": Dense(enough),
        "landmark": Landmark(n_landmarks, random_state),
        "streamed": Streamed(random_state=random_state),
    }
    work = solvers[chosen] if isinstance(chosen, str) else chosen
    check_size(gram if not isinstance(gram, Centered) else gram.base)
    try:
        pairs = work(gram, k).with_residual(gram.evaluation_error())
    except memory_errors() as error:
        where = "GPU memory" if on_gpu(gram.reference) else "memory"
        raise OutOfMemoryError(
            f"{where} ran out in solver {chosen!r} for n = {gram.n}, k = {k}; "
            "try solver='landmark', float32 or fewer pairs"
        ) from error
    here = same_place(gram.reference, gram.home)
    there = "" if here else f", rows in host memory, computed on {gram.reference.device}"
    return replace(pairs, solver=f"{pairs.solver}{there} ({reason})")


def choose(gram: Gram, k: int) -> tuple[str, str]:
    """Return the most exact solver that will not take long, and why: by work, device, memory and structure."""
    if gram.chunks is not None:
        return "landmark", f"auto: n = {gram.n} in {len(gram.chunks)} chunks of rows that stay on their workers"
    if gram.factor is not None:
        return "dense", "auto: a factor with fewer columns than rows is at hand"
    gpu = on_gpu(gram.reference)
    most = WORK_GPU if gpu else WORK
    # Operations that each solver would take: counted and not timed, since a choice by the clock would differ from run
    # to run. Building evaluates every entry once; passing ten times, where each entry serves twice.
    n, entry = gram.n, gram.entry_operations
    solving = EIGENSOLVER_GPU * n**3 if gpu else DENSE_PASSES * k * n**2 + CHOLESKY * n**3
    building, width = entry * n**2 + solving, k + max(SPARE, k // 2)
    passing = STREAMED_PASSES * n**2 * (entry / 2 + 2.0 * width)
    where = f"auto: n = {gram.n} on {'a GPU' if gpu else 'the CPU'}"
    if building <= max(BUILDING * most, min(passing, most)):
        needed, free = 3.0 * n**2 * gram.reference.dtype.itemsize, free_memory(gram.reference, gram.memory)
        if needed < free:
            return "dense", f"{where}, small enough to build the matrix"
        return "streamed", f"{where}, but the matrix would take {needed / 1e9:.1f} of {free / 1e9:.1f} GB free"
    if passing <= most:
        return "streamed", f"{where}, too large to build the matrix, small enough to pass over it"
    return "landmark", f"{where}, too large to pass over the matrix"


def enough_landmarks(gram: Gram, k: int, wanted: int | None) -> int:
    """Return how many landmarks "auto" takes: those wanted, and more as long as that is little work."""
    work = (WORK_GPU if on_gpu(gram.reference) else WORK) * (PARTY_SHARE if wanted is None else 1.0)
    # The most landmarks m that take no more operations than that, n m (entry + 3 m).
    n, entry = gram.n, gram.entry_operations
    most = int(((entry**2 + 12.0 * (work / n)) ** 0.5 - entry) / 6.0)
    return max(wanted or default_landmarks(k), min(n, most))


def check_size(gram: Gram) -> None:
    """Refuse matrices so large or small that squares over- or underflow."""
    # The largest diagonal entry is the largest entry of a positive semidefinite matrix.
    limits = namespace(gram.reference).finfo(gram.reference.dtype)
    with quiet():
        size = float(namespace(gram.home).max(gram.diagonal()))
        trace, log_size = gram.trace(), gram.log_largest()
    large = not trace <= float(limits.max) ** 0.5 * HEADROOM
    if large or -math.inf < log_size < 0.5 * math.log(float(limits.smallest_normal)) - math.log(HEADROOM):
        reach = math.inf if math.isnan(size) else size
        found, way = (f"reach {reach:.1e}", "down") if large else (f"are of size 10^{log_size / LOG_10:.0f}", "up")
        limit = f"which {dtype_name(gram.reference)} cannot compute with"
        raise InputError(f"numbers of the kernel matrix {found}, {limit}; scale the columns {way}")
