"""The rounds of the protocol with files as messages: what a party reads, writes and keeps."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dkpca import party, wire
from dkpca.concerns import outside_at_party
from dkpca.errors import InputError, PolicyError, ProtectionError, StorageError
from dkpca.exchange import alignment
from dkpca.exchange.questions import AuditWanted, Question, RowsWanted, StatisticsWanted, SummaryWanted, TokensWanted
from dkpca.kernels import Kernel
from dkpca.linalg.leading import Solver
from dkpca.messages import (
    AuditRequest,
    AuditRows,
    CommonTokens,
    Message,
    Offer,
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
from dkpca.policy import Policy
from dkpca.rank import RankRule
from dkpca.store import ledger, message_files, private_state, storage
from dkpca.store.message_files import naming
from dkpca.tables.ids import matching_keys
from dkpca.tables.novelty import about_new_rows
from dkpca.tables.preparation import Preparation, prepare, reading_for, with_samples_as_columns
from dkpca.tables.reading import Reading, Table, from_frame, read, read_ids
from dkpca.wire import codec

SAFETENSORS_START = b"{"  # ninth byte of every file of ours


@dataclass(frozen=True)
class Holding:
    """A party's table, and which of its rows take part under which names.

    Rows are matched by `keys`: the ids, made alike where the parties agreed on it (`Reading.id_normalize`).
    """

    party: str
    path: Path
    reading: Reading
    order: Sequence[str] | None = None  # ids of the rows that take part; None: all, as they stand
    names: Sequence[str] | None = None  # what the center calls them; None: by their keys
    key: bytes | None = None  # shared with the other parties, for alignment

    def load(self) -> tuple[Table, Sequence[str] | None]:
        """Return the rows that take part, and their names."""
        table = read(self.path, self.reading)
        if self.order is None:
            return table, table.keys
        assert table.ids is not None
        row = {sample_id: number for number, sample_id in enumerate(table.ids)}
        chosen = table.take([row[sample_id] for sample_id in self.order])
        return chosen, self.names or chosen.keys

    def aligned(self, common: CommonTokens | None) -> "Holding":
        """Keep the common samples only, in the common order, under their tokens; None: leave it as it is."""
        if common is None:
            return self
        with naming(self.path):
            ids = self.ids()
            rows = alignment.common_rows(self.keys(ids), self.shared_key(), common)
        return replace(self, order=[ids[row] for row in rows], names=alignment.names(common))

    def shared_key(self) -> bytes:
        """Key under which ids become tokens."""
        if self.key is None:
            raise InputError("alignment needs the parties' key, and none was given; see 'dkpca align key'")
        return self.key

    def ids(self) -> list[str]:
        """Sample ids, without loading the rest of the table."""
        if self.reading.id_column is None:
            raise InputError(f"{self.path}: name the column with the sample ids with --id")
        return read_ids(self.path, self.reading.id_column, self.reading.dialect, self.reading.id_normalize)

    def keys(self, ids: Sequence[str]) -> list[str]:
        """Return what ids are matched by."""
        return matching_keys(ids, self.reading.id_normalize)


@dataclass(frozen=True)
class Sender:
    """Where a party's messages go, under which policy, and which ledger says so."""

    message: Path
    policy: Policy = party.ANYTHING
    ledger: Path | None = None  # None: beside the message
    asked: Mapping[str, Any] = field(default_factory=dict)  # which question it answers, for the ledger
    measures: bool = True  # what could be recovered from a summary; not where one owner has all tables

    def check(self) -> None:
        """Find out before any work whether the message can be written; a file that is no message stays."""
        storage.check_writable(self.message)
        if self.message.exists() and self.message.stat().st_size:
            with self.message.open("rb") as file:
                if file.read(9)[8:] != SAFETENSORS_START:
                    raise InputError(f"{self.message}: is there already and is no dkpca file; choose another --out")

    def send(self, message: Message, private_files: dict[Path, bytes] | None = None, **facts: Any) -> None:
        """Write a message, and the private files that belong to it; the ledger says so before they are there."""
        data = wire.encode(message)
        kind, fingerprint = wire.kind_of(message), hashlib.sha256(data).hexdigest()
        told = {"file": self._named(), "kind": kind, "bytes": len(data), "sha256": fingerprint, **self.asked, **facts}
        kept = private_files or {}
        with ledger.opened(self._ledger()) as book:  # until it is written: limits on what was sent hold for all
            party_name = facts.get("party", "")
            before = book.sent(party_name, kind)
            if isinstance(message, Statistics | Summary | Offer):
                self.policy.check_fits(len(before - {fingerprint}))
            if fingerprint not in before and facts.get("context") in book.sent(party_name, ledger.CONTEXTS):
                raise ProtectionError(
                    f"party {party_name!r} has answered this before with other numbers, and says nothing twice "
                    "under one mask; start another sum"
                )
            if isinstance(message, AuditRows):
                self.policy.check_audits(len(before - {fingerprint}))
            book.append("repeated" if fingerprint in before else "written", **told)
            try:
                storage.write_all({**kept, self.message: data}, private=kept)
            except StorageError as error:
                book.append("not written", file=self._named(), reason=str(error))
                raise

    def record(self, event: str, **facts: Any) -> None:
        """Add a line to the ledger."""
        ledger.append(self._ledger(), event, **self.asked, **facts)

    def _ledger(self) -> Path:
        return self.ledger or self.message.parent / ledger.NAME

    def _named(self) -> str:
        """Name of the message, as seen from the ledger where it lies below it."""
        folder = self._ledger().parent
        return str(self.message.relative_to(folder) if self.message.is_relative_to(folder) else self.message.name)

    @contextlib.contextmanager
    def answering(self, holding: Holding, what: str) -> Iterator[None]:
        """Name the table in every error, and log what the policy refuses."""
        try:
            with naming(holding.path):
                yield
        except PolicyError as refusal:
            self.record("refused", party=holding.party, asked=what, reason=str(refusal))
            raise


