"""The protocols: who is asked what, in which order, and what the center makes of the answers.

Each is a generator that yields `Ask` and gets the answers by party, at once in a process, from
the folder in a study. The parties of a study run the same generators. What only the center can
make is made when somebody looks at it: a party never does, and puts what it was told in its place.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any, Literal, TypeVar

import numpy as np

from dkpca import wire
from dkpca.errors import FusionError, InputError, TooFewSamplesError
from dkpca.fusion import FusedModel, audit, fuse, fused_model, scoring
from dkpca.fusion.covariates import Covariates
from dkpca.kernels import Kernel, Precomputed
from dkpca.kernels.base import BALANCED, adjusted, center_weights, check_weights, combination, weighed
from dkpca.linalg.precision import Rounded
from dkpca.messages import MaskedSum, Scores, Shape, Statistics, Summary, row_number_digest
from dkpca.party import questions as q
from dkpca.protection import joint, masks, quantities
from dkpca.protection.joint import Joined
from dkpca.protection.quantities import Addends
from dkpca.settings import Fit

MOST_PARTIES = 200
Questions = Mapping[str, q.Question]


@dataclass
class Ask:
    """A question to some parties."""

    step: str  # unique within a fit
    asked: Questions | Callable[[], Questions]  # a function makes questions that hold what only the center knows
    readers: Literal["center", "parties", "next", "all"] = "center"
    # "parties": each answers each other one, unseen by the center; "next": each answers the one after it in the ring.
    tells: type[q.Question] | None = None  # kind that only the center makes; None: each party makes it itself
    fits: Callable[[Any], bool] = lambda told: True  # whether a party may take what the center made

    @cached_property
    def questions(self) -> Questions:
        """Question by party; who was told them by the center puts those here."""
        return self.asked() if callable(self.asked) else self.asked

    @property
    def one(self) -> Any:
        """The question, where it is the same for all."""
        return next(iter(self.questions.values()))

    def expects(self, told: q.Question) -> bool:
        """Whether a party may take such a question from the center."""
        return self.tells is not None and isinstance(told, self.tells) and self.fits(told)


@dataclass(frozen=True)
class Terms:
    """What a fit agrees on beyond its settings."""

    run: str  # name of the fit, to which masks are bound; in a study the digest of the agreement
    align: str = "position"  # or "tokens" of their ids, or "psi": how samples are matched
    columns: Mapping[str, int] = field(default_factory=dict)  # of all parties, where the plan says them
    fewest_samples: int = 2
    gammas: tuple[float, float] = (0.0, math.inf)  # bounds of widths that follow from the data
    study: bool = False  # all agree to the derived values before any data, are told the result, and keep their seeds
    places: Mapping[str, Any] | None = None  # of each party's samples among all; None: all have all, in one order
    fusing: Mapping[str, Any] = field(default_factory=dict)  # how the center computes: other parameters of `fuse`
    covariates: Callable[[], Covariates] | None = None  # of all samples; asked for when the parties have their seeds
    taken_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # columns of covariates, by their owner
    batch: str = ""  # of new samples that are placed

    @property
    def own_places(self) -> Mapping[str, Any]:
        """Places of each party's samples, where a party knows of no others; empty where all are asked about all."""
        return {} if self.places is None or self.align != "position" else self.places

    def step(self, name: str) -> str:
        """Name of a step, unique also among those of all batches."""
        return f"{self.batch}/{name}" if self.batch else name


Answers = Mapping[str, Any]
T = TypeVar("T")
Steps = Generator[Ask, Answers, T]
Model = Callable[[], FusedModel]  # made when somebody looks at it
Widths = Mapping[str, float | None]
Sizes = q.Derived | None  # of all tables, and their samples; None: nobody was asked


