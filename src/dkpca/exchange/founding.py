"""How a study begins: its plan is written, members join, and each signs what it has reviewed."""

import contextlib
import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dkpca.errors import InputError, ProtectionError, StorageError
from dkpca.exchange import member as members
from dkpca.exchange import plan as plans
from dkpca.exchange.folder import Folder
from dkpca.exchange.member import Membership, WaitingError
from dkpca.exchange.memory import Memory
from dkpca.exchange.plan import Plan, Study

PLAN = re.compile(r"plan-([1-9][0-9]{0,2})\.toml")
BATCH = re.compile(r"(batch-[1-9][0-9]*)\.")


def found(
    folder: Folder, memory: Memory, name: str, parties: Sequence[str], fit: Mapping[str, Any], **plan: Any
) -> Study:
    """Write the plan, every field of it, and join as the center; in a folder with a study it is its next plan."""
    about: dict[str, Any] = {"result_to": (name, *parties), **plan}
    made = Plan(center=name, parties=tuple(parties), fit=dict(fit), **about)
    before = latest(folder)
    here = Study(1 if before is None else before.number + 1, made.to_toml())
    plans.read_plan(here.raw_plan)  # which refuses what no member could sign
    if before is not None:
        if memory.study(before.plan.id).kept("name") is None:
            raise InputError(f"{folder.url}: this folder already contains a study; use an empty one")
        _check_follows(before, here)
    memory.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with memory.locked():
        join(folder, memory, here, name, 0)
        folder.write(f"{name}/{here.file}", here.raw_plan)
    return here


def latest(folder: Folder) -> Study | None:
    """Return the last plan in a folder, which follows from the one before it; None: there is none."""
    listed = {name: map(PLAN.fullmatch, folder.listing(name, named=PLAN)) for name in folder.members()}
    found = {name: [int(plan[1]) for plan in plans if plan] for name, plans in listed.items()}
    found = {name: numbers for name, numbers in found.items() if numbers}
    if not found:
        return None
    if len(found) > 1:
        raise ProtectionError(f"{folder.url}: {' and '.join(sorted(found))} each wrote a plan; do not join")
    ((center, numbers),) = found.items()
    *before, here = [_read(folder, center, number) for number in range(max(1, max(numbers) - 1), max(numbers) + 1)]
    for each in before:
        _check_follows(each, here)
    return here


def _check_follows(before: Study, here: Study) -> None:
    """Refuse a next plan that some member of the one before would not have to sign."""
    gone = sorted(set(before.plan.members) - set(here.plan.members))
    if gone or before.plan.center != here.plan.center:
        who = ", ".join(gone) or "its center"
        raise InputError(
            f"{here.file}: every member of {before.file} must sign it, but {who} is not in this plan; create a "
            "study in another folder"
        )


def _read(folder: Folder, center: str, number: int) -> Study:
    where = f"{center}/plan-{number}.toml"
    raw = folder.read(where, plans.MOST_PLAN)
    if raw is None:
        raise WaitingError("plan", center)
    here = Study(number, raw)
    try:
        named = here.plan.center
    except InputError as error:
        raise InputError(f"{folder.url}/{where}: {error}") from error
    if named != center:
        raise ProtectionError(f"{folder.url}/{where}: names {named} as the center; do not join")
    return here


def join(folder: Folder, memory: Memory, here: Study, name: str, columns: int) -> None:
    """Write who this member is; a repeat changes nothing, and another member's file in its place is refused."""
    plan = here.plan
    if name not in plan.members:
        raise InputError(f"{name!r} is not a member of this study; its members are {', '.join(plan.members)}")
    kept = memory.study(plan.id)
    raw = plans.make_member(name, kept.secrets(), plan, columns).to_toml()
    kept.keep_once("member.toml", raw, "what this member says of itself")
    kept.keep_once("number", str(here.number).encode(), "the number of the plan")
    kept.replace("folder", folder.url.encode())
    kept.keep_once("name", name.encode(), "this member's name")  # the last one: from now on it has joined
    where = f"{name}/{here.member_file}"
    if not folder.write(where, raw) and folder.read(where, plans.MOST_MEMBER) != raw:
        raise ProtectionError(
            f"{folder.url}/{where}: {name!r} has already joined, with other keys; if that was you, "
            "pass the folder you used then with --as"
        )


def plan_in(folder: Folder) -> Study:
    """Return the last plan that lies in a folder."""
    found = latest(folder)
    if found is None:
        if not folder.exists():
            raise InputError(f"{folder.url}: there is no such folder; check the spelling, or wait until it is shared")
        raise WaitingError("plan", "the center")
    return found


