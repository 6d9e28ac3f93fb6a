"""What the central function does: it runs the library's protocols over tasks, and keeps nothing.

A node answers a question once and sends the same bytes again when it is asked again. So placing new samples and an
audit run the fit from its start, with the answers that the nodes kept.
"""

import base64
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any

import numpy as np

from dkpca import wire
from dkpca.errors import DKPCAError, FusionError, InputError, NoAnswerError, WireError
from dkpca.exchange import protocols
from dkpca.exchange.protocols import Ask, Terms
from dkpca.fusion import FusedModel, fused_model, scoring
from dkpca.linalg.arrays import to_numpy
from dkpca.messages import SampleTokens, check_party_name, digest
from dkpca.party import questions as q
from dkpca.settings import Fit
from dkpca.wire import codec

MOST_WORDS = 400  # characters of a node's refusal that are passed on
PROTECTED = (
    "protect={!r} is not possible in vantage6: a node cannot check that whoever fuses is not one of the parties, and "
    "vantage6 4 pins a cryptography without HPKE to seal keys between nodes; use protect='none', or a study of dkpca"
)
Places = dict[str, list[int]] | None
Steps = Generator[Ask, Any, Any]


@dataclass(frozen=True)
class Tasks:
    """What is used of the engine: create a task for one organization, and wait for its results."""

    create: Callable[[str, dict[str, Any], int], int | None]  # None: the server created none
    wait: Callable[[int], list[Any]]


@dataclass(frozen=True)
class Run:
    """One fit of some organizations, as the researcher describes it."""

    tasks: Tasks
    parties: Mapping[str, int]  # name of a party: id of its organization
    run: str
    settings: Fit
    id_column: str | None
    columns: Mapping[str, Sequence[str]]

    @property
    def names(self) -> list[str]:
        return list(self.parties)

    def drive(self, steps: Steps, method: str = "summarize", **more: Any) -> Any:
        """Run a protocol to its end; every question is one task for one organization."""
        given: Any = None
        while True:
            try:
                ask = steps.send(given)
            except StopIteration as end:
                return end.value
            waiting = {
                name: self.tasks.create(method, self._asked(name, question) | more, self.parties[name])
                for name, question in ask.questions.items()
            }
            lost = [name for name, task in waiting.items() if task is None]
            if lost:
                raise NoAnswerError(f"the server made no task for {lost}; look at their organizations")
            results = {name: self.tasks.wait(task) for name, task in waiting.items() if task is not None}
            given = {name: _answer(name, ask.questions[name], results[name]) for name in waiting}

    def fitted(self, **more: Any) -> tuple[FusedModel, Places]:
        """The model, and where each party's samples are among all if some lack any."""
        fitted: tuple[FusedModel, Places] = self.drive(self._fit(), **more)
        return fitted

    def _asked(self, name: str, question: q.Question) -> dict[str, Any]:
        return {
            "question": base64.b64encode(q.encode(question)).decode(),
            "run": self.run,
            "party": name,
            "roster": self.names,
            "id_column": self.id_column,
            "columns": None if name not in self.columns else list(self.columns[name]),
        }

    def _fit(self) -> Steps:
        places, samples = yield from self.matched()
        terms = Terms(self.run, places=places, fusing={"samples": samples})
        model = yield from protocols.fit(self.names, self.settings, terms)
        yield from self.told(model, to_numpy(model.scores), places, model.received)
        return model, places

    def matched(self, batch: str = "") -> Generator[Ask, Any, tuple[Places, str]]:
        """Match samples by the nodes' tokens of their ids; without ids, rows match by position."""
        if self.id_column is None:
            return None, ""
        tokens = yield Ask("tokens", dict.fromkeys(self.names, q.TokensWanted(batch)))
        asked, places, samples = _matched(tokens, self.settings.lacking, batch)
        yield Ask("matched", asked)
        return places, samples

    def told(self, model: FusedModel, scores: Any, places: Places, sent: Mapping[str, Any], batch: str = "") -> Steps:
        """Tell each node the scores of its own samples; it writes them beside their ids."""
        own = {name: scores if places is None else scores[places[name]] for name in self.names}
        results = {name: fused_model.result(model, own[name], sent[name].sample_digest) for name in self.names}
        yield Ask("result", {name: q.ResultGiven(results[name], batch=batch) for name in self.names})


