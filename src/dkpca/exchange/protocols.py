"""The protocols: who is asked what, in which order, and what the center makes of the answers.

Each is a generator that yields `Ask` and gets the answers by party. It knows no transport: in a process the answers
come at once (`exchange.in_process`), in a study from what lies in the folder (`exchange.replay`).
"""

import hashlib
import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from dkpca import fusion, kernels, wire
from dkpca.errors import FusionError, InputError
from dkpca.fusion import FusedModel, audit, scoring
from dkpca.kernels import Kernel
from dkpca.kernels.base import adjusted
from dkpca.kernels.combination import BALANCED, center_weights, check_law, check_weights, combination, weighed
from dkpca.messages import MaskedSum, Scores, Shape, Statistics
from dkpca.party import alignment
from dkpca.party.questions import (
    AuditWanted,
    BoundsWanted,
    CommonGiven,
    Derived,
    GoWanted,
    Question,
    ReceivedGiven,
    ResultGiven,
    RowsWanted,
    SeedsWanted,
    ShapeWanted,
    StatisticsWanted,
    SummaryWanted,
    SumsWanted,
    TokensWanted,
)
from dkpca.protection import joint, masks, quantities
from dkpca.protection.joint import Joined
from dkpca.protection.quantities import Addends
from dkpca.settings import Fit

MOST_PARTIES = 200
SCALES = ("scale", "auto")  # gamma that follows from the data


@dataclass(frozen=True)
class Ask:
    """A question to some parties. The step is unique within a fit."""

    step: str
    questions: Mapping[str, Question]
    readers: Literal["center", "parties", "all"] = "center"  # "parties": each answers each other one, unseen


@dataclass(frozen=True)
class Terms:
    """What a fit agrees on beyond its settings."""

    run: str  # name that nobody has used; in a study the digest of the agreement
    align: bool = False  # whether samples are matched by tokens of their ids; else by position
    columns: Mapping[str, int] = field(default_factory=dict)  # of all parties, where the plan says them
    fewest_samples: int = 2
    gammas: tuple[float, float] = (0.0, math.inf)  # bounds of widths that follow from the data
    go: bool = False  # whether all parties agree to the derived values before any message with data
    publish: bool = False  # whether the parties are told the result
    dtype: str = "float64"  # precision in which the center computes
    seeded: bool = False  # whether the parties have their seeds already
    places: Mapping[str, Any] | None = None  # of each party's samples among all; None: all have all, in one order
    samples: str = ""  # digest of all samples in their order, where parties lack some


Answers = Mapping[str, Any]
Protocol = Generator[Ask, Answers]


def fit(names: Sequence[str], settings: Fit, terms: Terms) -> Generator[Ask, Answers, FusedModel]:
    """Run a fit: open, by masked sums, or with a blind center."""
    check_law(settings.law)
    check_weights(settings.weights, names)
    check_lacking(settings, terms)
    if settings.protect != "none":
        check_protected(names, settings)
    if settings.protect != "none" or terms.align:
        yield from _seeds(names, terms)
    if terms.align:
        yield from aligned(names)
    if settings.protect == "sums":
        model = yield from _by_sums(names, settings, terms)
    else:
        model = yield from _by_summaries(names, settings, terms)
    if settings.audit is not None:
        model = yield from audited(names, model, settings.audit, uniform=terms.go)
    if terms.publish or settings.protect == "blind":
        yield _told(names, "result", model, published(model))
    return model


def check_lacking(settings: Fit, terms: Terms) -> None:
    """Refuse to match ids by tokens and keep samples that not all have: tokens show the common ones only."""
    if terms.align and settings.lacking in ("mean", "complete"):
        raise InputError(
            f"lacking={settings.lacking!r} keeps samples that not all parties have, and a study matches those that "
            "all have; use lacking='drop'"
        )


def published(model: FusedModel) -> Scores:
    """Return the result as the parties are told it."""
    return fusion.result(model, model.scores, next(iter(model.summaries.values())).sample_digest)


