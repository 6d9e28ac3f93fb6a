"""A party's responder: it answers what a transport brings, by the party's own configuration and nothing else.

party.toml          which table, which columns, which policy; written by the party
dkpca-ledger.jsonl  every question, refusal and message, in order
runs/RUN/           each message that left, byte for byte; the private state; the result that came back
"""

import contextlib
import fcntl
import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dkpca import messages, wire
from dkpca.errors import (
    ConvergenceError,
    DKPCAError,
    InputError,
    OutOfMemoryError,
    PolicyError,
    StorageError,
    WireError,
)
from dkpca.exchange import alignment, files
from dkpca.exchange.files import LEDGER, Holding, Sender
from dkpca.exchange.questions import Result, RowsWanted
from dkpca.messages import CommonTokens, Partials, Rows, Summary
from dkpca.network.configuration import CONFIGURATION, Configuration, read_configuration
from dkpca.network.envelopes import Answer, Request, decode_request, described, encode_answer
from dkpca.store import message_files, storage
from dkpca.store.runs import RESULT
from dkpca.store.storage import make_directory
from dkpca.tables import reading
from dkpca.tables.preparation import prepare

COMMON = "common.tokens"
UNREADABLE = "0" * 32  # number of the answer to a request whose own number cannot be read

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())

# What leaves the party when something fails there: a code and a sentence, neither of which holds data. The error
# itself, which may name files, columns and ids, stays in the party's log and ledger.
NOT_UNDERSTOOD = ("not understood", "the request cannot be read by the dkpca of this party; use the same version")
REASONS: Mapping[type[Exception], tuple[str, str]] = {
    WireError: (
        "cannot answer",
        "one of its files is damaged, or does not belong to this run; its ledger says which",
    ),
    InputError: ("cannot answer", "its table or its configuration cannot be used for this; its ledger says why"),
    StorageError: ("cannot answer", "one of its files cannot be read or written; its ledger says which"),
    OutOfMemoryError: ("no memory", "the work does not fit into its memory; ask for less, or for another solver"),
    ConvergenceError: ("cannot answer", "its eigensolver did not converge; ask for another solver"),
}
UNEXPECTED = ("failed", "an error that was not expected; its log has it")


@dataclass(frozen=True)
class Responder:
    """The party's folder, and what answers for it."""

    folder: Path
    identity: str | None = None  # name on the party's certificate; None: nobody vouches for a name

    def answer(self, data: bytes) -> bytes:
        """Answer one request, whatever it is; nothing is raised, since an error may hold data."""
        number = UNREADABLE
        try:
            request = decode_request(data)
            number = request.number
            with self._alone():
                message = self._answer(request)
            return encode_answer(Answer(number, message))
        except Exception as error:
            code, reason = NOT_UNDERSTOOD if number == UNREADABLE else _reason(error)
            log.error("could not answer: %s", error, exc_info=None if isinstance(error, DKPCAError) else error)
            self._record("not answered", number=number, code=code, reason=str(error))
            return encode_answer(Answer(number, b"", code, reason))

    def _answer(self, request: Request) -> bytes:
        question = request.question
        if any(record.get("number") == request.number for record in storage.read_records(self.folder / LEDGER)):
            raise PolicyError(f"request {request.number} was answered before; a request is answered once")
        self._record(
            "asked", run=request.run, number=request.number, question=type(question).__name__, **described(question)
        )
        if isinstance(question, RowsWanted) and not question.batch:
            raise PolicyError("refused: new samples are those of a batch, never the table of the fit; name a batch")
        configuration = self._configuration()
        run = make_directory(make_directory(self.folder / "runs") / request.run)
        place = make_directory(make_directory(run / "new") / question.batch) if question.batch else run
        if isinstance(question, Result):
            keep_result(configuration, question, place)
            return b""
        state = run / f"{configuration.party}.state"
        sender = Sender(
            place / f"{configuration.party}.{question.answer}", configuration.policy, self.folder / LEDGER
        )
        holding = configuration.holding(question.batch)
        if isinstance(question, RowsWanted):
            holding = files.new_samples(holding.path, state, id_column=holding.reading.id_column, key=holding.key)
        if question.common is not None:
            storage.write(place / COMMON, wire.encode(question.common))
        files.answer(question, holding, sender, state=state)
        return storage.read(sender.message)

    def check(self) -> str:
        """Read the table as for a request, under the policy; return in words what would be answered about."""
        configuration = self._configuration()
        holding = configuration.holding("")
        with message_files.naming(holding.path):
            table, _ = holding.load()
            preparation = prepare(table, holding.reading)
            n_samples, n_columns = preparation.apply(table).shape
            configuration.policy.check_samples(n_samples)
        fits = len(files.sent(configuration.party, "summary", self.folder / LEDGER))
        limit = configuration.policy.max_fits
        answered = f"{fits} fits answered" if math.isinf(limit) else f"{fits} of {limit:g} fits answered"
        return "; ".join([f"{n_samples:,} samples, {n_columns:,} columns", *preparation.notes, answered])

    def _configuration(self) -> Configuration:
        file = self.folder / CONFIGURATION
        configuration = read_configuration(file)
        if self.identity not in (None, configuration.party):
            raise InputError(
                f"{file}: party = {configuration.party!r}, but the certificate is for "
                f"{self.identity!r}; correct the file"
            )
        return configuration

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One question at a time, however many jobs bring some: limits on what was sent before hold for all."""
        with (self.folder / LEDGER).open("ab") as ledger:
            fcntl.flock(ledger, fcntl.LOCK_EX)
            yield

    def _record(self, event: str, **facts: Any) -> None:
        storage.append_record(self.folder / LEDGER, {"event": event, **facts})


def keep_result(configuration: Configuration, result: Result, place: Path) -> None:
    """Write the scores beside the message they came of, under the party's own sample ids."""
    kinds: tuple[type[Any], ...] = (Rows, Partials) if result.batch else (Summary,)
    sent = message_files.read(place / f"{configuration.party}.{'rows' if result.batch else 'summary'}", *kinds)
    if sent.sample_digest != result.scores.sample_digest:
        raise WireError("the result is about other samples than the message this party sent")
    scores = result.scores.scores.decode()
    names = _own_names(configuration.holding(result.batch), sent.sample_digest, len(scores), place)
    produced = reading.embedding_files(names, scores)
    produced[RESULT] = wire.encode(result.scores)
    storage.write_all({place / name: data for name, data in produced.items()})


def _own_names(holding: Holding, digest: str, n_samples: int, place: Path) -> list[str]:
    """The party's ids of the samples that its message was about, in their order."""
    if holding.reading.id_column is None:
        return [str(row) for row in range(n_samples)]
    if (place / COMMON).exists():
        common = message_files.read(place / COMMON, CommonTokens)
        if messages.digest(alignment.names(common)) == digest:
            return list(holding.aligned(common).order or ())
    names = holding.ids()
    if messages.digest(holding.keys(names)) != digest:
        raise InputError(f"{holding.path}: has other samples than when its message was made; ask anew")
    return names


def _reason(error: Exception) -> tuple[str, str]:
    """Code and sentence that may leave the party."""
    if isinstance(error, PolicyError):
        while isinstance(error.__cause__, PolicyError):  # its first words, before a file was named in front of them
            error = error.__cause__
        return "refused", str(error)
    return next((reason for kind, reason in REASONS.items() if isinstance(error, kind)), UNEXPECTED)
