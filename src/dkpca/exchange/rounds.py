"""The protocol: which questions are asked, in which order. Whoever can carry a question to all parties can run it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dkpca import fusion, kernels
from dkpca.errors import InputError
from dkpca.exchange import alignment
from dkpca.exchange.questions import Question, RowsWanted, StatisticsWanted, SummaryWanted, TokensWanted
from dkpca.kernels import Kernel
from dkpca.linalg.leading import Solver
from dkpca.messages import CommonTokens, Summary
from dkpca.rank import RankRule
from dkpca.wire import codec


class Parties(Protocol):
    """All parties of a roster, wherever they are."""

    def ask(self, question: Question) -> Mapping[str, Any]:
        """Return the answers of all parties by name, or raise an error that names those without one."""


@dataclass(frozen=True)
class Fit:
    """What a fit asks of the parties, and what the center makes of it."""

    kernel: str | Kernel
    gamma: float | str | None  # None: 1 / number of columns; "auto": 1 / mean squared distance
    n_components: int
    center: bool
    rank: RankRule
    precision: str
    solver: str | Solver = "auto"
    keep_training: bool = False  # parties keep their rows, for the paper's way to place new samples
    align: bool = False  # the parties' samples differ; find those that all have

    def to_dict(self) -> dict[str, Any]:
        """Describe it for a file or a message; kernels and solvers travel by name."""
        return codec.described(self)

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> "Fit":
        """Rebuild what `to_dict` described."""
        return codec.decode(cls, dict(described), what="settings of a fit")


def summaries(parties: Parties, fit: Fit) -> tuple[Mapping[str, Summary], CommonTokens | None]:
    """Run the rounds of a fit; return the summaries, and the samples they are about where these were aligned."""
    common = alignment.intersect(parties.ask(TokensWanted()).values()) if fit.align else None
    if common is not None:
        _check_components(fit, common.tokens.shape[0])
    question = SummaryWanted(
        kernel=_kernel(parties, fit, common),
        rank=fit.rank,
        precision=fit.precision,
        solver=fit.solver,
        keep_training=fit.keep_training,
        common=common,
    )
    return parties.ask(question), common


def new_samples(
    parties: Parties, *, batch: str = "", exact: bool = False, align: bool = False
) -> tuple[Mapping[str, Any], CommonTokens | None]:
    """Run the rounds of a projection; return `Rows` or `Partials` by party, and the samples where aligned."""
    common = alignment.intersect(parties.ask(TokensWanted(batch)).values()) if align else None
    return parties.ask(RowsWanted(batch, exact, common)), common


def _kernel(parties: Parties, fit: Fit, common: CommonTokens | None) -> Kernel:
    """Kernel that all parties use; its width takes a round of its own where it is not given."""
    if isinstance(fit.kernel, Kernel):
        return fit.kernel
    family = kernels.family(fit.kernel)
    gamma = _gamma(parties, fit, common) if family.has_width else None
    return family.from_settings(gamma=gamma, centered=fit.center)


def _gamma(parties: Parties, fit: Fit, common: CommonTokens | None) -> float:
    known = fit.gamma is not None and not isinstance(fit.gamma, str)
    statistics = [] if known else list(parties.ask(StatisticsWanted(common)).values())
    for told in statistics:
        _check_components(fit, told.n_samples)
    return fusion.resolve_gamma(fit.gamma, statistics)


def _check_components(fit: Fit, n_samples: int) -> None:
    """Refuse before the parties have worked what the center would refuse afterwards."""
    if fit.n_components > n_samples:
        raise InputError(
            f"n_components is {fit.n_components}, but there are {n_samples} samples; ask for {n_samples} at most"
        )