def audited(
    names: Sequence[str], model: FusedModel, n_rows: int, *, uniform: bool = False
) -> Generator[Ask, Answers, FusedModel]:
    """Ask for true rows of samples that nobody knew before all summaries had arrived; return the model with them."""
    sent = {name: wire.fingerprint(summary) for name, summary in model.summaries.items()}
    revealed = yield Ask("received", dict.fromkeys(names, ReceivedGiven(sent)), readers="all")
    seed = coin_of([bytes.fromhex(revealed[name].nonce) for name in names])
    request = audit.request(model, n_rows, seed, uniform=uniform)
    rows = yield Ask("audit", dict.fromkeys(names, AuditWanted(request)))
    return audit.audited(model, request, rows.values())


def coin_of(nonces: Sequence[bytes]) -> int:
    """Seed that the nonces of all parties make."""
    return int.from_bytes(hashlib.sha256(b"".join(nonces)).digest()[:6], "big")


def new_rows(names: Sequence[str], batch: str, *, exact: bool = False) -> Generator[Ask, Answers, Answers]:
    """Ask for the rows of new samples in the open."""
    rows = yield Ask(f"{batch}/rows", dict.fromkeys(names, RowsWanted(batch, exact)))
    return rows


def place(
    names: Sequence[str], settings: Fit, model: FusedModel, batch: str, terms: Terms
) -> Generator[Ask, Answers, Any]:
    """Place a batch of new samples after a protected fit; return their scores."""
    if not terms.seeded:
        yield from _seeds(names, terms, batch)
    if terms.align:
        yield from aligned(names, batch)
    shape = yield from _shape(names, settings, terms, batch)
    if settings.protect == "blind":
        what = Addends("scores", shape.n_samples, model.n_components, 64)
        result = wire.fingerprint(published(model))
        joined = yield from _added(names, terms, model.kernel, what, shape, batch=batch, result=result)
        return joined.total
    (summary,) = model.summaries.values()
    fitted = quantities.of_fit(summary.kernel, summary.n_samples, settings.n_landmarks, settings.precision)
    positions = quantities.positions(fitted, terms.run)
    what = Addends("new", shape.n_samples, fitted.columns, fitted.bits)
    joined = yield from _added(names, terms, summary.kernel, what, shape, batch=batch)
    return fusion.project(model, [joint.rows_of(summary, joined, positions)])


def _by_summaries(names: Sequence[str], settings: Fit, terms: Terms) -> Generator[Ask, Answers, FusedModel]:
    """The paper: one summary from each party, fused."""
    blind = settings.protect == "blind"
    shape = (yield from _shape(names, settings, terms)) if _needs_shape(settings, terms) else None
    chosen = yield from kernels_of(names, settings, terms, shape)
    if terms.go:
        assert shape is not None
        derived = Derived(shape.n_samples, shape.samples, dict(shape.columns), chosen)
        yield Ask("go", dict.fromkeys(names, GoWanted(derived)), readers="all")
    questions = {
        name: summary_question(settings, chosen, name, 0 if shape is None else shape.n_samples) for name in names
    }
    summaries = yield Ask("summary", questions)
    law = settings.law
    by_party = isinstance(settings.kernel, Mapping) or isinstance(settings.gamma, Mapping)
    if law is None and (by_party or settings.weights is not None):
        law = combination({name: summaries[name].kernel for name in names}).law.name
    fuse = partial(
        fusion.fuse,
        [summaries[name] for name in names],
        center=settings.center and not blind,  # a blind center cannot: the parties have centered
        roster=names,
        solver=settings.solver,
        n_landmarks=settings.n_landmarks,
        random_state=settings.seed,
        dtype=terms.dtype,
        law="sum" if blind else law,
        weights=center_weights(settings.weights, law),
        places=terms.places,
        lacking=str(settings.lacking),
        samples=terms.samples,
    )
    return scoring.fused(settings.n_components, lambda count: fuse(n_components=count))