def fit(names: Sequence[str], settings: Fit, terms: Terms) -> Steps[FusedModel]:
    """Run a fit: open, by masked sums, or with a blind center."""
    check_terms(names, settings, terms)
    if settings.protect != "none" or terms.align == "tokens":
        yield _seeds(names, terms)
    if terms.align != "position":
        terms = yield from aligned(names, terms, union=settings.lacking in ("mean", "complete"))
    by_sums = settings.protect == "sums"
    needs_shape = by_sums or terms.study or widths_from(names, settings) == "shape"  # else nobody is told it
    shape = (yield from _shape(names, settings, terms)) if needs_shape else None
    model = yield from (_by_sums if by_sums else _by_summaries)(names, settings, terms, shape)
    if settings.audit is not None:
        model = yield from audited(names, model, settings.audit, shape if terms.study else None)

    def results() -> Questions:
        given = partial(published, model())
        # In the open a party that lacks samples gets the rows of its own.
        rows = dict.fromkeys(names, slice(None)) if terms.places is None else terms.places
        slopes = None if settings.protect != "blind" else model().extension.slopes
        owned = {n: Rounded(np.asarray(slopes)) for n in terms.taken_out if slopes is not None}
        told = {n: replace(given(rows[n]), n_parties=len(names)) for n in names}  # masked sums have one summary
        return {n: q.ResultGiven(told[n], model().weights.get(n, 1.0), slopes=owned.get(n)) for n in names}

    def planned(told: Any) -> bool:
        # Another weight than one of the plan's would single out a party in the scores of new samples.
        weights = settings.weights.values() if isinstance(settings.weights, Mapping) else (1.0,)
        weighs = isinstance(settings.weights, str) or told.weight in weights
        # So would more components than the plan's, made up so that the others' shares of them are nothing.
        wanted = settings.n_components
        few = not isinstance(wanted, int) or told.scores.scores.shape[1] <= wanted
        return weighs and few and told.scores.row_means is None and not told.batch

    if terms.study or settings.protect == "blind":
        yield Ask("result", results, tells=q.ResultGiven, fits=planned)
    return model()


def check_terms(names: Sequence[str], settings: Fit, terms: Terms) -> None:
    """Refuse settings and terms that do not go together, before anybody has worked."""
    check_weights(settings.weights, names)
    keeps = settings.lacking in ("mean", "complete")
    if isinstance(settings.kernel, Mapping) and set(settings.kernel) != set(names):
        raise InputError(f"there are kernels for {sorted(settings.kernel)}, but the parties are {sorted(names)}")
    if terms.study and terms.align == "position" and keeps:
        none = "when rows match by position none are lacking; use align='tokens' or 'psi', or lacking='drop'"
        raise InputError(f"lacking={settings.lacking!r} keeps samples that not all parties have, but {none}")
    if (terms.covariates is not None or terms.taken_out) and not settings.center:
        raise InputError("covariates are removed from the centered kernel; use center=True, or leave them out")
    if settings.protect != "none":
        _check_protected(names, settings)


def published(model: FusedModel, rows: Any = slice(None)) -> Scores:
    """Return the result as the parties are told it, of all samples or of some."""
    return fused_model.result(model, model.scores[rows], next(iter(model.summaries.values())).sample_digest)


def audited(names: Sequence[str], model: Model, n_rows: int, agreed: Sizes = None) -> Steps[Model]:
    """Ask for true rows of samples that nobody knew before all summaries had arrived; return the model with them."""

    def received() -> Questions:
        sent = {name: wire.fingerprint(summary) for name, summary in model().summaries.items()}
        return dict.fromkeys(names, q.ReceivedGiven(sent))

    revealed = yield Ask("received", received, "all", q.ReceivedGiven)
    nonces = b"".join(bytes.fromhex(revealed[name].nonce) for name in names)
    seed = int.from_bytes(hashlib.sha256(nonces).digest()[:6], "big")
    if agreed is None:
        request = audit.request(model(), n_rows, seed)
    else:  # every party draws the rows itself, all of them alike likely
        request = audit.uniform_request(agreed.n_samples, agreed.samples, n_rows, seed)
    rows = yield Ask("audit", dict.fromkeys(names, q.AuditWanted(request)))
    return cache(lambda: audit.audited(model(), request, rows.values()))


def new_rows(names: Sequence[str], batch: str, *, exact: bool = False, **sizes: Any) -> Steps[Answers]:
    """Ask for the rows of new samples in the open."""
    return (yield Ask(f"{batch}/rows", dict.fromkeys(names, q.RowsWanted(batch, exact, **sizes))))


