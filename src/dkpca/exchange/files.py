"""The rounds of the protocol with files as messages: what a party reads, writes and keeps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dkpca import party, wire
from dkpca.concerns import outside_at_party
from dkpca.errors import InputError
from dkpca.exchange import alignment
from dkpca.exchange.questions import (
    ANY_WIDTH,
    AuditWanted,
    Question,
    RowsWanted,
    StatisticsWanted,
    SummaryWanted,
    TokensWanted,
)
from dkpca.exchange.sending import Holding, Sender
from dkpca.kernels import Kernel
from dkpca.linalg.leading import Solver
from dkpca.messages import (
    AuditRequest,
    AuditRows,
    Partials,
    PartScores,
    Rows,
    SampleTokens,
    Scorer,
    Statistics,
    Summary,
)
from dkpca.party.state import PartyState
from dkpca.party.true_rows import true_rows
from dkpca.rank import RankRule
from dkpca.store import storage
from dkpca.store.files import ANOTHER_VERSION, encode_state, naming, read_message, read_state
from dkpca.tables.preparation import Preparation, prepare, reading_for, with_samples_as_columns
from dkpca.tables.reading import from_frame, read
from dkpca.wire import codec


@dataclass(frozen=True)
class Answers(Mapping[str, Any]):
    """Messages by party, read from their files when looked at: summaries can be large."""

    paths: Mapping[str, Path]

    def __getitem__(self, name: str) -> Any:
        return read_message(self.paths[name], *wire.KINDS.values())

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)


def answer(
    question: Question,
    holding: Holding,
    sender: Sender,
    *,
    state: Path,
    blind: Callable[[str, int], Any] | None = None,
) -> Sequence[str]:
    """Write the answer to a question; return what was dropped or filled in, in words."""
    if isinstance(question, TokensWanted):
        sample_tokens(holding, sender, new=bool(question.batch))
    elif isinstance(question, StatisticsWanted):
        statistics(holding.aligned(question.common), sender, kernel=question.kernel_of(holding.party))
    elif isinstance(question, SummaryWanted):
        _, preparation, _ = summarize(
            holding.aligned(question.common),
            sender,
            kernel=question.kernel_of(holding.party),
            rank=question.rank,
            precision=question.precision,
            solver=question.solver,
            state=state,
            keep_training=question.keep_training,
            balance=question.balance,
            law=question.law,
            blind=blind,
        )
        return preparation.notes
    elif isinstance(question, AuditWanted):
        audit(holding.aligned(question.common), state, question.request, sender)
    elif isinstance(question, RowsWanted):
        return extend(holding.aligned(question.common), state, sender, exact=question.exact)[1]
    else:
        raise TypeError(f"{question} has no answer")
    return ()


def statistics(holding: Holding, sender: Sender, *, kernel: Kernel = ANY_WIDTH) -> Statistics:
    """First round, only where gamma has to be derived; text is codes for a kernel of categories."""
    with sender.answering(holding, "statistics"):
        table, _ = holding.load()
        X = prepare(table, reading_for(holding.reading, kernel.columns_are)).apply(table)
        message = party.statistics(X, party=holding.party, kernel=kernel, policy=sender.policy)
        sender.send(message, party=message.party, n_samples=message.n_samples)
    return message


def sample_tokens(holding: Holding, sender: Sender, *, new: bool = False) -> SampleTokens:
    """Round before the first, only where samples differ between parties; new samples may be few."""
    with sender.answering(holding, "sample tokens"):
        ids = holding.ids()
        if new:
            sender.policy.check_projection()
        else:
            sender.policy.check_samples(len(ids))
        message = alignment.sample_tokens(holding.keys(ids), holding.shared_key(), party=holding.party)
        sender.send(message, party=message.party, n_samples=len(ids))
    return message


def summarize(
    holding: Holding,
    sender: Sender,
    *,
    kernel: Kernel,
    rank: RankRule,
    precision: str,
    solver: str | Solver = "auto",
    state: Path | None = None,
    keep_training: bool = False,
    balance: float = 0.0,
    law: str | None = None,
    blind: Callable[[str, int], Any] | None = None,
) -> tuple[Summary, Preparation, PartyState]:
    """Return and write the one numerical message, attacked first; keep the private state if wanted."""
    with sender.answering(holding, f"summary with {kernel}, {rank}, {precision}"):
        table, names = holding.load()
        if kernel.columns_are == "samples":
            table = with_samples_as_columns(table)
        preparation = prepare(table, reading_for(holding.reading, kernel.columns_are))
        if preparation.has_codes and kernel.columns_are != "categories":
            raise InputError(f"codes of text are no quantities for the {kernel.name} kernel; use --text one-hot")
        numbers = [preparation.apply(table)]
        del table  # which may fill the memory, as the numbers may: nobody else holds them
        summary, kept = party.summarize(
            numbers.pop(),
            party=holding.party,
            kernel=kernel,
            rank=rank,
            precision=precision,
            solver=solver,
            keep_training=keep_training,
            balance=balance,
            law=law,
            prepared=preparation.reading.standardize and kernel.columns_are == "quantities",
            sample_ids=names,
            policy=sender.policy,
            known_rows=sender.policy.known_rows if sender.measures else 0,
            blind=blind,
        )
        private_files = (
            {} if state is None else {state: encode_state(replace(kept, preparation=codec.described(preparation)))}
        )
        about = {"n_samples": summary.n_samples, "sample_digest": summary.sample_digest, "decided": kept.decided}
        if kept.recovery is not None:
            about |= {"recovery": kept.recovery.sentence(), "recovered_at_most": kept.recovery.worst}
        sender.send(summary, private_files, party=summary.party, rank=summary.rank, **about)
    return summary, preparation, kept


def score(holding: Holding, state: Path, scorer: Scorer, sender: Sender) -> PartScores:
    """Return and write the party's own share of the scores of new samples, from its private state."""
    kept, preparation = load_state(state)
    with sender.answering(holding, f"scores of {holding.path.name}"):
        sender.policy.check_protection("none")  # its share would be open: under masks it is 'mask offer-new --scorer'
        table, names = holding.load()
        message = party.score(kept, scorer, preparation.apply(table), sample_ids=names, policy=sender.policy)
        sender.send(message, party=message.party, n_samples=message.scores.shape[0])
    return message


