"""How a study begins: its plan is written, members join, and each signs what it has reviewed."""

import contextlib
import datetime
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dkpca.errors import InputError, ProtectionError
from dkpca.exchange import member as members
from dkpca.exchange import plan as plans
from dkpca.exchange.folder import Folder, check_name
from dkpca.exchange.identity import SHOWN, is_fingerprint
from dkpca.exchange.member import Membership, WaitingError
from dkpca.exchange.memory import Memory, StudyMemory
from dkpca.exchange.plan import Plan, Study

NUMBER = 1  # of the plan in its folder
PLAN = f"plan-{NUMBER}.toml"
DAYS = 90  # that a study lasts unless it is said


@dataclass(frozen=True)
class Seat:
    """A member's folder and the study's folder, before there is an agreement."""

    folder: Folder
    memory: Memory
    name: str
    kept: StudyMemory


def found(
    folder: Folder, memory: Memory, name: str, parties: Sequence[str], fit: Mapping[str, Any], **plan: Any
) -> Plan:
    """Write the plan, every field of it, and join as the center."""
    values: dict[str, Any] = {
        "version": plans.VERSION,
        "id": secrets.token_hex(16),
        "ends": datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=DAYS),
        "center": check_name(name),
        "parties": tuple(check_name(party) for party in parties),
        "result_to": (name, *parties),
        "align": "tokens",
        "samples": 50,
        "gamma": (1e-4, 1.0),
        "batches": 0,
        "batch_samples": 0,
        "fit": dict(fit),
    }
    made = Plan(**values | plan)
    raw = made.to_toml()
    plans.read_plan(raw)  # which refuses what no member could sign
    if _plan_files(folder):
        raise InputError(f"{folder.url}: there is a study in this folder already; take an empty one")
    memory.path.mkdir(parents=True, exist_ok=True)
    with memory.locked():
        join(folder, memory, made, name, 0)
        folder.write(f"{name}/{PLAN}", raw)
    return made


def join(folder: Folder, memory: Memory, plan: Plan, name: str, columns: int) -> None:
    """Write who this member is; a repeat changes nothing, and another member's file in its place is refused."""
    if name not in plan.members:
        raise InputError(f"{name!r} is no member of this study; its members are {', '.join(plan.members)}")
    kept = memory.study(plan.id)
    raw = plans.make_member(name, kept.secrets(), plan, columns).to_toml()
    kept.keep_once("member.toml", raw, "what this member says of itself")
    kept.keep_once("name", name.encode(), "this member's name")
    where = f"{name}/member.toml"
    if not folder.write(where, raw) and folder.read(where, plans.MOST_MEMBER) != raw:
        raise ProtectionError(
            f"{folder.url}/{where}: somebody has joined as {name!r} already, with other keys; if that was you, "
            "use the folder of that time with --as"
        )


def plan_in(folder: Folder) -> tuple[Plan, bytes]:
    """Return the plan that lies in a folder."""
    found = _plan_files(folder)
    if not found:
        raise WaitingError("plan", "the center")
    if len(found) > 1:
        raise ProtectionError(f"{folder.url}: {' and '.join(sorted(found))} each wrote a plan; do not join")
    (center, raw), *_ = found.items()
    plan = plans.read_plan(raw)
    if plan.center != center:
        raise ProtectionError(f"{folder.url}/{center}/{PLAN}: names {plan.center} as the center; do not join")
    return plan, raw


def seat(folder: Folder, memory: Memory) -> Seat:
    """Return this member's place in the study that lies in a folder; where its plan is hidden, DIR says which."""
    joined = [each for each in memory.studies() if memory.study(each).kept("name") is not None]
    shown = ""
    with contextlib.suppress(WaitingError, InputError, ProtectionError):
        shown = plan_in(folder)[0].id
    here = [each for each in joined if memory.study(each).kept("folder") == folder.url.encode()]
    mine = [each for each in joined if each == shown] or here
    if not mine:
        raise InputError(f"{memory.path}: has not joined the study in {folder.url}; 'dkpca study join' does it")
    kept = memory.study(mine[-1])
    kept.replace("folder", folder.url.encode())
    return Seat(folder, memory, (kept.kept("name") or b"").decode(), kept)


