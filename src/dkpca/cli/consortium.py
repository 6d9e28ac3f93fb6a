"""Commands that make a consortium over a network, and run its center and its parties."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from dkpca.cli.output import show
from dkpca.errors import DKPCAError, InputError

PANEL = "Over a network"
DAYS = 365

consortium_group = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
party_group = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
center_group = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")

Days = Annotated[int, typer.Option("--days", min=1, help="How long certificates are valid.")]
CAFolder = Annotated[Path | None, typer.Option("--ca", help="Folder with the CA's key, where it is kept elsewhere.")]
ConsortiumFolder = Annotated[Path, typer.Argument(help="The center's folder.", metavar="DIR", show_default=False)]
PartyFolder = Annotated[Path, typer.Argument(help="The party's folder.", metavar="DIR", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(consortium_group, name="consortium", rich_help_panel=PANEL)
    app.add_typer(party_group, name="party", rich_help_panel=PANEL)
    app.add_typer(center_group, name="center", rich_help_panel=PANEL)


@consortium_group.callback()
def about_consortium() -> None:
    """At the center: found a consortium and admit its parties.

    Each party makes its own private key; requests, invitations and admissions are public files.
    """
    check_extra()


@party_group.callback()
def about_party() -> None:
    """At a party: join a consortium, and answer its requests within the party's own policy."""
    check_extra()


@center_group.callback()
def about_center() -> None:
    """At the center: wait for the parties and carry requests to them."""
    check_extra()


@consortium_group.command("init")
def init(
    path: ConsortiumFolder,
    host: Annotated[str, typer.Option("--center", help="Host name or address under which parties reach the center.")],
    parties: Annotated[list[str], typer.Option("--party", help="Name of a party; once for each.")],
    port: Annotated[int, typer.Option("--port", help="The one port that has to be open at the center.")] = 8002,
    name: Annotated[str, typer.Option("--name", help="Name of the consortium.")] = "dkpca",
    days: Days = DAYS,
) -> None:
    """Write the center's folder, and an invitation for each party.

    Example: `dkpca consortium init flights/ --center pca.example.org --party airline --party weather`
    """
    from dkpca.network.nvflare import certificates, consortium

    made, invitations = consortium.init(path, name=name, host=host, port=port, parties=parties, days=days)
    ca = certificates.from_pem((path / "ca" / "ca.crt").read_bytes(), path)
    lines = [f"wrote {path}: consortium {made.name}, center {host}:{port}, {len(parties)} parties"]
    lines += [f"  send  {invitation}" for invitation in invitations]
    lines += [f"  keep  {path / 'ca' / 'ca.key'}   (private: whoever has it can admit parties)"]
    lines += [f"fingerprint of the CA, for the parties to compare: {certificates.fingerprint_of(ca)}"]
    show(False, {}, lines)


