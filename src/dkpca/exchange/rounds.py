"""The protocol: which questions are asked, in which order. Whoever can carry a question to all parties can run it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dkpca import audit, fusion, kernels
from dkpca.errors import InputError
from dkpca.exchange import alignment
from dkpca.exchange.questions import AuditWanted, Question, RowsWanted, StatisticsWanted, SummaryWanted, TokensWanted
from dkpca.fusion import FusedModel
from dkpca.kernels import Kernel
from dkpca.kernels.base import adjusted
from dkpca.kernels.combination import (
    BALANCED,
    center_weights,
    check_law,
    check_weights,
    combination,
    weighed,
)
from dkpca.messages import CommonTokens, Summary
from dkpca.settings import Fit


class Parties(Protocol):
    """All parties of a roster, wherever they are."""

    @property
    def names(self) -> Sequence[str]:
        """Who they are."""

    def ask(self, question: Question) -> Mapping[str, Any]:
        """Return the answers of all parties by name, or raise an error that names those without one."""


def summaries(
    parties: Parties, fit: Fit, *, align: bool = False
) -> tuple[Mapping[str, Summary], CommonTokens | None]:
    """Run the rounds of a fit; return the summaries, and the samples they are about where these were aligned."""
    common = alignment.intersect(parties.ask(TokensWanted()).values()) if align else None
    if common is not None:
        _check_components(fit, common.tokens.shape[0])
    chosen = kernels_of(parties, fit, common)
    question = SummaryWanted(
        kernel=chosen[parties.names[0]],
        kernels=chosen if len(set(chosen.values())) > 1 else {},
        balance=_balance(fit, chosen),
        law=fit.law,  # type: ignore[arg-type]  # checked by `kernels_of`
        rank=fit.rank_rule,
        precision=fit.precision,
        solver=fit.solver,
        keep_training=fit.projection == "exact",
        common=common,
        protect="blind" if fit.protect == "blind" else "none",
    )
    return parties.ask(question), common


def fusing(fit: Fit, answers: Mapping[str, Summary]) -> dict[str, Any]:
    """Law and weights with which the center fuses the answers; under the product the parties have weighed already."""
    law = fit.law
    by_party = isinstance(fit.kernel, Mapping) or isinstance(fit.gamma, Mapping)
    if law is None and (by_party or fit.weights is not None):
        law = combination({name: summary.kernel for name, summary in answers.items()}).law.name
    return {"law": law, "weights": center_weights(fit.weights, law)}


def new_samples(
    parties: Parties, common: CommonTokens | None = None, *, batch: str = "", exact: bool = False
) -> Mapping[str, Any]:
    """Run the round of a projection; return `Rows` or `Partials` by party."""
    return parties.ask(RowsWanted(batch, exact, common))


def audited(
    parties: Parties, model: FusedModel, n_rows: int, seed: int, common: CommonTokens | None = None
) -> FusedModel:
    """Run the round of an audit: true rows for samples drawn only now; return the model that has its findings."""
    request = audit.request(model, n_rows, seed)
    return audit.audited(model, request, parties.ask(AuditWanted(request, common)).values())


def kernels_of(parties: Parties, fit: Fit, common: CommonTokens | None = None) -> dict[str, Kernel]:
    """Kernel of each party; a width takes a round of its own where it is not given."""
    check_law(fit.law)
    check_weights(fit.weights, parties.names)
    asked = _by_party(fit.kernel, parties.names)
    families = {name: type(k) if isinstance(k, Kernel) else kernels.family(k) for name, k in asked.items()}
    derived = [n for n, k in asked.items() if isinstance(k, str) and families[n].has_width]
    if isinstance(fit.gamma, Mapping):
        widths: dict[str, float | None] = dict(_widths(fit.gamma, derived))
    else:
        unscaled = {
            n: k if isinstance(k, Kernel) else families[n].from_settings(gamma=1.0, centered=fit.center)
            for n, k in asked.items()
        }
        widths = _derived(parties, fit, common, unscaled, derived) if derived else {}
    by_name = {
        name: families[name].from_settings(gamma=widths.get(name), centered=fit.center)
        for name, kernel in asked.items()
        if isinstance(kernel, str)
    }
    by_name = adjusted(by_name, degree=fit.degree, coef0=fit.coef0)
    made = {name: kernel if isinstance(kernel, Kernel) else by_name[name] for name, kernel in asked.items()}
    one = len(set(made.values())) == 1 and fit.weights is None
    if not one or (fit.law is not None and _law_name(made) != fit.law):
        made = {name: kernel.alone() for name, kernel in made.items()}
    return weighed(made, fit.weights, combination(made, fit.law).law)


def _by_party(kernel: str | Kernel | Mapping[str, str | Kernel], names: Sequence[str]) -> dict[str, str | Kernel]:
    if not isinstance(kernel, Mapping):
        return dict.fromkeys(names, kernel)
    if set(kernel) != set(names):
        raise InputError(
            f"there are kernels for {sorted(kernel)}, but the parties are {sorted(names)}; name each once"
        )
    return {name: kernel[name] for name in names}


def _law_name(made: Mapping[str, Kernel]) -> str | None:
    law = next(iter(made.values())).law
    return None if law is None else law.name


def _balance(fit: Fit, chosen: Mapping[str, Kernel]) -> float:
    """Mean exponent of each party's kernel; 0: as it is."""
    return combination(chosen, fit.law).law.mean_exponent(len(chosen)) if fit.weights == BALANCED else 0.0


def _widths(gamma: Mapping[str, float], derived: Sequence[str]) -> Mapping[str, float]:
    """Widths by party, if they are for just those that need one."""
    if set(gamma) != set(derived):
        raise InputError(
            f"gamma has numbers for {sorted(gamma)}; the parties whose kernel needs one are {sorted(derived)}"
        )
    return {name: fusion.resolve_gamma(width, []) for name, width in gamma.items()}


def _derived(
    parties: Parties, fit: Fit, common: CommonTokens | None, unscaled: dict[str, Kernel], derived: Sequence[str]
) -> dict[str, float | None]:
    """Widths of the parties whose kernel is given by its name only: those with one kernel have one width."""
    gamma = fit.gamma
    assert not isinstance(gamma, Mapping)
    if gamma is not None and not isinstance(gamma, str):
        return dict.fromkeys(derived, fusion.resolve_gamma(gamma, []))
    if gamma is None and all(unscaled[name].default_gamma is not None for name in derived):
        return dict.fromkeys(derived)
    statistics = parties.ask(StatisticsWanted(common, unscaled))
    for told in statistics.values():
        _check_components(fit, told.n_samples)
    if gamma is None:
        return dict.fromkeys(derived, fusion.resolve_gamma(None, [statistics[name] for name in derived]))
    alike = {name: [other for other in derived if unscaled[other] == unscaled[name]] for name in derived}
    return {name: fusion.resolve_gamma(gamma, [statistics[other] for other in alike[name]]) for name in derived}


def _check_components(fit: Fit, n_samples: int) -> None:
    """Refuse before the parties have worked what the center would refuse afterwards."""
    if fit.n_components is not None and fit.n_components > n_samples:
        raise InputError(
            f"n_components is {fit.n_components}, but there are {n_samples} samples; ask for {n_samples} at most"
        )
