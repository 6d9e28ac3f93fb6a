"""How a study begins: its plan is written, members join, and each signs what it has reviewed."""

import contextlib
import io
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import Any

from dkpca.errors import InputError, ProtectionError, StorageError, WireError
from dkpca.exchange import member as members
from dkpca.exchange import plan as plans
from dkpca.exchange import sealed
from dkpca.exchange.folder import Files, Folder
from dkpca.exchange.member import Membership, RefusedError, WaitingError
from dkpca.exchange.memory import Memory, StudyMemory
from dkpca.exchange.plan import Plan, Study

PLAN = re.compile(r"plan-([1-9][0-9]{0,2})\.toml")
SIGNATURE = re.compile("signature-[0-9]+")
NO_FILES: Files = {}


def found(
    folder: Folder, memory: Memory, name: str, parties: Sequence[str], fit: Mapping[str, Any], **plan: Any
) -> Study:
    """Write the plan, every field of it, and join as the center; in a folder with a study it is its next plan."""
    about: dict[str, Any] = {"result_to": (name, *parties), **plan}
    made = Plan(center=name, parties=tuple(parties), fit=dict(fit), **about)
    before = latest(folder)
    here = Study(1 if before is None else before.number + 1, made.to_toml())
    plans.read_plan(here.raw_plan)  # which refuses what no member could sign
    if made.is_over:
        raise InputError(f"ends: {made.ends} is over; choose a later day")
    check_own(folder, memory)
    if before is not None:
        if memory.study(before.plan.id).kept("name") is None:
            raise InputError(f"{folder.url}: this folder already contains a study; use an empty one")
        _check_follows(before, here)
    for each in _joined(memory, folder):
        if each.number >= here.number and each.kept("closed") is None:
            lost = f"{folder.url}: plan-{each.number}.toml is missing, which this member wrote"
            raise InputError(f"{lost}; write it again with 'dkpca study run', or give it up with 'dkpca study close'")
    with memory.locked(new=True):
        check_free(folder, memory, made)
        try:
            join(folder, memory, here, name, 0)
        except BaseException:
            if folder.read(f"{name}/{here.file}", plans.MOST_PLAN) is None:  # so that nobody knows of it
                shutil.rmtree(memory.study(here.plan.id).path, ignore_errors=True)
            raise
    return here


def check_own(folder: Folder, memory: Memory) -> None:
    """Refuse a folder for keys that is part of a shared one, or has a plan in it as a shared one has."""
    inside = folder.local is not None and memory.path.resolve().is_relative_to(folder.local.resolve())
    if inside or any(memory.path.glob("*/plan-*.toml")):
        raise InputError(f"{memory.path}: is shared with the other members; pass a folder on your own disk as --as")


def latest(folder: Folder) -> Study | None:
    """Return the last plan in a folder, which follows from the one before it; None: there is none."""
    listed = {name: map(PLAN.fullmatch, folder.listing(name, named=PLAN)) for name in folder.members()}
    found = {name: numbers for name, plans in listed.items() if (numbers := [int(plan[1]) for plan in plans if plan])}
    if not found:
        return None
    if len(found) > 1:
        raise ProtectionError(f"{folder.url}: {' and '.join(sorted(found))} each wrote a plan; do not join")
    ((center, numbers),) = found.items()
    here = _read(folder, center, max(numbers))
    if here.number > 1:
        _check_follows(_read(folder, center, here.number - 1), here)
    return here


def _check_follows(before: Study, here: Study) -> None:
    """Refuse a next plan that some member of the one before would not have to sign."""
    gone = sorted(set(before.plan.members) - set(here.plan.members))
    if gone or before.plan.center != here.plan.center:
        who = ", ".join(gone) or "its center"
        all_must = f"{here.file}: every member of {before.file} must sign it"
        raise InputError(f"{all_must}, but {who} is not in this plan; create a study in another folder")


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
    plan, where = here.plan, f"{name}/{here.member_file}"
    kept = memory.study(plan.id)
    if folder.read(where, plans.MOST_MEMBER) not in (None, kept.kept("member.toml")):
        already = f"{folder.url}/{where}: {name!r} has already joined, with other keys"
        raise ProtectionError(f"{already}; if that was you, pass the folder you used then with --as")
    raw = plans.make_member(name, kept.secrets(), plan, columns).to_toml()
    if name == plan.center:
        kept.keep_once("plan.toml", here.raw_plan, "the plan")
    kept.keep_once("member.toml", raw, "what this member says of itself")
    kept.keep_once("number", str(here.number).encode(), "the number of the plan")
    kept.replace("folder", os.fsencode(folder.url))
    kept.keep_once("name", name.encode(), "this member's name")  # the last one: from now on it has joined
    write_own(folder, kept)