def place(names: Sequence[str], settings: Fit, model: Any, batch: str, terms: Terms, told: Any = None) -> Steps[Any]:
    """Place a batch of new samples; return their scores. A party has the told result in the place of the model.

    In the open, and not in a study, `new_rows` are asked for instead.
    """
    terms = replace(terms, batch=batch)
    if settings.protect != "none":
        yield _seeds(names, terms)
    if terms.align != "position":
        yield from aligned(names, terms)
    shape = yield from _shape(names, settings, terms)
    whole = settings.lacking not in ("mean", "complete")  # else a party knows of its own samples only
    sizes: dict[str, Any] = {"n_samples": shape.n_samples, "of_fit": model.scores.shape[0] * whole}
    owned = terms.taken_out if settings.protect != "blind" else {}  # else they are in the owner's share
    if terms.study and (settings.protect == "none" or owned):
        yield _same(names, terms, shape)  # masked sums are those of the samples that their masks are bound to
    if settings.protect == "none":
        rows = yield from new_rows(names, batch, **sizes)
        scores: Callable[[], Any] = cache(lambda: scoring.place(model, [rows[name] for name in names]).scores)
    else:
        scores = yield from _by_new_sums(settings, terms, model, shape, told)
    for owner, columns in owned.items():
        theirs = yield Ask(terms.step("covariates"), {owner: q.CovariatesWanted(columns, batch=batch, **sizes)})
        scores = cache(partial(_adjusted, model, scores, theirs, owner))

    def results() -> Questions:
        told = fused_model.result(model, scores(), row_number_digest(len(scores())))
        return dict.fromkeys(names, q.ResultGiven(replace(told, n_parties=len(names)), batch=batch))

    if terms.study:
        yield Ask(terms.step("result"), results, tells=q.ResultGiven, fits=lambda told: told.batch == batch)
    return scores()


def _adjusted(model: FusedModel, scores: Callable[[], Any], theirs: Answers, owner: str) -> Any:
    """Scores of new samples with the covariates that their owner sent taken out."""
    assert model.covariates is not None
    known, rows = model.covariates.names, np.asarray(theirs[owner].rows.decode())
    if rows.shape[1] != len(known):
        raise FusionError(f"party {owner!r} sent {rows.shape[1]} covariates of new samples, not {len(known)}")
    return scoring.adjusted(model, scores(), dict(zip(known, rows.T, strict=True)))


def _by_new_sums(settings: Fit, terms: Terms, model: Any, shape: q.Derived, told: Any) -> Steps[Callable[[], Any]]:
    """Scores of new samples as masked sums: of the parties' shares, or of what the joint kernel is formed of."""
    result = model if isinstance(model, Scores) else told or published(model)
    n_samples, n_components = result.scores.shape
    if settings.protect == "blind":
        what = Addends("scores", shape.n_samples, n_components, 64)
        about = wire.fingerprint(result)
        joined = yield from _added(settings, terms, Precomputed(), what, shape, about)
        return lambda: joined().total
    assert result.kernel is not None
    fitted = quantities.of_fit(result.kernel, n_samples, settings.n_landmarks, settings.precision)
    what = Addends("new", shape.n_samples, fitted.columns, fitted.bits)
    joined = yield from _added(settings, terms, result.kernel, what, shape)

    def projected() -> Any:
        (summary,) = model.summaries.values()
        return scoring.project(model, [joint.rows_of(summary, joined(), quantities.positions(fitted, terms.run))])

    return cache(projected)


