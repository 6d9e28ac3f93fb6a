"""The rounds of the protocol with files as messages: what a party reads, writes and keeps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from dkpca import party
from dkpca.errors import InputError
from dkpca.exchange.sending import Holding, Sender, numbers_of
from dkpca.kernels import Kernel
from dkpca.linalg.leading import Solver
from dkpca.linalg.rows import Progress, silent
from dkpca.messages import (
    Partials,
    Rows,
    Summary,
)
from dkpca.party.state import PartyState, State
from dkpca.party.summaries import outside_at_party
from dkpca.rank import RankRule
from dkpca.store.files import ANOTHER_VERSION, encode_state, naming, read_state
from dkpca.tables.preparation import Preparation
from dkpca.tables.reading import from_frame, read
from dkpca.wire import codec


def summarize(
    holding: Holding,
    sender: Sender,
    *,
    kernel: Kernel,
    rank: RankRule,
    precision: str,
    solver: str | Solver = "auto",
    random_state: int = 0,
    state: Path | None = None,
    keep_training: bool = False,
    balance: float = 0.0,
    law: str | None = None,
    progress: Progress = silent,
    device: str | None = None,
) -> tuple[Summary, Preparation, PartyState]:
    """Return and write the one numerical message, attacked first; keep the private state if wanted."""
    with sender.answering(holding, f"summary with {kernel}, {rank}, {precision}"):
        X, preparation, names = numbers_of(holding, kernel.columns_are)
        numbers = [X]
        del X  # which may fill the memory: nobody else holds it
        summary, kept = party.summarize(
            numbers.pop(),
            party=holding.party,
            kernel=kernel,
            rank=rank,
            precision=precision,
            solver=solver,
            random_state=random_state,
            keep_training=keep_training,
            balance=balance,
            law=law,
            prepared=preparation.reading.standardize and kernel.columns_are == "quantities",
            sample_ids=names,
            policy=sender.policy,
            known_rows=sender.policy.known_rows if sender.measures else 0,
            progress=progress,
            device=device,
            memory=holding.memory,
        )
        private_files = (
            {} if state is None else {state: encode_state(replace(kept, preparation=codec.described(preparation)))}
        )
        about = {"n_samples": summary.n_samples, "sample_digest": summary.sample_digest, "decided": kept.decided}
        if kept.recovery is not None:
            about |= {"recovery": kept.recovery.sentence(), "recovered_at_most": kept.recovery.worst}
        sender.send(summary, private_files, party=summary.party, rank=summary.rank, **about)
    return summary, preparation, kept


def new_samples(path: Path, state: Path, *, id_column: str | None = None) -> Holding:
    """Return a table of new samples, to be read as the private state says."""
    kept, preparation = load_state(state)
    how = preparation.reading_of_new(id_column or preparation.reading.id_column)
    return Holding(kept.party, path, how)


def extend(
    holding: Holding, state: Path, sender: Sender, *, exact: bool = False
) -> tuple[Rows | Partials, list[str]]:
    """Write the message about new samples, from the private state of the fit; return it, and what is new in words."""
    kept, preparation = load_state(state)
    answer = party.partials if exact else party.extend
    with sender.answering(holding, f"projection of {holding.path.name}"):
        table, names = holding.load()
        X = preparation.apply(table)
        message = answer(kept, X, sample_ids=names, policy=sender.policy)
        sender.send(message, party=message.party, n_samples=X.shape[0], sample_digest=message.sample_digest)
    unlike = int(outside_at_party(kept, message).sum())
    said = [f"{unlike:,} of {len(X):,} new samples are unlike all samples of the fit"] if unlike else []
    return message, [*preparation.about_new_rows(table), *said]


def load_state(path: Path) -> tuple[PartyState, Preparation]:
    """Read a party's private state."""
    state = read_state(path)
    with naming(path):
        if not isinstance(state, PartyState):
            raise InputError("new samples of a fit by masked sums are placed with all parties; use DKPCA, or a study")
        return state, preparation_of(state)


def preparation_of(state: State) -> Preparation:
    """How the party's table becomes numbers."""
    if state.preparation is None:
        raise InputError(
            f"party {state.party!r}: this state comes from the Python library; place new samples in Python"
        )
    return codec.decode(Preparation, state.preparation, what=ANOTHER_VERSION)


def prepared(state: State, table: Any) -> Any:
    """Numbers of new rows given as a path, DataFrame or array, as the party's state says; labels of rows stay."""
    preparation = preparation_of(state)
    reading = preparation.reading_of_new(None)
    if isinstance(table, str | Path):
        return preparation.apply(read(Path(table), reading))
    X = preparation.apply(from_frame(table, reading, name=f"party {state.party!r}"))
    return type(table)(X, index=table.index) if hasattr(table, "iloc") else X
