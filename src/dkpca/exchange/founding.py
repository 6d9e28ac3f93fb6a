"""How a study begins: its plan is written, members join, and each signs what it has reviewed."""

import contextlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from dkpca.errors import DKPCAError, InputError, ProtectionError, StorageError
from dkpca.exchange import member as members
from dkpca.exchange import plan as plans
from dkpca.exchange import sealed
from dkpca.exchange.folder import Files, Folder
from dkpca.exchange.identity import sha256
from dkpca.exchange.member import Membership, RefusedError, WaitingError
from dkpca.exchange.memory import Memory, StudyMemory
from dkpca.exchange.plan import Plan, Study
from dkpca.store import storage

PLAN = re.compile(r"plan-([1-9][0-9]{0,2})\.toml")
SIGNATURE = re.compile("signature-[0-9]+")
STEP = re.compile(r"(?!signature-)(\d+\.)?(batch-\d+\.)?[a-z-]+\d*")
NOT_OF_FIT = re.compile(r"plan-.*|member.*|signature-.*|(\d+\.)?batch-.*")


def found(
    folder: Folder, memory: Memory, name: str, parties: Sequence[str], fit: Mapping[str, Any], **plan: Any
) -> Study:
    """Write the plan, every field of it, and join as the center; in a folder with a study it is its next plan."""
    about: dict[str, Any] = {"result_to": (name, *parties), **plan}
    made = Plan(center=name, parties=tuple(parties), fit=dict(fit), **about)
    before, joined = latest(folder), _joined(memory, folder)
    last = 0 if before is None else before.number
    here = Study(1 + max([last, *(each.number for each in joined)]), made.to_toml())  # also of a plan that is lost
    plans.read_plan(here.raw_plan)  # which refuses what no member could sign
    if made.is_over:
        raise InputError(f"ends: {made.ends} is over; choose a later day")
    check_own(folder, memory)
    if before is not None and (memory.study(before.plan.id).kept("name") is None or before.plan.center != name):
        raise InputError(f"{folder.url}: this folder already contains a study; use an empty one")
    for each in joined:
        if each.number > last and each.kept("closed") is None:
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
    own = Path(os.path.realpath(memory.path))
    with storage.explained(own):
        inside = own.is_relative_to(folder.place) or any(own.glob("*/plan-*.toml"))
    if inside:
        raise InputError(f"{memory.path}: is shared with the other members; pass a folder on your own disk as --as")


def latest(folder: Folder) -> Study | None:
    """Return the last plan in a folder; None: there is none."""
    listed = {name: map(PLAN.fullmatch, folder.listing(name, named=PLAN)) for name in folder.members()}
    found = {name: numbers for name, plans in listed.items() if (numbers := [int(plan[1]) for plan in plans if plan])}
    if not found:
        return None
    if len(found) > 1:
        raise ProtectionError(f"{folder.url}: {' and '.join(sorted(found))} each wrote a plan; do not join")
    ((center, numbers),) = found.items()
    where = f"{center}/plan-{max(numbers)}.toml"
    raw = folder.read(where, plans.MOST_PLAN)
    if raw is None:
        raise WaitingError("plan", center)
    here = Study(max(numbers), raw)
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
    kept.keep_once("plan.sha256", sha256(here.raw_plan).encode(), f"the plan with the id {plan.id}")
    if name == plan.center:
        kept.keep_once("plan.toml", here.raw_plan, "the plan")
    raw = plans.make_member(name, kept.secrets(), plan, columns).to_toml()
    kept.keep_once("member.toml", raw, "what this member says of itself")
    kept.keep_once("number", str(here.number).encode(), "the number of the plan")
    kept.replace("folder", os.fsencode(folder.place))
    kept.keep_once("name", name.encode(), "this member's name")  # the last one: from now on it has joined
    write_own(folder, kept)


def write_own(folder: Folder, kept: StudyMemory) -> None:
    """Bring what this member wrote before the first step into the folder: the same bytes, if they are there."""
    here = Study(kept.number, b"")
    files = {here.file: "plan.toml", here.member_file: "member.toml", f"signature-{kept.number}": "signature"}
    for file, own in files.items():
        if (kept.path / own).exists():
            members.bring(folder, f"{kept.member}/{file}", kept.path / own)


def plan_in(folder: Folder) -> Study:
    """Return the last plan that lies in a folder."""
    found = latest(folder)
    if found is None:
        _check_there(folder)
        raise WaitingError("plan", "the center")
    return found


def _shown(folder: Folder) -> Study | None:
    """Return the last plan that lies in a folder, if it can be read."""
    with contextlib.suppress(WaitingError, DKPCAError):
        return plan_in(folder)
    return None


def _check_there(folder: Folder) -> None:
    if not folder.exists():
        raise InputError(f"{folder.url}: there is no such folder; check the spelling, or wait until it is shared")


