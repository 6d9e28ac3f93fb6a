"""All parties on one machine, each in a process of its own: what `dkpca fit` does."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from dkpca import messages, party, wire
from dkpca.errors import InputError, NoAnswerError
from dkpca.exchange import in_process, protocols
from dkpca.exchange.holdings import Holding, PreparedTable, load_state
from dkpca.exchange.protocols import Terms
from dkpca.fusion.covariates import Covariates
from dkpca.fusion.diagnostics import outside_at_center
from dkpca.fusion.scoring import Placed
from dkpca.linalg.arrays import MemoryLimit
from dkpca.linalg.rows import controller
from dkpca.party.answers import Party
from dkpca.party.questions import Question, SummaryWanted
from dkpca.settings import Compute, Fit
from dkpca.store import runs
from dkpca.store.files import Received, encode_state, naming
from dkpca.store.runs import Run
from dkpca.tables.ids import would_match
from dkpca.tables.preparation import preparation_of
from dkpca.tables.reading import read, some

NEW = "new"  # folder of placed samples in a run
START = "spawn"  # nothing of the command, tables or keys, comes into a new process by itself


def fit(
    out: Path,
    holdings: Sequence[Holding],
    request: Fit,
    compute: Compute = in_process.HERE,
    *,
    done: Callable[[], None] = lambda: None,
    covariates: Holding | None = None,
) -> tuple[Run, list[str]]:
    """Summarize all tables and fuse; return the run, and what was dropped or filled in, in words.

    The parties' private states go to `private/` in the run, for `place`. `covariates` is a table with a row for each
    sample, by the same ids: what the components are not to show.
    """
    assert request.protect == "none", "the command refuses the others"
    runs.check(out)
    matched = matched_samples(holdings, request.lacking)
    holdings, names, notes = matched.holdings, matched.names, list(matched.notes)
    roster, run_name = [holding.party for holding in holdings], f"fit-{request.seed}"
    parties = {h.party: _party(h, roster, run_name, compute) for h in holdings}
    with _pool(compute.n_jobs or os.cpu_count() or 1, len(holdings)) as pool:
        workers = partial(_answers, pool, {h.party: h.path for h in holdings}, done)
        taken_out = None if covariates is None else Covariates.of(_rows_of(covariates, holdings[0], names))
        terms = Terms(
            run_name,
            places=matched.places,
            samples=matched.digest,
            device=compute.device,
            covariates=None if taken_out is None else lambda: taken_out,
            memory=MemoryLimit.of(compute.max_memory, out.absolute().parent),
        )
        protocol = protocols.fit(roster, request, terms)
        model, _ = in_process.drive(protocol, parties, compute, workers=workers)
        received = model.received.items()
        sent = [Received(Path(f"{name}.summary"), wire.pieces(message), message) for name, message in received]
        states = {name: party.state for name, party in parties.items() if party.state is not None}
        run = runs.fuse(
            out,
            sent,
            model=model,
            without=sorted(set(runs.parties_in(out)) - set(model.summaries)),
            sample_names=names,
            id_normalize=holdings[0].reading.id_normalize,
            states={name: encode_state(state) for name, state in states.items()},
        )
    said = {name: preparation_of(state).notes for name, state in states.items()}
    notes += [] if run.model.covariates is None else run.model.covariates.words()
    return run, sorted(notes + [f"{name}: {note}" for name, each in said.items() for note in each])


def _answers(
    pool: Executor, paths: Mapping[str, Path], done: Callable[[], None], jobs: Sequence[tuple[Party, Question]]
) -> list[Any]:
    """Run `in_process.answer` for each party in a fresh process, which reads its table; results in their order."""
    tasks = {pool.submit(in_process.answer, *job): job for job in jobs}
    try:
        for task in as_completed(tasks):
            task.result()
            if isinstance(tasks[task][1], SummaryWanted):
                done()
    except BrokenProcessPool as error:
        unfinished = sorted(str(paths[job[0].name]) for task, job in tasks.items() if task.exception())
        raise NoAnswerError(
            f"the process of one of {unfinished} was killed, perhaps for lack of memory; "
            "try one party at a time (--jobs 1), or --solver landmark"
        ) from error
    return [task.result() for task in tasks]


def _party(holding: Holding, roster: Sequence[str], run: str, compute: Compute) -> Party:
    ids, memory = holding.names(), MemoryLimit.of(compute.max_memory)
    return Party(
        holding.party,
        PreparedTable(replace(holding, memory=memory)),
        roster,
        run,
        b"",  # nothing is hidden on one machine
        ids=None if ids is None else holding.keys(ids),
        device=compute.device,
        memory=memory,
    )


def place(
    run: Run, tables: Mapping[str, Path], lacking: str | None = "drop", covariates: Holding | None = None
) -> tuple[Placed, list[str]]:
    """Place new samples, into `new/` of a run of one owner; say what is new about them.

    Those that all tables have, or with `lacking` as "mean" or "complete" all of them. `covariates` has their rows.
    """
    strangers = sorted(set(tables) - set(run.model.summaries))
    if strangers:
        raise InputError(f"new samples were given for {strangers}; the parties are {sorted(run.model.summaries)}")
    kept = {party: load_state(run.path / "private" / f"{party}.state") for party in tables}
    readings = {party: how.reading_of_new(how.reading.id_column) for party, (_, how) in kept.items()}
    holdings = [Holding(party, path, readings[party]) for party, path in tables.items()]
    matched, rows = matched_samples(holdings, lacking), []
    notes, first = list(matched.notes), matched.holdings[0]
    for holding in matched.holdings:
        state, preparation = kept[holding.party]
        with naming(holding.path):
            table = holding.load()
            rows.append(party.extend(state, preparation.apply(table), sample_ids=table.keys))
        unlike, count = int(outside_at_center(run.model, rows[-1:]).sum()), rows[-1].n_samples
        said = [f"{unlike:,} of {count:,} new samples are unlike all samples of the fit"] if unlike else []
        notes += [f"{holding.party}: {note}" for note in [*preparation.about_new_rows(table), *said]]
    placed, outside = runs.place(
        run,
        rows,
        run.path / NEW,
        sample_names=matched.names,
        id_normalize=first.reading.id_normalize,
        missing=sorted(set(run.model.summaries) - set(tables)),
        places=matched.places,
        lacking=lacking,
        covariates=None if covariates is None else _rows_of(covariates, first, matched.names),
    )
    if placed.missing:
        notes.append(placed.words)
    if outside:
        notes.append(
            f"{len(outside):,} new samples lie outside the range of the fit, and are marked so: {some(outside)}"
        )
    return placed, notes


@dataclass(frozen=True)
class Matched:
    """Tables whose rows that take part are about the same samples, or about some of all."""

    holdings: list[Holding]
    names: Sequence[str] | None = None  # ids of the samples; None: rows match by position
    notes: tuple[str, ...] = ()  # what was dropped or filled in, in words
    places: Mapping[str, Sequence[int]] | None = None  # of each table's samples among all, where some lack any
    digest: str = ""  # of all samples, where some tables lack any


def _rows_of(covariates: Holding, like: Holding, names: Sequence[str] | None) -> Any:
    """Rows of a table of covariates for these samples: by ids, in a column named as the others' or as it says."""
    how, path = covariates.reading, covariates.path
    ids = {key: getattr(how, key) or getattr(like.reading, key) for key in ("id_column", "id_normalize")}
    found = read(path, replace(how, **ids))
    if names is None or found.keys is None:
        return found.frame
    row = {key: number for number, key in enumerate(found.keys)}
    lacking = [name for name, key in zip(names, like.keys(names), strict=True) if key not in row]
    if lacking:
        raise InputError(f"{path}: has no row for {len(lacking):,} of {len(names):,} samples, such as {lacking[0]!r}")
    return found.take([row[key] for key in like.keys(names)]).frame


