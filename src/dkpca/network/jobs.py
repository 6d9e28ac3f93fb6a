"""What an operator can have a center do: strict JSON on the way there, a file in the run's directory after that."""

from dataclasses import dataclass
from typing import Annotated, Any

from dkpca.errors import InputError, WireError
from dkpca.exchange.rounds import Fit
from dkpca.fields import MOST_AUDITED, Seed, check_name
from dkpca.network.coordinator import Coordinator
from dkpca.network.protocol import MOST_COMPONENTS
from dkpca.wire import codec

FILE = "job.json"


def _positive(field: str, value: float) -> None:
    if not 0 <= value <= 10**9:
        raise InputError(f"{field} is {value:g} seconds; give a number from 0 to a billion")


def _rows(field: str, value: int) -> None:
    if not 1 <= value <= MOST_AUDITED:
        raise InputError(f"{field} is {value}; an audit has 1 to {MOST_AUDITED}")


def _names(field: str, value: tuple[str, ...]) -> None:
    for name in value:
        check_name(name, field)


RunName = Annotated[str, lambda field, value: check_name(value, "run name")]
Seconds = Annotated[float, _positive]
Names = Annotated[tuple[str, ...], _names]


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    run: RunName
    again: Names = ()  # parties to ask even if their answer is here
    publish: bool = True  # send the result back
    timeout: Seconds = 600.0
    join_timeout: Seconds = 60.0


@dataclass(frozen=True, kw_only=True)
class FitWanted(_Wanted):
    """Ask the parties whose answers are missing, fuse, and send the result back."""

    fit: Fit

    def work(self, coordinator: Coordinator) -> None:
        """Do it."""
        if self.publish and self.fit.n_components > MOST_COMPONENTS:
            most = f"only up to {MOST_COMPONENTS}; use --no-publish"
            raise InputError(f"a result of {self.fit.n_components} components is not sent back, {most}")
        coordinator.fit(self.run, self.fit, again=self.again, publish=self.publish)


@dataclass(frozen=True, kw_only=True)
class ProjectionWanted(_Wanted):
    """Place batches of new samples among the components of a run."""

    batches: Names
    exact: bool = False
    align: bool = False

    def work(self, coordinator: Coordinator) -> None:
        """Do it."""
        how = {"exact": self.exact, "align": self.align, "again": self.again, "publish": self.publish}
        coordinator.project(self.run, self.batches, **how)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class AuditJob(_Wanted):
    """Audit a run: true rows of the kernel matrix, for samples that are drawn by this seed."""

    rows: Annotated[int, _rows]
    seed: Seed

    def work(self, coordinator: Coordinator) -> None:
        """Do it."""
        coordinator.audit(self.run, self.rows, self.seed, again=self.again)


Job = FitWanted | ProjectionWanted | AuditJob
KINDS: dict[str, type[Any]] = {"fit": FitWanted, "projection": ProjectionWanted, "audit": AuditJob}


def to_dict(job: Job) -> dict[str, Any]:
    """Describe a job."""
    return {"what": next(what for what, cls in KINDS.items() if isinstance(job, cls)), **codec.described(job)}


def from_dict(described: Any) -> Job:
    """Return the job described, or raise `WireError`."""
    values = dict(described) if isinstance(described, dict) else {}
    cls = KINDS.get(str(values.pop("what", "")))
    if cls is None:
        raise WireError(f"a job of unknown kind; expected one of {sorted(KINDS)}")
    job: Job = codec.decode(cls, values, what="the job cannot be used")
    return job
