"""A member's part in a study, from joining to the result: what the commands `dkpca study ...` call."""

import json
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dkpca import fusion, wire
from dkpca.errors import FusionError, InputError, ProtectionError
from dkpca.exchange import founding, own_table, protocols, replay
from dkpca.exchange import plan as plans
from dkpca.exchange import review as reviews
from dkpca.exchange.folder import Folder
from dkpca.exchange.founding import Seat
from dkpca.exchange.identity import sha256
from dkpca.exchange.member import Membership
from dkpca.exchange.memory import Memory, write
from dkpca.exchange.party_side import PartySide, batches_in
from dkpca.exchange.plan import Plan
from dkpca.exchange.protocols import Ask, Terms
from dkpca.exchange.review import Review
from dkpca.fusion import FusedModel
from dkpca.linalg.arrays import to_numpy
from dkpca.messages import Scores, Told, row_number_digest
from dkpca.party import alignment, questions
from dkpca.party import limits as party_limits
from dkpca.party.limits import Limits
from dkpca.party.questions import CommonGiven, ResultGiven, SumsWanted
from dkpca.settings import Fit, from_values
from dkpca.store import storage
from dkpca.store.files import encode_model
from dkpca.tables.embeddings import embedding_files
from dkpca.wording import counted

RESULT = "result"
LIMITS_FILE = "limits.toml"


def settings_of(plan: Plan) -> Fit:
    """Return the settings of the fit in a plan; every one of them has to be there."""
    return from_values(Fit, plan.fit, what="the plan, [fit]", complete=True)


def join(folder: Folder, memory: Memory, table: Path, id_column: str | None, name: str) -> str:
    """Join as a party: keys, party.toml and limits.toml in DIR, and who this party is in the folder."""
    plan, _ = founding.plan_in(folder)
    fit = settings_of(plan)
    if name not in plan.parties:
        raise InputError(f"{name!r} is no party of this study; its parties are {', '.join(plan.parties)} (--name)")
    memory.path.mkdir(parents=True, exist_ok=True)
    with memory.locked():
        own_table.describe(memory.path, table, id_column, name)
        limits = memory.path / LIMITS_FILE
        if not limits.exists():
            write(limits, Limits().to_toml().encode())
        own = own_table.load(memory.path, fit.family_of(name).columns_are)
        if plan.align == "tokens" and own.ids is None:
            raise InputError(f"{table}: the plan matches samples by their ids; name the column with --id")
        founding.join(folder, memory, plan, name, own.X.shape[1])
        memory.study(plan.id).replace("folder", folder.url.encode())
    rows, columns = (counted(count, noun) for count, noun in zip(own.X.shape, ("sample", "column"), strict=True))
    return f"Joined as {name} with {rows} and {columns}. Your limits are in {limits}; then 'dkpca study review'."


def review(folder: Folder, memory: Memory) -> Review:
    """Show what would leave; `sign` signs exactly this."""
    with memory.locked():
        return _review(founding.seat(folder, memory))


def _review(seat: Seat) -> Review:
    study = seat.kept.remembered("signed") or founding.shown(seat)
    if seat.name == study.plan.center:
        found, shown = Review(study, (), {}, (), ""), ""
    else:
        fit = settings_of(study.plan)
        table, limits = _table_and_limits(seat, fit)
        found = reviews.review(study, seat.name, seat.memory, table, limits, fit)
        reviews.keep(seat.kept, found, table)
        shown = _digest_of(seat, table)
    seat.kept.remember(study, "reviewed")
    about = {"fingerprint": study.fingerprint, "green": found.green, "table and limits": shown}
    seat.kept.replace("review.json", json.dumps(about).encode())
    return found


def sign(folder: Folder, memory: Memory, fingerprint: str) -> None:
    """Sign what was reviewed; the table is frozen as it was then."""
    with memory.locked():
        seat = founding.seat(folder, memory)
        if seat.kept.kept("review.json") is None and seat.name == founding.plan_in(folder)[0].center:
            _review(seat)  # nothing of the center's leaves: the fingerprint says what it signs
        kept = seat.kept.kept("review.json")
        if kept is None:
            raise InputError("nothing was reviewed yet; 'dkpca study review' shows what will leave")
        about = json.loads(kept)
        study = seat.kept.remembered("reviewed")
        if study is None or study.fingerprint != about["fingerprint"]:
            raise ProtectionError("the study that was reviewed is not the one that was kept; review it again")
        if not about["green"]:
            raise InputError("the plan is beyond limits.toml (red in 'dkpca study review'); it is not signed")
        digest = sha256(b"no table")
        if seat.name != study.plan.center:
            if seat.kept.kept("table/about.json") is None:
                table, _ = _table_and_limits(seat, settings_of(study.plan))
                if _digest_of(seat, table) != about["table and limits"]:
                    raise InputError("the table or limits.toml changed since the review; review again")
                own_table.freeze(seat.kept, table)
            digest = own_table.digest(seat.kept)
            reviews.commit(seat.kept)
        founding.sign(seat, fingerprint, digest)


def run(folder: Folder, memory: Memory) -> dict[str, Any]:
    """Do all that this member can do now; raises `WaitingError` while others are waited for."""
    with memory.locked():
        seat = founding.seat(folder, memory)
        with founding.remembering_since(seat):
            member = founding.membership(seat)
            plans.check_end(member.study.plan)
            member.check_refusals()
            if seat.name != member.study.plan.center:
                return {"result": str(run_party(member, seat))}
            try:
                return {"result": str(run_center(member, seat))}
            except FusionError as error:
                member.refuse("fusion", "fusion", str(error))


