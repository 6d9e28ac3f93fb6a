"""The plan that all sign, who the members are, and the agreement that follows from all signatures.

The raw bytes of the plan and of every member's file are what is signed: nobody's parser decides what they mean. A
plan has every field written out; an unknown key or one that is missing is refused.
"""

import datetime
import hashlib
import io
import re
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, get_type_hints

from dkpca.errors import InputError, ProtectionError, WireError
from dkpca.exchange import sealed
from dkpca.exchange.folder import MOST_FILES, check_name
from dkpca.exchange.identity import Secrets, check_keys, sha256
from dkpca.wording import OutsizeError, as_toml, printable, toml_values

VERSION = 2
DAYS = 90  # that a study lasts by default
NO_QUESTION = "0" * 64
MOST_MEMBERS = 200
MOST_BATCH_FILES = 100  # of one member, but for the hops of a ring
MOST_PLAN, MOST_MEMBER, MOST_SIGNATURE = 2**18, 2**12, 2**14  # bytes
FEWEST_MASKED = 3  # parties of a masked sum in a study: of two, each knows the other's numbers from the sum
ALIGNMENTS = ("position", "tokens", "psi")
HEX = "[0-9a-f]{64}"


def _whole(least: int, most: int = 10**9) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _matches(pattern: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value))


def _is_names(value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return texts and 0 < len(value) <= MOST_MEMBERS


def _is_bounds(value: Any) -> bool:
    numbers = isinstance(value, list) and len(value) == 2 and all(type(v) in (int, float) for v in value)
    return numbers and 0 < value[0] <= value[1] <= sys.float_info.max


def _after(days: int) -> datetime.date:
    """Return the day so many days from now, in UTC."""
    return datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=days)


# A type with the check of its values, for files that everybody can write.
Version = Annotated[int, _whole(0)]
Text = Annotated[str, lambda value: isinstance(value, str)]
Digest = Annotated[str, _matches(HEX)]
Names = Annotated[tuple[str, ...], _is_names]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that will be computed and sent; the defaults are for whoever makes one."""

    version: Version = VERSION
    id: Annotated[str, _matches("[0-9a-f]{32}")] = field(default_factory=lambda: secrets.token_hex(16))
    ends: Annotated[datetime.date, lambda value: type(value) is datetime.date] = field(
        default_factory=lambda: _after(DAYS)
    )
    center: Text  # who fuses
    parties: Names
    result_to: Names  # who gets the result, the center among them
    align: Annotated[str, lambda value: value in ALIGNMENTS] = "tokens"  # "psi": the center compares what all raised
    samples: Annotated[int, _whole(2)] = 50  # fewest samples with which the study goes on
    gamma: Annotated[tuple[float, float], _is_bounds] = (1e-4, 1.0)  # bounds of a width that follows from the data
    batches: Annotated[int, _whole(0, 1000)] = 0  # of new samples
    batch_samples: Annotated[int, _whole(0)] = 0  # fewest of a batch
    covariates: Annotated[
        Mapping[str, tuple[str, ...]],
        lambda value: isinstance(value, dict) and len(value) <= 1 and all(map(_is_names, value.values())),
    ] = field(default_factory=dict)  # columns by their owner
    fit: Annotated[Mapping[str, Any], lambda value: isinstance(value, dict)]  # settings, by their names

    @property
    def members(self) -> tuple[str, ...]:
        """All who sign, in the order of the plan."""
        return (self.center, *self.parties)

    @property
    def batch_names(self) -> list[str]:
        """Batches of new samples, in their order."""
        return [f"batch-{number}" for number in range(1, self.batches + 1)]

    @property
    def most_files(self) -> int:
        """Files of one member at most: those of the fit and of earlier plans, and of each batch its steps."""
        return MOST_FILES + self.batches * (MOST_BATCH_FILES + len(self.parties))

    @property
    def is_over(self) -> bool:
        """Whether its last day has passed."""
        return _after(0) > self.ends

    @property
    def protect(self) -> str:
        """Protection that the settings of the fit ask for."""
        return str(self.fit.get("protect"))

    def to_toml(self) -> bytes:
        """Write the plan, every field of it."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "fit"}
        return f"{as_toml(values)}\n[fit]\n{as_toml(self.fit)}".encode()


