"""Questions as strict JSON, each field checked, and the message attached to one as a file of its own."""

from dataclasses import fields
from typing import Any, get_args

from dkpca import wire
from dkpca.errors import WireError
from dkpca.exchange.questions import Question
from dkpca.messages import CommonTokens, Offers, Scorer, Scores
from dkpca.wire import codec

QUESTIONS: dict[str, type[Any]] = {cls.__name__: cls for cls in get_args(Question)}
# Messages inside a question.
ATTACHED = {
    "common": CommonTokens,
    "offers": Offers,
    "scorer": Scorer,
    "scores": Scores,
}


def encode_question(question: Question) -> tuple[dict[str, Any], bytes]:
    """Return what a question asks for as JSON has it, and the message attached to it."""
    values = [getattr(question, each.name) for each in fields(question) if each.name in ATTACHED]
    described = codec.described(question, skip=tuple(ATTACHED))
    return {"kind": type(question).__name__, **described}, b"".join(wire.encode(v) for v in values if v is not None)


def decode_question(described: Any, attached: bytes = b"") -> Question:
    """Return the question, or raise `WireError` with the first thing that is wrong."""
    values = dict(described)
    kind = values.pop("kind", None)
    cls = QUESTIONS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise WireError(f"a question of unknown kind; expected one of {sorted(QUESTIONS)}")
    given: dict[str, Any] = {}
    if attached:
        message = wire.decode(attached)
        known = {each.name for each in fields(cls)} & set(ATTACHED)
        given = {name: message for name in known if isinstance(message, ATTACHED[name])}
        if not given:
            raise WireError(f"a question of kind {kind} does not come with such a message")
    elif set(values) & set(ATTACHED):
        raise WireError(f"a question of kind {kind} does not have the fields of its kind")
    made: Question = codec.decode(cls, values, what=f"a question of kind {kind} cannot be used", **given)
    return made
