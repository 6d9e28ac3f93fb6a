"""Commands for a consortium's operator: a fit or a projection between parties on the network."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dkpca.cli import options as o
from dkpca.cli.at_center import run_facts, run_words
from dkpca.cli.auditing import audit_facts, audit_words
from dkpca.cli.consortium import PANEL, ConsortiumFolder, check_extra
from dkpca.cli.output import aside, show
from dkpca.errors import InputError
from dkpca.fields import MOST_AUDITED, check_name
from dkpca.store import runs

if TYPE_CHECKING:
    from dkpca.network.jobs import Job

NOT_FINISHED = 3

group = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", callback=check_extra)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(group, name="submit", rich_help_panel=PANEL, help="Ask all parties of a consortium.")
    app.command("status", rich_help_panel=PANEL)(status)


RunName = Annotated[str, typer.Argument(help="Name of the run; its directory is in runs/.", show_default=False)]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end, and tell how it went.")]
Timeout = Annotated[
    float, typer.Option("--timeout", min=1.0, help="Seconds a party has for one question.", metavar="SECONDS")
]
JoinTimeout = Annotated[
    float,
    typer.Option("--join-timeout", min=0.0, help="Seconds to wait for parties to connect.", metavar="SECONDS"),
]
Again = Annotated[list[str] | None, typer.Option("--again", help="Ask this party anew, even if its answer is here.")]
Publish = Annotated[
    bool, typer.Option("--publish/--no-publish", help="Send the samples' scores back to the parties.")
]
Align = Annotated[bool, typer.Option("--align", help="The parties' samples differ: use those that all have.")]


@group.command("fit")
def fit(
    path: ConsortiumFolder,
    run: RunName,
    gamma: o.GammaRule = "features",
    kernel: o.Kernels = None,
    law: o.Law = None,
    weights: o.Weights = "",
    degree: o.Degree = None,
    coef0: o.Coef0 = None,
    components: o.Components = 10,
    center: o.Center = True,
    rank: o.Rank = "auto",
    epsilon: o.Epsilon = None,
    error: o.ErrorGoal = None,
    budget: o.ByteBudget = None,
    recovery: o.RecoveryGoal = None,
    known_rows: o.KnownRows = 30,
    precision: o.WirePrecision = "float32",
    solver: o.Solver = "auto",
    protect: o.Protect = "none",
    landmarks: o.SumLandmarks = 500,
    align: Align = False,
    keep_training: Annotated[
        bool, typer.Option("--keep-training", help="Parties keep all rows, for 'submit project --exact'.")
    ] = False,
    again: Again = None,
    publish: Publish = True,
    timeout: Timeout = 600.0,
    join_timeout: JoinTimeout = 60.0,
    wait: Wait = True,
    as_json: o.AsJson = False,
) -> None:
    """Fit: ask the parties whose answers are missing, fuse, and send the result back.

    Repeat the command after a failure: what had arrived is kept, and only the others are asked. A file that came by
    hand counts too, once 'dkpca fuse' has put it into the run. Exits 0 only if the run is finished (with --no-wait:
    if the center took the job).

    Example: `dkpca submit fit flights/ first --gamma 0.03 --rank 40 --components 10`
    """
    from dkpca.network import membership
    from dkpca.network.coordinator import check_settings, roster_of
    from dkpca.network.jobs import FitWanted

    folder = path / "runs" / check_name(run, "run name")
    wanted = o.wanted(
        kernel=o.kernels(kernel, roster_of(folder, membership.load(path).parties)),
        law=law,
        weights=o.weights(weights),
        degree=degree,
        coef0=coef0,
        gamma=gamma,
        components=components,
        center=center,
        rank=o.rank_rule(
            rank, components, epsilon=epsilon, error=error, budget=budget, recovery=recovery, known_rows=known_rows
        ),
        precision=precision,
        solver=solver,
        keep_training=keep_training,
        align=align,
        protect=protect,
        n_landmarks=landmarks,
    )
    check_settings(folder, wanted)
    job = FitWanted(
        run=run, fit=wanted, again=tuple(again or ()), publish=publish, timeout=timeout, join_timeout=join_timeout
    )
    folder = _submit(path, job, wait=wait)
    if wait:
        found = runs.load(folder)
        show(as_json, run_facts(found), run_words(found, advice="; the parties have the result under their ids"))
    else:
        show(
            as_json,
            {"run": run, "out": str(folder)},
            [f"the center has it; follow it with: dkpca status {path} {run}"],
        )


@group.command("project")
def project(
    path: ConsortiumFolder,
    run: RunName,
    batches: Annotated[
        list[str],
        typer.Argument(help="Batches of new samples: each party has a table of that name.", show_default=False),
    ],
    exact: Annotated[bool, typer.Option("--exact", help="The paper's way; discloses more.")] = False,
    align: Align = False,
    again: Again = None,
    publish: Publish = True,
    timeout: Timeout = 600.0,
    join_timeout: JoinTimeout = 60.0,
    wait: Wait = True,
    as_json: o.AsJson = False,
) -> None:
    """Place new samples among the components of a run; all batches in one go.

    Example: `dkpca submit project flights/ first october november`
    """
    from dkpca.network.jobs import ProjectionWanted

    for batch in batches:
        check_name(batch, "batch name")
    if not (path / "runs" / check_name(run, "run name") / "settings.json").exists():
        raise InputError(f"{path / 'runs' / run}: there is no finished fit of that name; make one with 'submit fit'")
    if len(set(batches)) < len(batches):
        raise InputError(f"batches {batches} name one of them twice; name each once")
    job = ProjectionWanted(
        run=run,
        batches=tuple(batches),
        exact=exact,
        align=align,
        again=tuple(again or ()),
        publish=publish,
        timeout=timeout,
        join_timeout=join_timeout,
    )
    folder = _submit(path, job, wait=wait)
    places = [str(folder / "new" / batch / "embedding.csv") for batch in batches]
    if wait:
        show(as_json, {"run": run, "out": places}, [f"wrote {place}" for place in places])
    else:
        show(as_json, {"run": run, "out": places}, [f"the center has it; follow it with: dkpca status {path} {run}"])


@group.command("audit")
def audit(
    path: ConsortiumFolder,
    run: RunName,
    rows: Annotated[int, typer.Option("--rows", min=1, max=MOST_AUDITED, help="Rows of the kernel to draw.")] = 100,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of the draws; else random, and published.")
    ] = None,
    again: Again = None,
    timeout: Timeout = 600.0,
    join_timeout: JoinTimeout = 60.0,
    wait: Wait = True,
    as_json: o.AsJson = False,
) -> None:
    """Audit a run: every party sends true rows of its Gram matrix, for samples that are drawn now.

    Example: `dkpca submit audit flights/ first --rows 100`
    """
    from dkpca.network.jobs import AuditJob

    if not (path / "runs" / check_name(run, "run name") / "settings.json").exists():
        raise InputError(f"{path / 'runs' / run}: there is no finished fit of that name; make one with 'submit fit'")
    job = AuditJob(
        run=run,
        rows=rows,
        seed=secrets.randbits(32) if seed is None else seed,
        again=tuple(again or ()),
        timeout=timeout,
        join_timeout=join_timeout,
    )
    folder = _submit(path, job, wait=wait)
    if wait:
        found = runs.load(folder)
        show(as_json, audit_facts(found), audit_words(found))
    else:
        show(as_json, {"run": run}, [f"the center has it; follow it with: dkpca status {path} {run}"])


def status(
    path: ConsortiumFolder,
    run: Annotated[str, typer.Argument(help="Name of a run; else all of them.", show_default=False)] = "",
    as_json: o.AsJson = False,
) -> None:
    """Say who is connected, and where the runs stand.

    With a run: exits 0 if it is finished, 1 if it failed, 3 if it is not finished yet.
    """
    check_extra()
    from dkpca.network import membership, submit
    from dkpca.network.remote import exchange_of

    found = membership.load(path)
    if run:
        stands = exchange_of(path / "runs" / check_name(run, "run name"))
        title = f"{run}: {stands.get('what', 'run')} {stands.get('state', 'not begun')}"
        if stands.get("reason"):
            title += f" ({stands['reason']})"
        if not stands:
            title += f"; there are {sorted(entry.name for entry in (path / 'runs').iterdir())}"
        lines = [title, *(f"- {_words(party, at)}" for party, at in _parties(stands))]
        show(as_json, stands or {"state": "not begun"}, lines)
        raise typer.Exit({"finished": 0, "failed": 1}.get(stands.get("state", ""), NOT_FINISHED))
    here = submit.status(found)["connected"]
    states = {entry.name: exchange_of(entry) for entry in sorted((path / "runs").iterdir())}
    lines = [f"{party}: {'connected' if party in here else 'not connected'}" for party in found.parties]
    lines += [
        f"run {name}: {known.get('what', '')} {known.get('state', 'unknown')}" for name, known in states.items()
    ]
    show(as_json, {"connected": here, "parties": list(found.parties), "runs": states}, lines)


def _submit(path: Path, job: "Job", *, wait: bool) -> Path:
    from dkpca.network import membership, submit
    from dkpca.network.coordinator import roster_of

    found = membership.load(path)
    folder = path / "runs" / job.run
    roster = roster_of(folder, found.parties)
    strangers = sorted(set(job.again) - set(roster))
    if strangers:
        raise InputError(f"--again {strangers}: not on the roster {list(roster)}")
    number = submit.submit(found, job)
    if wait:
        submit.follow(found, job, number, told=Teller().tell)
    return folder


def say(words: str) -> None:
    """Tell the operator what happens."""
    aside.print(f"- {words}", soft_wrap=True, markup=False)


@dataclass
class Teller:
    """Says on the terminal what changed, party by party."""

    known: dict[str, str] = field(default_factory=dict)

    def tell(self, stands: Mapping[str, Any]) -> None:
        """Look at where the run stands."""
        for party, at in _parties(stands):
            words = _words(party, at)
            if self.known.get(party) != words:
                self.known[party] = words
                say(words)


def _words(party: str, at: Mapping[str, str]) -> str:
    return f"{party}: {at['step']} {at['state']}" + (f" ({at['reason']})" if "reason" in at else "")


def _parties(stands: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(stands.get("parties", {}).items())
