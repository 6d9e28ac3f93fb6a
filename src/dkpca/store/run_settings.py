"""What a run was made with, as its directory remembers it."""

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from dkpca import wire
from dkpca.fields import Count, Fingerprint
from dkpca.fusion import FusedModel
from dkpca.kernels import Kernel
from dkpca.messages import Summary
from dkpca.store.message_files import Received
from dkpca.wire import codec

ROW_NUMBERS: Literal["row numbers"] = "row numbers"


@dataclass(frozen=True)
class PartySettings:
    """What a run remembers of one party's summary."""

    n_features: Count
    rank: Count
    precision: str
    bytes_sent: Count
    summary_id: Fingerprint
    file: str = ""  # in which it came
    kernel: Kernel | None = None


@dataclass(frozen=True)
class RunSettings:
    """What a run was made with; `settings["n_samples"]` and `dict(settings)` give it as its file has it."""

    n_components: Count
    center: bool
    solver: str
    kernel: Kernel
    n_samples: Count
    sample_digest: Fingerprint
    sample_names: Literal["ids", "row numbers"]  # where the samples' names are from
    parties: dict[str, PartySettings]
    versions: dict[str, str]
    id_normalize: tuple[str, ...] = ()  # how the parties agreed to make ids alike
    law: str | None = None  # as asked for; None: as the kernels imply
    weights: str | dict[str, float] | None = None
    meaning: str = ""  # what the fused matrix is a kernel of

    def keys(self) -> Iterable[str]:
        """Names of the settings."""
        return list(codec.described(self))

    def __getitem__(self, name: str) -> Any:
        return codec.described(self)[name]


def versions() -> dict[str, str]:
    """Versions that made a result."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {
        name: version(name) for name in ("dkpca", "numpy", "scipy", "polars")
    }


def settings_of(
    path: Path,
    model: FusedModel,
    accepted: Mapping[str, Received],
    named_by: Literal["ids", "row numbers"],
    id_normalize: tuple[str, ...],
) -> RunSettings:
    summary, weights = next(iter(model.summaries.values())), model.settings.weights
    return RunSettings(
        n_components=model.n_components,
        center=model.centered,
        solver=model.solver,
        kernel=model.kernel,
        law=model.settings.law,
        weights=dict(weights) if isinstance(weights, Mapping) else weights,
        meaning=model.meaning,
        n_samples=summary.n_samples,
        sample_digest=summary.sample_digest,
        sample_names=named_by,
        parties={name: _of_party(path, item) for name, item in accepted.items()},
        versions=versions(),
        id_normalize=id_normalize,
    )


def _of_party(path: Path, item: Received) -> PartySettings:
    summary: Summary = item.message
    kept = item.path.parent == path / "messages"
    return PartySettings(
        file="kept from the run" if kept else item.path.name,
        kernel=summary.kernel,
        n_features=summary.n_features,
        rank=summary.rank,
        precision=summary.factor.precision,
        bytes_sent=len(item.data),
        summary_id=wire.fingerprint(summary),
    )