def summary_question(settings: Fit, chosen: Mapping[str, Kernel], party: str, n_samples: int) -> SummaryWanted:
    """Return the question for a party's summary; the party can make it itself."""
    law = combination(chosen, settings.law).law
    return SummaryWanted(
        kernel=chosen[party],
        rank=settings.rank_rule,
        precision=settings.precision,
        solver=settings.solver,
        seed=settings.seed,
        keep_training=settings.projection == "exact",
        standardize=settings.standardize,
        balance=law.mean_exponent(len(chosen)) if settings.weights == BALANCED else 0.0,
        law=settings.law,  # type: ignore[arg-type]  # checked
        blind=settings.protect == "blind",
        n_samples=n_samples,
    )


def _by_sums(names: Sequence[str], settings: Fit, terms: Terms) -> Generator[Ask, Answers, FusedModel]:
    """Masked sums: the center gets the joint distances or inner products, as if one party had all columns."""
    kernel, derived = joint_kernel(names, settings)
    shape = yield from _shape(names, settings, terms)
    _check_components(settings, shape.n_samples)
    what = quantities.of_fit(kernel, shape.n_samples, settings.n_landmarks, settings.precision)
    if terms.go:
        agreed = Derived(shape.n_samples, shape.samples, dict(shape.columns), dict.fromkeys(names, kernel))
        yield Ask("go", dict.fromkeys(names, GoWanted(agreed)), readers="all")
    joined = yield from _added(names, terms, kernel, what, shape, standardize=settings.standardize)
    if derived:
        T, columns = shape.n_samples, joined.n_features
        if settings.gamma is None:
            width = 1.0 / columns
        else:
            width = (T - 1.0) / (2.0 * columns * T) if scale_known(settings) else joint.width_of(kernel, joined)
        kernel = replace(kernel, gamma=_checked(width, terms))  # type: ignore[type-var]  # a kernel with a width
    fuse = partial(
        fusion.fuse,
        [joint.summary_of(kernel, joined)],
        center=settings.center,
        solver=settings.solver,
        n_landmarks=settings.n_landmarks,
        random_state=settings.seed,
        dtype=terms.dtype,
    )
    return scoring.fused(settings.n_components, lambda count: fuse(n_components=count))


@dataclass(frozen=True)
class Common:
    """What all tables have in common."""

    n_samples: int
    samples: str
    columns: Mapping[str, int]  # by party
    sizes: Mapping[str, int] = field(default_factory=dict)  # samples by party, where some lack any


def _seeds(names: Sequence[str], terms: Terms, batch: str = "") -> Protocol:
    step = f"{batch}/seeds" if batch else "seeds"
    yield Ask(step, dict.fromkeys(names, SeedsWanted(terms.run, tuple(names))), readers="parties")


def aligned(names: Sequence[str], batch: str = "") -> Protocol:
    """Find the samples that all parties have, by tokens under their key, and tell them which these are."""
    before = f"{batch}/" if batch else ""
    tokens = yield Ask(f"{before}tokens", dict.fromkeys(names, TokensWanted(batch)))
    common = alignment.intersect(tokens[name] for name in names)
    yield Ask(f"{before}common", dict.fromkeys(names, CommonGiven(common, batch)))


def _needs_shape(settings: Fit, terms: Terms) -> bool:
    """Whether numbers of samples and columns have to be known before the summaries."""
    named = any(isinstance(kernel, type) and kernel.has_width for kernel in settings.families())
    by_columns = named and (settings.gamma is None or (settings.gamma in SCALES and scale_known(settings)))
    return terms.go or terms.align or by_columns


def scale_known(settings: Fit) -> bool:
    """Whether mean distances follow from the number of columns: squared ones between standardized samples."""
    made = [k if isinstance(k, Kernel) else k.from_settings(gamma=1.0, centered=True) for k in settings.families()]
    return settings.standardize and all(
        kernel.unit_diagonal and kernel.by_inner_products and kernel.columns_are == "quantities" for kernel in made
    )


