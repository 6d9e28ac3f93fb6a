"""A member's part in a study, from joining to the result: what the commands `dkpca study ...` call."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from dkpca.errors import DKPCAError, FusionError, InputError, ProtectionError, TooFewSamplesError
from dkpca.exchange import earlier, founding, own_table
from dkpca.exchange import plan as plans
from dkpca.exchange import review as reviews
from dkpca.exchange.folder import Folder, check_name
from dkpca.exchange.identity import SHOWN, is_fingerprint, sha256
from dkpca.exchange.leaving import Case
from dkpca.exchange.member import Membership, OtherQuestionError, RefusedError, WaitingError
from dkpca.exchange.memory import Memory, write
from dkpca.exchange.plan import Plan, Study
from dkpca.exchange.protocols import Terms, check_terms
from dkpca.exchange.replay import PartySide, at_center
from dkpca.exchange.review import Review
from dkpca.party.limits import Limits
from dkpca.settings import Fit, from_values
from dkpca.store.party_file import read_limits
from dkpca.wording import counted

LIMITS_FILE = "limits.toml"
SIGNED_LIMITS = f"table/{LIMITS_FILE}"


def settings_of(plan: Plan) -> Fit:
    """Return the settings of the fit in a plan; every one of them has to be there, and to go with the others."""
    fit = from_values(Fit, plan.fit, what="the plan, [fit]", complete=True)
    check_terms(plan.parties, fit, Terms("", align=plan.align, taken_out=plan.covariates, study=True))
    return fit


def join(folder: Folder, memory: Memory, table: Path, id_column: str | None, name: str = "") -> str:
    """Join as a party: keys, party.toml and limits.toml in DIR, and who this party is in the folder."""
    here = founding.plan_in(folder)
    plan, fit = here.plan, settings_of(here.plan)
    before = [each.member for each in memory.studies() if each.member in plan.parties]
    name = check_name(name or (before or [memory.path.name.lower()])[0])
    if name not in plan.parties:
        who = f"its parties are {', '.join(plan.parties)}"
        raise InputError(f"{name!r} is not a party of {here.file}; {who}: give your own name there as --name")
    founding.check_own(folder, memory)
    founding.check_known(folder, memory, name, folder.listing(name))
    with memory.locked(new=True):
        founding.check_free(folder, memory, plan)
        limits, described = memory.path / LIMITS_FILE, memory.path / own_table.PARTY_FILE
        is_new = not described.exists()
        own_table.describe(memory.path, table, id_column, name, by_ids=plan.align != "position")
        if not limits.exists():
            write(limits, Limits().to_toml().encode())
        try:
            own = own_table.load(memory.path, fit.family_of(name).columns_are, plan.covariates.get(name, ()))
            founding.join(folder, memory, here, name, own.X.shape[1])
        except BaseException:
            if is_new and not memory.study(plan.id).member:
                described.unlink()
            raise
    rows, columns = (counted(count, noun) for count, noun in zip(own.X.shape, ("sample", "column"), strict=True))
    done = f"Joined as {name} with {rows} and {columns}. Your limits are in {limits}; next: 'dkpca study review'."
    new = f"{memory.path} has no record of earlier studies: if this table was in one, join with the folder used there"
    return "\n".join([*(f"note: {note}" for note in [*own.notes, *([new] if is_new else [])]), done])


def review(folder: Folder, memory: Memory) -> Review:
    """Show what would leave; `sign` signs exactly this."""
    with memory.locked():
        return _review(founding.seat_to_work(folder, memory))


def _review(seat: Membership) -> Review:
    seat.memory.secrets()  # which says it if the study is closed here; so below
    signed = seat.memory.remembered("signed")
    study = signed or founding.shown(seat)
    if signed is None:
        plans.check_end(study.plan)  # as `sign` does
    seat.memory.forget("review.json")  # which seals the other files of a review, and comes last
    if seat.name == study.plan.center:
        found, shown = Review(study, (), {}, (), ""), ""
    else:
        table, limits = _table_and_limits(seat, study.plan)
        case = Case.of(study, settings_of(study.plan), seat.name, table, limits, seat.memory.memory)
        found = reviews.review(case, study)
        reviews.kept(found, case).keep(seat.memory)
        shown = _digest_of(seat, table)
    seat.memory.remember(study, "reviewed")
    before = earlier.digests(seat.memory.memory, study.plan.id)
    about = {"green": found.green, "table and limits": shown, "before": before}
    seat.memory.replace("review.json", json.dumps(about).encode())
    return replace(found, signed=signed is not None)


def sign(folder: Folder, memory: Memory, fingerprint: str) -> None:
    """Sign what was reviewed; the table is frozen as it was then."""
    with memory.locked():
        seat = founding.seat_to_work(folder, memory)
        me = seat.memory.secrets()
        if seat.memory.kept("review.json") is None and seat.name == founding.plan_in(folder).plan.center:
            _review(seat)  # nothing of the center's leaves: the fingerprint says what it signs
        kept, signed = seat.memory.kept("review.json"), seat.memory.remembered("signed")
        study = signed or seat.memory.remembered("reviewed")
        if kept is None or study is None:
            raise InputError("the study has not been reviewed; run 'dkpca study review' first")
        about = json.loads(kept)
        if not about["green"]:
            raise InputError("the last review was red, so this plan cannot be signed; review again after a change")
        if not is_fingerprint(fingerprint, study.fingerprint):
            why = f"it was mistyped, or the others see another plan or members; compare all {SHOWN} digits with them"
            raise ProtectionError(f"the fingerprint does not match the reviewed study: {why}")
        plans.check_end(study.plan)
        # From here on nothing refuses: the table is frozen, and a repeat writes the same bytes.
        digest = sha256(b"no table") if seat.name == study.plan.center else _frozen_digest(seat, study, about)
        seat.memory.remember(study, "signed")
        raw = plans.make_signature(study, seat.name, me, digest)
        seat.memory.keep_once("signature", raw, "this member's signature")
        founding.write_own(folder, seat.memory)


def _frozen_digest(seat: Membership, study: Study, about: dict[str, Any]) -> str:
    """Freeze the table that was reviewed, count what it lets out as left, and return the table's digest."""
    if seat.memory.remembered("signed") is not None:
        return own_table.digest(seat.memory)
    table, _ = _table_and_limits(seat, study.plan)
    if _digest_of(seat, table) != about["table and limits"]:
        raise InputError("the table or limits.toml changed since the review; review again")
    if earlier.digests(seat.memory.memory, study.plan.id) != about["before"]:
        raise InputError("another study of this table was signed, or got new samples, since the review; review again")
    seat.memory.replace(SIGNED_LIMITS, (seat.memory.memory.path / LIMITS_FILE).read_bytes())
    digest = own_table.freeze(seat.memory, table)
    earlier.commit(seat.memory)
    return digest