def _table_and_limits(seat: Seat, fit: Fit) -> tuple[own_table.OwnTable, Limits]:
    return own_table.load(seat.memory.path, fit.family_of(seat.name).columns_are), _limits(seat)


def _limits(seat: Seat) -> Limits:
    path = seat.memory.path / LIMITS_FILE
    if not path.exists():
        raise InputError(f"{path}: there are no limits, so nothing is allowed; 'dkpca study join' writes them")
    return party_limits.from_toml(path.read_text(), path)


def _digest_of(seat: Seat, table: own_table.OwnTable) -> str:
    """Digest of table and limits, as a review saw them."""
    about = json.dumps([list(table.ids or ()), table.columns]).encode()
    return sha256(about + table.X.tobytes() + (seat.memory.path / LIMITS_FILE).read_bytes())


def run_party(member: Membership, seat: Seat) -> Path:
    """Answer as a party; keep the result with this party's own ids."""
    plan, fit = member.study.plan, settings_of(member.study.plan)
    table = own_table.frozen(seat.kept)
    side = PartySide(
        member, seat.memory, fit, table, _limits(seat), batches_in(seat.memory.path, table, plan.batches)
    )
    result, folder = side.run(), seat.memory.path / RESULT
    if result is None:
        return seat.kept.path
    _write_result(folder, side.samples(), side.embedding(result), _told_of(result))
    for batch in side.new:
        placed = side.place(batch, result)
        _write_result(folder / batch, side.samples(batch), side.embedding(placed, batch), _told_of(placed))
    return folder


def run_center(member: Membership, seat: Seat) -> Path:
    """Replay the protocol; keep the model, the embedding and the certificate."""
    plan, fit = member.study.plan, settings_of(member.study.plan)
    folder = seat.memory.path / RESULT
    common: list[CommonGiven] = []
    model = _replay(member, protocols.fit(plan.parties, fit, _terms(member)), common)
    names = _names(common, model.n_samples) if fit.protect != "blind" else _numbers(model.n_samples)
    _write_result(folder, names, to_numpy(model.scores), model.certificate.to_dict())
    write(folder / "model.safetensors", encode_model(model))
    for number in range(1, plan.batches + 1):
        batch = f"batch-{number}"
        if not any(
            f"{batch}.tokens" in member.folder.listing(p)
            or f"{batch}.shape" in member.folder.listing(p)
            or f"{batch}.rows" in member.folder.listing(p)
            for p in plan.parties
        ):
            break
        common = []
        scores = _replay(member, _placed(member, fit, model, batch), common)
        _write_result(folder / batch, _names(common, len(scores)), to_numpy(scores), {})
    return folder


def _terms(member: Membership) -> Terms:
    plan = member.study.plan
    return Terms(
        member.agreement.digest,
        align=plan.align == "tokens",
        columns={name: member.study.members[name].columns for name in plan.parties},
        fewest_samples=plan.samples,
        gammas=plan.gamma,
        go=True,
        publish=True,
        seeded=True,
    )


def _placed(member: Membership, fit: Fit, model: FusedModel, batch: str) -> Generator[Ask, Any, Any]:
    """Place one batch of new samples, and tell the parties where they lie."""
    plan, terms = member.study.plan, _terms(member)
    if fit.protect == "none":
        if terms.align:
            yield from protocols.aligned(plan.parties, batch)
        rows = yield from protocols.new_rows(plan.parties, batch)
        scores = fusion.place(model, [rows[name] for name in plan.parties])
    else:
        scores = yield from protocols.place(plan.parties, fit, model, batch, terms)
    told = fusion.result(model, scores, row_number_digest(len(scores)))
    yield Ask(f"{batch}/result", {name: ResultGiven(told, batch=batch) for name in plan.parties})
    return scores


def _replay(member: Membership, protocol: Generator[Ask, Any, Any], common: list[CommonGiven]) -> Any:
    """Run a protocol from what lies in the folder; note which samples all parties have."""
    plan = member.study.plan

    def told(ask: Ask) -> list[str]:
        for question in ask.questions.values():
            if isinstance(question, CommonGiven):
                common[:] = [question]
        asked_bounds = member.memory.kept(f"asked/{replay.file_of(ask.step).replace('sums-1', 'bounds')}.json")
        readers = plan.result_to if ask.step.endswith("result") else plan.parties
        return [
            name
            for name, question in ask.questions.items()
            if name in readers and (question.told or (isinstance(question, SumsWanted) and asked_bounds is not None))
        ]

    return replay.replay(
        member,
        protocol,
        pack=lambda question: [questions.encode(question)],
        unpack=lambda path: wire.decode(storage.mapped(path)),
        told=told,
        acknowledged=lambda question, party: Told(party) if question.answer is Told else None,
    )


def _names(common: Sequence[CommonGiven], n_samples: int) -> Sequence[str]:
    """Names of the samples at the center: their tokens, or their numbers."""
    return alignment.names(common[-1].common) if common else _numbers(n_samples)


def _numbers(n_samples: int) -> list[str]:
    return [str(number + 1) for number in range(n_samples)]


def _told_of(scores: Scores) -> dict[str, Any]:
    return {
        "captured_share_at_least": scores.captured_share_at_least,
        "optimality_at_least": scores.optimality_at_least,
        "meaning": scores.meaning,
        "n_parties": scores.n_parties,
    }


def _write_result(folder: Path, samples: Sequence[str], scores: Any, certificate: Mapping[str, Any]) -> None:
    write(folder / "embedding.csv", embedding_files(samples, scores)["embedding.csv"])
    if certificate:
        write(folder / "certificate.json", (json.dumps(certificate, indent=2) + "\n").encode())
