"""Leading eigenpairs of a Gram matrix: one contract, three solvers, and the choice between them."""

import math
from collections.abc import Callable
from dataclasses import replace

from dkpca.errors import InputError, OutOfMemoryError
from dkpca.linalg.arrays import device as device_of
from dkpca.linalg.arrays import (
    dtype_name,
    free_memory,
    itemsize,
    namespace,
    on_gpu,
    out_of_memory_errors,
    power_of_four,
    quiet,
    same_place,
)
from dkpca.linalg.dense import Dense, Enough
from dkpca.linalg.eigenpairs import Eigenpairs, repeated
from dkpca.linalg.gram import Centered, Gram, Scaled
from dkpca.linalg.landmark import Landmark, default_landmarks
from dkpca.linalg.rows import away_from
from dkpca.linalg.streamed import Streamed

Solver = Callable[[Gram, int], Eigenpairs]
NAMES = ("auto", "dense", "landmark", "streamed")

# Operations that "auto" takes for an exact answer: ten seconds or less, on two cores and on a GPU of 2024.
WORK, WORK_GPU = 2e11, 2e14
BUILDING = 0.25  # share of WORK for building the matrix where passing over it would take less: its answer is proved
OF_SIZE = (
    "values", "spectrum", "next_value", "trace", "missed_trace", "missed_norm", "missed_within", "residual_norm",
    "residual_nuclear", "taken_trace",
)  # fmt: skip  # fields of Eigenpairs that are as large as the matrix
HEADROOM = 1e-4  # share of the range of a precision that sums and rounding are left
ORDINARY = (1e-6, 1e6)  # diagonal entries whose squares, and those of their rounding, are far from any limit
DENSE_PASSES = 15  # products with the matrix for each pair, by Lanczos
CHOLESKY = 0.4  # of n^3: the proof that Lanczos missed none
EIGENSOLVER_GPU = 60.0  # of n^3: a GPU has no partial solver
STREAMED_PASSES = 10  # products with a block, those that search for missed pairs included
SPARE = 10  # columns of a block beyond the pairs, or half as many as the pairs if that is more
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
    few = gram.distinct() if device is None else None
    if few is not None and few[0].n >= k:
        of_few = leading(few[0], k, solver=solver, n_landmarks=n_landmarks, random_state=random_state, enough=enough)
        return repeated(of_few, few[1], gram.memory)
    if not isinstance(solver, str):
        return _solve(solver, _placed(gram, solver, isinstance(solver, Landmark), device), k)
    if solver not in NAMES:
        raise InputError(f"solver {solver!r} is unknown; use one of {list(NAMES)} or a solver object")
    name, reason = choose(gram, k) if solver == "auto" else (solver, "as asked")
    gram = gram if solver == "auto" and name != "landmark" else _placed(gram, name, name == "landmark", device)
    if solver == "auto" and name == "landmark":
        n_landmarks = enough_landmarks(gram, k, n_landmarks)
    solvers: dict[str, Solver] = {
        "dense": Dense(enough),
        "landmark": Landmark(n_landmarks, random_state),
        "streamed": Streamed(random_state=random_state),
    }
    try:
        pairs = _solve(solvers[name], gram, k)
    except out_of_memory_errors() as error:
        where = "GPU memory" if on_gpu(gram.reference) else "memory"
        raise OutOfMemoryError(
            f"{where} ran out in solver {name!r} for n = {gram.n}, k = {k}; "
            "try solver='landmark', float32 or fewer pairs"
        ) from error
    return replace(pairs, solver=f"{pairs.solver} ({reason})")


def _placed(gram: Gram, solver: str | Solver, by_groups: bool, device: str | None) -> Gram:
    """Return the matrix where it is to be computed with: on a device from rows in host memory, only by groups."""
    place = away_from(device, gram.reference)
    if place is None:
        return gram
    if not by_groups:
        raise InputError(
            f"solver {solver!r} computes with all rows where they lie, and these lie in host memory; use "
            f"solver='landmark' with device={device!r}, or pass tensors that lie there"
        )
    return gram.sent_to(place)


