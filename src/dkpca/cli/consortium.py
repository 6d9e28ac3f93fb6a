"""Commands that make a consortium over a network, and run its center and its parties."""

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from dkpca.cli import options as o
from dkpca.cli.output import aside, show
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
    """At a party: join a consortium, and answer its questions within the party's own policy."""
    check_extra()


@center_group.callback()
def about_center() -> None:
    """At the center: wait for the parties and carry questions to them."""
    check_extra()


@consortium_group.command("init")
def init(
    path: ConsortiumFolder,
    host: Annotated[str, typer.Option("--host", help="Host name or address under which parties reach the center.")],
    parties: Annotated[list[str], typer.Option("--party", help="Name of a party; once for each.")],
    port: Annotated[int, typer.Option("--port", help="The one port that has to be open at the center.")] = 8002,
    name: Annotated[str, typer.Option("--name", help="Name of the consortium.")] = "dkpca",
    local_port: Annotated[
        int, typer.Option("--local-port", help="Page and metrics on 127.0.0.1, without a certificate; 0: none.")
    ] = 0,
    days: Days = DAYS,
) -> None:
    """Write the center's folder, and an invitation for each party.

    Example: `dkpca consortium init flights/ --host pca.example.org --party airline --party weather`
    """
    from dkpca.network import membership
    from dkpca.network import x509 as certificates

    made, invitations = membership.init(
        path, name=name, host=host, port=port, parties=parties, days=days, local_port=local_port
    )
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
    from dkpca.network import membership

    party, found = membership.approve(
        membership.load(path), request, out, days=days, expected=fingerprint, ca_folder=ca
    )
    lines = [f"admitted {party} for {days} days; fingerprint of its key: {found}", f"  send  {out}"]
    if not fingerprint:
        lines.append(f"compare the fingerprint with {party} by phone before you send it")
    show(False, {}, lines)


@consortium_group.command("renew")
def renew_center(path: ConsortiumFolder, days: Days = DAYS, ca: CAFolder = None) -> None:
    """Make new certificates for the center and its operator; restart the center to use them."""
    from dkpca.network import membership

    membership.renew_center(membership.load(path), days=days, ca_folder=ca)
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
    from dkpca.network import membership
    from dkpca.network import x509 as certificates

    member, request, fingerprint = membership.join(invitation, path, table=table, id_column=id_column)
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
    from dkpca.network import membership

    member = membership.membership(path)
    days = membership.admit(member, admission)
    show(False, {}, [f"{member.party}: admitted for {days} days; start with: dkpca party start {path}"])


@party_group.command("renew")
def renew(path: PartyFolder) -> None:
    """Ask for a new certificate; the old one stays in use until the answer is installed with 'admit'."""
    from dkpca.network import membership

    request, fingerprint = membership.renew(membership.membership(path))
    show(
        False,
        {},
        [
            f"  send  {path / request.name}   (no secret in it)",
            f"fingerprint of the new key, to read out: {fingerprint}",
        ],
    )


@consortium_group.command("revoke")
def revoke(
    path: ConsortiumFolder,
    name: Annotated[str, typer.Argument(help="Whose certificates are taken back.", show_default=False)],
    ca: CAFolder = None,
) -> None:
    """Take back every certificate issued to a party, the center or the operator so far.

    A running center reads the new list at once and hands it to the parties. To admit the party again, approve a new
    request of its.
    """
    from dkpca.network import membership

    count, number = membership.revoke(membership.load(path), name, ca_folder=ca)
    show(False, {}, [f"revoked {count} certificates of {name}; revocation list {number} is in {path}"])


@party_group.command("approve")
def approve_question(
    path: PartyFolder,
    number: Annotated[str, typer.Argument(help="Number of the question; else all that wait are listed.")] = "",
    deny: Annotated[bool, typer.Option("--deny", help="Refuse it instead.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Decide about a question that waits for a person, or list those that do (party.toml: approval = true)."""
    from dkpca.network import approvals

    if number:
        told = approvals.decide(path, number, approved=not deny)
        words = [f"{'denied' if deny else 'approved'}: {told['question']} of run {told['run']}"]
        show(as_json, {"number": number, "approved": not deny}, words)
        return
    waiting = approvals.waiting(path)
    lines = [f"{each}  run {told['run']}: {told['question']}" for each, told in waiting.items()]
    show(as_json, waiting, lines or ["no question waits"])


@party_group.command("check")
def check(path: PartyFolder) -> None:
    """Say whether certificate, ledger, settings and table are as they must be; exits 0 only if all is well."""
    from dkpca.network import membership, protected_answers
    from dkpca.network.configuration import read_configuration
    from dkpca.network.responder import Responder
    from dkpca.store import ledger

    member = membership.membership(path)
    book = path / ledger.NAME
    checks: list[tuple[str, Callable[[], Any]]] = [
        ("certificate of the CA on the invitation", lambda: f"{membership.check_certificate(member)} days left"),
        ("party.toml and policy.toml", lambda: read_configuration(path / "party.toml").party),
        ("ledger", lambda: f"{ledger.verify(book).lines} lines, unaltered" if book.exists() else "not begun"),
        ("table, as party.toml and policy.toml say", Responder(path, member.party).check),
        ("masked sums", lambda: protected_answers.in_words(path, member.party)),
    ]
    lines, problems = [], []
    for what, look in checks:
        try:
            lines.append(f"ok: {what}: {look()}")
        except DKPCAError as error:
            lines.append(f"NOT ok: {what}")
            problems.append(str(error))
    show(False, {}, lines)
    if problems:
        raise InputError("; ".join(problems))


@party_group.command("start")
def start_party(path: PartyFolder) -> None:
    """Ask the center for questions and answer them, until stopped."""
    from dkpca.network import membership
    from dkpca.network import x509 as certificates
    from dkpca.network.configuration import read_configuration

    member = membership.membership(path)
    days = membership.check_certificate(member)
    read_configuration(path / "party.toml")
    if days < certificates.DAYS_TO_WARN:
        aside.print(
            f"note: {member.party}: the certificate expires in {days} days; renew it with 'dkpca party renew'"
        )
    become("dkpca.network.polling", path)


@center_group.command("start")
def start_center(path: ConsortiumFolder) -> None:
    """Listen for the parties and carry questions to them, until stopped."""
    from dkpca.network import membership

    membership.load(path)
    become("dkpca.network.serving", path)


def become(module: str, path: Path) -> NoReturn:
    """Go on as a process that has loaded only what it needs."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, str(path.resolve())])


def check_extra() -> None:
    """Say how to install what the network needs."""
    for needed in ("aiohttp", "cryptography"):
        if find_spec(needed) is None:
            raise InputError(f"this command needs {needed}; install it with: pip install 'dkpca[network]'")
