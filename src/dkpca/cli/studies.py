"""Run a joint computation with other organizations: all sign one plan, kept in a folder that all can reach."""

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dkpca.cli import made
from dkpca.errors import InputError, StorageError
from dkpca.exchange import founding
from dkpca.exchange.folder import Folder
from dkpca.exchange.member import WaitingError
from dkpca.exchange.memory import Memory
from dkpca.store import storage
from dkpca.wording import counted, printable

WAITING = 75  # the exit code for "try again later", as mail programs use it
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds between two looks at a folder


class Commands(TyperGroup):
    """All commands of a study; `create` is loaded when it is named, since the settings of a fit need NumPy."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return made("create", "creating") if cmd_name == "create" else super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        return ["create", *super().list_commands(ctx)]


group = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="markdown")


Place = Annotated[
    str, typer.Argument(metavar="FOLDER", help="The shared folder: a path, or an sftp, webdav+https or s3 URL.")
]
Own = Annotated[Path, typer.Option("--as", metavar="DIR", help="This member's own folder, on its own disk.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@contextmanager
def reached(folder: str, as_json: bool = False) -> Iterator[Folder]:
    """Reach a folder, and let go of it; if this member has to wait in it, say for whom, and end with 75."""
    # A local path is made absolute, so that every command means the same one.
    url = folder if "://" in folder else os.path.abspath(os.path.expanduser(folder))  # noqa: PTH100, PTH111
    try:
        with closing(Folder(url)) as there:
            yield there
    except PermissionError as error:
        file = Path(os.fsdecode(error.filename or "a file"))
        raise storage.refused(file, error, "used", "check who may read and write it") from error
    except WaitingError as waiting:
        notes = getattr(waiting, "__notes__", [])
        told = {"waiting_for": list(waiting.members), "step": waiting.step, "notes": notes}
        print(json.dumps(told) if as_json else "\n".join([*_lines(notes), str(waiting)]))
        raise typer.Exit(WAITING) from None


def _lines(notes: list[str]) -> list[str]:
    """Notes as lines; what another member wrote may be in them."""
    return [f"note: {printable(note)}" for note in notes]


@group.command()
def join(
    folder: Place,
    own: Own,
    table: Annotated[Path, typer.Option("--table", help="This party's table, or the party.toml that describes it.")],
    id_column: Annotated[str | None, typer.Option("--id", help="Column with the sample ids.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name in the plan (default: as before; that of DIR).")
    ] = None,
) -> None:
    """Join a study with a table: create this party's keys, party.toml and limits.toml in DIR.

    Example: `dkpca study join /shared/flights --as airline --table airline.csv --id flight`
    """
    from dkpca.exchange import study

    with reached(folder) as there:
        told = study.join(there, Memory(own), table, id_column, (name or "").lower())
    print(told)


@group.command()
def review(folder: Place, own: Own, as_json: AsJson = False) -> None:
    """Run the whole plan on this party's table, and show what would be sent and what could be recovered from it.

    Exits 1 if the study exceeds the limits in the party's limits.toml.
    """
    from dkpca.cli.output import at_work
    from dkpca.exchange import study

    with reached(folder, as_json) as there:
        at_work("running the plan on your table")
        found = study.review(there, Memory(own))
    print(json.dumps(found.to_dict()) if as_json else "\n".join(found.words()))
    if not found.green:
        raise typer.Exit(1)


@group.command()
def sign(
    folder: Place,
    own: Own,
    fingerprint: Annotated[str, typer.Option("--fingerprint", help="The study's, as heard from the other members.")],
) -> None:
    """Sign the reviewed study; from then on 'run' carries out the steps of the plan, and nothing else."""
    from dkpca.exchange import study

    with reached(folder) as there:
        study.sign(there, Memory(own), fingerprint)
    print(f"Signed. Continue with: dkpca study run {folder} --as {own}")


@group.command()
def run(
    folder: Place,
    own: Own,
    watch: Annotated[bool, typer.Option("--watch", help="Wait for other members until there is a result.")] = False,
    as_json: AsJson = False,
) -> None:
    """Do everything that this member can do now; the command is the same for the parties and the center.

    Exits 0 when the result is in DIR/result (of a second plan, DIR/result-2), 75 while waiting for other members.
    """
    if watch:
        raise typer.Exit(_watch(folder, own, as_json))
    from dkpca.exchange import study

    with reached(folder, as_json) as there:
        told = study.run(there, Memory(own))
    lines = [*_lines(told["notes"]), f"Done: {told['result']}"]
    if left := told["batches_left_to_place"]:
        lines.append(f"Run this again, or with --watch, when a party adds new samples (batches left: {left}).")
    print(json.dumps(told) if as_json else "\n".join(lines))


def _watch(folder: str, own: Path, as_json: bool) -> int:
    """Look at the folder, slowing down; start a process that computes whenever something changed."""
    command = [sys.executable, "-m", "dkpca", "study", "run", folder, "--as", str(own), *(["--json"] * as_json)]
    before, pause = "", FIRST_PAUSE
    while True:
        try:
            with reached(folder) as there:
                seat = founding.seat(there, Memory(own))
                while (now := founding.footprint(seat)) == before:
                    pause = _rest(pause)
                code = subprocess.run(command, check=False).returncode
                founding.footprint(seat)  # if the folder is away by now, that is what ended the command
            if code != WAITING:
                return code
            before, pause = now, _rest(FIRST_PAUSE)
        except (InputError, StorageError):
            if not before:  # the first look says what is wrong; a folder that goes away later is waited for
                raise
            pause = _rest(pause)


def _rest(pause: float) -> float:
    """Wait so long; return for how long the next time."""
    time.sleep(pause)
    return min(1.5 * pause, LONGEST_PAUSE)


@group.command()
def status(folder: Place, as_json: AsJson = False) -> None:
    """Show each member's latest file and its time, who refused, and whom the study is waiting for."""
    with reached(folder, as_json) as there:
        found = founding.status(there)
    if as_json:
        print(json.dumps(found))
        return
    for name, files in found["members"].items():
        latest = f", latest {files[-1]['file']} on {_when(files[-1]['time'])}" if files else ""
        print(f"{name}: {counted(len(files), 'file')}{latest}")
    lines = [f"{said}. ('dkpca study run' checks that this is genuine.)" for said in found["refusals"]]
    lines += [str(WaitingError(step, *names)) for step, names in found["waiting"].items()]
    going = "The study is not waiting for anyone; each member can continue with 'dkpca study run'."
    ready = ["The result is ready."] * (found["result"] and not any("is ready" in line for line in lines))
    print("\n".join([*ready, *lines] or [going]))


def _when(seconds: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="minutes")
    except (ValueError, OverflowError, OSError):  # whatever the folder's host says
        return "an impossible date"


@group.command()
def close(
    folder: Place,
    own: Own,
    give_up: Annotated[bool, typer.Option("--give-up", help="Close a running plan; the others are told.")] = False,
) -> None:
    """Delete this study's keys and secrets from DIR, but for a plan still to be signed; keep the ledger."""
    with reached(folder) as there:
        print(founding.close(there, Memory(own), give_up=give_up))
