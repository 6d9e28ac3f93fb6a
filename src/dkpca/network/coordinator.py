"""A fit, and the placing of new samples, between a center and parties that a transport reaches.

The run's directory is the truth: `request.json` holds what was asked for, so that a command that is repeated goes on
where it stopped, and one with other settings is refused rather than mixed in.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dkpca.errors import DKPCAError, InputError
from dkpca.exchange import alignment, rounds, sum_rounds
from dkpca.exchange.questions import AuditWanted, Result, TokensWanted
from dkpca.exchange.rounds import Fit
from dkpca.fields import check_name
from dkpca.fusion import result
from dkpca.kernels.laws import SUM
from dkpca.network import protected_runs
from dkpca.network.remote import (
    COMPUTING,
    RUNNING,
    STATUS,
    Carry,
    RemoteParties,
    Status,
    forget_numbers,
    state_of,
)
from dkpca.rank import Auto
from dkpca.store import audits, projections, runs, storage
from dkpca.store.runs import Run
from dkpca.store.storage import make_directory

REQUEST = "request.json"
PLAIN = Fit("rbf", None, 1, True, Auto(1), "float32")


@dataclass(frozen=True)
class Coordinator:
    """Where runs are kept, who takes part, and who carries the questions."""

    folder: Path  # of all runs
    roster: Sequence[str]
    carry: Carry
    timeout: float = 600.0  # seconds for one question
    max_answer: int = 4 * 10**9  # bytes of an answer, where the question does not say
    job: str = ""  # number of the command that wants it
    resumes: bool = False  # whether it goes on where a center stopped: whoever is asked again keeps its new number

    def fit(self, run: str, fit: Fit, *, again: Collection[str] = (), publish: bool = True) -> Run:
        """Ask for what is missing, fuse, and tell the parties the result."""
        folder = self._folder(run)
        with followed(folder, "fit", self.job) as status:
            roster = remember(folder, fit, self.roster)
            remote = self._parties(run, folder, roster, status, again)
            names, fusing = self._gathered(remote, fit, folder)
            status.write(COMPUTING)
            fused = runs.fuse(
                folder, [], n_components=fit.n_components, solver=fit.solver, sample_names=names, **fusing
            )
            if publish:
                remote.ask(Result(result(fused.model, fused.model.scores, fused.settings["sample_digest"])))
        return fused

    def _gathered(self, remote: RemoteParties, fit: Fit, folder: Path) -> tuple[Sequence[str] | None, dict[str, Any]]:
        """Have the summaries of a fit in the run's directory; return the samples' names, and how to fuse them."""
        if fit.protect == "sums":
            return protected_runs.gather_sums(remote, fit, folder)
        if fit.protect == "blind":
            sum_rounds.check_blind(remote.names, fit)
        answers, common = rounds.summaries(remote, fit)
        fusing = {"center": fit.center, "roster": remote.names, **rounds.fusing(fit, answers)}
        if fit.protect == "blind":
            return None, fusing | {"center": False, "law": SUM.name}
        return None if common is None else alignment.names(common), fusing

    def project(
        self,
        run: str,
        batches: Sequence[str],
        *,
        exact: bool = False,
        align: bool = False,
        again: Collection[str] = (),
        publish: bool = True,
    ) -> list[Path]:
        """Place batches of new samples, one after the other; return where their scores are."""
        folder = self.folder / check_name(run, "run name")
        places, roster = [], roster_of(folder, self.roster)
        fused, protect = runs.load(folder), self._fit_of(folder).protect
        if protect != "none" and exact:
            raise InputError(f"{run}: its fit has protect={protect!r}, and --exact sends distances in the open")
        with followed(folder, "projection", self.job) as status:
            for batch in batches:
                place = make_directory(make_directory(folder / "new") / check_name(batch, "batch name"))
                remote = replace(self._parties(run, place, roster, status, again), extending=fused.model.summaries)
                common = alignment.intersect(remote.ask(TokensWanted(batch)).values()) if align else None
                if protect == "none":
                    rounds.new_samples(remote, common, batch=batch, exact=exact)
                    files = [place / "messages" / f"{party}.rows" for party in roster]
                else:
                    told = replace(remote, folder=folder)
                    files = protected_runs.gather_new(remote, told, fused, self._fit_of(folder), batch, common)
                status.write(COMPUTING)
                names = None if common is None else alignment.names(common)
                scores = projections.project(fused, files, place, sample_names=names)
                if publish:
                    digest = str(storage.read_json(place / "settings.json")["sample_digest"])
                    remote.ask(Result(result(fused.model, scores, digest), batch))
                places.append(place)
        return places

    def audit(self, run: str, n_rows: int, seed: int, *, again: Collection[str] = ()) -> Run:
        """Ask for true rows of samples that are drawn now, and keep what they say in the run."""
        folder = self.folder / check_name(run, "run name")
        roster, fused = roster_of(folder, self.roster), runs.load(folder)
        if (protect := self._fit_of(folder).protect) != "none":
            raise InputError(f"{run}: its fit has protect={protect!r}, and an audit asks for rows in the open")
        with followed(folder, "audit", self.job) as status:
            remote = replace(self._parties(run, folder, roster, status, again), extending=dict(fused.model.summaries))
            aligned = bool(_remembered(folder).get("fit", {}).get("align"))
            common = alignment.intersect(remote.ask(TokensWanted()).values()) if aligned else None
            remote.ask(AuditWanted(audits.request(fused, n_rows, seed), common))
            status.write(COMPUTING)
            return audits.conclude(fused, [folder / "messages" / f"{party}.audit" for party in roster])

    def _fit_of(self, folder: Path) -> Fit:
        """What a run asked for; one that was fused by hand asked for nothing hidden."""
        described = _remembered(folder).get("fit")
        return PLAIN if described is None else Fit.from_dict(described)

    def _folder(self, run: str) -> Path:
        return make_directory(self.folder / check_name(run, "run name"))

    def _parties(
        self, run: str, folder: Path, roster: Sequence[str], status: Status, again: Collection[str]
    ) -> RemoteParties:
        check_again(again, roster)
        make_directory(folder / "messages")
        if again and not self.resumes:
            forget_numbers(folder, list(again))
        return RemoteParties(run, folder, roster, self.carry, self.timeout, status, self.max_answer, frozenset(again))


@contextmanager
def followed(folder: Path, what: str, job: str) -> Iterator[Status]:
    """Keep the file that says where the exchange stands, to its end."""
    status = Status(folder / STATUS, what, job)
    try:
        yield status
    except Exception as error:
        status.write("failed", str(error) if isinstance(error, DKPCAError) else repr(error))
        raise
    status.write("finished")


def remember(folder: Path, fit: Fit, roster: Sequence[str]) -> Sequence[str]:
    """Note what a run asks for, or refuse if it asked for something else before; return who takes part in it."""
    check_settings(folder, fit)
    roster = roster_of(folder, roster)
    make_directory(folder / "messages")
    wanted: dict[str, Any] = {"fit": fit.to_dict(), "roster": list(roster)}
    storage.write(folder / REQUEST, storage.as_json(wanted))
    return roster


def check_settings(folder: Path, fit: Fit) -> None:
    """Refuse other settings than those a run was begun with, once anything has arrived."""
    before = _remembered(folder)
    if before and Fit.from_dict(before["fit"]) != Fit.from_dict(json.loads(json.dumps(fit.to_dict()))):
        raise InputError(
            f"{folder.name} was begun with other settings ({REQUEST} in its directory has them); "
            "repeat them, or choose another name for the run"
        )


def check_again(again: Collection[str], roster: Sequence[str]) -> None:
    """Refuse to ask parties again that are not on the roster of a run."""
    strangers = sorted(set(again) - set(roster))
    if strangers:
        raise InputError(f"{strangers} cannot be asked again: not on the roster {sorted(roster)} of this run")


def roster_of(folder: Path, otherwise: Sequence[str]) -> Sequence[str]:
    """Parties of a run: those it was begun with, whoever has joined or left since."""
    before = _remembered(folder)
    return before["roster"] if before else list(otherwise)


def _remembered(folder: Path) -> dict[str, Any]:
    """What a run asks for; nothing before anything has arrived, so that a typing mistake does not cost the name."""
    begun = any((folder / "messages").glob("*")) or state_of(folder) == RUNNING
    if not begun or not (folder / REQUEST).exists():
        return {}
    return dict(json.loads(storage.read(folder / REQUEST)))
