"""Bytes, memory and time before anything runs."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca import fusion, wire
from dkpca.exchange.rehearsal import Planned
from dkpca.kernels import RBF, Kernel
from dkpca.kernels.grams import KernelGram
from dkpca.linalg import effort, leading
from dkpca.linalg.gram import Gram
from dkpca.linalg.precision import PRECISIONS, Rounded
from dkpca.messages import Statistics, Summary, row_number_digest


@dataclass(frozen=True)
class Cost:
    """What one party, or the center, has to expect."""

    name: str
    n_features: int
    rank: int
    bytes_sent: int
    bytes_raw: int  # of its columns in the same precision
    solver: str  # that "auto" would choose on this machine
    memory: int  # bytes
    seconds: float  # to within a factor of a few

    @property
    def larger_than_data(self) -> bool:
        """Whether the factor has more bytes than the columns it summarizes."""
        return self.bytes_sent > self.bytes_raw


def party_costs(parties: Sequence[Statistics], planned: Mapping[str, Planned], precision: str) -> list[Cost]:
    """Costs of each party."""
    rate = operations_per_second()
    costs = []
    for known in parties:
        plan = planned[known.party]
        T, M, D = known.n_samples, known.n_features, min(plan.rank, known.n_samples)
        solver, memory, operations = _effort(KernelGram(RBF(1.0), _nothing(T, M)), D, None)
        costs.append(
            Cost(
                name=known.party,
                n_features=M,
                rank=D,
                bytes_sent=plan.bytes or summary_size(known.party, T, M, D, precision, plan.kernel),
                bytes_raw=T * M * PRECISIONS[precision],
                solver=solver,
                memory=memory,
                seconds=operations / rate,
            )
        )
    return costs


def center_cost(costs: Sequence[Cost], n_samples: int, n_components: int) -> Cost:
    """Cost of the fusion."""
    total_rank = sum(cost.rank for cost in costs)
    solver, memory, operations = _effort(
        KernelGram(RBF(1.0), _nothing(n_samples, total_rank)), n_components, fusion.LANDMARKS
    )
    n_features = sum(cost.n_features for cost in costs)
    return Cost("center", n_features, n_components, 0, 0, solver, memory, operations / operations_per_second())


def _effort(gram: Gram, k: int, landmarks: int | None) -> tuple[str, int, float]:
    """Solver that would be chosen, its memory in bytes, and its operations."""
    solver, _ = leading.choose(gram, k)
    n, entry = gram.n, gram.entry_operations
    efforts = {
        "dense": effort.dense(n, entry, k),
        "streamed": effort.streamed(n, entry, k),
        "landmark": effort.landmark(n, entry, leading.enough_landmarks(gram, k, landmarks)),
    }
    table = n * (gram.reference.shape[1] + k)
    return solver, int(8 * (table + efforts[solver].memory)), efforts[solver].operations


def _nothing(n_samples: int, columns: int) -> np.ndarray[Any, Any]:
    """A table that takes no memory, whatever its size."""
    return np.broadcast_to(np.float64(0), (n_samples, columns))


def summary_size(party: str, n_samples: int, n_features: int, rank: int, precision: str, kernel: Kernel) -> int:
    """Bytes of a summary, without making one; those of compact numbers are not known before."""
    zero = np.dtype(precision).type(0)
    scale = np.ones(rank) if precision == "float16" else None
    factor = Rounded(np.broadcast_to(zero, (n_samples, rank)), scale)
    number = 1 / 3  # as many digits as a real one
    digest = row_number_digest(n_samples)
    diagonal = Rounded(np.broadcast_to(np.float64(0), (n_samples, 1))) if kernel.sends_diagonal else None
    told = (number, number, number, number)
    return wire.size(Summary(party, kernel, digest, n_features, factor, *told, diagonal, left_out_overlap=0.0))


def operations_per_second() -> float:
    """Speed of this machine in a matrix product, measured in a few milliseconds."""
    size = 384
    block = np.ones((size, size))
    block @ block  # the first product starts the threads
    start = time.perf_counter()
    block @ block
    return float(2.0 * size**3 / max(time.perf_counter() - start, 1e-6))
