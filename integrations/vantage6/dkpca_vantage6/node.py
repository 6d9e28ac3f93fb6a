"""What a node does: it answers each question of a run once, within its own limits, and keeps what it answered.

Its administrator gives it a folder that outlives the container and its limits; the researcher can give it neither.
"""

import base64
import csv
import io
import json
import os
import re
import secrets
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dkpca import wire
from dkpca.errors import DKPCAError, InputError, PolicyError, ProtectionError, WireError
from dkpca.messages import check_party_name
from dkpca.party import limits
from dkpca.party import questions as q
from dkpca.party.answers import Party
from dkpca.protection import keys
from dkpca.settings import from_values
from dkpca.store import files, storage
from dkpca.tables.inputs import check_table
from dkpca.wording import toml_values

SHORTEST_KEY = 16  # letters of the key that the nodes share
FOLDER, LIMITS, KEY = "DKPCA_FOLDER", "DKPCA_LIMITS", "DKPCA_KEY"
OF_BOTH = (q.TokensWanted, q.MatchedGiven, q.ResultGiven)
OF_FIT = (*OF_BOTH, q.ShapeWanted, q.StatisticsWanted, q.SummaryWanted, q.ReceivedGiven, q.AuditWanted)
OF_BATCH = (*OF_BOTH, q.RowsWanted)


class RefusedError(InputError):
    """A sentence that may leave: it holds nothing but what the researcher said, and figures of limits."""


def describe(df: Any) -> dict[str, Any]:
    """Say how large the table is, and what this node allows."""
    try:
        allowed = _limits(_folder())
        if len(df) < allowed.samples:
            raise RefusedError(f"the table has fewer samples than the {allowed.samples} that this node speaks about")
        return {"samples": len(df), "columns": int(df.shape[1]), "limits": asdict(allowed)}
    except RefusedError as error:
        return {"refused": str(error)}


def answer(df: Any, *, question: str, run: str, batch: str = "", again: bool = False, **about: Any) -> dict[str, Any]:
    """Answer a question, or say in a sentence why not; what the sentence leaves out stays in the node's folder."""
    try:
        folder = _folder()
    except RefusedError as error:
        return {"refused": str(error)}
    try:
        with _held(folder):
            asked = _Answering(
                folder, check_party_name(run, "run"), batch and check_party_name(batch, "batch"), df, **about
            )
            return {"answer": base64.b64encode(asked.to(_decoded(question), again)).decode()}
    except (RefusedError, PolicyError, ProtectionError, WireError) as error:
        return {"refused": re.sub(r" with R² [0-9.]+", "", str(error))}  # a figure of the table
    except Exception as error:  # noqa: BLE001  # the engine would send the stack trace, values and all, to its server
        with (folder / "refusals.log").open("a") as log:
            log.write(f"{datetime.now(UTC).isoformat()} run {run}\n{traceback.format_exc()}\n")
        kind = "its table cannot be used as asked" if isinstance(error, DKPCAError) else "something failed"
        return {"refused": f"{kind}; its administrator finds the reason in refusals.log of the node's folder"}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise WireError("the question is damaged: it is not base64") from error


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """One container at a time: what is counted is counted once."""
    with (folder / "lock").open("w") as lock:
        storage.flock(lock.fileno())
        yield


def _folder() -> Path:
    """Folder of this node that outlives the container: named by its administrator, or that of the session in 5.x."""
    session = os.environ.get("SESSION_FOLDER")
    named = os.environ.get(FOLDER) or (session and f"{session}/dkpca")
    if not named:
        raise RefusedError(
            f"this node has no folder for dkpca; its administrator names one as {FOLDER} in algorithm_env"
        )
    folder = Path(named)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _given(folder: Path, variable: str, name: str) -> str | None:
    """What the administrator gave: in the environment, or as a file of the folder."""
    file = folder / name
    return os.environ.get(variable) or (file.read_text() if file.exists() else None)


