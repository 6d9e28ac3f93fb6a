"""All parties under one owner: the protocols as function calls, spread over workers as joblib is configured."""

import hashlib
import multiprocessing
import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from dkpca.errors import NoAnswerError, TooLateError
from dkpca.exchange import protocols
from dkpca.exchange.protocols import Ask, Terms
from dkpca.fusion import FusedModel
from dkpca.fusion.covariates import Covariates
from dkpca.linalg.arrays import Array, MemoryLimit, dtype_name
from dkpca.linalg.eigenpairs import signs_of
from dkpca.linalg.rows import away_from, threads_of_our_own
from dkpca.messages import MaskedSum, digest, row_number_digest
from dkpca.party.answers import Party
from dkpca.party.questions import Question
from dkpca.party.state import PartyState, Shield, SumState
from dkpca.protection.rotation import Rotation
from dkpca.settings import Compute, Fit

Tables = Mapping[str, Array | Callable[[str], Array]]  # numbers, or what opens a file from what its columns are
States = dict[str, PartyState | SumState]
BATCH = "new"


def fit(
    tables: Tables,
    settings: Fit,
    compute: Compute,
    *,
    places: Mapping[str, Any] | None = None,
    covariates: Covariates | None = None,
    sample_ids: Sequence[str] | None = None,
    folder: Path | None = None,
) -> tuple[FusedModel, States, Shield]:
    """Run a fit; `places` of each table's samples among all, if parties lack some; large arrays go to `folder`."""
    run = f"fit-{settings.seed}"
    parties = parties_of(tables, run, settings, compute)
    first = next(iter(parties.values()))
    if sample_ids is not None:
        for name, party in parties.items():
            party.ids = sample_ids if places is None else [sample_ids[place] for place in places[name]]

    def given() -> Covariates:  # a blind center gets them turned, as it does the samples
        assert covariates is not None
        if settings.protect != "blind":
            return covariates
        return replace(covariates, basis=first.rotation(len(covariates.basis)).turn(covariates.basis))

    fusing: dict[str, Any] = {
        "dtype": next((dtype_name(table) for table in tables.values() if not callable(table)), "float64"),
        "samples": "" if sample_ids is None or places is None else digest(sample_ids),
        "device": compute.device,
        "memory": MemoryLimit.of(compute.max_memory, folder),
    }
    terms = Terms(run, places=places, fusing=fusing, covariates=None if covariates is None else given)
    model, sent = drive(protocols.fit(list(tables), settings, terms), parties, compute)
    states: States = {name: party.state for name, party in parties.items() if party.state is not None}
    key = first.group_key.hex() if settings.protect == "blind" else ""
    return model, states, Shield(settings.protect, run, key, sent)


def turned_back(shield: Shield, A: Array) -> tuple[Array, Array]:
    """Eigenvectors of a blind fit as the parties see them: rows are samples, signs as in an open fit; the signs."""
    back = Rotation(bytes.fromhex(shield.key), shield.run, row_number_digest(len(A)), len(A)).turn_back(A)
    return back * signs_of(back), signs_of(back)


@threads_of_our_own()  # here, and not by a thread of joblib: OpenBLAS takes a limit from the main thread alone
def drive(
    protocol: Generator[Ask, Any, Any],
    parties: Mapping[str, Party],
    compute: Compute,
    *,
    heard: dict[str, tuple[Any, Any]] | None = None,
) -> tuple[Any, dict[str, int]]:
    """Run a protocol; return its outcome, and the masked bytes each party sent. `heard` gets every step."""
    given: Any = None
    sent = dict.fromkeys(parties, 0)
    away_from(compute.device, np.empty(0))  # refused before anybody has worked
    while True:
        try:
            ask = protocol.send(given)
        except StopIteration as end:
            return end.value, sent
        jobs = [(parties[name], question) for name, question in ask.questions.items()]
        if not any(question.reads_table for _, question in jobs):
            done = [answer(*job) for job in jobs]
        else:
            try:
                done = Parallel(n_jobs=compute.n_jobs, timeout=compute.timeout)(delayed(answer)(*job) for job in jobs)
            except (TimeoutError, multiprocessing.TimeoutError) as error:
                raise TooLateError(f"no answer within {compute.timeout} s from one of {list(parties)}") from error
            except BrokenProcessPool as error:
                killed = f"the process of one of {list(ask.questions)} was killed, perhaps for lack of memory"
                raise NoAnswerError(f"{killed}; try n_jobs=1 (--jobs 1), or the solver 'landmark'") from error
        for (party, _), (_, state, summary) in zip(jobs, done, strict=True):
            party.state, party.sent = state, summary
        given = {party.name: message for (party, _), (message, _, _) in zip(jobs, done, strict=True)}
        if heard is not None:
            heard[ask.step] = ask.questions, given
        for name, message in given.items():
            sent[name] += message.n_bytes if isinstance(message, MaskedSum) else 0
        if ask.readers == "next":
            roster = list(given)
            for name, after in zip(roster, [*roster[1:], roster[0]], strict=True):
                parties[after].raised[ask.one.batch, ask.one.hop] = given[name]
        if ask.readers == "parties":
            for name, messages in given.items():
                for other, message in messages.items():
                    parties[other].received[ask.one.batch, name] = message


def answer(party: Party, question: Question) -> tuple[Any, Any, Any]:
    """In a worker: the answer, and what the party keeps."""
    return party.answer(question), party.state, party.sent


def parties_of(
    tables: Tables, run: str, settings: Fit, compute: Compute, states: States | None = None, *, new: bool = False
) -> dict[str, Party]:
    """Parties of a fit, or with their states after it; `new`: the tables are of new samples."""
    return {
        name: Party(
            name,
            table if callable(table) else partial(_as_it_is, None if new else table),
            list(tables),
            run,
            secrets.token_bytes(32),
            coin=hashlib.sha256(f"audit\0{settings.seed}\0{name}".encode()).digest(),
            open_new=partial(_as_it_is, table) if new else None,
            here=not callable(table),
            device=compute.device,
            memory=MemoryLimit.of(compute.max_memory),
            state=None if states is None else states[name],
        )
        for name, table in tables.items()
    }


def _as_it_is(table: Any, *about: str) -> Any:
    """A table that is here, whatever is asked about it."""
    return table