def _by_summaries(names: Sequence[str], settings: Fit, terms: Terms, shape: Sizes) -> Steps[Model]:
    """The paper: one summary from each party, fused."""
    blind = settings.protect == "blind"
    widths = yield from _widths(names, settings, terms, shape)
    chosen, covariates = yield from _go(settings, terms, shape, lambda: kernels_of(names, settings, widths()))
    if settings.projection == "exact" and len(set(chosen.values())) > 1:
        raise InputError("projection='exact' needs one kernel of the joined table; use projection='extend'")
    n_samples = 0 if shape is None else shape.n_samples
    summaries = yield Ask("summary", {name: summary_question(settings, chosen, name, n_samples) for name in names})

    def fused() -> FusedModel:
        law, by_party = settings.law, isinstance(settings.kernel, Mapping) or isinstance(settings.gamma, Mapping)
        if law is None and not blind and (by_party or settings.weights is not None):
            law = combination({name: summaries[name].kernel for name in names}).law.name
        return fused_by(
            settings,
            [summaries[name] for name in names],
            center=settings.center and not blind,  # a blind center cannot: the parties have centered
            roster=names,
            law="sum" if blind else law,
            weights=center_weights(settings.weights, law),
            places=terms.places,
            lacking=str(settings.lacking),
            covariates=covariates(),
            **terms.fusing,
        )

    return cache(fused)


def fused_by(settings: Fit, summaries: Sequence[Summary], **others: Any) -> FusedModel:
    """Fuse as the settings of a fit say, and others of `dkpca.fusion.fuse`."""
    own = {name: getattr(settings, name) for name in ("center", "solver", "n_landmarks", "law", "weights")}
    asked: dict[str, Any] = {**own, "random_state": settings.seed, **others}
    return fused_model.fused(settings.n_components, lambda count: fuse(summaries, n_components=count, **asked))


def _same(names: Sequence[str], terms: Terms, shape: q.Derived) -> Ask:
    """Have all parties sign the common samples before any number about them leaves: the center found them."""
    question = q.SamplesWanted(shape.n_samples, shape.samples, terms.batch)
    return Ask(terms.step("samples"), dict.fromkeys(names, question), "all")


def _go(
    settings: Fit, terms: Terms, shape: Sizes, chosen: Callable[[], dict[str, Kernel]]
) -> Steps[tuple[dict[str, Kernel], Callable[[], Covariates | None]]]:
    """Have all parties agree to the derived values, the kernels among them, before any data; ask for covariates."""
    if not terms.study:
        return chosen(), terms.covariates or (lambda: None)
    assert shape is not None
    go = Ask(
        "go",
        lambda: dict.fromkeys(shape.columns, q.GoWanted(replace(shape, kernels=chosen()))),
        "all",
        q.GoWanted,  # what it derives is checked by whoever has a table
    )
    yield go
    agreed = go.one.derived.kernels
    if not terms.taken_out:
        return agreed, lambda: None
    ((owner, columns),) = terms.taken_out.items()
    question = q.CovariatesWanted(columns, shape.n_samples, blind=settings.protect == "blind")
    told = yield Ask("covariates", {owner: question})
    named = f"{owner}: {', '.join(columns)}"
    return agreed, lambda: Covariates.of_basis(told[owner].rows.decode(), named)


def summary_question(settings: Fit, chosen: Mapping[str, Kernel], party: str, n_samples: int) -> q.SummaryWanted:
    """Return the question for a party's summary; the party can make it itself."""
    # Under the product exponents add: all together have mean 1, as with one well chosen width.
    exponent = 1.0 / len(chosen) if combination(chosen, settings.law).law.multiplies else 1.0
    return q.SummaryWanted(
        kernel=chosen[party],
        rank=settings.rank_rule,
        precision=settings.precision,
        solver=settings.solver,
        random_state=settings.seed,
        keep_training=settings.projection == "exact",
        standardize=settings.standardize,
        balance=exponent if settings.weights == BALANCED else 0.0,
        law=settings.law,  # type: ignore[arg-type]  # checked
        blind=settings.protect == "blind",
        n_samples=n_samples,
    )


def _by_sums(names: Sequence[str], settings: Fit, terms: Terms, shape: Sizes) -> Steps[Model]:
    """Masked sums: the center gets the joint distances or inner products, as if one party had all columns."""
    assert shape is not None
    kernel, derived = joint_kernel(names, settings)
    what = quantities.of_fit(kernel, shape.n_samples, settings.n_landmarks, settings.precision)
    chosen, covariates = yield from _go(settings, terms, shape, lambda: dict.fromkeys(names, kernel))
    known = chosen[names[0]]
    joined = yield from _added(settings, terms, known, what, shape)

    def fused() -> FusedModel:
        final = known
        if derived:
            told = known_widths(names, settings, terms, shape)
            width = _checked(joint.width_of(known, joined()), terms) if told is None else told[names[0]]
            final = replace(known, gamma=width)  # type: ignore  # a kernel with a width
        summary = joint.summary_of(final, joined())
        return fused_by(settings, [summary], law=None, weights=None, covariates=covariates(), **terms.fusing)

    return cache(fused)


