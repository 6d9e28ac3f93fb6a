"""What a member writes into the study's folder and reads there: each step once, signed, sealed and recorded."""

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from dkpca.errors import FusionError, InputError, NoAnswerError, ProtectionError, StorageError, WireError
from dkpca.exchange import memory as memories
from dkpca.exchange import plan as plans
from dkpca.exchange import sealed
from dkpca.exchange.folder import MOST_FILES, Files, Folder
from dkpca.exchange.identity import sha256
from dkpca.exchange.memory import StudyMemory
from dkpca.exchange.plan import NO_QUESTION, Study
from dkpca.wording import printable

CENTER, ALL = "center", sealed.ALL  # parts of a file: for the center, and for everybody
REFUSAL = "refusal"
MOST_REFUSAL = 2**14
COMPARED = sealed.MOST_HEADER  # first bytes of a file in the folder with those of that in DIR
REASONS = {
    "limits": "the study exceeds its limits",
    "samples": "too few samples are common to all",
    "few": "fewer samples are common to all than its own limits ask for",
    "gamma": "the width of the kernel is outside the plan's bounds",
    "question": "the center asked for something that is not in the plan",
    "constant": "its share of the answer would be nearly constant, and expose the others",
    "agree": "the members were told different values",
    "closed": "it closed the study before the end",
    "data": "its table cannot be used as the plan says",
    "ids": "the lists of sample ids do not belong together, or someone changed one",
    "fusion": "the answers of the parties do not belong together; whoever refused was told in which way",
}  # no code has a figure in it
THEN = "next, all run 'dkpca study close'; then the center can run 'dkpca study create' in this folder again"
WHY_FEW = "do all parties write ids alike, and name the right column (id_normalize and id in party.toml)?"

NO_RECORD = (
    "this member's own folder has no record of this file: it was restored from an older copy, or someone else wrote "
    "the file; go on with the newest copy, or have the folder's host remove a file that is not yours"
)
REPLACED = (
    "is not the file that this member wrote: another file has replaced this member's; "
    "ask the folder's host to remove it"
)
ONLY_A_PART = (
    "is only a part of what this member wrote; delete the file and repeat the command, which writes it again"
)
TO_DO = {
    "plan": "to write the plan ('dkpca study create'; 'dkpca study run' if it was there before)",
    "member": "to join ('dkpca study join')",
    "signature": "to sign ('dkpca study review', then 'dkpca study sign')",
}  # by step; all others are done by 'dkpca study run'


class WaitingError(Exception):
    """Files that are not there yet: of which members, for which step."""

    def __init__(self, step: str, *members: str) -> None:
        self.members, self.step = members, step = members, file_of(step)
        kind = re.split("[-.]", step)[0]
        to_do = TO_DO.get(kind, f"to run 'dkpca study run' (step {step!r})")
        ready = "The result of the fit is ready. " * (kind == "batch")
        super().__init__(f"{ready}Waiting for {', '.join(members)} {to_do}.")


class RefusedError(NoAnswerError):
    """A member refused, and signed that it did."""

    def __init__(self, member: str, step: str, reason: str, detail: str = "") -> None:
        words = REASONS.get(reason, "it gave no known reason")
        detail = detail or f"if hardly any are: {WHY_FEW}" * (reason == "samples")
        super().__init__(f"{member} refused at step {step!r}: {words}{detail and f' ({detail})'}; {THEN}")
        self.member, self.step, self.reason = member, step, reason


class OtherQuestionError(ProtectionError):
    """A member answered another question than this one knows: somebody was told something else."""