def write_own(folder: Folder, kept: StudyMemory, listed: Mapping[str, Any] = NO_FILES) -> None:
    """Bring what this member wrote before the first step into the folder, unless it is there: the same bytes."""
    here = Study(kept.number, b"")
    files = {here.file: "plan.toml", here.member_file: "member.toml", f"signature-{kept.number}": "signature"}
    for file, own in files.items():
        raw, where = kept.kept(own), f"{kept.member}/{file}"
        if raw is None or folder.write(where, raw) or file not in listed or listed[file]["bytes"] >= len(raw):
            continue
        if raw.startswith(folder.read(where, len(raw)) or b""):
            raise StorageError(f"{folder.url}/{where}: {members.ONLY_A_PART}")


def plan_in(folder: Folder) -> Study:
    """Return the last plan that lies in a folder."""
    found = latest(folder)
    if found is None:
        _check_there(folder)
        raise WaitingError("plan", "the center")
    return found


def _check_there(folder: Folder) -> None:
    if not folder.exists():
        raise InputError(f"{folder.url}: there is no such folder; check the spelling, or wait until it is shared")


def _joined(memory: Memory, folder: Folder) -> list[StudyMemory]:
    """Plans that this member has joined in a folder, as DIR says, in their order."""
    here = [each for each in memory.studies() if each.member and each.kept("folder") == os.fsencode(folder.url)]
    return sorted(here, key=attrgetter("number"))


def seat(folder: Folder, memory: Memory, *, running: bool = False) -> Membership:
    """Return this member's place in the study of a folder: in the last plan that it has joined, or that runs."""
    here = _joined(memory, folder)
    here = [each for each in here if each.kept("closed") is None] or here
    if len(here) > 1 and here[-1].kept("signature") is None and (running or not _is_shown(folder, here[-1])):
        # The last plan is still to be signed, or was never the center's.
        before = Membership(here[-2].member, folder, here[-2])
        here = here[:-1] if _is_unfinished(before) else here
    here = [each for each in here if each.number == here[-1].number]
    if len(here) != 1:  # DIR knows this folder by another name, or had another study in it
        with contextlib.suppress(WaitingError, InputError, ProtectionError):
            shown = plan_in(folder).plan.id
            here = [each for each in memory.studies() if each.member and each.path.name == shown] or here
    if not here:
        raise InputError(f"{memory.path}: has not joined the study in {folder.url}; run 'dkpca study join' first")
    kept = here[-1]
    kept.replace("folder", os.fsencode(folder.url))
    return Membership(kept.member, folder, kept)


def seat_to_work(folder: Folder, memory: Memory, *, running: bool = False) -> Membership:
    """Return this member's place, with its own files in the folder also where the folder has lost them."""
    found = seat(folder, memory, running=running)
    _check_there(folder)
    listed, joined, signatures = found.listed(found.name), _joined(memory, folder), set[str]()
    if len({each.number for each in joined}) < len(joined):  # this place once had another study
        joined = [found.memory]
    for each in joined:
        write_own(folder, each, listed)
        signatures |= {f"signature-{each.number}"} if each.kept("signature") is not None else set()
    known = {each.kept("signature") for each in memory.studies()}  # of a folder that had another name, too
    for file in filter(SIGNATURE.fullmatch, set(listed) - signatures):
        where = f"{found.name}/{file}"
        if folder.read(where, plans.MOST_SIGNATURE) not in known:
            raise ProtectionError(f"{folder.url}/{where}: {members.NO_RECORD}")
    return found