def _seeds(names: Sequence[str], terms: Terms) -> Ask:
    question = q.SeedsWanted(terms.run, tuple(names), terms.batch if terms.study else "")
    return Ask(terms.step("seeds"), dict.fromkeys(names, question), readers="parties")


def aligned(names: Sequence[str], terms: Terms, *, union: bool = False) -> Steps[Terms]:
    """Find the samples that all parties have, or any of them, and tell them; return the terms with their places."""
    batch, ring = terms.batch, terms.align == "psi"
    if ring:
        lists = yield from _by_ring(names, terms, union)
    else:
        tokens = yield Ask(terms.step("tokens"), dict.fromkeys(names, q.TokensWanted(batch)))
        lists = lambda: {name: tokens[name].entries() for name in names}  # noqa: E731
    matched = Ask(
        terms.step("matched"),
        lambda: _matched(lists(), ring, union, batch),
        tells=q.MatchedGiven,
        fits=lambda told: (told.ring, told.places is not None, told.batch) == (ring, union, batch),
    )
    yield matched
    if not union:
        return terms
    _check_enough(len(q.numbers_in(matched.one.common)), terms)
    places = {name: np.sort(q.numbers_in(each.places)) for name, each in matched.questions.items()}  # type: ignore
    return replace(terms, places=places)


def _by_ring(names: Sequence[str], terms: Terms, union: bool) -> Steps[Callable[[], dict[str, list[bytes]]]]:
    """Have every list raised by every party, one hop a round; the center compares what was raised by all."""
    raised: Answers = {}
    for hop in range(len(names)):
        question = q.HopWanted(hop, union, terms.batch)
        readers: Any = "next" if hop < len(names) - 1 else "center"
        raised = yield Ask(terms.step(f"ring-{hop + 1}"), dict.fromkeys(names, question), readers)

    def fully_raised() -> dict[str, list[bytes]]:
        from dkpca.protection import psi

        ring = psi.Ring(f"{terms.run}/{terms.batch}", tuple(names), raised[names[0]].normalization)
        return psi.fully_raised(ring, raised.values())

    return fully_raised


def _matched(lists: Mapping[str, list[bytes]], ring: bool, keep_all: bool, batch: str) -> Questions:
    """Tell each party the positions of the common samples in its list, and of a union the places of its samples."""
    from dkpca.protection.psi import intersection, union

    found = intersection(lists)
    n_common = len(next(iter(found.values())))
    n_samples, places = union(lists) if keep_all else (n_common, {})
    if not n_common:
        count = Counter(token for own in lists.values() for token in set(own))
        shared = {party: sum(count[token] > 1 for token in set(own)) for party, own in lists.items()}
        said = ", ".join(f"{party} {n:,}" for party, n in sorted(shared.items(), key=lambda item: item[1]))
        raise TooFewSamplesError(
            f"no sample is common to all; shared with another party: {said}; check that all "
            "write ids alike, and name the right column of ids"
        )
    own = {name: q.packed_numbers(each) for name, each in places.items()}
    return {
        name: q.MatchedGiven(len(lists[name]), q.packed_numbers(positions), n_samples, ring, own.get(name), batch)
        for name, positions in found.items()
    }


