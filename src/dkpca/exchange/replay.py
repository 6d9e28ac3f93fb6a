"""A protocol run from what lies in the folder: the center replays it, a party answers each of its steps once.

The center runs the generator from its start each time, with the answers that are there, and stops where one is
missing. So a crash loses nothing, and nobody keeps the state of a conversation.
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from dkpca.exchange import sealed
from dkpca.exchange.identity import sha256
from dkpca.exchange.member import Membership, WaitingError
from dkpca.exchange.sealed import Part

Pieces = Sequence[bytes | memoryview]
CENTER, ALL = "center", "all"  # parts of a file: for the center, and for everybody


class Asked(Protocol):
    """What a protocol yields: a question to some parties."""

    @property
    def step(self) -> str:
        """Name of the step, once in a study."""

    @property
    def questions(self) -> Mapping[str, Any]:
        """Question by party."""

    @property
    def readers(self) -> Literal["center", "parties", "all"]:
        """Who reads the answers."""


def file_of(step: str) -> str:
    """Name of a step's file; steps of a batch have a slash."""
    return step.replace("/", ".")


def replay(
    member: Membership,
    protocol: Generator[Any, Any, Any],
    *,
    pack: Callable[[Any], Pieces],
    unpack: Callable[[Path], Any],
    told: Callable[[Any], Collection[str]],
    acknowledged: Callable[[Any, str], Any],
) -> Any:
    """Run a protocol with what lies in the folder; return its outcome, or raise `WaitingError`.

    `told(ask)` says which parties the center has to write the question to: they make the others themselves from the
    plan. `acknowledged(question, party)` is the answer where it says nothing that has to be waited for, else None.
    """
    given: Mapping[str, Any] | None = None
    while True:
        try:
            ask = protocol.send(given)
        except StopIteration as end:
            return end.value
        packed = {party: b"".join(bytes(piece) for piece in pack(each)) for party, each in ask.questions.items()}
        digests = _recorded(member, ask.step, packed)
        readers = told(ask)
        if readers:
            _tell(member, ask.step, {party: packed[party] for party in readers})
        said = {party: acknowledged(question, party) for party, question in ask.questions.items()}
        if ask.readers == "parties":
            given = None
        elif None not in said.values():
            given = said
        else:
            given = _answers(member, ask, digests, unpack)


def _recorded(member: Membership, step: str, packed: Mapping[str, bytes]) -> dict[str, str]:
    """Digest of each question; where a question that is computed again differs, the one that was asked counts."""
    name = f"asked/{file_of(step)}.json"
    kept = member.memory.kept(name)
    if kept is None:
        digests = {party: sha256(data) for party, data in packed.items()}
        member.memory.keep_once(name, sealed.canonical(digests), f"the question of step {step!r}")
        return digests
    found: dict[str, str] = sealed.uncanonical(kept, name)
    return found


def _tell(member: Membership, step: str, packed: Mapping[str, bytes]) -> None:
    """Write the questions of a step: one part where all are alike, else one for each party."""
    if len(set(packed.values())) == 1:
        parts = [Part(ALL, tuple(packed), [next(iter(packed.values()))])]
    else:
        parts = [Part(party, (party,), [data]) for party, data in packed.items()]
    name = file_of(step)
    if member.sent(name) is None:
        member.send(name, parts, kind="question")
    else:
        member.publish(name)


def _answers(
    member: Membership, ask: Asked, digests: Mapping[str, str], unpack: Callable[[Path], Any]
) -> dict[str, Any]:
    """Return the answers of all parties, checked by their questions; raise `WaitingError` with all who lack one."""
    found, waiting = {}, []
    for party, question in ask.questions.items():
        try:
            path = member.receive(
                party, file_of(ask.step), CENTER, ALL, at_most=question.most_bytes(), question=digests[party]
            )
        except WaitingError:
            waiting.append(party)
            continue
        found[party] = unpack(path)
        question.check(party, found[party])
    if waiting:
        raise WaitingError(ask.step, *waiting)
    return found


def question_of(member: Membership, step: str, *, at_most: int) -> bytes:
    """Return what the center wrote to this party for a step."""
    center = member.study.plan.center
    return member.receive(center, file_of(step), ALL, member.name, at_most=at_most, kind="question").read_bytes()


def answer(
    member: Membership,
    step: str,
    question: Pieces,
    make: Callable[[], Mapping[tuple[str, ...], Pieces]],
) -> None:
    """Answer one step, once; a repeat sends the same bytes again.

    `make` returns the content for each group of readers: ("center",) of the plan, one other party, or () for all.
    """
    name, digest = file_of(step), sha256(b"".join(bytes(piece) for piece in question))
    if member.sent(name, digest) is not None:
        member.publish(name, digest)
        return
    center = member.study.plan.center
    parts = [
        Part(ALL if not readers else CENTER if readers == (center,) else "+".join(readers), readers, pieces)
        for readers, pieces in make().items()
    ]
    member.send(name, parts, question=digest)


def received(member: Membership, writer: str, step: str, question: Pieces, *, at_most: int) -> Path:
    """Return what another party wrote for this one, or for all, in answer to a question that both know."""
    digest = sha256(b"".join(bytes(piece) for piece in question))
    own = CENTER if member.name == member.study.plan.center else member.name
    return member.receive(writer, file_of(step), own, ALL, at_most=at_most, question=digest)