def _limits(folder: Path) -> limits.Limits:
    text = _given(folder, LIMITS, "limits.toml")
    if text is None:
        raise RefusedError(
            f"this node has no limits; its administrator writes limits.toml, or {LIMITS} in algorithm_env"
        )
    try:
        return from_values(limits.Limits, toml_values(text), what="limits.toml", complete=True)
    except ValueError as error:  # of TOML, or of what stands in it
        raise RefusedError(f"the limits of this node cannot be used: {error}") from error


class _Answering:
    """One question at this node."""

    def __init__(
        self,
        folder: Path,
        run: str,
        batch: str,
        df: Any,
        party: str,
        roster: list[str],
        id_column: str | None,
        columns: list[str] | None,
    ) -> None:
        self.folder, self.run, self.batch, self.df = folder, run, batch, df
        self.name, self.roster, self.id_column, self.columns = check_party_name(party), roster, id_column, columns
        self.about = json.dumps([party, roster, id_column, columns]).encode()
        self.kept, self.end = folder / "runs" / run, f"-{batch}" if batch else ""
        self.allowed = _limits(folder)

    def to(self, data: bytes, again: bool) -> bytes:
        """Bytes of the answer: those of the first time, where it was asked before."""
        question = q.decode(data)
        if not isinstance(question, OF_BATCH if self.batch else OF_FIT):
            raise RefusedError(f"a node does not answer {type(question).__name__} here")
        step = f"{type(question).__name__}{self.end}"
        known, asked, sent = (self.kept / name for name in ("about.json", f"{step}.question", f"{step}.answer"))
        if any(file.exists() and file.read_bytes() != now for file, now in ((known, self.about), (asked, data))):
            raise ProtectionError(f"run {self.run!r} has answered another {step}; a run answers each step once")
        if sent.exists():
            return sent.read_bytes()
        if again:
            raise RefusedError(
                f"run {self.run!r} has no fit here with these settings; fit first, with the fit's table"
            )
        self._check_limits(question)
        party = self._party()
        encoded = wire.encode(party.answer(question))
        self.kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        record = {known: self.about, asked: data} | self._for_later(party, question) | {sent: encoded}
        storage.write_all(record, private=list(record))
        return encoded

    def _check_limits(self, question: q.Question) -> None:
        """Count runs and batches; the party checks its other limits."""
        allowed = self.allowed
        others = {file.parent for file in self.folder.glob("runs/*/S[tu]*.answer")} - {self.kept}  # with numbers
        if len(others) >= allowed.studies:
            raise RefusedError(f"this node has answered {len(others)} runs, and its limits allow {allowed.studies}")
        if "none" not in allowed.protect:
            raise RefusedError(f"the limits of this node allow only protect = {list(allowed.protect)}; use a study")
        batches = {file.stem.partition("-")[2] for file in self.kept.glob("*-*.answer")}
        if self.batch and len(batches | {self.batch}) > allowed.batches:
            raise RefusedError(f"the limits of this node allow {allowed.batches} batches of new samples in a run")
        if getattr(question, "batch", self.batch) != self.batch:
            raise RefusedError("the question is about another batch than the task")

    def _party(self) -> Party:
        """The party as the library knows it: table, limits, secrets, and what it kept of this run."""
        frame, ids, allowed = self._frame(), self._ids(), self.allowed
        coin, state, matched = (self.kept / name for name in ("coin", "state", f"MatchedGiven{self.end}.question"))
        party = Party(
            self.name,
            lambda columns_are: check_table(self.name, frame, columns_are=columns_are),
            self.roster,
            self.run,
            self._secret(self.name) if self.id_column else b"",
            coin=coin.read_bytes() if coin.exists() else secrets.token_bytes(32),
            open_new=lambda batch, columns_are: check_table(self.name, frame, columns_are=columns_are),
            ids=None if self.batch else ids,
            ids_new={} if ids is None else {self.batch: ids},
            limits=replace(allowed, samples=1) if self.batch else allowed,
            state=files.read_state(state) if state.exists() else None,
        )
        for other in set(self.roster) - {self.name} if self.id_column else ():
            seeds = keys.seeds_for(self._secret(other), self.run, other, self.roster)
            party.received["", other] = seeds[self.name]
        if matched.exists():
            party.answer(q.decode(matched.read_bytes()))
        return party

    def _secret(self, party: str) -> bytes:
        """Secret of a party for tokens of ids, from the key that all administrators share."""
        key = (_given(self.folder, KEY, "key") or "").strip()
        if len(key) < SHORTEST_KEY:
            raise RefusedError(
                f"ids are matched under a key of {SHORTEST_KEY} letters or more that all nodes share and the server "
                f"does not have; this node's administrator writes it to the file key, or as {KEY} in algorithm_env"
            )
        return keys.hkdf(key.encode(), f"dkpca vantage6\0{party}".encode())

    def _frame(self) -> Any:
        """Columns that take part, in the order of the fit."""
        here, listed, wanted = [str(name) for name in self.df.columns], self.kept / "columns.json", self.columns
        if wanted is None:
            others = [name for name in here if name != self.id_column]
            wanted = json.loads(listed.read_text()) if listed.exists() else others
        lacking = sorted(set(wanted) - set(here))
        if lacking:
            which = lacking if self.columns is not None else f"as the fit had: {len(lacking)} are missing"
            raise RefusedError(f"its table has no columns {which}")
        if len(set(here)) < len(here):
            raise RefusedError("its table has two columns of one name")
        return self.df[[self.df.columns[here.index(name)] for name in wanted]]

    def _ids(self) -> list[str] | None:
        """Ids as text."""
        if self.id_column is None:
            return None
        if self.id_column not in self.df.columns:
            raise RefusedError(f"its table has no column {self.id_column!r} with the ids")
        values = self.df[self.id_column]
        if values.isna().any() or values.dtype.kind == "f":
            raise RefusedError(f"column {self.id_column!r} has gaps or decimals; ids are text or whole numbers")
        ids = [str(value) for value in values]
        if len(set(ids)) < len(ids):
            raise RefusedError(f"column {self.id_column!r} has some ids more than once; keep one row for each sample")
        others = [file for file in self.kept.glob("ids*.json") if file.name != f"ids{self.end}.json"]
        if self.batch and any(set(json.loads(file.read_text())) & set(ids) for file in others):
            raise RefusedError("some of these samples were answered before in this run; leave them out")
        return ids

    def _for_later(self, party: Party, question: q.Question) -> dict[Path, bytes]:
        """What later questions of the run need, and the result with its ids; it contains data, and never leaves."""
        frame, ids = self._frame(), party.ids_new.get(self.batch)
        kept = {} if ids is None else {f"ids{self.end}.json": json.dumps(list(ids)).encode()}
        if not self.batch:
            table, before = pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes(), self.kept / "table"
            if before.exists() and before.read_bytes() != table:
                raise RefusedError("its table is another one than at the first question of this run")
            kept |= {"table": table, "coin": party.coin, "columns.json": json.dumps(list(frame.columns)).encode()}
        if isinstance(question, q.SummaryWanted) and party.state is not None:
            kept["state"] = files.encode_state(party.state)
        if isinstance(question, q.ResultGiven):
            kept[f"scores{self.end}.csv"] = _written(party.sample_ids(self.batch), question)
        return {self.kept / name: data for name, data in kept.items()}


def _written(ids: Any, result: q.ResultGiven) -> bytes:
    """Scores as CSV, beside the ids of the samples or their row numbers."""
    scores, text = np.asarray(result.scores.scores.decode()), io.StringIO()
    rows = zip(ids or range(1, len(scores) + 1), scores.tolist(), strict=True)
    heads = ["id", *(f"component{number + 1}" for number in range(scores.shape[1]))]
    csv.writer(text).writerows([heads, *([name, *row] for name, row in rows)])
    return text.getvalue().encode()
