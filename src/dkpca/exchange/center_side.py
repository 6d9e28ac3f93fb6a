"""What the center does in a study: it runs the protocol from its start each time, with the answers that are there.

It stops where one is missing. So a crash loses nothing, and nobody keeps the state of a conversation. What was told
once counts: where it would be computed otherwise by now, the record in DIR is taken.
"""

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from dkpca import wire
from dkpca.exchange import protocols
from dkpca.exchange.member import ALL, CENTER, Membership, WaitingError, file_of
from dkpca.exchange.memory import write
from dkpca.exchange.own_table import write_result
from dkpca.exchange.protocols import Ask, Terms
from dkpca.exchange.sealed import Part
from dkpca.linalg.arrays import to_numpy
from dkpca.messages import Reveal, Told
from dkpca.party import questions as q
from dkpca.settings import Fit
from dkpca.store import storage
from dkpca.store.files import encode_model


def terms_of(member: Membership) -> Terms:
    """Terms of a study, from its plan."""
    plan = member.study.plan
    return Terms(
        member.agreement.digest,
        align=plan.align,
        columns={name: member.study.members[name].columns for name in plan.parties},
        fewest_samples=plan.samples,
        gammas=plan.gamma,
        taken_out=plan.covariates,
        row_means=plan.row_means,
        go=True,
        publish=True,
        seeded=True,
    )


def run(member: Membership, fit: Fit, folder: Path) -> tuple[str, list[str]]:
    """Go on as far as the answers reach; keep the model, the embedding and the certificate; say what is not sent."""
    plan, terms = member.study.plan, terms_of(member)
    model = replay(member, protocols.fit(plan.parties, fit, terms))
    write_result(folder, _numbers(model.n_samples), to_numpy(model.scores), model.certificate.to_dict())
    write(folder / "model.safetensors", encode_model(model))
    for number in range(1, plan.batches + 1):
        batch = f"batch-{number}"
        if not any(
            member.has(party, f"{batch}.{step}")
            for party in plan.parties
            for step in ("tokens", "ring-1", "shape", "rows")
        ):
            break
        scores = replay(member, protocols.place(plan.parties, fit, model, batch, terms))
        write_result(folder / batch, _numbers(len(scores)), to_numpy(scores), {})
    unsent = plan.row_means and model.solver.startswith("landmark")
    said = "no row means were sent, which the plan asks for: the landmark solver computes few entries of the matrix"
    return str(folder), [said] if unsent else []


def replay(member: Membership, protocol: Generator[Ask, Any, Any]) -> Any:
    """Run a protocol with what lies in the folder; return its outcome, or raise `WaitingError`."""
    given: Any = None
    while True:
        try:
            ask = protocol.send(given)
        except StopIteration as end:
            return end.value
        if callable(ask.asked):
            _tell(member, ask)
        if ask.readers in ("parties", "next"):
            given = {}
        elif all(question.answer is Told for question in ask.questions.values()):
            given = {party: Told(party) for party in ask.questions}  # nobody has to be waited for
        else:
            given = received(member, ask.step, ask.questions, CENTER, ALL)


def _tell(member: Membership, ask: Ask) -> None:
    """Write what only the center can tell: one part where it is the same for all, else one for each party."""
    plan, name = member.study.plan, file_of(ask.step)
    readers = plan.result_to if ask.step.endswith("result") else plan.parties
    kept = {party: member.memory.kept(f"asked/{name}.{party}") for party in (ALL, *plan.parties)}
    if kept[ALL] is None and kept[plan.parties[0]] is None:
        packed = {party: q.encode(question) for party, question in ask.questions.items()}
        one_for_all = len(set(packed.values())) == 1
        kept |= {ALL: packed[plan.parties[0]]} if one_for_all else packed
        for party, data in kept.items():
            if data is not None:
                member.memory.keep_once(f"asked/{name}.{party}", data, f"what was told at step {ask.step!r}")
    told = {party: kept[party] or kept[ALL] or b"" for party in plan.parties}
    ask.questions = {party: q.decode(data) for party, data in told.items()}
    to = tuple(party for party in plan.parties if party in readers)
    if member.sent(name) is not None:
        member.publish(name)
    elif kept[ALL] is not None and to:
        member.send(name, [Part(ALL, to, [kept[ALL] or b""])], kind="question")
    elif to:
        member.send(name, [Part(party, (party,), [told[party]]) for party in to], kind="question")


def received(member: Membership, step: str, questions: Mapping[str, q.Question], *parts: str) -> dict[str, Any]:
    """Return the answers to these questions, checked by them; raise `WaitingError` with all who lack one."""
    found: dict[str, Any] = {}
    waiting: list[str] = []
    for party, question in questions.items():
        about: dict[str, Any] = {"at_most": question.most_bytes(), "question": q.digest(question)}
        try:
            path = member.receive(party, file_of(step), *parts, **about)
        except WaitingError:
            waiting.append(party)
            continue
        found[party] = wire.decode(storage.mapped(path))
        question.check(party, found[party])
        if isinstance(found[party], Reveal):
            member.check_nonce(party, found[party].nonce)
    if waiting:
        raise WaitingError(step, *waiting)
    return found


def _numbers(n_samples: int) -> list[str]:
    return [str(number + 1) for number in range(n_samples)]