def _joined(memory: Memory, folder: Folder) -> list[StudyMemory]:
    """Plans that this member joined in a folder, in their order: as DIR says, or its own file in one that moved."""
    place, here = os.fsencode(folder.place), list[StudyMemory]()
    for each in filter(attrgetter("member"), memory.studies()):
        own = f"{each.member}/{Study(each.number, b'').member_file}"
        with contextlib.suppress(StorageError):
            if each.kept("folder") == place or folder.read(own, plans.MOST_MEMBER) == each.kept("member.toml"):
                here.append(each)
    return sorted(here, key=attrgetter("number"))


def _is_open(kept: StudyMemory) -> bool:
    """Whether this member has signed a plan and not closed it: one at a time in a folder."""
    return kept.kept("signature") is not None and kept.kept("closed") is None


def check_free(folder: Folder, memory: Memory, plan: Plan) -> None:
    """Refuse to join another plan beside one that this member has signed and not closed."""
    for each in _joined(memory, folder):
        if _is_open(each) and each.path.name != plan.id:
            first = "run 'dkpca study close' first, with --give-up if it is running"
            raise InputError(f"plan {each.number} of this folder is signed here and not closed; {first}")


def seat(folder: Folder, memory: Memory) -> Membership:
    """Return this member's place in the study of a folder: in the plan it has signed, or else the one shown there."""
    here = _joined(memory, folder)
    if not here:
        _check_there(folder)
        raise InputError(f"{memory.path}: has not joined the study in {folder.url}; run 'dkpca study join' first")
    kept = next(filter(_is_open, here), None)
    if kept is None:
        shown = _shown(folder)  # a plan that is gone gives its place back to the one before
        kept = next((each for each in here if shown and each.path.name == shown.plan.id), here[-1])
    kept.replace("folder", os.fsencode(folder.place))
    return Membership(kept.member, folder, kept)


def seat_to_work(folder: Folder, memory: Memory) -> Membership:
    """Return this member's place, with its own files in the folder also where the folder has lost them."""
    member = seat(folder, memory)
    _check_there(folder)
    listed, number = member.listed(member.name), member.memory.number
    shown = None if Study(number, b"").member_file in listed else _shown(folder)
    if shown and shown.number == number and shown.plan.id != member.memory.path.name:
        how = "pass the folder of the study that this member has joined, or join this one"
        raise InputError(f"{folder.url}: has another study as its plan {number}; {how}")
    write_own(folder, member.memory)
    check_known(folder, memory, member.name, listed)
    return member


def check_known(folder: Folder, memory: Memory, name: str, listed: Files) -> None:
    """Refuse to go on if the folder has a signature of this member, or a step of a plan, that DIR does not know."""
    known, here = {each.kept("signature") for each in memory.studies()}, _joined(memory, folder)
    sent = {members.named(each.number, path.name) for each in here for path in (each.path / "sent").glob("*")}
    for file in listed:
        where, of = f"{name}/{file}", members.number_of(file)
        is_other = bool(STEP.fullmatch(file)) and file not in sent and any(each.number == of for each in here)
        if is_other or (SIGNATURE.fullmatch(file) and folder.read(where, plans.MOST_SIGNATURE) not in known):
            raise ProtectionError(f"{folder.url}/{where}: {members.NO_RECORD}")


def close(folder: Folder, memory: Memory, *, give_up: bool = False) -> str:
    """Delete the keys of all plans that this member has joined in a folder; say what became of the last one."""
    with memory.locked():
        member = seat(folder, memory)
        number, told, unfinished = member.memory.number, "", _unfinished(member)
        if unfinished and not give_up:
            raise InputError(f"plan {number} {unfinished}")
        if unfinished and member.signed is None:
            told = "; the others are not told, since it was not signed here: tell them"
        elif unfinished:
            told = _leave(member)
        written: Files = {}
        with contextlib.suppress(StorageError):
            written = member.listing(member.name)
        for each in _joined(memory, folder):
            # A folder that does not show even the signature may have had numbers of this member.
            is_known = each.kept("signature") is None or f"signature-{each.number}" in written
            each.close([name for name in written if members.number_of(name) == each.number] if is_known else None)
    return f"Plan {number} closed: its keys are deleted{told}."


def _leave(member: Membership) -> str:
    """Tell the others that this member leaves a running plan; if they cannot be told, return why."""
    where = f"{member.name}/{member.own.member_file}"
    try:
        if (shown := _shown(member.folder)) and shown.plan.id == member.memory.path.name:
            members.bring(member.folder, where, member.memory.path / "member.toml")  # if the folder has lost it
        if member.folder.read(where, plans.MOST_MEMBER) != member.memory.kept("member.toml"):
            raise StorageError(f"{member.folder.url}/{where}: is not there, or not the file that this member wrote")
        member.refuse("close", "closed")
    except RefusedError:
        return ""
    except (ProtectionError, StorageError) as error:
        return f"; the others could not be told that you left ({error})"


