"""Commands for masked sums: the center learns the sum over parties, and nothing about any single one."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dkpca.cli import options as o
from dkpca.cli.output import progress, show
from dkpca.cli.table_options import HOW_IDS, Changed, TableAtHand, aligned, reads_table, takes
from dkpca.errors import InputError
from dkpca.exchange import files, sum_files
from dkpca.exchange.sending import Holding, Sender
from dkpca.fields import RING_BITS, check_name
from dkpca.messages import Offer, Scorer, Scores, Summary
from dkpca.protection import quantities
from dkpca.protection.keys import fingerprint
from dkpca.protection.member import Sum
from dkpca.rank import Auto
from dkpca.store import message_files
from dkpca.tables.reading import Reading
from dkpca.wording import in_bytes

keys_group = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
mask_group = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")

IdentityFile = Annotated[Path, typer.Option("--identity", help="The party's identity, from 'dkpca keys new'.")]
RunName = Annotated[
    str, typer.Option("--run", help="Name of this sum, the same at all parties; a new one each time.")
]
RingBits = Annotated[
    int, typer.Option("--bits", help=f"Of the ring on which numbers are added: one of {list(RING_BITS)}.")
]
SumKeyFile = Annotated[
    Path | None, typer.Option("--key", help="Private key of this sum; else --out with .sumkey. Keep it.")
]

KINDS = {
    quantities.PAIRS: "all pairs of",
    quantities.COLUMNS: "the distances to landmarks of",
    quantities.NEW: "the distances of",
    quantities.SCORES: "shares of the scores of",
}
NOT_MEASURED = (
    "max_recovery is about what this party sends alone, which is noise here; what the sum of all parties gives away "
    "to somebody who knows some rows nobody can measure before (docs: Disclosure)"
)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(keys_group, name="keys", rich_help_panel="At a party")
    app.add_typer(mask_group, name="mask", rich_help_panel="At a party")
    app.command("add", rich_help_panel="At the center")(add)


@keys_group.callback()
def about_keys() -> None:
    """Make and show the identity by which other parties know this one.

    Parties compare fingerprints by another way than the center, such as the phone, and write those of the others into
    a file of peers: one line such as `clinic = "fingerprint"` for each.
    """


@keys_group.command()
def new(out: Annotated[Path, typer.Option("--out", help="File to write, mode 0600. Keep it.")]) -> None:
    """Make an identity for this party."""
    identity = sum_files.new_identity(out)
    show(False, {}, [f"wrote {out}; tell the other parties its fingerprint, not by way of the center:"])
    show(False, {}, [identity.fingerprint])


@keys_group.command("show")
def show_identity(
    path: Annotated[Path, typer.Argument(help="An identity, or anybody's offer.", show_default=False)],
    as_json: o.AsJson = False,
) -> None:
    """Print the fingerprint of an identity, or of the one that signed an offer."""
    try:
        found = sum_files.read_identity(path).fingerprint
    except InputError:
        found = fingerprint(message_files.read(path, Offer).identity)
    show(as_json, {"fingerprint": found}, [found])


@mask_group.callback()
def about_mask() -> None:
    """Take part in a masked sum: first an **offer**, which goes to all, then the **numbers**.

    The numbers are squared distances or inner products between samples over the party's columns. The center adds them
    up with `dkpca add`; alone, or without one of the others, they are noise.
    """


@mask_group.command()
@reads_table
def offer(
    table: TableAtHand,
    out: Annotated[Path, typer.Option("--out", help="The offer to write; send it to the center and all parties.")],
    identity: IdentityFile,
    run: RunName,
    kernel: o.KernelOption = "rbf",
    center: o.Center = True,
    bits: RingBits = 32,
    landmarks: Annotated[
        int, typer.Option("--landmarks", min=0, help="For many samples: distances to so many; 0: all pairs.")
    ] = 0,
    key: SumKeyFile = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="Private file for new samples; else --out with .state. Keep it.")
    ] = None,
    common: o.Common = None,
    key_file: o.KeyFile = None,
    policy: o.PolicyFile = None,
    ledger: o.Ledger = None,
    as_json: o.AsJson = False,
) -> None:
    """Offer to take part in a fit by masked sums.

    Example: `dkpca mask offer bank.csv --id person --identity bank.identity --run spring --out bank.offer`
    """
    box = o.sender(out, table.policy(policy), ledger, table.path)
    holding = table.holding(common, key_file)
    known = o.kernel(kernel, 1.0, center=center)
    asked = Sum(check_name(run, "name of a sum"), known, bits, landmarks, open_width=True)
    kept, secret = state or out.with_suffix(".state"), key or out.with_suffix(".sumkey")
    made, said = sum_files.offer_fit(
        holding, box, asked, identity=sum_files.read_identity(identity), key_file=secret, state=kept
    )
    notes = [*said, *([NOT_MEASURED] if box.policy.limits_recovery else [])]
    facts = _facts(made, out, secret) | {"state": str(kept), "notes": notes}
    kept_words = f"  keep  {kept}   (private: it contains data)"
    show(as_json, facts, [*_notes(notes), *_words(made, out, secret), kept_words])


@mask_group.command("offer-new")
def offer_new(
    path: o.TableFile,
    state: Annotated[Path, typer.Option("--state", help="The party's private state, from 'mask offer'.")],
    out: Annotated[Path, typer.Option("--out", help="The offer to write; send it to the center and all parties.")],
    identity: IdentityFile,
    run: RunName,
    bits: RingBits = 32,
    scorer: Annotated[
        Path | None, typer.Option("--scorer", help="After a blind fit: the center's scorer for this party.")
    ] = None,
    id_column: o.Id = None,
    key: SumKeyFile = None,
    common: o.Common = None,
    key_file: o.KeyFile = None,
    policy: o.PolicyFile = None,
    ledger: o.Ledger = None,
    as_json: o.AsJson = False,
) -> None:
    """Offer to place new samples of a fit by masked sums, or of a blind fit by masked shares of their scores."""
    box = o.sender(out, policy, ledger, path)
    secret = key or out.with_suffix(".sumkey")
    holding = aligned(files.new_samples(path, state, id_column=id_column), common, key_file)
    known, name = sum_files.read_identity(identity), check_name(run, "name of a sum")
    if scorer is None:
        made, notes = sum_files.offer_new(holding, box, state, identity=known, run=name, bits=bits, key_file=secret)
    else:
        given = message_files.read(scorer, Scorer)
        made, notes = sum_files.offer_share(holding, box, state, given, identity=known, run=name, key_file=secret)
    show(as_json, _facts(made, out, secret) | {"notes": notes}, [*_notes(notes), *_words(made, out, secret)])


@mask_group.command()
def numbers(
    path: o.TableFile,
    state: Annotated[Path, typer.Option("--state", help="The party's private state, from 'mask offer'.")],
    key: Annotated[Path, typer.Option("--key", help="Private key of this sum, from 'mask offer'.")],
    offers: Annotated[list[Path], typer.Option("--offer", help="Offer of a party, its own too; one for each.")],
    peers: Annotated[Path, typer.Option("--peers", help="Fingerprints of the other parties (TOML).")],
    out: Annotated[Path, typer.Option("--out", help="The message to write; send it to the center.")],
    scorer: Annotated[
        Path | None, typer.Option("--scorer", help="For shares of scores: as with 'mask offer-new'.")
    ] = None,
    id_column: o.Id = None,
    common: o.Common = None,
    key_file: o.KeyFile = None,
    policy: o.PolicyFile = None,
    ledger: o.Ledger = None,
    as_json: o.AsJson = False,
) -> None:
    """Write this party's numbers under masks that cancel in the sum of all parties.

    Example: `dkpca mask numbers bank.csv --state bank.state --key bank.sumkey --offer bank.offer --offer clinic.offer
    --peers peers.toml --out bank.sums`
    """
    box = o.sender(out, policy, ledger, path)
    holding = aligned(files.new_samples(path, state, id_column=id_column), common, key_file)
    with progress(f"{holding.party}: masked numbers"):
        received = [message_files.read(each, Offer) for each in offers]
        written = sum_files.numbers(
            holding,
            box,
            state,
            key,
            received,
            sum_files.read_peers(peers),
            scorer=None if scorer is None else message_files.read(scorer, Scorer),
        )
    size = sum(file.stat().st_size for file in written)
    result = {"party": holding.party, "bytes": size, "out": [str(file) for file in written]}
    words = (
        f"{holding.party}: masked numbers, {in_bytes(size)}, in {', '.join(map(str, written))}; send to the center"
    )
    show(as_json, result, [words])


@mask_group.command("turn-back")
@takes(*HOW_IDS)
def turn_back(
    path: Annotated[Path, typer.Argument(help="Result of a blind fit: result.scores.", show_default=False)],
    how: Changed,
    table: Annotated[Path, typer.Option("--table", help="The party's own table.")],
    id_column: o.RequiredId,
    run: Annotated[str, typer.Option("--run", help="Name of the run, as with 'summarize --protect blind'.")],
    out: Annotated[Path, typer.Option("--out", help="Directory for embedding.csv and .parquet.")],
    key_file: o.KeyFile = None,
    common: o.Common = None,
) -> None:
    """At a party: turn the scores of a blind fit back, so that rows are its samples again.

    Example: `dkpca mask turn-back run/result.scores --table bank.csv --id person --run spring --key-file shared.key
    --out mine`
    """
    holding = aligned(Holding("names", table, how(Reading(id_column))), common, key_file)
    written = sum_files.turn_back(message_files.read(path, Scores), holding, o.rotation("blind", run, key_file), out)
    show(False, {}, [f"wrote {', '.join(map(str, written))}"])


def add(
    paths: Annotated[list[Path], typer.Argument(help="Masked numbers of all parties.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", help="Summary of the joined table, for 'fuse'; or rows, for 'project'.")
    ],
    gamma: o.GammaRule = "features",
    center: o.Center = True,
    degree: o.Degree = None,
    coef0: o.Coef0 = None,
    fit: Annotated[
        Path | None, typer.Option("--fit", help="For new samples: the summary that 'add' made of the fit.")
    ] = None,
    fit_run: Annotated[str, typer.Option("--fit-run", help="Name of the sum of the fit, if it had landmarks.")] = "",
    as_json: o.AsJson = False,
) -> None:
    """Add up masked numbers of all parties: the joint kernel matrix, as if one party had all columns.

    The kernel is that of the offers; its width is chosen now. Then `dkpca fuse joined.summary --out run`.
    New samples, with --fit: `dkpca project run joined.rows --out new`.

    Example: `dkpca add bank.sums clinic.sums shop.sums --gamma 0.05 --out joined.summary`
    """
    box = Sender(out)
    box.check()
    settings = partial(
        o.wanted,
        gamma=gamma,
        components=1,
        center=center,
        rank=Auto(1),
        precision="float64",
        solver="auto",
        degree=degree,
        coef0=coef0,
        protect="sums",
    )
    with progress("adding up"):
        message: Any = (
            sum_files.add_fit(paths, lambda kernel: settings(kernel=kernel))
            if fit is None
            else sum_files.add_new(paths, message_files.read(fit, Summary), fit_run)
        )
    box.send(message, party=message.party)
    result = {"n_samples": message.n_samples, "rank": message.factor.shape[1], "out": str(out)}
    what = "new samples, for 'dkpca project'"
    if fit is None:
        result |= {"kernel": message.kernel.to_dict()}
        width = f", gamma {message.kernel.gamma:.6g}" if message.kernel.has_width else ""
        what = f"{message.kernel.name} kernel{width}, rank {message.factor.shape[1]}, for 'dkpca fuse'"
    show(as_json, result, [f"the sum of all parties: {message.n_samples:,} samples, {what}, in {out}"])


def _facts(made: Offer, out: Path, secret: Path) -> dict[str, Any]:
    return {"party": made.party, "n_samples": made.agreed.rows, "out": str(out), "key": str(secret)}


def _notes(notes: Sequence[str]) -> list[str]:
    return [f"note: {note}" for note in notes]


def _words(made: Offer, out: Path, secret: Path) -> list[str]:
    return [
        f"{made.party}: offers to add up {KINDS[made.agreed.kind]} {made.agreed.rows:,} "
        f"{'' if made.agreed.kind in (quantities.PAIRS, quantities.COLUMNS) else 'new '}samples, "
        f"{made.agreed.bits} bits",
        f"  send  {out}   (to the center and to all parties)",
        f"  keep  {secret}   (private: the key of this sum)",
    ]
