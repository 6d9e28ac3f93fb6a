"""Questions that wait for a person at the party: one small file each, answered with 'dkpca party approve'."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from dkpca.errors import InputError, PolicyError
from dkpca.network.protocol import MOST_OPEN, NUMBER, Asked
from dkpca.store import ledger, storage

FOLDER = "approvals"
WAITING, APPROVED, DENIED = "waiting", "approved", "denied"


class ApprovalWantedError(PolicyError):
    """A question that a person has not decided about yet."""


def check(folder: Path, asked: Asked, fingerprint: str) -> None:
    """Raise unless a person approved this very question."""
    file = folder / FOLDER / f"{asked.number}.json"
    found = _read(file)
    if found.get("asked") != fingerprint:
        if len(waiting(folder)) >= MOST_OPEN:
            raise PolicyError(f"refused: {MOST_OPEN} questions wait for a person already; ask later")
        storage.make_directory(folder / FOLDER)
        found = {"state": WAITING, "asked": fingerprint, "run": asked.run, "question": dict(asked.question)}
        storage.write(file, storage.as_json(found))
    if found["state"] == WAITING:
        raise ApprovalWantedError("waiting: a person at the party has to approve it")
    if found["state"] == DENIED:
        raise PolicyError("refused: a person at the party denied it")


def state(folder: Path, number: str) -> str:
    """How a question stands; empty if it does not wait for anybody."""
    return str(_read(folder / FOLDER / f"{number}.json").get("state", ""))


def waiting(folder: Path) -> dict[str, dict[str, Any]]:
    """Questions that wait, by number."""
    found = {file.stem: _read(file) for file in sorted((folder / FOLDER).glob("*.json"))}
    return {number: told for number, told in found.items() if told.get("state") == WAITING}


def decide(folder: Path, number: str, *, approved: bool) -> dict[str, Any]:
    """Approve or deny a question that waits; the ledger says so."""
    known = waiting(folder)
    if not NUMBER.fullmatch(number) or number not in known:
        raise InputError(f"{number!r} does not wait for anybody; waiting are {sorted(known) or 'none'}")
    decided = APPROVED if approved else DENIED
    ledger.append(folder / ledger.NAME, decided, number=number, run=known[number]["run"])
    storage.write(folder / FOLDER / f"{number}.json", storage.as_json(known[number] | {"state": decided}))
    return known[number]


def keep_only(folder: Path, numbers: Collection[str]) -> None:
    """Drop the questions that are answered, or that the center has given up."""
    for file in (folder / FOLDER).glob("*.json"):
        if file.stem not in numbers:
            file.unlink(missing_ok=True)


def _read(file: Path) -> dict[str, Any]:
    """What a file holds; nothing if it is not there, or was dropped while it was looked for."""
    try:
        return dict(json.loads(file.read_bytes()))
    except FileNotFoundError:
        return {}