def _shape(names: Sequence[str], settings: Fit, terms: Terms, batch: str = "") -> Generator[Ask, Answers, Common]:
    """Ask how large the tables are; they have to be about the same samples."""
    blind = settings.protect == "blind"
    questions = {name: ShapeWanted(batch, settings.family_of(name).columns_are, blind) for name in names}
    shapes: Mapping[str, Shape] = yield Ask(f"{batch}/shape" if batch else "shape", questions)
    first = shapes[names[0]]
    for name in names[1:] if terms.places is None else ():
        if (shapes[name].n_samples, shapes[name].samples) != (first.n_samples, first.samples):
            raise FusionError(
                f"parties {names[0]!r} and {name!r} have different samples ({first.n_samples} and "
                f"{shapes[name].n_samples}), or the same in another order; align them first"
            )
    if not batch and first.n_samples < terms.fewest_samples:
        raise FusionError(f"there are {first.n_samples} samples, fewer than the {terms.fewest_samples} agreed on")
    sizes = {name: shapes[name].n_samples for name in names}
    return Common(first.n_samples, first.samples, {name: shapes[name].n_features for name in names}, sizes)


def kernels_of(
    names: Sequence[str], settings: Fit, terms: Terms, shape: Common | None
) -> Generator[Ask, Answers, dict[str, Kernel]]:
    """Kernel of each party; a width that is not given is derived first."""
    asked = _by_party(settings.kernel, names)
    families = {name: settings.family_of(name) for name in names}
    open_width = [name for name in names if isinstance(asked[name], str) and families[name].has_width]
    if isinstance(settings.gamma, Mapping):
        if set(settings.gamma) != set(open_width):
            raise InputError(
                f"gamma has numbers for {sorted(settings.gamma)}; the parties whose kernel needs one are "
                f"{sorted(open_width)}"
            )
        widths: Mapping[str, float | None] = settings.gamma
    else:
        widths = (yield from _widths(names, settings, terms, shape, open_width)) if open_width else {}
    by_name = {
        name: kernels.family(kernel).from_settings(gamma=widths.get(name), centered=settings.center)
        for name, kernel in asked.items()
        if isinstance(kernel, str)
    }
    by_name = adjusted(by_name, degree=settings.degree, coef0=settings.coef0)
    made = {name: kernel if isinstance(kernel, Kernel) else by_name[name] for name, kernel in asked.items()}
    one = len(set(made.values())) == 1 and settings.weights is None
    joint_law = next(iter(made.values())).law
    if not one or (settings.law is not None and (joint_law is None or joint_law.name != settings.law)):
        made = {name: kernel.alone() for name, kernel in made.items()}
    return weighed(made, settings.weights, combination(made, settings.law).law)


def _widths(
    names: Sequence[str], settings: Fit, terms: Terms, shape: Common | None, open_width: Sequence[str]
) -> Generator[Ask, Answers, dict[str, float | None]]:
    """Widths of the parties whose kernel is given by its name only: those with one kernel have one width."""
    gamma = settings.gamma
    assert not isinstance(gamma, Mapping)
    if gamma is not None and not isinstance(gamma, str):
        return dict.fromkeys(open_width, float(gamma))
    unscaled = {
        name: kernel if isinstance(kernel, Kernel) else kernel.from_settings(gamma=1.0, centered=settings.center)
        for name, kernel in ((name, settings.family_of(name)) for name in names)
    }
    if gamma is None:
        if all(unscaled[name].default_gamma is not None for name in open_width):
            return dict.fromkeys(open_width)
        assert shape is not None
        return dict.fromkeys(open_width, 1.0 / sum(shape.columns[name] for name in open_width))
    alike = {name: [other for other in open_width if unscaled[other] == unscaled[name]] for name in open_width}
    if shape is not None and scale_known(settings):
        sizes = {name: shape.sizes.get(name, shape.n_samples) for name in open_width}
        scales = {name: 2.0 * shape.columns[name] * T / (T - 1.0) for name, T in sizes.items()}
    elif settings.protect == "blind":
        total = yield from _masked_scale(names, settings, terms, unscaled, open_width)
        return dict.fromkeys(open_width, _checked(1.0 / total if total > 0 else 1.0, terms))
    else:
        questions = {name: StatisticsWanted(unscaled[name], settings.standardize) for name in names}
        statistics: Mapping[str, Statistics] = yield Ask("statistics", questions)
        for told in statistics.values():
            _check_components(settings, told.n_samples)
        scales = {name: statistics[name].mean_squared_distance for name in open_width}
    totals = {name: math.fsum(scales[other] for other in alike[name]) for name in open_width}
    return {name: _checked(1.0 / total if total > 0 else 1.0, terms) for name, total in totals.items()}