def audit(holding: Holding, state: Path, request: AuditRequest, sender: Sender) -> AuditRows:
    """Return and write true rows of the party's Gram matrix, from the table of the fit and the private state."""
    kept, preparation = load_state(state)
    with sender.answering(holding, f"audit of {len(request.samples)} rows"):
        table, names = holding.load()
        if kept.kernel.columns_are == "samples":
            table = with_samples_as_columns(table)
        X = preparation.apply(table)
        message = true_rows(kept, X, request, sample_ids=names, policy=sender.policy).sent()
        sender.send(message, party=message.party, n_samples=len(X), rows=len(message.samples), seed=request.seed)
    return message


def new_samples(path: Path, state: Path, *, id_column: str | None = None, key: bytes | None = None) -> Holding:
    """Return a table of new samples, to be read as the private state says."""
    kept, preparation = load_state(state)
    how = preparation.reading_of_new(id_column or preparation.reading.id_column)
    return Holding(kept.party, path, how, key=key)


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
    storage.recover(path.parent)
    state = read_state(path)
    with naming(path):
        return state, preparation_of(state)


def preparation_of(state: PartyState) -> Preparation:
    """How the party's table becomes numbers."""
    if state.preparation is None:
        raise InputError(
            f"party {state.party!r}: this state was saved by the library from numbers; place new samples there"
        )
    return codec.decode(Preparation, state.preparation, what=ANOTHER_VERSION)


def prepared(state: PartyState, table: Any) -> Any:
    """Numbers of new rows given as a path, DataFrame or array, as the party's state says; labels of rows stay."""
    preparation = preparation_of(state)
    reading = preparation.reading_of_new(None)
    if isinstance(table, str | Path):
        return preparation.apply(read(Path(table), reading))
    X = preparation.apply(from_frame(table, reading, name=f"party {state.party!r}"))
    return type(table)(X, index=table.index) if hasattr(table, "iloc") else X
