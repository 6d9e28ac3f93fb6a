"""All parties in one program: the rounds as function calls, spread over workers by joblib.

`joblib.parallel_config(backend="loky" | "dask")` around a fit decides where the parties' work runs.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from joblib import Parallel, delayed

from dkpca import party
from dkpca.arrays import Array
from dkpca.eigen import Solver
from dkpca.kernels import Kernel
from dkpca.messages import Statistics, Summary
from dkpca.party import PartyState
from dkpca.rank import RankRule

Answer = TypeVar("Answer")


def statistics(columns: Mapping[str, Array], *, n_jobs: int | None = None) -> list[Statistics]:
    """First round, only where gamma has to be derived."""
    return [party.statistics(X, party=name) for name, X in columns.items()]


def summaries(
    columns: Mapping[str, Array],
    *,
    kernel: Kernel,
    rank: RankRule,
    precision: str,
    solver: str | Solver,
    random_state: int = 0,
    keep_training: bool = False,
    n_jobs: int | None = None,
) -> dict[str, tuple[Summary, PartyState]]:
    """Return what each party would send, and what it would keep: the one numerical round."""

    def summarise(name: str, X: Array) -> tuple[Summary, PartyState]:
        return party.summarise(
            X,
            party=name,
            kernel=kernel,
            rank=rank,
            precision=precision,
            solver=solver,
            random_state=random_state,
            keep_training=keep_training,
        )

    answers = Parallel(n_jobs=n_jobs)(delayed(summarise)(name, X) for name, X in columns.items())
    return dict(zip(columns, answers, strict=True))


def new_samples(
    answer: Callable[[PartyState, Array], Answer],
    states: Mapping[str, PartyState],
    columns: Mapping[str, Array],
    *,
    n_jobs: int | None = None,
) -> list[Answer]:
    """Ask every party about new samples; `answer` is `party.extend` or `party.partials`."""
    return list(Parallel(n_jobs=n_jobs)(delayed(answer)(states[name], columns[name]) for name in states))