def _unfinished(member: Membership) -> str:
    """What would be lost if this member closed its plan now, and what to do first; empty if nothing would."""
    here, kept = member.signed, member.memory
    if kept.kept("closed") is not None:
        return ""
    if here is None:
        how = "pass --give-up if this member will not sign it"
        shown = _shown(member.folder)
        due = shown is not None and shown.plan.id == kept.path.name and not shown.plan.is_over
        return f"is still to be signed; {how}" * due
    center, batches, is_done = here.plan.center, here.plan.batch_names, kept.kept("done") is not None
    steps = ["result", *(f"{batch}.result" for batch in batches)] if member.name in here.plan.result_to else []
    how = "do so with 'dkpca study run', or pass --give-up"
    with contextlib.suppress(StorageError):  # then DIR says it alone; so below
        for step in steps:
            is_fetched = is_done if member.name == center else any(kept.path.glob(f"opened/{center}.{step}.*"))
            if member.has(center, step) and not is_fetched:
                return f"has a result that this member has not fetched; {how}"
    try:
        with contextlib.suppress(ProtectionError, StorageError):
            member.check_refusals()
    except RefusedError:
        return ""
    is_running = not is_done
    with contextlib.suppress(StorageError):  # all parties are needed for a batch that one has begun
        is_running |= any(member.has_begun(each) and not member.has(center, f"{each}.result") for each in batches)
    how = "finish it with 'dkpca study run', or pass --give-up, which tells them"
    return f"is running, and the others wait for this member; {how}" * (is_running and not here.plan.is_over)


def later_plan(member: Membership) -> list[str]:
    """Note that the center has written another plan since the one that this member has signed."""
    center, how = member.own.plan.center, "to join it, run 'dkpca study close --give-up' first"
    later = max((int(plan[1]) for plan in map(PLAN.fullmatch, member.listed(center)) if plan), default=0)
    return [f"{center} has written plan-{later}.toml since you signed; {how}"] if later > member.own.number else []


def shown(member: Membership) -> Study:
    """Return the study as the folder shows it now, once all have joined."""
    here = plan_in(member.folder)
    if here.plan.id != member.memory.path.name:
        raise InputError(f"{here.file}: not joined yet; run 'dkpca study join' first")
    # Its own files are those of DIR: the folder may show others at each look.
    own = {member.name: member.memory.kept("member.toml") or b""}
    raw_plan = member.memory.kept("plan.toml") or here.raw_plan
    return replace(here, raw_plan=raw_plan, raw_members=_member_files(member.folder, here) | own)


def _member_files(folder: Folder, here: Study) -> dict[str, bytes]:
    """Files with which the members of a plan joined it, once all have."""
    found = {name: folder.read(f"{name}/{here.member_file}", plans.MOST_MEMBER) for name in here.plan.members}
    missing = [name for name, raw in found.items() if raw is None]
    if missing:
        raise WaitingError(here.member_file, *missing)
    return {name: raw for name, raw in found.items() if raw is not None}


def status(folder: Folder) -> dict[str, Any]:
    """Say who wrote what when, and whom the others wait for; nobody's keys are needed."""
    here = plan_in(folder)
    plan, listed = here.plan, {n: folder.listing(n, here.plan.most_files) for n in here.plan.members}
    center = listed[plan.center]
    refusal, result = (members.named(here.number, step) for step in (members.REFUSAL, "result"))
    who = {here.member_file: plan.members, f"signature-{here.number}": plan.members}
    files = [(each["time"], name == plan.center, step) for name, own in listed.items() for step, each in own.items()]
    ours = [each for each in sorted(files) if members.number_of(each[-1]) == here.number]
    for _, _, step in ours:
        if step not in center and step != refusal:
            who.setdefault(step, tuple(plan.covariates) if step.endswith("covariates") else plan.parties)
    of_fit = [each for each in ours if not NOT_OF_FIT.fullmatch(each[-1])]
    missing = {step: [name for name in names if step not in listed[name]] for step, names in who.items()}
    first = int(set(plan.result_to).isdisjoint(plan.parties))  # for the center alone no result is written
    for number in range(first, plan.batches + 1):  # where nobody lacks a step, who did not write last is next
        start = members.named(here.number, f"batch-{number}." if number else "")
        steps = [each for each in (ours if number else of_fit) if each[-1].startswith(start)]
        time, is_of_center, _ = steps[-1] if steps else (0, False, "")
        lacking = any(names for step, names in missing.items() if step.startswith(start))
        if time and f"{start}result" not in center and not lacking:
            missing[f"{start}result"] = [*plan.parties] if is_of_center else [plan.center]
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
    with contextlib.suppress(sealed.NotWholeError, WaitingError, DKPCAError):
        study = replace(here, raw_members=_member_files(folder, here))
        raw = folder.read(f"{name}/{file}", 2 * members.MOST_REFUSAL) or b""
        agreement, content = sealed.for_all(raw, study.public, members.REFUSAL, name)
        if agreement == study.fingerprint:
            return str(RefusedError(name, *members.refusal_in(content)))
    return ""


def footprint(member: Membership) -> str:
    """Text that changes when a member's files do or the study ends: all that a waiting process looks at."""
    _check_there(member.folder)
    plan = (member.signed or plan_in(member.folder)).plan
    listed = {name: member.listing(name).values() for name in plan.members}
    files = [(name, sorted((each["file"], each["bytes"]) for each in found)) for name, found in listed.items()]
    return repr((files, plan.is_over))