def _shape(names: Sequence[str], settings: Fit, terms: Terms) -> Steps[q.Derived]:
    """Ask how large the tables are; they have to be about the same samples. Their kernels follow later."""
    batch, blind = terms.batch, settings.protect == "blind"
    questions = {name: q.ShapeWanted(batch, settings.family_of(name).columns_are, blind) for name in names}
    shapes: Mapping[str, Shape] = yield Ask(terms.step("shape"), questions)
    # A party sees its own shape only, and takes the columns of the others from the plan.
    (one, first), *others = shapes.items()
    for name, shape in others if not terms.own_places else ():
        if (shape.n_samples, shape.samples) != (first.n_samples, first.samples):
            both = f"{first.n_samples} and {shape.n_samples}"
            raise FusionError(f"parties {one!r} and {name!r} have different samples ({both}), or in another order")
    for name, shape in shapes.items():
        if shape.n_features != terms.columns.get(name, shape.n_features):
            said = f"{shape.n_features:,} columns, and joined with {terms.columns[name]:,}"
            raise FusionError(f"party {name!r} answered that its table has {said}")
    if not batch:
        _check_enough(first.n_samples, terms)
        if not terms.own_places:  # else each party has other samples, and the center checks
            _check_components(settings, first.n_samples)
    columns = {**terms.columns, **{name: shape.n_features for name, shape in shapes.items()}}
    return q.Derived(first.n_samples, first.samples, {name: columns[name] for name in names}, {})


def open_widths(names: Sequence[str], settings: Fit) -> list[str]:
    """Parties whose kernel has a width and is given by its name only."""
    families = {name: settings.family_of(name) for name in names}
    return [name for name, family in families.items() if isinstance(family, type) and family.has_width]


def unscaled(settings: Fit, name: str) -> Kernel:
    """Kernel of a party before it has its width."""
    family = settings.family_of(name)
    return family if isinstance(family, Kernel) else family.from_settings(gamma=1.0, centered=settings.center)


def widths_from(names: Sequence[str], settings: Fit) -> Literal["settings", "shape", "data"]:
    """What the widths of kernels follow from: the settings alone, numbers of samples and columns, or the data."""
    of, gamma = open_widths(names, settings), settings.gamma
    if not of or not (gamma is None or isinstance(gamma, str)):
        return "settings"
    if gamma is None:
        known = all(unscaled(settings, name).default_gamma is not None for name in of)
        return "settings" if known else "shape"
    # Squared distances between standardized samples: their mean follows from the number of columns.
    plain = [unscaled(settings, name) for name in names]
    known = all(k.unit_diagonal and k.by_inner_products and k.columns_are == "quantities" for k in plain)
    return "shape" if settings.standardize and known else "data"


def kernels_of(names: Sequence[str], settings: Fit, widths: Widths) -> dict[str, Kernel]:
    """Kernel of each party with its width, for the law and the weights of the fit."""
    made: dict[str, Any] = {name: settings.family_of(name) for name in names}
    named = {name: family for name, family in made.items() if not isinstance(family, Kernel)}
    new = {n: cls.from_settings(gamma=widths.get(n), centered=settings.center) for n, cls in named.items()}
    made |= adjusted(new, degree=settings.degree, coef0=settings.coef0)
    one = len(set(made.values())) == 1 and settings.weights is None
    joint_law = next(iter(made.values())).law
    if not one or (settings.law is not None and (joint_law is None or joint_law.name != settings.law)):
        made = {name: kernel.alone() for name, kernel in made.items()}
    return weighed(made, settings.weights, combination(made, settings.law).law)


def known_widths(names: Sequence[str], settings: Fit, terms: Terms, shape: Sizes) -> Widths | None:
    """Widths that follow from the settings and the numbers of columns; None where they follow from the data."""
    gamma, of, source = settings.gamma, open_widths(names, settings), widths_from(names, settings)
    if isinstance(gamma, Mapping):
        if set(gamma) != set(of):
            raise InputError(f"gamma has numbers for {sorted(gamma)}; kernels need one at {sorted(of)}")
        return gamma
    if source == "data":
        return None
    if source == "settings":
        return {name: None if gamma is None else float(gamma) for name in of}
    assert shape is not None
    if gamma is None:
        return dict.fromkeys(of, 1.0 / sum(shape.columns[name] for name in of))
    # The mean squared distance of a standardized column over all pairs of T samples is 2 T / (T - 1).
    sizes = {name: len(terms.own_places.get(name, range(shape.n_samples))) for name in of}
    return _one_for_alike(settings, {n: 2.0 * shape.columns[n] * T / (T - 1.0) for n, T in sizes.items()}, terms, of)