@dataclass(frozen=True)
class Member:
    """What a member says of itself when it joins."""

    version: Version
    study: Text  # id of the plan for which the sealing key was made
    name: Text
    identity: Digest
    sealing: Digest
    nonce: Digest  # digest of a nonce that the signature reveals
    columns: Annotated[int, _whole(0)]

    def to_toml(self) -> bytes:
        """Write the member's file."""
        return as_toml(vars(self)).encode()


@dataclass(frozen=True)
class Study:
    """A plan, the files of all members once they have joined, and their signatures once all have signed."""

    number: int  # of the plan in its folder; it is in the names of all files that belong to it
    raw_plan: bytes
    raw_members: Mapping[str, bytes] = field(default_factory=dict)
    raw_signatures: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.raw_members:
            return
        members = self.members
        for one in ("identity", "sealing", "nonce"):
            if len({getattr(member, one) for member in members.values()}) < len(members):
                raise ProtectionError(f"two members have the same {one}: one of them was copied; do not sign")
        without = [name for name in self.plan.parties if not members[name].columns]
        if without:
            raise ProtectionError(f"{', '.join(without)} joined without columns; a party has a table")

    @property
    def file(self) -> str:
        """Name of the plan's file."""
        return f"plan-{self.number}.toml"

    @property
    def member_file(self) -> str:
        """Name of the file with which a member joins."""
        return "member.toml" if self.number == 1 else f"member-{self.number}.toml"

    @cached_property
    def plan(self) -> Plan:
        """The plan, parsed."""
        return read_plan(self.raw_plan)

    @cached_property
    def members(self) -> dict[str, Member]:
        """All members by name, in the order of the plan."""
        return {name: read_member(self.raw_members[name], name, self.plan.id) for name in self.plan.members}

    @cached_property
    def fingerprint(self) -> str:
        """One number for plan and all members, which people compare."""
        files = [self.raw_plan, *(self.raw_members[name] for name in self.plan.members)]
        return _digest(b"dkpca study 1\0" + self.number.to_bytes(4, "big"), files)

    @cached_property
    def public(self) -> dict[str, str]:
        """Identity of every member."""
        return {name: member.identity for name, member in self.members.items()}

    @property
    def roster(self) -> dict[str, str]:
        """Identity of every party: its name can be taken by another organization in another study."""
        return {party: self.public[party] for party in self.plan.parties}

    @cached_property
    def signatures(self) -> "dict[str, Signature]":
        """All signatures by member, verified."""
        return {name: check_signature(raw, name, self) for name, raw in self.raw_signatures.items()}

    @cached_property
    def agreement(self) -> str:
        """Digest of plan, members and all signatures: every signature, seal, mask and coin is bound to it."""
        files = [self.raw_signatures[name] for name in self.plan.members]
        return _digest(b"dkpca agreement 1\0" + bytes.fromhex(self.fingerprint), files)


@dataclass(frozen=True)
class Signature:
    """What a member's signature says beyond "I agree"."""

    nonce: str  # whose digest is in the member's file
    second: str  # digest of the nonce for the rows of an audit, revealed when all summaries are in
    table: str  # keyed commitment to the member's table; the key stays with the member


def make_member(name: str, me: Secrets, plan: Plan, columns: int) -> Member:
    """Return what a member says of itself."""
    return Member(VERSION, plan.id, name, me.public, me.sealing, sha256(me.derive("nonce", "first")), columns)


def make_signature(study: Study, name: str, me: Secrets, table_digest: str) -> bytes:
    """Sign a study: the same bytes each time."""
    commitment = sha256(me.derive("commitment to the table") + bytes.fromhex(table_digest))
    says = Signature(me.derive("nonce", "first").hex(), sha256(me.derive("nonce", "second")), commitment)
    about = sealed.Header("signature", study.fingerprint, "signature", name, NO_QUESTION, {})
    file = io.BytesIO()
    sealed.write(file, about, [sealed.Part(sealed.ALL, sealed.ANYBODY, [sealed.canonical(vars(says))])], me, {})
    return file.getvalue()