@dataclass(frozen=True)
class Membership:
    """One member of a study, at its own machine."""

    name: str
    folder: Folder
    memory: StudyMemory
    _listed: dict[str, Files] = field(init=False, default_factory=dict)  # one look in a command

    @cached_property
    def signed(self) -> Study | None:
        """What this member has signed, as it stood when this command first looked: reading it checks all keys."""
        return self.memory.remembered("signed")

    @property
    def own(self) -> Study:
        """What this member has signed, or an error."""
        if self.signed is None:
            raise InputError(f"{self.name} has not signed: run 'dkpca study review', then 'dkpca study sign'")
        return self.signed

    @cached_property
    def study(self) -> Study:
        """What all members have signed, once they have; it is kept, and from then on no other counts."""
        study, kept = self.own, self.memory.kept("agreement.json")
        if kept is not None:
            return replace(study, raw_signatures=memories.unpacked(kept)[1])
        signatures, waiting = dict[str, bytes](), []
        for name in study.plan.members:
            where = f"{name}/signature-{study.number}"
            # Its own is that of DIR: the folder may show one that an older copy of DIR made, for other numbers.
            own = self.memory.kept("signature") if name == self.name else None
            raw = own or self.folder.read(where, plans.MOST_SIGNATURE)
            try:
                plans.check_signature(raw or b"", name, study)
            except sealed.NotWholeError:
                waiting.append(name)
            signatures[name] = raw or b""
        if waiting:
            raise WaitingError("signature", *waiting)
        self.memory.keep_once("agreement.json", memories.packed(study.number, signatures), "the agreement")
        return replace(study, raw_signatures=signatures)

    def send(
        self, step: str, parts: Sequence[sealed.Part], *, question: str = NO_QUESTION, kind: str = "answer"
    ) -> None:
        """Write one step of this member: recorded in DIR first, then in the ledger, then in the folder."""
        if self.publish(step, question):
            return
        if self.has(self.name, step):
            raise ProtectionError(f"{self._where(self.name, step)}: {NO_RECORD}")
        about = sealed.Header(kind, self._bound_to(step), step, self.name, question, {})
        keys = {name: member.sealing for name, member in self.own.members.items()}
        memories.write(self._sent(step), lambda file: sealed.write(file, about, parts, self.memory.secrets(), keys))
        self.publish(step, question)

    def publish(self, step: str, question: str = NO_QUESTION) -> bool:
        """Bring a step into the folder, if one is recorded; what lies there in its place has to be the same file."""
        path = self._sent(step)
        if not path.exists():
            return False
        with path.open("rb") as file:
            header = sealed.read_header(file, path.stat().st_size, self.own.public)
        if header.agreement != self._bound_to(step) or header.question != question:
            raise ProtectionError(f"step {step!r} has already been answered, for another question")
        readers = sorted({reader for part in header.parts.values() for reader in part.readers})
        facts = {"kind": header.kind, "bytes": header.length, "readers": readers or "all"}
        self.memory.log({"agreement": header.agreement, "step": step}, facts)
        bring(self.folder, self._where(self.name, step), path)
        return True

    def receive(
        self, writer: str, step: str, *parts: str, at_most: int, question: str = NO_QUESTION, kind: str = "answer"
    ) -> Path:
        """Return a file in DIR with the first of these parts that another member wrote, or raise `WaitingError`."""
        for opened in (self._opened(writer, step, part) for part in parts):
            if opened.exists():  # what was opened once counts, whatever the folder shows later
                return opened
        if not self.has(writer, step):
            raise WaitingError(step, writer)
        try:
            with self.folder.opened(self._where(writer, step)) as found:
                if found is None:
                    raise WaitingError(step, writer)
                header = sealed.read_header(*found, self.own.public)
                part = self._part_of(header, parts, (kind, step, writer), question, at_most)
                opened = self._opened(writer, step, part)
                with tempfile.TemporaryFile(dir=self.memory.path) as kept:
                    pieces = sealed.contents(found[0], header, part, (self.name, self.memory.secrets()), kept)
                    memories.write(opened, lambda target: target.writelines(pieces))
        except sealed.NotWholeError:
            raise WaitingError(step, writer) from None
        except (WireError, ProtectionError) as error:
            kind_of = OtherQuestionError if isinstance(error, OtherQuestionError) else ProtectionError
            raise kind_of(f"{self._where(writer, step)}: {error}; it is ignored") from error
        return opened

    def _part_of(
        self, header: sealed.Header, parts: Sequence[str], about: tuple[str, ...], question: str, at_most: int
    ) -> str:
        """Return the first of these parts that a file has, if the file is what it has to be."""
        if header.agreement != self._bound_to(about[1]):
            raise ProtectionError("belongs to another study, or to another agreement of this one")
        if (header.kind, header.step, header.writer) != about:
            said = f"{printable(header.kind)} for step {header.step!r}"
            raise ProtectionError(f"is {header.writer}'s {said}, in the wrong place")
        if header.question != question:
            raise OtherQuestionError("answers another question than the plan and this member's messages ask")
        for part in parts:
            if part in header.parts:
                if (length := header.parts[part].plain_length) > at_most:
                    raise ProtectionError(f"declares {length} bytes; {at_most} are the most for this step")
                return part
        raise ProtectionError(f"has no part for {self.name!r}")

    def check_nonce(self, writer: str, nonce: str) -> None:
        """Refuse a nonce that a member reveals unless it is the one that its signature committed to."""
        if sha256(bytes.fromhex(nonce)) != self.study.signatures[writer].second:
            raise FusionError(f"{writer}: revealed a nonce that it had not committed to")

    def check_refusals(self) -> list[str]:
        """Raise if a member has refused, whatever the folder shows by now; return what only looks like a refusal."""
        ignored, refused = list[str](), list[RefusedError]()
        if self._opened(self.name, REFUSAL, ALL).exists():
            self._send_refusal()
        for name in self.own.plan.members:
            try:
                kept = self.receive(name, REFUSAL, ALL, at_most=MOST_REFUSAL, kind=REFUSAL)
            except WaitingError:
                continue
            except ProtectionError as error:  # whoever put it there did not sign it
                ignored.append(str(error))
                continue
            detail = self.memory.kept(f"opened/{name}.{REFUSAL}.detail") or b""  # of this member's own refusal
            refused.append(RefusedError(name, *refusal_in(kept.read_bytes()), detail.decode()))
        if refused:
            # One's own first, and then a graver one.
            raise min(refused, key=lambda each: (each.member != self.name, each.reason == "closed"))
        return ignored

    def refuse(self, step: str, reason: str, detail: str = "") -> NoReturn:
        """Tell all members that this one will not go on: signed, with a code; details are for its own eyes."""
        assert reason in REASONS
        body = json.dumps({"step": step, "reason": reason}).encode()
        memories.write(self._opened(self.name, REFUSAL, "detail"), detail.encode(errors="replace"))
        memories.write(self._opened(self.name, REFUSAL, ALL), body)  # first: a crash does not undo a refusal
        self._send_refusal()
        raise RefusedError(self.name, step, reason, detail)

    def _send_refusal(self) -> None:
        body = self._opened(self.name, REFUSAL, ALL).read_bytes()
        self.send(REFUSAL, [sealed.Part(ALL, sealed.ANYBODY, [body])], kind=REFUSAL)

    def has(self, writer: str, step: str) -> bool:
        """Whether a member's file lay in the folder when this command first looked, whole or not."""
        return named(self.own.number, step) in self.listed(writer)

    def has_begun(self, batch: str) -> bool:
        """Whether a party has written anything about a batch of new samples."""
        start = named(self.own.number, f"{batch}.")
        return any(file.startswith(start) for party in self.own.plan.parties for file in self.listed(party))

    def listed(self, writer: str) -> Files:
        """Files of a member as they were when this command first looked."""
        if writer not in self._listed:
            self._listed[writer] = self.listing(writer)
        return self._listed[writer]

    def listing(self, writer: str) -> Files:
        """Files of a member as the folder shows them now; more than the signed plan has steps for are refused."""
        return self.folder.listing(writer, MOST_FILES if self.signed is None else self.signed.plan.most_files)

    def _where(self, writer: str, step: str) -> str:
        return f"{writer}/{named(self.own.number, step)}"

    def _bound_to(self, step: str) -> str:
        """Digest to which a step is bound: a refusal, which may come before the agreement, to plan and members."""
        return self.own.fingerprint if step == REFUSAL else self.study.agreement

    def _sent(self, step: str) -> Path:
        return self.memory.path / "sent" / step

    def _opened(self, writer: str, step: str, part: str) -> Path:
        return self.memory.path / "opened" / f"{writer}.{step}.{part}"