def _widths(names: Sequence[str], settings: Fit, terms: Terms, shape: Sizes) -> Steps[Callable[[], Widths]]:
    """Widths of the parties whose kernel is given by its name only; those that follow from the data are asked for."""
    known = known_widths(names, settings, terms, shape)
    if known is not None:
        return lambda: known
    if terms.study and shape is not None:
        yield _same(names, terms, shape)
    of, plain = open_widths(names, settings), {name: unscaled(settings, name) for name in names}
    if settings.protect != "none":  # the mean distance over all parties, as a masked sum
        if len(of) < len(names) or len(set(plain.values())) > 1:
            needs = "one kernel for all parties; give gamma by party, or standardize=True"
            raise InputError(f"protect='blind' derives gamma from a sum over all parties, which needs {needs}")
        one = q.Derived(1, "0" * 64, dict.fromkeys(names, 1), {})  # the numbers of samples and columns do not matter
        joined = yield from _added(settings, terms, plain[names[0]], Addends("statistic", 1, 1, 64), one)
        return lambda: _one_for_alike(settings, {names[0]: float(joined().total[0, 0])}, terms, names)
    questions = {name: q.StatisticsWanted(kernel, settings.standardize) for name, kernel in plain.items()}
    statistics: Mapping[str, Statistics] = yield Ask("statistics", questions)

    def told() -> Widths:
        for name, each in statistics.items() if terms.places is None else ():
            if shape is not None and each.n_samples != shape.n_samples:
                raise FusionError(f"party {name!r} sent a mean of {each.n_samples} samples, not {shape.n_samples}")
            _check_components(settings, each.n_samples)
        return _one_for_alike(settings, {name: statistics[name].mean_squared_distance for name in of}, terms, of)

    return told


def _one_for_alike(settings: Fit, scales: Mapping[str, float], terms: Terms, names: Sequence[str]) -> Widths:
    """One over the mean distance, over all parties with the same kernel."""
    plain = {name: unscaled(settings, name) for name in names}
    alike = {name: [scale for other, scale in scales.items() if plain[other] == plain[name]] for name in names}
    totals = {name: math.fsum(each) for name, each in alike.items()}
    return {name: _checked(1.0 / total if total > 0 else 1.0, terms) for name, total in totals.items()}


def _checked(gamma: float, terms: Terms) -> float:
    low, high = terms.gammas
    if not low <= gamma <= high:
        raise FusionError(f"the data give gamma {gamma:.6g}, outside the agreed {low:.6g} to {high:.6g}")
    return gamma


def _added(
    settings: Fit, terms: Terms, kernel: Kernel, what: Addends, shape: q.Derived, result: str = ""
) -> Steps[Callable[[], Joined]]:
    """Add up masked numbers of all parties, piece by piece; their bounds come first, where they need data."""
    before = terms.step("statistics-" if what.kind == "statistic" else "")
    names, standardize = tuple(shape.columns), settings.standardize and not terms.batch  # new ones as in the fit
    about = (terms.run, names, kernel, what, terms.batch, result, standardize)

    def first_piece(values: Mapping[str, float], lengths: Mapping[str, float]) -> q.SumsWanted:
        most = {name: values.get(name, 1.0) for name in names}  # what is told of others is not what is expected
        longest = {name: max(lengths.get(name, 1.0), 2.0**-1000) for name in names}
        return q.SumsWanted(f"{before}sums-1", *about, bounds=most, length_bounds=longest)

    def bounded_by(answers: Answers) -> Questions:
        sent = [[answers[n].values for n in names], [answers[n].lengths for n in names]]
        most = [dict.fromkeys(names, masks.largest_power(each)) for each in sent]
        return dict.fromkeys(names, first_piece(*most))

    def fits(told: q.SumsWanted) -> bool:
        return told == first_piece(told.bounds, told.length_bounds)

    known = [quantities.bounds_without_data(what, kernel, count) for count in shape.columns.values()]
    bounds = [both for both in known if both is not None]  # of all parties, or of none
    pieces: Questions | Callable[[], Questions]
    if standardize and bounds:
        most = [dict(zip(names, each, strict=True)) for each in zip(*bounds, strict=True)]
        pieces = dict.fromkeys(names, first_piece(*most))
    else:
        answers = yield Ask(f"{before}bounds", dict.fromkeys(names, q.BoundsWanted(f"{before}bounds", *about)))
        pieces = partial(bounded_by, answers)
    ask, total = Ask(f"{before}sums-1", pieces, tells=q.SumsWanted, fits=fits), None
    for part in range(1, len(what.pieces) + 1):
        if part > 1:
            piece = replace(ask.one, step=f"{before}sums-{part}", part=part)
            ask = Ask(piece.step, dict.fromkeys(names, piece))
        sent: Mapping[str, MaskedSum] = yield ask
        if sent:  # the masks cancel; a party sees nobody's numbers
            total = np.zeros((what.rows, what.columns)) if total is None else total
            add_piece(total, ask.one, sent)

    def joined() -> Joined:
        assert total is not None, "only the center adds up"
        n_features = sum(shape.columns.values())
        return Joined(what, total, ask.one.rings, len(names), n_features, shape.samples, terms.run)

    return joined


