"""The protocol step by step, for messages, states and models in files: each party summarizes, the center fuses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from dkpca import party as core
from dkpca.errors import InputError
from dkpca.exchange.protocols import fused_by, kernels_of, summary_question
from dkpca.fusion import FusedModel, scoring
from dkpca.fusion.fused_model import LANDMARKS
from dkpca.kernels import Kernel, family
from dkpca.linalg.arrays import Array, MemoryLimit
from dkpca.linalg.leading import Solver
from dkpca.messages import Message, Partials, Rows, Summary, check_party_name
from dkpca.party import ANYTHING
from dkpca.party.limits import Limits
from dkpca.party.questions import SummaryWanted
from dkpca.party.state import PartyState
from dkpca.rank import RankRule
from dkpca.settings import FLAG, Allowed, Compute, Fit, check_value, choice, values_of
from dkpca.tables import inputs

MessageT = TypeVar("MessageT")
ALLOWED: dict[str, Allowed] = {
    "exact": FLAG,
    "limits": (lambda value: isinstance(value, Limits), "dkpca.Limits"),
    "state": (lambda value: isinstance(value, PartyState), "the state that dkpca.summarize gave"),
    "model": (lambda value: isinstance(value, FusedModel), "the model that dkpca.fuse gave"),
    "dtype": choice(("float64", "float32")),
    "sample_ids": (lambda value: value is None or _is_listing(value), "the ids of the rows, in their order"),
    "roster": (lambda value: value is None or _is_listing(value), "the names of all parties"),
}


def summarize(
    X: Any,
    *,
    party: str,
    kernel: str | Kernel = "rbf",
    gamma: float | None = None,
    degree: int | None = None,
    coef0: float | None = None,
    law: str | None = None,
    n_components: int | float | None = 10,
    rank: str | int | RankRule | Sequence[RankRule] = "auto",
    precision: str = "float32",
    standardize: bool = False,
    center: bool = True,
    solver: str | Solver = "auto",
    projection: str = "extend",
    random_state: int | None = None,
    sample_ids: Sequence[str] | None = None,
    device: str | None = None,
    max_memory: int | str | None = None,
    limits: Limits = ANYTHING,
) -> tuple[Summary, PartyState]:
    """Turn a party's columns into the one message it sends, and the state it keeps to itself.

    Parameters
    ----------
    X : array or DataFrame of shape (n_samples, n_features)
        The party's columns.
    party : str
        Name under which the center knows this party.
    kernel, gamma, degree, coef0, law
        As for `DKPCA`, agreed on by all parties; a kernel with a width needs gamma as a number.
    n_components, rank, precision, standardize, center, solver, random_state, device, max_memory
        As for `DKPCA`.
    projection : {"extend", "exact"}, default="extend"
        "exact": the state keeps all rows, for `extend(..., exact=True)`.
    sample_ids : sequence of str, optional
        In row order. Without ids, rows of all parties match by position.
    limits : Limits, optional
        What this party answers; a request beyond them raises `dkpca.errors.PolicyError`. None: everything.

    Returns
    -------
    summary, state : Summary, PartyState
        The message for the center, and what the party needs to place new samples: data that it never sends.

    Examples
    --------
    >>> import dkpca
    >>> summary, _ = dkpca.summarize([[0.0, 1.0], [2.0, 3.0]], party="bank", kernel=dkpca.kernels.RBF(0.1), rank=2)
    >>> summary.party, summary.n_samples, summary.rank
    ('bank', 2, 2)
    """
    asked = locals()
    _check("summarize", sample_ids=sample_ids, limits=limits)
    fit, compute = Fit(**values_of(Fit, asked)), Compute(**values_of(Compute, asked))
    question = own_question(fit, check_party_name(party))
    given = inputs.for_fit({party: X}, fit, None)
    here: Any = {"device": compute.device, "memory": MemoryLimit.of(compute.max_memory), "limits": limits}
    summary, state = core.summarize(given.tables[party], question, party=party, sample_ids=sample_ids, **here)
    return summary, replace(state, columns=given.columns[party])


def fuse(
    summaries: Iterable[Summary],
    *,
    n_components: int | float | None = 10,
    center: bool = True,
    roster: Sequence[str] | None = None,
    solver: str | Solver = "auto",
    n_landmarks: int = LANDMARKS,
    random_state: int | None = None,
    dtype: str = "float64",
    law: str | None = None,
    weights: str | Mapping[str, float] | None = None,
    device: str | None = None,
    max_memory: int | str | None = None,
) -> FusedModel:
    """Turn the parties' summaries into kernel principal components of the joined table.

    Parameters
    ----------
    summaries : iterable of Summary
        One per party, in any order.
    n_components, center, solver, n_landmarks, random_state, weights, device, max_memory
        As for `DKPCA`.
    roster : sequence of str, optional
        Parties that must be there, no more and no fewer. None: whoever sent.
    dtype : {"float64", "float32"}, default="float64"
        Precision in which the center computes, whatever was sent.
    law : {"product", "sum"}, optional
        How the parties' matrices combine. None: as their kernel, which must then be the same, implies.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> X = {"bank": np.eye(5)[:, :3], "shop": np.eye(5)[:, 3:]}
    >>> sent = [dkpca.summarize(X[name], party=name, kernel="rbf", gamma=0.1, rank=4)[0] for name in X]
    >>> dkpca.fuse(sent, n_components=3, roster=["bank", "shop"]).scores.shape
    (5, 3)
    """
    asked = locals()
    _check("fuse", dtype=dtype, roster=roster)
    fit, compute = Fit(**values_of(Fit, asked)), Compute(**values_of(Compute, asked))
    memory, received = MemoryLimit.of(compute.max_memory), _of_kind("fuse", summaries, Summary)
    return fused_by(fit, received, roster=roster, dtype=dtype, device=compute.device, memory=memory)


def own_question(fit: Fit, party: str) -> SummaryWanted:
    """Question to one party that does not know the others: a width is a number that all agreed on."""
    kernel, gamma = fit.kernel, fit.gamma
    if isinstance(kernel, dict):
        raise InputError("one party has one kernel; give its name, or a kernel of dkpca.kernels")
    if isinstance(kernel, str):
        cls = family(kernel)
        if isinstance(gamma, str | dict) or (cls.has_width and cls.default_gamma is None and gamma is None):
            raise InputError(f"the {kernel} kernel needs gamma (--gamma), a number on which all parties have agreed")
        kernel = kernels_of([party], fit, {party: gamma})[party]
    return summary_question(fit, {party: kernel}, party, 0)


def extend(
    state: PartyState,
    X_new: Any,
    *,
    exact: bool = False,
    sample_ids: Sequence[str] | None = None,
    limits: Limits = ANYTHING,
) -> Rows | Partials:
    """Say where new samples lie as this party sees them: its message for `project`, `Partials` if exact.

    Parameters
    ----------
    state : PartyState
        What `summarize` gave the party to keep.
    X_new : array or DataFrame of shape (n_new, n_features)
        The columns of the fit; for a state of the commands, the table as it is.
    exact : bool, default=False
        The paper's way: distances to all training samples instead of factor rows, which reveals more; it needs
        `summarize(..., projection="exact")`.
    sample_ids : sequence of str, optional
        In row order. Without ids, rows of all parties match by position.
    limits : Limits, optional
        As for `summarize`.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> _, state = dkpca.summarize(np.eye(4), party="bank", kernel="linear", rank=2)
    >>> dkpca.extend(state, np.eye(4)[:3]).factor.shape
    (3, 2)
    """
    _check("extend", state=state, exact=exact, sample_ids=sample_ids, limits=limits)
    if state.anchors is None:
        raise InputError(f"party {state.party!r}: the state has no rows; make it again with dkpca.summarize")
    party = state.party
    X_new = inputs.for_new_samples({party: X_new}, {party: state}, None, None, of_fit=False).tables[party]
    message: Rows | Partials = core.extend(state, X_new, exact=exact, sample_ids=sample_ids, limits=limits)
    return message


def project(model: FusedModel, messages: Iterable[Rows | Partials]) -> Array:
    """Place new samples by what every party says about them: scores, as `model.scores` on training samples.

    Parameters
    ----------
    model : FusedModel
        What `fuse` gave.
    messages : iterable of Rows or of Partials
        One per party, in any order.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> summary, state = dkpca.summarize(np.eye(4), party="bank", kernel="linear", rank=4)
    >>> dkpca.project(dkpca.fuse([summary], n_components=2), [dkpca.extend(state, np.eye(4))]).shape
    (4, 2)
    """
    _check("project", model=model)
    return scoring.place(model, _of_kind("project", messages, Rows, Partials)).scores


def _check(caller: str, **parameters: Any) -> None:
    for name, value in parameters.items():
        check_value(f"{name} of dkpca.{caller}", value, ALLOWED[name])


def _is_listing(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__iter__") and not isinstance(value, str | bytes)


def _of_kind(caller: str, messages: Iterable[MessageT], *kinds: type[Any]) -> list[MessageT]:
    """Return the messages, if each of them is one that the function takes."""
    if isinstance(messages, Message):
        raise InputError(f"dkpca.{caller} takes the messages of all parties; give a list of them")
    known = list(messages)
    for message in known:
        if not isinstance(message, kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise InputError(f"dkpca.{caller} takes messages of kind {wanted}, not a {type(message).__name__}")
    return known
