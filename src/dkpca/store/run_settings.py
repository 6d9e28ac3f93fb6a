"""What a run was made with, as its directory remembers it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from dkpca.kernels import Kernel
from dkpca.messages import Count, Fingerprint
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

    def keys(self) -> Iterable[str]:
        """Names of the settings."""
        return list(codec.described(self))

    def __getitem__(self, name: str) -> Any:
        return codec.described(self)[name]