def add_piece(total: Any, asked: q.SumsWanted, sent: Mapping[str, MaskedSum]) -> None:
    """Put the sum of a piece into its place."""
    what, rows, own = asked.what, asked.rows, None
    sums = masks.added([sent[name].values for name in asked.roster], asked.rings[0], what.count(rows))
    if what.lengths:
        lengths: Any = [sent[name].lengths for name in asked.roster]
        own = masks.added(lengths, asked.rings[1], rows.stop - rows.start)
    quantities.fill(total, what, rows, sums, own)


def joint_kernel(names: Sequence[str], settings: Fit) -> tuple[Kernel, bool]:
    """Kernel of the joined table, and whether its width is still to be derived."""
    if isinstance(settings.kernel, Mapping) or isinstance(settings.gamma, Mapping) or settings.weights is not None:
        raise InputError("protect='sums' takes one kernel for all parties, without weights: it is applied to the sum")
    plain, derived = unscaled(settings, names[0]), widths_from(names, settings) != "settings"
    if plain.law is None or settings.law not in (None, plain.law.name):
        raise InputError(f"protect='sums' forms the {plain.name} kernel by its own law; leave law=None")
    width: Any = 1.0 if derived else settings.gamma
    return kernels_of(names, settings, dict.fromkeys(names, width))[names[0]], derived


def _check_protected(names: Sequence[str], settings: Fit) -> None:
    """Refuse a roster among which nobody can be hidden, and what masked sums or a blind center cannot do."""
    protect = settings.protect
    if len(names) < 2:
        raise InputError(f"protect={protect!r} hides a party among others, and there is only {list(names)}")
    if len(names) > MOST_PARTIES:
        raise InputError(f"protect={protect!r} is for up to {MOST_PARTIES} parties, and there are {len(names)}")
    if joint.JOINED in names:
        raise InputError(f"protect={protect!r}: {joint.JOINED!r} is reserved for the sum; rename that party")
    if protect == "sums":
        joint_kernel(names, settings)
        return
    if not settings.center:
        raise InputError("protect='blind' works with centered matrices only; use center=True")
    if settings.law not in (None, "sum"):
        raise InputError("protect='blind' needs the sum law, which works on rotated samples; use law='sum'")
    kernel = unscaled(settings, names[0])
    if settings.law is None and not isinstance(settings.kernel, Mapping) and not kernel.adds_up:
        raise InputError(f"a blind center can only add matrices up; use law='sum' with the {kernel.name} kernel")


def _check_enough(n_samples: int, terms: Terms) -> None:
    if n_samples < terms.fewest_samples:
        raise TooFewSamplesError(f"{n_samples} samples are common, fewer than the {terms.fewest_samples} agreed on")


def _check_components(settings: Fit, n_samples: int) -> None:
    """Refuse before the parties have worked what the center would refuse afterwards."""
    if settings.n_components is not None and settings.n_components > n_samples:
        raise InputError(f"n_components is {settings.n_components}, but there are {n_samples} samples; ask for fewer")
