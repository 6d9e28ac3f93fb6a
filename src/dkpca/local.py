"""All parties on one machine, each in a process of its own: what `dkpca fit` does."""

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dkpca import fusion, party, runs, storage
from dkpca.errors import InputError
from dkpca.exchange import files
from dkpca.exchange.files import Holding, Outbox
from dkpca.kernels import RBF, Kernel, Linear
from dkpca.messages import Statistics
from dkpca.preparation import prepare
from dkpca.rank import RankRule
from dkpca.runs import Run


@dataclass(frozen=True)
class Request:
    """What all parties are asked, and what the center makes of it."""

    kernel: str
    gamma: float | str | None  # None: 1 / number of columns; "auto": 1 / mean squared distance
    n_components: int
    center: bool
    rank: RankRule
    precision: str
    solver: str


def fit(
    out: Path,
    holdings: Sequence[Holding],
    request: Request,
    *,
    jobs: int | None = None,
    done: Callable[[], None] = lambda: None,
) -> tuple[Run, list[str]]:
    """Summarise all tables and fuse; return the run, and what was dropped or filled in, in words.

    The parties' private states go to `private/` in the run, for `dkpca extend`.
    """
    runs.check(out)
    holdings, notes = shared_samples(holdings)
    with (
        _pool(jobs or os.cpu_count() or 1, len(holdings)) as pool,
        tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch,
    ):
        kernel = _kernel(request, holdings, pool)
        tasks = {pool.submit(_summarise, holding, Path(scratch), kernel, request): holding for holding in holdings}
        for task in as_completed(tasks):
            notes += [f"{tasks[task].party}: {note}" for note in task.result()]
            done()
        names = holdings[0].order or (holdings[0].ids() if holdings[0].reading.id_column else None)
        run = runs.fuse(
            out,
            [Path(scratch) / f"{holding.party}.summary" for holding in holdings],
            n_components=request.n_components,
            center=request.center,
            solver=request.solver,
            without=_no_longer(out, holdings),
            sample_names=names,
        )
        _keep_states(Path(scratch), out / "private", holdings)
    return run, sorted(notes)


def shared_samples(holdings: Sequence[Holding]) -> tuple[list[Holding], list[str]]:
    """Keep the samples that all tables have, in the order of the first."""
    if any(holding.reading.id_column is None for holding in holdings):
        return list(holdings), []
    ids = {holding.party: holding.ids() for holding in holdings}
    first = ids[holdings[0].party]
    if all(own == first for own in ids.values()):
        return list(holdings), []
    common = set(first).intersection(*ids.values())
    if not common:
        raise InputError(f"no sample id is in all of {[str(h.path) for h in holdings]}; check --id")
    order = [sample_id for sample_id in first if sample_id in common]
    counts = ", ".join(f"{name} has {len(own):,}" for name, own in ids.items())
    notes = [f"using the {len(order):,} samples that all tables have ({counts})"]
    return [replace(holding, order=order) for holding in holdings], notes


def _kernel(request: Request, holdings: Sequence[Holding], pool: Executor) -> Kernel:
    if request.kernel == "linear":
        return Linear(centered=request.center)
    known = [] if isinstance(request.gamma, float) else list(pool.map(_statistics, holdings))
    return RBF(fusion.resolve_gamma(request.gamma, known))


def _statistics(holding: Holding) -> Statistics:
    with files.naming(holding.path):
        table, _ = holding.load()
        return party.statistics(prepare(table, holding.reading).apply(table), party=holding.party)


def _summarise(holding: Holding, directory: Path, kernel: Kernel, request: Request) -> Sequence[str]:
    _, preparation = files.summarise(
        holding,
        Outbox(directory / f"{holding.party}.summary"),
        kernel=kernel,
        rank=request.rank,
        precision=request.precision,
        solver=request.solver,
        state=directory / f"{holding.party}.state",
    )
    return preparation.notes


def _no_longer(out: Path, holdings: Sequence[Holding]) -> list[str]:
    """Parties of an earlier fit into the same directory that are not asked this time."""
    before = set(runs.read_settings(out).get("parties", {}))
    return sorted(before - {holding.party for holding in holdings})


def _keep_states(scratch: Path, directory: Path, holdings: Sequence[Holding]) -> None:
    storage.make_directory(directory)
    states = {directory / f"{h.party}.state": storage.read(scratch / f"{h.party}.state") for h in holdings}
    storage.write_all(states, private=states)


@contextmanager
def _pool(jobs: int, parties: int) -> Iterator[Any]:
    """Fresh processes that share the cores: each gets as many BLAS threads as are left for it."""
    workers = min(jobs, parties)
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, threads))
    try:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield pool
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