def bring(folder: Folder, where: str, ours: Path) -> None:
    """Bring a file of this member into the folder; what lies there in its place has to be the same file, whole."""
    if folder.write(where, ours):
        return
    whole = ours.stat().st_size
    with folder.opened(where) as found, ours.open("rb") as own:
        shown = 0 if found is None else found[1]
        start = min(shown, COMPARED)
        if found is None or shown > whole or found[0].read(start) != own.read(start):
            raise ProtectionError(f"{folder.url}/{where}: {REPLACED}")
    if shown < whole:
        raise StorageError(f"{folder.url}/{where}: {ONLY_A_PART}")


def refusal_in(data: bytes) -> tuple[str, str]:
    """Step and reason that the content of a refusal names."""
    try:
        found = json.loads(data)
        return str(found["step"])[:40], str(found["reason"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "?", "?"


def file_of(step: str) -> str:
    """Name of a step; steps of a batch have a slash."""
    return step.replace("/", ".")


def named(number: int, step: str) -> str:
    """Name of a step's file in the folder; those of a later plan begin with its number."""
    return step if number == 1 else f"{number}.{step}"


def number_of(file: str) -> int:
    """Number of the plan that a step's file belongs to."""
    first = file.partition(".")[0]
    return int(first) if first.isdigit() else 1