def matched_samples(holdings: Sequence[Holding], lacking: str | None) -> Matched:
    """Match samples by their ids: keep those that all tables have, in the order of the first, or all samples."""
    nameless = [holding.party for holding in holdings if holding.reading.id_column is None]
    if len(nameless) == len(holdings):
        return Matched(list(holdings))
    if nameless:
        raise InputError(
            f"the tables of {nameless} have no id column, but the others do; name it with --id NAME=COLUMN"
        )
    if len({holding.reading.id_normalize for holding in holdings}) > 1:
        raise InputError("the tables normalize ids differently (id_normalize); use the same for all of them")
    ids = {holding.party: holding.ids() for holding in holdings}
    own = {h.party: dict(zip(h.keys(ids[h.party]), ids[h.party], strict=True)) for h in holdings}
    first = list(own[holdings[0].party])
    if all(list(keys) == first for keys in own.values()):
        return Matched(list(holdings), ids[holdings[0].party])
    common = set(first).intersection(*own.values())
    more = would_match(ids, holdings[0].reading.id_normalize)
    if not common:
        hint = "".join(f"; {words}" for words in more)
        raise InputError(f"no sample id is in all of {[str(h.path) for h in holdings]}; check --id{hint}")
    counts = ", ".join(f"{name} has {len(keys):,}" for name, keys in own.items())
    together = {key: name for keys in reversed(own.values()) for key, name in keys.items()}
    if lacking in ("mean", "complete") and len(common) < len(together):
        keys = list(dict.fromkeys(key for own_keys in own.values() for key in own_keys))
        position = {key: place for place, key in enumerate(keys)}
        places = {name: [position[key] for key in own_keys] for name, own_keys in own.items()}
        what = "mean rows" if lacking == "mean" else "completed rows"
        note = f"{len(keys):,} samples, of which {len(common):,} are in all tables ({counts}); {what} for the others"
        names = [together[key] for key in keys]
        return Matched(list(holdings), names, (note, *more), places, messages.digest(keys))
    order = [key for key in first if key in common]
    ways = "; --lacking complete keeps the others" if lacking == "drop" and len(common) < len(together) else ""
    note = f"using the {len(order):,} samples that all tables have ({counts}){ways}"
    chosen = [replace(h, order=[own[h.party][key] for key in order]) for h in holdings]
    return Matched(chosen, chosen[0].order, (note, *more))


def _prepare(threads: int) -> None:
    """In a new process: this module has loaded every BLAS in use, so that all of them are limited."""
    controller().limit(limits=threads)
    command = multiprocessing.parent_process()
    assert command is not None

    def end_with_the_command() -> None:
        """A command that is killed cannot end its processes, which hold private tables in memory."""
        command.join()
        os._exit(1)

    threading.Thread(target=end_with_the_command, daemon=True).start()


@contextmanager
def _pool(n_jobs: int, parties: int) -> Iterator[Any]:
    """Fresh processes that share the cores: each gets as many BLAS threads as are left for it.

    On an error none is waited for: an answer that nobody will use can take hours.
    """
    workers = min(n_jobs, parties)
    threads = max(1, (os.cpu_count() or 1) // workers)
    others = multiprocessing.active_children()
    context = multiprocessing.get_context(START)
    with ProcessPoolExecutor(workers, context, initializer=_prepare, initargs=(threads,)) as pool:
        try:
            yield pool
        except BaseException:
            for process in set(multiprocessing.active_children()).difference(others):
                process.terminate()
            raise