def _sentences(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return a refusal as a sentence: the engine would write a stack trace to its log instead."""

    @wraps(function)
    def wrapped(tasks: Tasks, **asked: Any) -> dict[str, Any]:
        try:
            return function(tasks, **asked)
        except DKPCAError as error:
            return {"refused": str(error)}

    return wrapped


@_sentences
def fit(tasks: Tasks, **asked: Any) -> dict[str, Any]:
    """Fit; see `_run` for the arguments."""
    return _described(*_run(tasks, **asked).fitted())


@_sentences
def audit(tasks: Tasks, *, n_rows: int, **asked: Any) -> dict[str, Any]:
    """Fit again from the answers that the nodes kept, and ask for true rows of the kernel matrix."""
    run = _run(tasks, **asked)
    return _described(*replace(run, settings=replace(run.settings, audit=n_rows)).fitted())


@_sentences
def place(tasks: Tasks, *, batch: str, **asked: Any) -> dict[str, Any]:
    """Place new samples: the tables of this task hold the new samples."""
    run = _run(tasks, **asked)
    check_party_name(batch, "batch")
    model, _ = run.fitted(again=True)
    in_batch = partial(run.drive, method="extend", batch=batch)
    places, _ = in_batch(run.matched(batch))
    rows = in_batch(protocols.new_rows(run.names, batch))
    placed = scoring.place(model, rows.values(), lacking=run.settings.lacking, places=places)
    scores = to_numpy(placed.scores)
    in_batch(run.told(model, scores, places, rows, batch))
    return {"scores": scores.tolist(), "places": places}


def _run(
    tasks: Tasks,
    *,
    parties: Mapping[str, int],
    run: str,
    settings: Mapping[str, Any] | None = None,
    id_column: str | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> Run:
    """Check what the researcher asks for: organizations by party name, a name for the run, the settings of a fit."""
    if not isinstance(parties, Mapping) or not parties:
        raise InputError("parties is a mapping from a name for each party to the id of its organization")
    for name in parties:
        check_party_name(name)
    if len(set(parties.values())) < len(parties):
        raise InputError("two parties have the same organization; each organization is one party")
    fit = codec.decode(Fit, dict(settings or {}), what="settings of a fit")
    if fit.protect != "none":
        raise InputError(PROTECTED.format(fit.protect))
    strangers = sorted(set(columns or {}) - set(parties))
    if strangers:
        raise InputError(f"columns are given for {strangers}, which are none of the parties {list(parties)}")
    return Run(tasks, parties, check_party_name(run, "run"), fit, id_column or None, columns or {})


def _answer(name: str, question: q.Question, results: list[Any]) -> Any:
    """Decode and check what a node returned."""
    result = results[0] if len(results) == 1 else None
    if not isinstance(result, dict) or not isinstance(result.get("answer", result.get("refused")), str):
        raise NoAnswerError(f"party {name!r} gave no answer: its task failed; look at the log of its node")
    if "refused" in result:
        raise NoAnswerError(f"party {name!r} refused: {str(result['refused'])[:MOST_WORDS]}")
    text: str = result["answer"]
    if 3 * len(text) > 4 * (question.most_bytes() + 2):
        raise FusionError(f"party {name!r} answered with more bytes than this answer can have")
    try:
        message = wire.decode(base64.b64decode(text, validate=True))
    except (ValueError, WireError) as error:  # no base64, or no message
        raise WireError(f"party {name!r}: its answer is damaged ({error})") from error
    question.check(name, message)
    return message


def _matched(
    tokens: Mapping[str, SampleTokens], lacking: str | None, batch: str
) -> tuple[dict[str, q.MatchedGiven], Places, str]:
    """Samples that each party is to use, in their order, and where these are among all if some lack any."""
    lists = {name: message.entries() for name, message in tokens.items()}
    own = {name: set(listed) for name, listed in lists.items()}
    common, union = set.intersection(*own.values()), set.union(*own.values())
    if len(common) < len(union) and (lacking is None or (lacking == "drop" and not common)):
        counts = ", ".join(f"{name} {len(found)}" for name, found in own.items())
        raise FusionError(
            f"the parties have different samples ({counts}), {len(common)} of them in common; use lacking='drop' for "
            "the common ones or lacking='complete' for all, and check that all nodes have the same key"
        )
    kept = own if lacking in ("mean", "complete") else dict.fromkeys(own, common)
    asked = {}
    for name, listed in lists.items():
        positions = [position for position, token in enumerate(listed) if token in kept[name]]
        asked[name] = q.MatchedGiven(len(listed), q.packed_numbers(positions), len(positions), batch=batch)
    if all(found == union for found in kept.values()) or lacking == "drop":
        return asked, None, ""
    order = {token: place for place, token in enumerate(sorted(union))}
    places = {name: [order[token] for token in sorted(found)] for name, found in kept.items()}
    return asked, places, digest([token.hex() for token in order])


def _described(model: FusedModel, places: Places) -> dict[str, Any]:
    """The result as JSON: numbers as they are, and what is known about their error."""
    return {
        "scores": to_numpy(model.scores).tolist(),
        "eigenvalues": to_numpy(model.eigenvalues).tolist(),
        "explained_variance_ratio": to_numpy(model.explained_variance_ratio).tolist(),
        "certificate": model.certificate.statements(),
        "bytes": {name: wire.size(summary) for name, summary in model.received.items()},
        "samples": int(np.shape(model.scores)[0]),
        "places": places,
    }