def shown(seat: Seat) -> Study:
    """Return the study as the folder shows it now, once all have joined."""
    plan, raw = plan_in(seat.folder)
    files = {name: seat.folder.read(f"{name}/member.toml", plans.MOST_MEMBER) for name in plan.members}
    missing = [name for name, file in files.items() if file is None]
    if missing:
        raise WaitingError("member.toml", *missing)
    if files[seat.name] != seat.kept.kept("member.toml"):
        raise ProtectionError(
            f"{seat.folder.url}/{seat.name}/member.toml: is not what this member wrote; somebody replaced it"
        )
    return Study(NUMBER, raw, {name: file or b"" for name, file in files.items()})


def sign(seat: Seat, fingerprint: str, table_digest: str) -> None:
    """Sign the study that was reviewed, if its fingerprint is the one that was heard from the others."""
    study = seat.kept.remembered("signed") or seat.kept.remembered("reviewed")
    if study is None:
        raise InputError("nothing was reviewed yet; 'dkpca study review' shows what will leave")
    if not is_fingerprint(fingerprint, study.fingerprint):
        raise ProtectionError(
            "the fingerprint is not that of the study that was reviewed: either it was mistyped, or the others see "
            f"another plan or other members; compare all {SHOWN} digits with them"
        )
    plans.check_end(study.plan)
    seat.kept.remember(study, "signed")
    raw = plans.make_signature(study, seat.name, seat.kept.secrets(), table_digest)
    where = f"{seat.name}/signature-{study.number}"
    if not seat.folder.write(where, raw) and seat.folder.read(where, plans.MOST_SIGNATURE) != raw:
        raise ProtectionError(f"{seat.folder.url}/{where}: somebody put another file in its place")


def membership(seat: Seat) -> Membership:
    """Return this member's part in the agreement, once all have signed."""
    study = seat.kept.remembered("signed")
    if study is None:
        raise WaitingError("signature", seat.name)
    return Membership(seat.name, seat.folder, seat.kept, members.agree(seat.folder, seat.kept, study))


def status(folder: Folder) -> dict[str, Any]:
    """Say who wrote what when, and whom the others wait for; nobody's keys are needed."""
    plan, _ = plan_in(folder)
    files = {name: folder.listing(name) for name in plan.members}
    steps: dict[str, float] = {}
    for listed in files.values():
        for each in listed.values():
            steps[each.name] = max(steps.get(each.name, 0.0), each.time)
    order = ["member.toml", f"signature-{NUMBER}"]
    order += sorted(set(steps) - {*order, PLAN, members.REFUSAL}, key=lambda step: steps[step])
    waiting = {}
    for step in order:
        who = plan.members if step in order[:2] else plan.parties
        if step not in files[plan.center] or step in order[:2]:
            missing = [name for name in who if step not in files[name]]
            if missing and (len(missing) < len(who) or step in order[:2]):
                waiting[step] = missing
    return {
        "study": plan.id,
        "ends": plan.ends.isoformat(),
        "members": {
            name: [
                {"file": f.name, "bytes": f.size, "time": f.time}
                for f in sorted(listed.values(), key=lambda f: f.time)
            ]
            for name, listed in files.items()
        },
        "refused": [name for name, listed in files.items() if members.REFUSAL in listed],
        "waiting": waiting,
    }


def footprint(folder: Folder, own: str) -> str:
    """Text that changes whenever another member adds a file: all that a waiting process looks at."""
    others = [name for name in folder.members() if name != own]
    return repr([(name, sorted((f.name, f.size) for f in folder.listing(name).values())) for name in others])


@contextlib.contextmanager
def remembering_since(seat: Seat) -> Iterator[None]:
    """Note when this member began to wait for others, so that it can say since when."""
    try:
        yield
    except WaitingError as waiting:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        what = {"step": waiting.step, "members": list(waiting.members)}
        kept = json.loads(seat.kept.kept("waiting.json") or b"{}")
        waiting.since = kept["since"] if kept.get("what") == what else now
        seat.kept.replace("waiting.json", json.dumps({"what": what, "since": waiting.since}).encode())
        raise


def _plan_files(folder: Folder) -> dict[str, bytes]:
    found = {name: folder.read(f"{name}/{PLAN}", plans.MOST_PLAN) for name in folder.members()}
    return {name: raw for name, raw in found.items() if raw is not None}


def local(path: Path | str) -> str:
    """Return a folder's URL with a local path made absolute, so that every command means the same one."""
    return str(path) if "://" in str(path) else str(Path(path).expanduser().absolute())
