"""Commands that find the samples all parties have."""

import secrets
from pathlib import Path
from typing import Annotated

import typer

from dkpca.cli import options as o
from dkpca.cli.output import show
from dkpca.cli.table_options import HOW_IDS, Changed, Config, TablePath, at_hand, takes
from dkpca.errors import InputError
from dkpca.exchange import alignment, files
from dkpca.exchange.sending import Holding, Sender
from dkpca.messages import SampleTokens
from dkpca.store import message_files, storage
from dkpca.tables import reading
from dkpca.tables.reading import Reading

group = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(group, name="align", rich_help_panel="Where samples differ")


@group.callback()
def about() -> None:
    """Find the samples that all parties have, without telling the center any id.

    The parties share a key (**key**, passed on by hand, never to the center). Each sends keyed hashes of its ids
    (**tokens**); the center answers with those that everyone sent (**intersect**); each party then uses that file
    with `summarize --align`. The center knows samples by token; a party reads its result with **names**.
    """


@group.command()
def key(out: Annotated[Path, typer.Option("--out", help="File to write, mode 0600.")]) -> None:
    """Make a random key for the parties to share."""
    if out.exists():
        raise InputError(f"{out}: is there already; a key is not overwritten, choose another --out")
    storage.write(out, secrets.token_hex(32).encode() + b"\n", private=True)
    show(False, {}, [f"wrote {out}; give it to the other parties by a safe way, and not to the center"])


@group.command()
@takes(*HOW_IDS)
def tokens(
    how: Changed,
    out: Annotated[Path, typer.Option("--out", help="The message to write; send this file.")],
    path: TablePath = None,
    config: Config = None,
    id_column: o.Id = None,
    party: o.PartyName = None,
    key_file: o.KeyFile = None,
    policy: o.PolicyFile = None,
    ledger: o.Ledger = None,
    as_json: o.AsJson = False,
) -> None:
    """At a party: write keyed hashes of the sample ids.

    Example: `dkpca align tokens airline.csv --id flight --key-file shared.key --out airline.tokens`
    """
    table = at_hand(path, config, party, id_column)
    if table.reading.id_column is None:
        raise InputError(f"{table.path}: tokens are made of sample ids; name their column with --id")
    box = o.sender(out, table.policy(policy), ledger, table.path)
    key = o.key(key_file or table.key_file)
    message = files.sample_tokens(Holding(table.party, table.path, how(table.reading), key=key), box)
    count = message.tokens.shape[0]
    result = {"party": message.party, "n_samples": count, "out": str(out)}
    show(as_json, result, [f"{message.party}: tokens of {count:,} samples in {out}"])


@group.command()
def intersect(
    paths: Annotated[list[Path], typer.Argument(help="Token files, one from each party.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="The answer; send this file to every party.")],
    as_json: o.AsJson = False,
) -> None:
    """At the center: write the tokens that every party sent.

    Example: `dkpca align intersect airline.tokens weather.tokens --out common.tokens`
    """
    received = [message_files.read(path, SampleTokens) for path in paths]
    with message_files.naming_files({message.party: path for message, path in zip(received, paths, strict=True)}):
        common = alignment.intersect(received)
    box = Sender(out)
    box.check()
    box.send(common, parties=[message.party for message in received])
    count = common.tokens.shape[0]
    words = [f"{message.party}: {message.tokens.shape[0]:,} samples" for message in received]
    sizes = {message.party: message.tokens.shape[0] for message in received}
    result = {"n_samples": count, "parties": sizes, "out": str(out)}
    show(as_json, result, [*words, f"in common: {count:,} samples, in {out}"])


@group.command()
@takes(*HOW_IDS)
def names(
    path: Annotated[Path, typer.Argument(help="An embedding whose samples are tokens.", show_default=False)],
    how: Changed,
    table: Annotated[Path, typer.Option("--table", help="The party's own table.")],
    id_column: o.RequiredId,
    out: Annotated[Path, typer.Option("--out", help="CSV file to write.")],
    key_file: o.KeyFile = None,
) -> None:
    """At a party: put its own sample ids in place of the tokens.

    Example: `dkpca align names run/embedding.csv --table airline.csv --id flight --key-file shared.key --out my.csv`
    """
    holding = Holding("names", table, how(Reading(id_column)))
    ids = holding.ids()
    tokens_of = alignment.tokens(holding.keys(ids), o.key(key_file))
    by_token = {token.hex(): own for token, own in zip(tokens_of, ids, strict=True)}
    data, unknown = reading.renamed(path, by_token)
    if unknown:
        raise InputError(f"{path}: {unknown} of its samples are not in {table}; use the key and the table of the run")
    storage.write(out, data)
    show(False, {}, [f"wrote {out}"])