def close(folder: Folder, memory: Memory, *, give_up: bool = False) -> str:
    """Close the plans that this member has joined in a folder, but for one that is still to be signed; say which."""
    said = list[str]()  # of each plan, since each has keys and a table of its own
    with memory.locked():
        seat(folder, memory)
        joined = [Membership(each.member, folder, each) for each in _joined(memory, folder)]
        for each in joined:  # a plan that not all have signed ends for a member that joins the next one
            if _is_wanted(each) and (each is joined[-1] or _is_agreed(each)):
                said += _leave(each, give_up=give_up)
        written: dict[str, Any] | None = None  # a folder that cannot be read may hold numbers of this member
        with contextlib.suppress(StorageError):
            written = joined[-1].listing(joined[-1].name)
        for each in joined:
            number = each.memory.number
            if each.signed is None and _is_shown(folder, each.memory):
                said.append(f"plan {number}, which is not signed, stays")
                continue
            each.memory.close(written and [name for name in written if members.number_of(name) == number])
            said.append(f"plan {number} closed: its keys are deleted")
    told = "; ".join(said)
    return f"{told[0].upper()}{told[1:]}."


def _leave(seat: Membership, *, give_up: bool) -> list[str]:
    """Tell the others that this member leaves a running plan; if they cannot be told, return why."""
    number = seat.own.number
    if not give_up:
        how = "finish it with 'dkpca study run', or pass --give-up, which tells them"
        raise InputError(f"plan {number} is running, and the others wait for this member; {how}")
    try:
        seat.refuse("close", "closed")
    except RefusedError:
        return []
    except (ProtectionError, StorageError) as error:
        return [f"plan {number}: the others could not be told that you left ({error})"]


def _is_unfinished(seat: Membership) -> bool:
    """Whether all have signed a plan that goes on, and this member is not done with it."""
    goes_on = seat.memory.kept("done") is None and _goes_on(seat)
    return (goes_on or _is_wanted(seat)) and _is_agreed(seat)


def _goes_on(seat: Membership) -> bool:
    """Whether this member signed a plan that is neither over, closed nor refused, whatever plan the folder shows."""
    here = seat.signed
    if here is None or here.plan.is_over or seat.memory.kept("closed") is not None:
        return False
    try:
        with contextlib.suppress(ProtectionError, StorageError):  # then DIR says it alone
            seat.check_refusals()
    except RefusedError:
        return False
    return True


def _is_wanted(seat: Membership) -> bool:
    """Whether the others wait, or will, for this member: for the result, or that of a batch that began."""
    if not _goes_on(seat):
        return False
    here, kept, listed = seat.own, seat.memory, dict[str, Files]()
    with contextlib.suppress(StorageError):
        listed = {name: seat.listed(name) for name in here.plan.members}
    ends = {members.named(here.number, "result")} if kept.kept("done") is None else set()
    for number in range(1, here.plan.batches + 1):  # all parties are needed for one that began
        start = members.named(here.number, f"batch-{number}.")
        if any(file.startswith(start) for files in listed.values() for file in files):
            ends.add(f"{start}result")
    return not ends <= set(listed.get(here.plan.center, ()))


def _is_agreed(seat: Membership) -> bool:
    """Whether all have signed a plan, by DIR or the folder."""
    with contextlib.suppress(WaitingError, InputError, ProtectionError, StorageError):
        return bool(seat.study.agreement)
    return False


def _is_shown(folder: Folder, kept: StudyMemory) -> bool:
    """Whether the folder shows this plan as the last one, before it is over, and it is not closed here."""
    with contextlib.suppress(WaitingError, InputError, ProtectionError, StorageError):
        plan = plan_in(folder).plan
        return plan.id == kept.path.name and not plan.is_over and kept.kept("closed") is None
    return False


def check_free(folder: Folder, memory: Memory, plan: Plan) -> None:
    """Refuse to join another plan while one that all have signed runs: this member could not go on with it."""
    for kept in _joined(memory, folder):
        each = Membership(kept.member, folder, kept)
        if kept.path.name != plan.id and _is_unfinished(each):
            raise InputError(f"plan {kept.number} is running; finish it, or 'dkpca study close --give-up' first")