def _masked_scale(
    names: Sequence[str], settings: Fit, terms: Terms, unscaled: Mapping[str, Kernel], open_width: Sequence[str]
) -> Generator[Ask, Answers, float]:
    """Mean distance over all parties, as a masked sum."""
    if len(open_width) < len(names) or len(set(unscaled.values())) > 1:
        raise InputError(
            "protect='blind' derives gamma from a sum over all parties, which needs one kernel for all of them; give "
            "gamma by party, or standardize=True"
        )
    what = Addends("statistic", 1, 1, 64)
    shape = Common(1, "0" * 64, dict.fromkeys(names, 1))
    kernel = unscaled[names[0]]
    joined = yield from _added(names, terms, kernel, what, shape, standardize=settings.standardize)
    return float(joined.total[0, 0])


def _checked(gamma: float, terms: Terms) -> float:
    low, high = terms.gammas
    if not low <= gamma <= high:
        raise FusionError(f"gamma follows from the data as {gamma:.6g}, outside the agreed {low:.6g} to {high:.6g}")
    return gamma


def _added(
    names: Sequence[str],
    terms: Terms,
    kernel: Kernel,
    what: Addends,
    shape: Common,
    *,
    batch: str = "",
    result: str = "",
    standardize: bool = False,
) -> Generator[Ask, Answers, Joined]:
    """Add up masked numbers of all parties, piece by piece; their bounds come first, where they need data."""
    before = f"{batch}/" if batch else ""
    before += "statistics-" if what.kind == "statistic" else ""
    about: dict[str, Any] = {
        "run": terms.run,
        "roster": tuple(names),
        "kernel": kernel,
        "what": what,
        "batch": batch,
        "result": result,
        "standardize": standardize,
    }
    known = {name: quantities.bounds_without_data(what, kernel, shape.columns[name]) for name in names}
    if standardize and None not in known.values():
        bounds: dict[str, tuple[float, float]] = known  # type: ignore[assignment]
    else:
        step = f"{before}bounds"
        answers = yield Ask(step, dict.fromkeys(names, BoundsWanted(step, **about)))
        values, lengths = (
            masks.added_bits([_packed(answers[n], part) for n in names]) for part in ("values", "lengths")
        )
        bounds = dict.fromkeys(names, (masks.largest_power(values), masks.largest_power(lengths)))
    total = np.zeros((what.rows, what.columns))
    asked = partial(
        SumsWanted,
        **about,
        bounds={name: most for name, (most, _) in bounds.items()},
        length_bounds={name: max(most, 2.0**-1000) for name, (_, most) in bounds.items()},
    )
    for part, rows in enumerate(what.pieces, start=1):
        question = asked(step=f"{before}sums-{part}", part=part)
        received: Mapping[str, MaskedSum] = yield Ask(question.step, dict.fromkeys(names, question))
        sums = masks.added([received[name].values for name in names], question.rings[0], what.count(rows))
        own = None
        if what.lengths:
            lengths_sent = [_packed(received[name], "lengths") for name in names]
            own = masks.added(lengths_sent, question.rings[1], rows.stop - rows.start)
        quantities.fill(total, what, rows, sums, own)
    n_features = sum(shape.columns.values())
    return Joined(what, total, question.rings, len(names), n_features, shape.samples, terms.run)