def run(folder: Folder, memory: Memory) -> dict[str, Any]:
    """Do all that this member can do now; raises `WaitingError` while others are waited for."""
    with memory.locked():
        member = founding.seat_to_work(folder, memory)
        member.memory.secrets()
        plan, ended = member.own.plan, None
        try:
            plans.check_end(plan)
            notes = member.check_refusals()
        except (RefusedError, InputError) as error:
            if member.name in (plan.center, getattr(error, "member", "")):
                raise
            ended, notes = error, [str(error)]  # what the center has told already, all parties may have
        try:
            result = _run(member, notes, ended)
            member.memory.replace("done", b"")
            left = plan.batches - len([*result.glob("batch-*")]) if member.name == plan.center else 0
            return {"result": str(result), "notes": notes, "batches_left_to_place": left}
        except WaitingError as waiting:
            if ended is not None:
                raise ended from None
            notes += founding.later_plan(member) if waiting.step == "signature" else []
            for note in notes:
                waiting.add_note(note)
            raise


def _run(member: Membership, notes: list[str], ended: DKPCAError | None) -> Path:
    """Return where the result is, and add what is to be said of it."""
    plan, fit, own = member.study.plan, settings_of(member.study.plan), member.memory.memory.path
    place = member.memory.place()
    result, new = (own / f"{name}{f'-{place}' * (place > 1)}" for name in ("result", "new"))
    if place != member.study.number:
        notes.append(f"this study has {result} and {new}: another study of {own} took the names before it")
    if member.name != plan.center:
        table, limits = _table_and_limits(member, plan)
        notes += own_table.changed_since(own, member.memory)
        here = PartySide(member, fit, table, limits, notes=notes, ended=ended)
        return here.run(result, new) or member.memory.path
    try:
        notes += at_center(member, fit, result)
    except (FusionError, InputError, OtherQuestionError) as error:
        reasons = {TooFewSamplesError: "samples", OtherQuestionError: "agree"}
        member.refuse("fusion", reasons.get(type(error), "fusion"), str(error))
    return result


def _table_and_limits(seat: Membership, plan: Plan) -> tuple[own_table.OwnTable, Limits]:
    """What was signed, whatever party.toml describes by now; limits.toml may only have become tighter since."""
    own, kept = seat.memory.memory.path, seat.memory.path / SIGNED_LIMITS
    limits = read_limits(own / LIMITS_FILE)
    if seat.signed is not None:
        return own_table.frozen(seat.memory), limits.within(read_limits(kept)) if kept.exists() else limits
    columns_are = settings_of(plan).family_of(seat.name).columns_are
    return own_table.load(own, columns_are, plan.covariates.get(seat.name, ())), limits


def _digest_of(seat: Membership, table: own_table.OwnTable) -> str:
    """Digest of table and limits, as a review saw them."""
    apart = {name: values.tolist() for name, values in table.covariates.items()}
    about = json.dumps([list(table.ids or ()), list(table.keys or ()), table.columns, apart]).encode()
    return sha256(about + table.X.tobytes() + (seat.memory.memory.path / LIMITS_FILE).read_bytes())
