"""Bytes, memory and time before anything runs."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dkpca import party, wire
from dkpca.arrays import Array
from dkpca.kernels import RBF, Kernel
from dkpca.messages import Statistics, Summary, row_number_digest
from dkpca.precision import PRECISIONS, Rounded
from dkpca.rank import Auto

PROBE_ROWS = 400  # enough to see where a spectrum falls off, in well under a second
PASSES = 12  # products with a block that a partial eigensolver takes, roughly


@dataclass(frozen=True)
class Cost:
    """What one party, or the center, has to expect."""

    name: str
    n_features: int
    rank: int
    bytes_sent: int
    bytes_raw: int  # of its columns in the same precision
    memory: int  # bytes, of the dense solver
    seconds: float  # of the dense solver, to within a factor of a few

    @property
    def larger_than_data(self) -> bool:
        """Whether the factor has more bytes than the columns it summarizes."""
        return self.bytes_sent > self.bytes_raw


def party_costs(parties: Sequence[Statistics], ranks: Mapping[str, int], precision: str) -> list[Cost]:
    """Costs of each party."""
    rate = operations_per_second()
    costs = []
    for known in parties:
        T, M, D = known.n_samples, known.n_features, min(ranks[known.party], known.n_samples)
        costs.append(
            Cost(
                name=known.party,
                n_features=M,
                rank=D,
                bytes_sent=summary_size(known.party, T, M, D, precision),
                bytes_raw=T * M * PRECISIONS[precision],
                memory=_dense_memory(T),
                seconds=2.0 * T**2 * (M + PASSES * D) / rate,
            )
        )
    return costs


def center_cost(costs: Sequence[Cost], n_samples: int, n_components: int) -> Cost:
    """Cost of the fusion."""
    total_rank = sum(cost.rank for cost in costs)
    return Cost(
        name="center",
        n_features=sum(cost.n_features for cost in costs),
        rank=n_components,
        bytes_sent=0,
        bytes_raw=0,
        memory=_dense_memory(n_samples) + 8 * n_samples * total_rank,
        seconds=2.0 * n_samples**2 * (total_rank + PASSES * n_components) / operations_per_second(),
    )


def summary_size(party: str, n_samples: int, n_features: int, rank: int, precision: str) -> int:
    """Bytes of a summary, without making one."""
    zero = np.dtype(precision).type(0)
    scale = np.ones(rank) if precision == "float16" else None
    factor = Rounded(np.broadcast_to(zero, (n_samples, rank)), scale)
    number = 1 / 3  # as many digits as a real one
    digest = row_number_digest(n_samples)
    return wire.size(Summary(party, RBF(number), digest, n_features, factor, number, number, number, number))


def probed_rank(X: Array, *, kernel: Kernel, n_components: int, seed: int = 0) -> int:
    """Rank that rank="auto" would choose, judged by a few hundred rows."""
    rows = np.random.default_rng(seed).permutation(X.shape[0])[:PROBE_ROWS]
    components = min(n_components, len(rows))
    summary, _ = party.summarise(X[np.sort(rows)], party="probe", kernel=kernel, rank=Auto(components))
    return summary.rank


def operations_per_second(size: int = 384) -> float:
    """Speed of this machine in a matrix product, measured in a few milliseconds."""
    block = np.ones((size, size))
    block @ block  # the first product starts the threads
    start = time.perf_counter()
    block @ block
    return float(2.0 * size**3 / max(time.perf_counter() - start, 1e-6))


def _dense_memory(n_samples: int) -> int:
    """Two n x n matrices of float64."""
    return 16 * n_samples**2