def shown(seat: Membership) -> Study:
    """Return the study as the folder shows it now, once all have joined."""
    here = plan_in(seat.folder)
    if here.plan.id != seat.memory.path.name:
        raise InputError(f"{here.file}: not joined yet; run 'dkpca study join' first")
    files = {name: seat.folder.read(f"{name}/{here.member_file}", plans.MOST_MEMBER) for name in here.plan.members}
    missing = [name for name, file in files.items() if file is None]
    if missing:
        raise WaitingError(here.member_file, *missing)
    own = {here.member_file: (files[seat.name], "member.toml")}
    own |= {here.file: (here.raw_plan, "plan.toml")} if seat.name == here.plan.center else {}
    for file, (raw, kept) in own.items():
        if raw != seat.memory.kept(kept):
            raise ProtectionError(f"{seat.folder.url}/{seat.name}/{file}: is not the file that this member wrote")
    return replace(here, raw_members={name: file or b"" for name, file in files.items()})


def status(folder: Folder) -> dict[str, Any]:
    """Say who wrote what when, and whom the others wait for; nobody's keys are needed."""
    here = plan_in(folder)
    plan, listed = here.plan, {n: folder.listing(n, here.plan.most_files) for n in here.plan.members}
    center = listed[plan.center]
    refusal, result = (members.named(here.number, step) for step in (members.REFUSAL, "result"))
    who = {here.member_file: plan.members, f"signature-{here.number}": plan.members}
    files = sorted((file for each in listed.values() for file in each.values()), key=itemgetter("time"))
    ours = [file["file"] for file in files if members.number_of(file["file"]) == here.number]
    for step in ours:
        if step not in center and step != refusal:
            who.setdefault(step, tuple(plan.covariates) if step.endswith("covariates") else plan.parties)
    missing = {step: [name for name in names if step not in listed[name]] for step, names in who.items()}
    for number in range(1, plan.batches + 1):  # where nobody lacks a step, whoever did not write last is next
        start = members.named(here.number, f"batch-{number}.")
        times = {n: max((f["time"] for s, f in listed[n].items() if s.startswith(start)), default=0) for n in listed}
        lacking = any(names for step, names in missing.items() if step.startswith(start))
        if any(times.values()) and f"{start}result" not in center and not lacking:
            by_center = times[plan.center] < max(times.values())
            missing[f"{start}result"] = [plan.center] if by_center else [*plan.parties]
    refused = [name for name, files in listed.items() if refusal in files]
    read = [_refusal(folder, here, name, refusal) for name in refused]
    return {
        "study": plan.id,
        "plan": here.number,
        "ends": plan.ends.isoformat(),
        "members": {name: sorted(each.values(), key=itemgetter("time")) for name, each in listed.items()},
        "refused": refused,
        "refusals": [said or f"{name} refused" for name, said in zip(refused, read, strict=True)],
        "waiting": {} if any(read) else {step: names for step, names in missing.items() if names},
        "result": result in center,
    }


def _refusal(folder: Folder, here: Study, name: str, file: str) -> str:
    """What a member's refusal says, as far as it can be read without any keys; empty if it cannot."""
    with contextlib.suppress(sealed.NotWholeError, WireError, ProtectionError, InputError, StorageError):
        joined = {each: folder.read(f"{each}/{here.member_file}", plans.MOST_MEMBER) for each in here.plan.members}
        study = replace(here, raw_members={each: raw or b"" for each, raw in joined.items()})
        raw = folder.read(f"{name}/{file}", 2 * members.MOST_REFUSAL) or b""
        header = sealed.read_header(io.BytesIO(raw), len(raw), study.public)
        about = [header.kind, header.agreement, header.writer, *header.parts]
        if about == [members.REFUSAL, study.fingerprint, name, members.ALL]:
            pieces = sealed.contents(io.BytesIO(raw), header, members.ALL, None, io.BytesIO())
            return str(RefusedError(name, *members.refusal_in(b"".join(pieces))))
    return ""


def footprint(seat: Membership) -> str:
    """Text that changes when another member adds a file or the study ends: all that a waiting process looks at."""
    plan = (seat.signed or plan_in(seat.folder)).plan
    listed = {name: seat.listing(name).values() for name in plan.members if name != seat.name}
    files = [(name, sorted((each["file"], each["bytes"]) for each in found)) for name, found in listed.items()]
    return repr((files, plan.is_over))
