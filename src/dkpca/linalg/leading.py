"""Leading eigenpairs of a Gram matrix: one contract, three solvers, and the choice between them."""

from collections.abc import Callable
from dataclasses import replace

from dkpca.errors import InputError, OutOfMemoryError
from dkpca.linalg import effort
from dkpca.linalg.arrays import device, free_memory, itemsize, on_gpu, out_of_memory_errors, same_place
from dkpca.linalg.dense import Dense
from dkpca.linalg.eigenpairs import Eigenpairs
from dkpca.linalg.gram import Gram
from dkpca.linalg.landmark import Landmark, default_landmarks
from dkpca.linalg.on_device import away_from
from dkpca.linalg.progress import current
from dkpca.linalg.scaled import as_large, ordinary
from dkpca.linalg.streamed import Streamed

Solver = Callable[[Gram, int], Eigenpairs]
NAMES = ("auto", "dense", "landmark", "streamed")

# Operations that "auto" takes for an exact answer: ten seconds or less, on two cores and on a GPU of 2024.
WORK, WORK_GPU = 2e11, 2e14
BUILDING = 0.25  # of them, for building the matrix where passing over it would take less: its answer is proved
PARTY_SHARE = 1 / 8  # of them, for landmarks whose number nobody gave: those of a party


def leading(
    gram: Gram,
    k: int,
    *,
    solver: str | Solver = "auto",
    n_landmarks: int | None = None,
    random_state: int = 0,
) -> Eigenpairs:
    """Return the k leading eigenpairs of a Gram matrix, eigenvalues descending.

    The sign of each eigenvector is fixed: its entry of largest magnitude is positive. Inside an eigenspace
    of equal eigenvalues the basis is whatever the solver found.

    Parameters
    ----------
    gram : Gram
        The matrix.
    k : int
        Pairs wanted, at most as many as there are rows.
    solver : {"auto", "dense", "streamed", "landmark"} or a solver object
        A name stands for the solver with its default settings and the two arguments that follow.
    n_landmarks : int, optional
        Landmarks to pick, see `Landmark`; "auto" takes more as long as they cost no more than an exact answer may.
    random_state : int
        Seed for picking them.
    """
    if not 1 <= k <= gram.n:
        raise InputError(f"{k} eigenpairs of a {gram.n} x {gram.n} matrix were asked for; ask for 1 to {gram.n}")
    if not isinstance(solver, str):
        return _solve(solver, _placed(gram, solver, isinstance(solver, Landmark)), k)
    if solver not in NAMES:
        raise InputError(f"solver {solver!r} is unknown; use one of {list(NAMES)} or a solver object")
    name, reason = choose(gram, k) if solver == "auto" else (solver, "as asked")
    gram = gram if solver == "auto" and name != "landmark" else _placed(gram, name, name == "landmark")
    if solver == "auto" and name == "landmark":
        n_landmarks = enough_landmarks(gram, k, n_landmarks)
    try:
        pairs = _solve(_named(name, n_landmarks, random_state), gram, k)
    except out_of_memory_errors() as error:
        where = "GPU memory" if on_gpu(gram.reference) else "memory"
        raise OutOfMemoryError(
            f"{where} ran out in solver {name!r} for n = {gram.n}, k = {k}; "
            "try solver='landmark', float32 or fewer pairs"
        ) from error
    return replace(pairs, solver=f"{pairs.solver} ({reason})")


def _placed(gram: Gram, solver: str | Solver, by_groups: bool) -> Gram:
    """Return the matrix where it is to be computed with: on a device from rows in host memory, only by groups."""
    place = away_from(gram.reference)
    if place is None:
        return gram
    if not by_groups:
        raise InputError(
            f"solver {solver!r} computes with all rows where they lie, and these lie in host memory; use "
            f"solver='landmark' with device={str(device(place))!r}, or pass tensors that lie there"
        )
    return gram.sent_to(place)


def _solve(solver: Solver, gram: Gram, k: int) -> Eigenpairs:
    """Solve at ordinary size, and say how far the evaluation of the matrix can be from what is meant."""
    same, size = ordinary(gram)
    pairs = as_large(solver(same, k).with_residual(same.evaluation_error()), size)
    there = gram.reference
    if same_place(there, gram.home):
        return pairs
    return replace(pairs, solver=f"{pairs.solver}, rows in host memory, computed on {device(there)}")


def _named(name: str, n_landmarks: int | None, random_state: int) -> Solver:
    if name == "dense":
        return Dense()
    if name == "landmark":
        return Landmark(n_landmarks, random_state=random_state, progress=current())
    return Streamed(random_state=random_state, progress=current())


def choose(gram: Gram, k: int) -> tuple[str, str]:
    """Return the most exact solver that will not take long, and why: by work, device, memory and structure."""
    if gram.factor is not None:
        return "dense", "auto: a factor with fewer columns than rows is at hand"
    gpu = on_gpu(gram.reference)
    most = WORK_GPU if gpu else WORK
    building = effort.dense(gram.n, gram.entry_operations, k, gpu=gpu)
    passing = effort.streamed(gram.n, gram.entry_operations, k).operations
    where = f"auto: n = {gram.n} on {'a GPU' if gpu else 'the CPU'}"
    if building.operations <= max(BUILDING * most, min(passing, most)):
        needed, free = building.memory * itemsize(gram.reference), free_memory(gram.reference)
        if needed < free:
            return "dense", f"{where}, small enough to build the matrix"
        return "streamed", f"{where}, but the matrix would take {needed / 1e9:.1f} of {free / 1e9:.1f} GB free"
    if passing <= most:
        return "streamed", f"{where}, too large to build the matrix, small enough to pass over it"
    return "landmark", f"{where}, too large to pass over the matrix"


def enough_landmarks(gram: Gram, k: int, wanted: int | None) -> int:
    """Return how many landmarks "auto" takes: those wanted, and more as long as that is little work."""
    work = (WORK_GPU if on_gpu(gram.reference) else WORK) * (PARTY_SHARE if wanted is None else 1.0)
    return max(wanted or default_landmarks(k), effort.landmarks_within(gram.n, gram.entry_operations, work))