def seat(folder: Folder, memory: Memory) -> Membership:
    """Return this member's place in the study of a folder: in the last plan that it has joined, as DIR says."""
    joined = [each for each in memory.studies() if each.kept("name") is not None]
    here = [each for each in joined if each.kept("folder") == folder.url.encode()]
    here = [each for each in here if each.kept("closed") is None] or here
    number = {each: int(each.kept("number") or b"1") for each in here}
    here = [each for each in here if number[each] == max(number.values())]
    if len(here) != 1:  # DIR knows this folder by another name, or had another study in it
        with contextlib.suppress(WaitingError, InputError, ProtectionError):
            shown = plan_in(folder).plan.id
            here = [each for each in joined if each.path.name == shown] or here
    if not here:
        raise InputError(f"{memory.path}: has not joined the study in {folder.url}; run 'dkpca study join' first")
    kept = here[-1]
    kept.replace("folder", folder.url.encode())
    return Membership((kept.kept("name") or b"").decode(), folder, kept)


def close(folder: Folder, memory: Memory) -> None:
    """Close every plan that this member has joined in a folder: each has keys and a table of its own."""
    with memory.locked():
        last = seat(folder, memory)
        try:
            written: dict[str, Any] | None = last.listing(last.name)
        except StorageError:  # a folder that cannot be read may hold numbers of this member
            written = None
        for each in memory.studies():
            if each.kept("folder") == last.memory.kept("folder"):
                number = int(each.kept("number") or b"1")
                each.close(written and [name for name in written if members.number_of(name) == number])


def shown(seat: Membership) -> Study:
    """Return the study as the folder shows it now, once all have joined."""
    here = plan_in(seat.folder)
    if here.plan.id != seat.memory.path.name:
        raise InputError(f"{here.file}: not joined yet; run 'dkpca study join' first")
    files = {name: seat.folder.read(f"{name}/{here.member_file}", plans.MOST_MEMBER) for name in here.plan.members}
    missing = [name for name, file in files.items() if file is None]
    if missing:
        raise WaitingError(here.member_file, *missing)
    if files[seat.name] != seat.memory.kept("member.toml"):
        raise ProtectionError(
            f"{seat.folder.url}/{seat.name}/{here.member_file}: is not the file that this member wrote"
        )
    return replace(here, raw_members={name: file or b"" for name, file in files.items()})


def status(folder: Folder) -> dict[str, Any]:
    """Say who wrote what when, and whom the others wait for; nobody's keys are needed."""
    here = plan_in(folder)
    plan, listed = here.plan, {n: folder.listing(n, here.plan.most_files) for n in here.plan.members}
    times = {file.name: file.time for files in listed.values() for file in files.values()}
    first = [here.member_file, f"signature-{here.number}"]
    ours = [name for name in times if members.number_of(name) == here.number]
    steps = [name for name in ours if name not in listed[plan.center]]
    waiting = {}
    for step in [*first, *sorted(steps, key=lambda name: times[name])]:
        asked = plan.covariates if step.endswith("covariates") else plan.parties
        who = plan.members if step in first else asked
        missing = [name for name in who if step not in listed[name]]
        if missing and members.REFUSAL not in step:
            waiting[step] = missing
    refusal = members.named(here.number, members.REFUSAL)
    begun = {found[1] for name in ours if (found := BATCH.search(name))}
    placed = {batch: members.named(here.number, f"{batch}.result") in listed[plan.center] for batch in sorted(begun)}
    return {
        "study": plan.id,
        "plan": here.number,
        "ends": plan.ends.isoformat(),
        "members": {
            name: [
                {"file": f.name, "bytes": f.size, "time": f.time}
                for f in sorted(files.values(), key=lambda f: f.time)
            ]
            for name, files in listed.items()
        },
        "refused": [name for name, files in listed.items() if refusal in files],
        "waiting": waiting,
        "result": members.named(here.number, "result") in listed[plan.center],
        "batches": placed,  # those that were begun, and whether they are done
    }


def footprint(seat: Membership) -> str:
    """Text that changes whenever another member adds a file: all that a waiting process looks at."""
    listed = {name: seat.listing(name).values() for name in seat.folder.members() if name != seat.name}
    return repr([(name, sorted((file.name, file.size) for file in files)) for name, files in listed.items()])


@contextlib.contextmanager
def remembering_since(seat: Membership) -> Iterator[None]:
    """Note when this member began to wait for others, so that it can say since when."""
    try:
        yield
    except WaitingError as waiting:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        what = {"step": waiting.step, "members": list(waiting.members)}
        kept = json.loads(seat.memory.kept("waiting.json") or b"{}")
        waiting.since = kept["since"] if kept.get("what") == what else now
        seat.memory.replace("waiting.json", json.dumps({"what": what, "since": waiting.since}).encode())
        raise


def local(path: Path | str) -> str:
    """Return a folder's URL with a local path made absolute, so that every command means the same one."""
    return str(path) if "://" in str(path) else str(Path(path).expanduser().absolute())