@consortium_group.command("approve")
def approve(
    path: ConsortiumFolder,
    request: Annotated[Path, typer.Argument(help="The party's request.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="The admission to write; send it back.")],
    fingerprint: Annotated[
        str, typer.Option("--fingerprint", help="The one the party read out; another is refused.")
    ] = "",
    days: Days = DAYS,
    ca: CAFolder = None,
) -> None:
    """Admit a party: sign the certificate it asks for.

    Example: `dkpca consortium approve flights/ airline.request --out airline.admission`
    """
    from dkpca.network.nvflare import consortium

    party, found = consortium.approve(
        consortium.load(path), request, out, days=days, expected=fingerprint, ca_folder=ca
    )
    lines = [f"admitted {party} for {days} days; fingerprint of its key: {found}", f"  send  {out}"]
    if not fingerprint:
        lines.append(f"compare the fingerprint with {party} by phone before you send it")
    show(False, {}, lines)


@consortium_group.command("renew")
def renew_center(path: ConsortiumFolder, days: Days = DAYS, ca: CAFolder = None) -> None:
    """Make new certificates for the center and its operator; restart the center to use them."""
    from dkpca.network.nvflare import consortium

    consortium.renew_center(consortium.load(path), days=days, ca_folder=ca)
    show(False, {}, [f"wrote new certificates for {days} days into {path}; restart the center to use them"])


@party_group.command("join")
def join(
    invitation: Annotated[Path, typer.Argument(help="The center's invitation.", show_default=False)],
    path: PartyFolder,
    table: Annotated[
        str, typer.Option("--table", help="The party's table, for party.toml; relative to the party's folder.")
    ] = "",
    id_column: Annotated[str, typer.Option("--id", help="Column with the sample ids, for party.toml.")] = "",
) -> None:
    """Make the party's folder, its private key, and the request to send to the center.

    Example: `dkpca party join airline.toml airline/ --table flights.csv --id flight`
    """
    from dkpca.network.nvflare import certificates, consortium

    member, request, fingerprint = consortium.join(invitation, path, table=table, id_column=id_column)
    show(
        False,
        {},
        [
            f"wrote {path}: {member.party} of consortium {member.name}, center {member.host}:{member.port}",
            f"  send  {path / request.name}   (no secret in it)",
            f"  edit  {path / 'party.toml'} and {path / 'policy.toml'}",
            f"fingerprint of the CA, to compare with the center by phone: {certificates.fingerprint_of(member.ca)}",
            f"fingerprint of this party's key, to read out: {fingerprint}",
        ],
    )


@party_group.command("admit")
def admit(
    path: PartyFolder,
    admission: Annotated[Path, typer.Argument(help="The center's answer.", show_default=False)],
) -> None:
    """Install the center's answer to the request."""
    from dkpca.network.nvflare import consortium

    member = consortium.membership(path)
    days = consortium.admit(member, admission)
    show(False, {}, [f"{member.party}: admitted for {days} days; start with: dkpca party start {path}"])


@party_group.command("renew")
def renew(path: PartyFolder) -> None:
    """Ask for a new certificate; the old one stays in use until the answer is installed with 'admit'."""
    from dkpca.network.nvflare import consortium

    request, fingerprint = consortium.renew(consortium.membership(path))
    show(
        False,
        {},
        [
            f"  send  {path / request.name}   (no secret in it)",
            f"fingerprint of the new key, to read out: {fingerprint}",
        ],
    )


@party_group.command("check")
def check(
    path: PartyFolder,
    restore: Annotated[bool, typer.Option("--restore", help="Write the settings anew first.")] = False,
) -> None:
    """Print each setting that keeps the party safe from the center, and whether its table can be used."""
    from dkpca.network.nvflare import consortium, hardening
    from dkpca.network.responder import Responder

    member = consortium.membership(path)
    if restore:
        consortium.restore(member)
    settings = hardening.settings(member.engine)
    settings.append(hardening.Setting("the center of the invitation", "; ".join(consortium.check_invitation(member))))
    problems = [setting.problem for setting in settings if setting.problem]
    lines = [f"{'NOT ' if s.problem else ''}ok: {s.name}" for s in settings]
    try:
        lines.append(f"ok: table, as party.toml and policy.toml say: {Responder(path, member.party).check()}")
    except DKPCAError as error:
        lines.append("NOT ok: table, as party.toml and policy.toml say")
        problems.append(str(error))
    show(False, {}, lines)
    if problems:
        raise InputError("; ".join(problems))


@party_group.command("start")
def start_party(path: PartyFolder) -> None:
    """Connect to the center and answer its requests, until stopped; refuse where a setting is not as it must be."""
    from dkpca.network.nvflare import launch

    launch.party(path)


@center_group.command("start")
def start_center(path: ConsortiumFolder) -> None:
    """Listen for the parties and carry requests to them, until stopped."""
    from dkpca.network.nvflare import launch

    launch.center(path)


def check_extra() -> None:
    """Say how to install the engine."""
    if find_spec("nvflare") is None:
        raise InputError("this command needs NVFlare; install it with: pip install 'dkpca[nvflare]'")