def _solve(solver: Solver, gram: Gram, k: int) -> Eigenpairs:
    """Solve at ordinary size, and say how far the evaluation of the matrix can be from what is meant."""
    if gram.chunks is not None and not isinstance(solver, Landmark):
        raise InputError(
            f"exact solvers compare all {gram.n} samples with all, and the rows of this Dask collection stay where "
            "they are; use solver='landmark' or 'auto', or gather a part of the rows (X[:n].compute())"
        )
    same, size = ordinary(gram)
    pairs = as_large(solver(same, k).with_residual(same.evaluation_error()), size)
    there = gram.reference
    if same_place(there, gram.home):
        return pairs
    return replace(pairs, solver=f"{pairs.solver}, rows in host memory, computed on {device_of(there)}")


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
        needed, free = 3.0 * n**2 * itemsize(gram.reference), free_memory(gram.reference, gram.memory)
        if needed < free:
            return "dense", f"{where}, small enough to build the matrix"
        return "streamed", f"{where}, but the matrix would take {needed / 1e9:.1f} of {free / 1e9:.1f} GB free"
    if passing <= most:
        return "streamed", f"{where}, too large to build the matrix, small enough to pass over it"
    return "landmark", f"{where}, too large to pass over the matrix"


def enough_landmarks(gram: Gram, k: int, wanted: int | None) -> int:
    """Return how many landmarks "auto" takes: those wanted, and more as long as that is little work."""
    work = (WORK_GPU if on_gpu(gram.reference) else WORK) * (PARTY_SHARE if wanted is None else 1.0)
    return max(wanted or default_landmarks(k), landmarks_within(gram.n, gram.entry_operations, work))


def landmarks_within(n: int, entry: float, operations: float) -> int:
    """Most landmarks m that take no more than so many operations, n m (entry + 3 m)."""
    share = operations / n
    return min(n, int(((entry**2 + 12.0 * share) ** 0.5 - entry) / 6.0))


# Very small or large matrices are brought near size one, by a power of four, so that no square under- or overflows


def ordinary(gram: Gram) -> tuple[Gram, float]:
    """Return a matrix whose numbers are of ordinary size, and the factor by which the given one is larger."""
    if isinstance(gram, Centered):
        same, size = ordinary(gram.base)
        return (gram if size == 1.0 else gram.of(same)), size
    # The largest diagonal entry is the largest entry of a positive semidefinite matrix.
    xp = namespace(gram.reference)
    with quiet():
        size = float(namespace(gram.home).max(gram.diagonal()))
        trace, log_size = gram.trace(), gram.log_largest()
    limits, beyond = xp.finfo(gram.reference.dtype), f"which {dtype_name(gram.reference)} cannot compute with"
    if not trace <= float(limits.max) * HEADROOM:
        reach = math.inf if math.isnan(size) else size
        raise InputError(f"numbers of the kernel matrix reach {reach:.1e}, {beyond}; scale the columns down")
    if -math.inf < log_size < math.log(float(limits.smallest_normal) / HEADROOM):
        raise InputError(
            f"numbers of the kernel matrix are of size 10^{log_size / math.log(10):.0f}, {beyond}; "
            "scale the columns up"
        )
    if size <= 0.0 or ORDINARY[0] <= size <= ORDINARY[1]:
        return gram, 1.0
    size = power_of_four(size)
    return Scaled(gram, size), size


def as_large(pairs: Eigenpairs, size: float) -> Eigenpairs:
    """Return the pairs of the matrix that is so many times larger."""
    if size == 1.0:
        return pairs
    root = size**0.5
    own = pairs.extension
    slopes = None if own.slopes is None else own.slopes * root
    extension = replace(own, weights=own.weights / root, offset=own.offset * root, slopes=slopes)
    nearby = None if pairs.nearby is None else replace(pairs.nearby, values=pairs.nearby.values * size)
    larger = {name: getattr(pairs, name) * size for name in OF_SIZE if getattr(pairs, name) is not None}
    return replace(pairs, nearby=nearby, extension=extension, **larger)