def check_signature(raw: bytes, name: str, study: Study) -> Signature:
    """Return what a member signed, if it signed this study."""
    try:
        agreement, content = sealed.for_all(raw, study.public, "signature", name)
        if agreement != study.fingerprint:
            raise ProtectionError("is for another plan or other members: the folder shows you another study")
        found = sealed.uncanonical(content, "its content")
    except (ProtectionError, WireError) as error:
        raise ProtectionError(f"the signature of {name} {error}; compare the fingerprint with {name}") from error
    whole = isinstance(found, dict) and set(found) == {each.name for each in fields(Signature)}
    if not whole or not all(map(_matches(HEX), found.values())):
        raise ProtectionError(f"the signature of {name} lacks entries of its kind, or has others")
    if sha256(bytes.fromhex(found["nonce"])) != study.members[name].nonce:
        raise ProtectionError(f"{name} revealed a nonce that it had not committed to; start another study")
    return Signature(**found)


def read_plan(raw: bytes) -> Plan:
    """Return the plan in these bytes, if every key is there and of its kind, and no other."""
    values = _parsed(raw, "the plan", Plan)
    values |= {name: tuple(values[name]) for name in ("parties", "result_to")}
    values |= {"gamma": tuple(map(float, values["gamma"]))}
    values |= {"covariates": {party: tuple(names) for party, names in values["covariates"].items()}}
    plan = Plan(**values)
    for name in plan.members:
        check_name(name)
    members, parties, told = set(plan.members), set(plan.parties), set(plan.result_to)
    if len(members) < len(plan.members):
        raise InputError("the plan: a member is named twice; the center cannot also be a party")
    if not {plan.center} <= told <= members:
        raise InputError(f"the plan: result_to must name members, {plan.center} among them")
    if plan.protect != "none" and len(parties) < FEWEST_MASKED:
        raise InputError(f"the plan: protect = {plan.protect!r} needs {FEWEST_MASKED} parties besides the center")
    if not set(plan.covariates) <= parties:
        raise InputError("the plan: covariates are columns of a party's table; name one of the parties")
    if plan.batches and (plan.batch_samples < 2 or not parties <= told):
        least = "batch_samples of at least 2: a batch of one would single it out"
        raise InputError(f"the plan: batches of new samples need the result at all parties (result_to), and {least}")
    return plan


def read_member(raw: bytes, name: str, study: str) -> Member:
    """Return a member's file, if it is that of this member for this study."""
    member = Member(**_parsed(raw, f"the member file of {name}", Member))
    if member.name != name or member.study != study:
        raise ProtectionError(f"the member file of {name} is that of another member or study; do not sign")
    check_keys(name, member.identity, member.sealing)
    return member


def check_end(plan: Plan) -> None:
    """Refuse to answer after the last day of the plan."""
    if plan.is_over:
        raise InputError(f"the study ended on {plan.ends}; nothing is answered after that day; create another")


def _digest(start: bytes, files: Sequence[bytes]) -> str:
    return sha256(start + b"".join(hashlib.sha256(raw).digest() for raw in files))


def _parsed(raw: bytes, what: str, record: type[Any]) -> dict[str, Any]:
    """Return the values of a TOML file that has exactly the fields of a record, each with a valid value."""
    valid = {name: hint.__metadata__[0] for name, hint in get_type_hints(record, include_extras=True).items()}
    try:
        values = toml_values(raw.decode())
    except ValueError as error:
        reason = f"has {error}" if isinstance(error, OutsizeError) else "is not a TOML file"
        raise InputError(f"{what} {reason}; do not sign it") from error
    if values.get("version") != VERSION:
        raise InputError(f"{what} has another version; this program reads version {VERSION}")
    unknown, missing = set(values) - set(valid), set(valid) - set(values)
    if unknown or missing:
        named = printable(", ".join(sorted(unknown or missing)))
        raise InputError(f"{what} {'has unknown keys' if unknown else 'lacks the keys'} {named}; do not sign it")
    for key, is_valid in valid.items():
        if not is_valid(values[key]):
            raise InputError(f"{what}: {key} cannot be used as it stands there; do not sign it")
    return values