def _packed(message: MaskedSum, part: str) -> Any:
    packed = getattr(message, part)
    if packed is None:
        raise FusionError(f"party {message.party!r} sent no masked {part}")
    return packed


def joint_kernel(names: Sequence[str], settings: Fit) -> tuple[Kernel, bool]:
    """Kernel of the joined table, and whether its width is still to be derived."""
    if isinstance(settings.kernel, Mapping) or isinstance(settings.gamma, Mapping) or settings.weights is not None:
        raise InputError(
            "protect='sums' takes one kernel for all parties, without weights: the center applies it to the sum"
        )
    given = settings.family_of(names[0])
    derived = isinstance(given, type) and given.has_width and not isinstance(settings.gamma, float | int)
    derived = derived and (settings.gamma is not None or given.default_gamma is None)
    if isinstance(given, Kernel):
        kernel = given
    else:
        gamma = 1.0 if derived else settings.gamma
        made = {"": given.from_settings(gamma=gamma, centered=settings.center)}  # type: ignore[arg-type]
        kernel = adjusted(made, degree=settings.degree, coef0=settings.coef0)[""]
    if kernel.law is None or (settings.law is not None and settings.law != kernel.law.name):
        raise InputError(
            f"protect='sums' forms the {kernel.name} kernel of the joined table by its own law, not by another; "
            "leave law=None"
        )
    return kernel, derived


def check_protected(names: Sequence[str], settings: Fit) -> None:
    """Refuse a roster among which nobody can be hidden, and what a blind center cannot do."""
    protect = settings.protect
    if len(names) < 2:
        raise InputError(f"protect={protect!r} hides a party among others, and there is only {list(names)}")
    if len(names) > MOST_PARTIES:
        raise InputError(f"protect={protect!r} is for up to {MOST_PARTIES} parties, and there are {len(names)}")
    if joint.JOINED in names:
        raise InputError(f"protect={protect!r}: a party is called {joint.JOINED!r}, as the sum of all is; rename it")
    if protect != "blind":
        return
    if not settings.center:
        raise InputError("protect='blind': parties center their matrices, since the center cannot; use center=True")
    if settings.law not in (None, "sum"):
        raise InputError("protect='blind' needs the sum law, which the center can form on turned samples; law='sum'")
    given = settings.family_of(names[0])
    kernel = given if isinstance(given, Kernel) else given.from_settings(gamma=1.0, centered=True)
    if settings.law is None and not isinstance(settings.kernel, Mapping) and not kernel.adds_up:
        raise InputError(
            f"protect='blind': a blind center can only add matrices up; use law='sum' with the {kernel.name} kernel"
        )


def _by_party(kernel: str | Kernel | Mapping[str, str | Kernel], names: Sequence[str]) -> dict[str, str | Kernel]:
    if not isinstance(kernel, Mapping):
        return dict.fromkeys(names, kernel)
    if set(kernel) != set(names):
        raise InputError(
            f"there are kernels for {sorted(kernel)}, but the parties are {sorted(names)}; name each once"
        )
    return {name: kernel[name] for name in names}


def _check_components(settings: Fit, n_samples: int) -> None:
    """Refuse before the parties have worked what the center would refuse afterwards."""
    if settings.n_components is not None and settings.n_components > n_samples:
        raise InputError(
            f"n_components is {settings.n_components}, but there are {n_samples} samples; ask for {n_samples} at most"
        )


def _told(names: Sequence[str], step: str, model: FusedModel, scores: Scores) -> Ask:
    """Tell the parties the result."""
    return Ask(step, {name: ResultGiven(scores, model.weights.get(name, 1.0)) for name in names})
