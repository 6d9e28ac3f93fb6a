"""A party's responder: it answers what a transport brings, by the party's own configuration and nothing else.

party.toml          which table, which columns, which policy; written by the party
dkpca-ledger.jsonl  every question, refusal and message, in order
runs/RUN/           each message that left, byte for byte; the private state; the result that came back
approvals/          questions that wait for a person
"""

import contextlib
import hashlib
import json
import logging
import math
from collections.abc import Mapping
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
    ProtectionError,
    StorageError,
    WireError,
)
from dkpca.exchange import alignment, files
from dkpca.exchange.questions import TOLD, Question, Result, RowsWanted, ScorerGiven, ShareOfferWanted, SumsWanted
from dkpca.exchange.sending import Sender
from dkpca.fields import check_name
from dkpca.messages import Summary
from dkpca.network import approvals, protected_answers, results, sizes
from dkpca.network.configuration import CONFIGURATION, Configuration, read_configuration
from dkpca.network.envelopes import decode_question
from dkpca.network.protocol import Asked
from dkpca.network.results import COMMON
from dkpca.store import ledger, message_files, storage
from dkpca.store.storage import make_directory
from dkpca.tables.preparation import prepare

ANSWERED = "answered.json"
MOST_RUNS_KEPT = 1000
MOST_ANSWERS_KEPT = 64  # per run, for a center that asks again after a break

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())

# What leaves the party when something fails there: a code and a sentence, neither of which holds data. The error
# itself, which may name files, columns and ids, stays in the party's log and ledger.
NOT_UNDERSTOOD = ("not understood", "the question cannot be read by the dkpca of this party; use the same version")
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
class Answer:
    """A message that may leave, or why there is none: a code for programs, and a sentence without data for people."""

    number: str
    code: str = "ok"
    reason: str = ""
    file: Path | None = None  # None: there is nothing to send but the code
    bytes: int = 0
    sha256: str = ""