@dataclass(frozen=True)
class Answers(Mapping[str, Any]):
    """Messages by party, read from their files when looked at: summaries can be large."""

    paths: Mapping[str, Path]

    def __getitem__(self, name: str) -> Any:
        return message_files.read(self.paths[name], *wire.KINDS.values())

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)


def answer(question: Question, holding: Holding, sender: Sender, *, state: Path) -> Sequence[str]:
    """Write the answer to a question; return what was dropped or filled in, in words."""
    if isinstance(question, TokensWanted):
        sample_tokens(holding, sender, new=bool(question.batch))
    elif isinstance(question, StatisticsWanted):
        statistics(holding.aligned(question.common), sender, categories=holding.party in question.categories)
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
        )
        return preparation.notes
    elif isinstance(question, AuditWanted):
        audit(holding.aligned(question.common), state, question.request, sender)
    elif isinstance(question, RowsWanted):
        return extend(holding.aligned(question.common), state, sender, exact=question.exact)[1]
    else:
        raise TypeError(f"{question} has no answer")
    return ()


def statistics(holding: Holding, sender: Sender, *, categories: bool = False) -> Statistics:
    """First round, only where gamma has to be derived; text is codes for a kernel of categories."""
    with sender.answering(holding, "statistics"):
        table, _ = holding.load()
        X = prepare(table, reading_for(holding.reading, "categories" if categories else "quantities")).apply(table)
        message = party.statistics(X, party=holding.party, policy=sender.policy)
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
        summary, kept = party.summarize(
            preparation.apply(table),
            party=holding.party,
            kernel=kernel,
            rank=rank,
            precision=precision,
            solver=solver,
            keep_training=keep_training,
            balance=balance,
            law=law,
            sample_ids=names,
            policy=sender.policy,
            known_rows=sender.policy.known_rows if sender.measures else 0,
            blind=blind,
        )
        private_files = (
            {}
            if state is None
            else {state: private_state.encode(replace(kept, preparation=codec.described(preparation)))}
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
        message = true_rows(kept, X, request, sample_ids=names, policy=sender.policy)
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
    return message, [*about_new_rows(preparation, table), *said]


def load_state(path: Path) -> tuple[PartyState, Preparation]:
    """Read a party's private state."""
    storage.recover(path.parent)
    state = private_state.load(path)
    with naming(path):
        return state, preparation_of(state)


def preparation_of(state: PartyState) -> Preparation:
    """How the party's table becomes numbers."""
    if state.preparation is None:
        raise InputError(
            f"party {state.party!r}: this state was saved by the library from numbers; place new samples there"
        )
    return codec.decode(Preparation, state.preparation, what=private_state.ANOTHER_VERSION)


def prepared(state: PartyState, table: Any) -> Any:
    """Numbers of new rows given as a path, DataFrame or array, as the party's state says; labels of rows stay."""
    preparation = preparation_of(state)
    reading = preparation.reading_of_new(None)
    if isinstance(table, str | Path):
        return preparation.apply(read(Path(table), reading))
    X = preparation.apply(from_frame(table, reading, name=f"party {state.party!r}"))
    return type(table)(X, index=table.index) if hasattr(table, "iloc") else X