@dataclass(frozen=True)
class Responder:
    """The party's folder, and what answers for it."""

    folder: Path
    identity: str | None = None  # name on the party's certificate; None: nobody vouches for a name

    def weigh(self, asked: Asked) -> Answer:
        """Say before it is fetched whether the message attached to a question is of a size that makes sense here."""
        return self._guarded(asked, self._weigh, asked)

    def answer(self, asked: Asked, attached: bytes = b"") -> Answer:
        """Answer one question, whatever it is; nothing is raised, since an error may hold data."""
        return self._guarded(asked, self._answer, asked, attached)

    def _guarded(self, asked: Asked, work: Any, *arguments: Any) -> Answer:
        try:
            answer: Answer = work(*arguments)
        except approvals.ApprovalWantedError as waiting:
            return Answer(asked.number, approvals.WAITING, str(waiting))
        except Exception as error:
            code, reason = _reason(error)
            log.error("could not answer: %s", error, exc_info=None if isinstance(error, DKPCAError) else error)
            self._record("not answered", number=asked.number, run=asked.run, code=code, reason=str(error))
            return Answer(asked.number, code, reason)
        return answer

    def _weigh(self, asked: Asked) -> Answer:
        configuration = self._configuration()
        batch = str(asked.question.get("batch", ""))
        place = self._place(asked.run, batch)
        kind = asked.question.get("kind")
        if kind == Result.__name__:
            most = sizes.largest_scores(max(each.n_samples for each in results.sent(configuration.party, place)))
        elif kind == ScorerGiven.__name__:
            most = sizes.largest_scorer(message_files.read(place / f"{configuration.party}.summary", Summary).rank)
        elif kind == SumsWanted.__name__:
            most = sizes.largest_offers(1 + len(protected_answers.read_peers(configuration)))
        else:
            most = sizes.largest_tokens(len(configuration.holding(batch).ids()))
        if asked.attached > most:
            raise _NotUnderstoodError(
                f"the message attached has {asked.attached} bytes, more than the {most} possible"
            )
        return Answer(asked.number)

    def _answer(self, asked: Asked, attached: bytes) -> Answer:
        if len(attached) != asked.attached or (attached and _digest(attached) != asked.sha256):
            raise _NotUnderstoodError("the message attached is not the one that was announced")
        try:
            question = decode_question(asked.question, attached)
        except WireError as error:
            raise _NotUnderstoodError(str(error)) from error
        place, fingerprint = self._place(asked.run, question.batch), _digest(asked.to_bytes())
        before = _answered(place).get(asked.number)
        if before is not None:
            return self._again(asked, place, before, fingerprint)
        about: dict[str, Any] = {"n_samples": question.common.tokens.shape[0]} if question.common else {}
        if question.common:
            about["sample_digest"] = messages.digest(alignment.names(question.common))
        self._record("asked", run=asked.run, number=asked.number, question=dict(asked.question), **about)
        configuration = self._configuration()
        if isinstance(question, RowsWanted | ShareOfferWanted) and not question.batch:
            raise PolicyError("refused: new samples are those of a batch, never the table of the fit; name a batch")
        if configuration.approval and not isinstance(question, TOLD):
            approvals.check(self.folder, asked, fingerprint)
        made = self._make_place(asked.run, question.batch)
        try:
            answer = self._written(asked, question, configuration, place)
        except Exception:
            for folder in reversed(made):
                with contextlib.suppress(OSError):  # something was written there
                    folder.rmdir()
            raise
        told = {"asked": fingerprint, "sha256": answer.sha256, "file": answer.file.name if answer.file else ""}
        kept = list((_answered(place) | {asked.number: told}).items())[-MOST_ANSWERS_KEPT:]
        storage.write(place / ANSWERED, storage.as_json(dict(kept)))
        return answer

    def _written(self, asked: Asked, question: Question, configuration: Configuration, place: Path) -> Answer:
        if isinstance(question, Result):
            results.keep(configuration, question, place, asked.run)
            self._record("result kept", run=asked.run, number=asked.number, sha256=asked.sha256)
            return Answer(asked.number)
        state = self._place(asked.run, "") / f"{configuration.party}.state"
        if isinstance(question, ScorerGiven):
            protected_answers.keep_scorer(question, state)
            self._record("scorer kept", run=asked.run, number=asked.number, sha256=asked.sha256)
            return Answer(asked.number)
        file = place / f"{configuration.party}.{question.answer}"
        sender = Sender(
            file, configuration.policy, self.folder / ledger.NAME, {"run": asked.run, "number": asked.number}
        )
        if isinstance(question, protected_answers.ASKS):
            protected_answers.answer(question, configuration, sender, folder=self.folder, state=state)
        else:
            holding = configuration.holding(question.batch)
            if isinstance(question, RowsWanted):
                holding = files.new_samples(holding.path, state, id_column=holding.reading.id_column, key=holding.key)
            blind = protected_answers.rotation(question, holding, asked.run)
            files.answer(question, holding, sender, state=state, blind=blind)
        if question.common is not None:
            storage.write(place / COMMON, wire.encode(question.common))
        return Answer(asked.number, file=file, bytes=file.stat().st_size, sha256=_file_digest(file))

    def _again(self, asked: Asked, place: Path, before: Mapping[str, str], fingerprint: str) -> Answer:
        """The very bytes that left under this number, or a refusal; nothing is computed."""
        if before["asked"] != fingerprint:
            raise PolicyError(f"refused: number {asked.number} was used for another question; ask under a new one")
        if not before["file"]:
            return Answer(asked.number)
        file = place / before["file"]
        if _file_digest(file) != before["sha256"]:
            raise PolicyError(f"refused: the answer to {asked.number} was replaced since; ask under a new number")
        return Answer(asked.number, file=file, bytes=file.stat().st_size, sha256=before["sha256"])

    def check(self) -> str:
        """Read the table as for a question, under the policy; return in words what would be answered about."""
        configuration = self._configuration()
        holding = configuration.holding("")
        with message_files.naming(holding.path):
            table, _ = holding.load()
            preparation = prepare(table, holding.reading)
            n_samples, n_columns = preparation.apply(table).shape
            configuration.policy.check_samples(n_samples)
        fits = len(ledger.sent(self.folder / ledger.NAME, configuration.party, "summary"))
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

    def _place(self, run: str, batch: str) -> Path:
        folder = self.folder / "runs" / check_name(run, "run name")
        return folder / "new" / check_name(batch, "batch name") if batch else folder

    def _make_place(self, run: str, batch: str) -> list[Path]:
        """Make the folders of an answer that are not there yet; return them."""
        top, place = self.folder / "runs", self._place(run, batch)
        wanted = [folder for folder in (top, *reversed(place.parents), place) if folder.is_relative_to(top)]
        new = [folder for folder in dict.fromkeys(wanted) if not folder.exists()]
        if self._place(run, "") in new and top.is_dir() and len(list(top.iterdir())) >= MOST_RUNS_KEPT:
            raise PolicyError(f"refused: it keeps {MOST_RUNS_KEPT} runs already; have old ones removed there")
        return [make_directory(folder) for folder in new]

    def _record(self, event: str, **facts: Any) -> None:
        ledger.append(self.folder / ledger.NAME, event, **facts)


class _NotUnderstoodError(WireError):
    """A question that cannot be read."""


def _answered(place: Path) -> dict[str, dict[str, str]]:
    """What left under which number."""
    file = place / ANSWERED
    return dict(json.loads(storage.read(file))) if file.exists() else {}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _file_digest(file: Path) -> str:
    try:
        with file.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(f"{file}: cannot be read ({error.strerror}); ask under a new number") from error


def _reason(error: Exception) -> tuple[str, str]:
    """Code and sentence that may leave the party."""
    if isinstance(error, PolicyError | ProtectionError):
        while isinstance(error.__cause__, type(error)):  # its first words, before a file was named in front of them
            error = error.__cause__
        return "refused", str(error)
    if isinstance(error, _NotUnderstoodError):
        return NOT_UNDERSTOOD
    return next((reason for kind, reason in REASONS.items() if isinstance(error, kind)), UNEXPECTED)
