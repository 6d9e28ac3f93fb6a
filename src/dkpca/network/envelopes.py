"""Questions and answers as bytes for a transport: versioned, checked, never executed.

A request carries one question for one run, under a number that is used once. An answer carries that number, and a
message of `dkpca.wire` or the reason why there is none.
"""

import re
import secrets
from dataclasses import dataclass, field, fields
from typing import Any, get_args

import numpy as np

from dkpca import wire, wording
from dkpca.errors import InputError, WireError
from dkpca.exchange.questions import Question
from dkpca.messages import CommonTokens, Scores, check_name
from dkpca.wire import codec, container
from dkpca.wire.container import Arrays, Header

VERSION = 1
REQUEST, ANSWER = "dkpca_request", "dkpca_answer"
MAX_HEADER = 2**16
NUMBER = re.compile(r"[0-9a-f]{32}")
QUESTIONS: dict[str, type[Any]] = {cls.__name__: cls for cls in get_args(Question)}
ATTACHED = (CommonTokens, Scores)  # messages inside a question


def new_number() -> str:
    """Number for one request."""
    return secrets.token_hex(16)


@dataclass(frozen=True)
class Request:
    """One question for one run."""

    run: str
    question: Question
    number: str = field(default_factory=new_number)


@dataclass(frozen=True)
class Answer:
    """One message, or why there is none: a code for programs, and a sentence without data for people."""

    number: str
    message: bytes = b""
    code: str = "ok"
    reason: str = ""


def encode_request(request: Request) -> bytes:
    """Return the bytes of a request."""
    question = request.question
    attached = [getattr(question, each.name) for each in fields(question)]
    header = {
        "version": VERSION,
        "run": request.run,
        "number": request.number,
        "kind": type(question).__name__,
        "fields": described(question),
    }
    messages = [wire.encode(value) for value in attached if isinstance(value, ATTACHED)]
    return container.pack(header, _as_arrays(b"".join(messages)), entry=REQUEST)


def described(question: Question) -> dict[str, Any]:
    """Return what a question asks for, without the message attached to it."""
    attached = [each.name for each in fields(question) if isinstance(getattr(question, each.name), ATTACHED)]
    return codec.described(question, skip=attached)


def decode_request(data: bytes) -> Request:
    """Return the request in the bytes, or raise `WireError` with the first thing that is wrong."""
    header, attached = _opened(data, REQUEST, {"version", "run", "number", "kind", "fields"})
    cls = QUESTIONS.get(str(header["kind"]))
    if cls is None:
        raise WireError(f"request is of unknown kind {header['kind']!r}; expected one of {sorted(QUESTIONS)}")
    what = f"request of kind {header['kind']} cannot be used"
    given: dict[str, Any] = {}
    if attached:
        message = wire.decode(attached)
        name = "scores" if isinstance(message, Scores) else "common"
        if not isinstance(message, ATTACHED) or name not in {each.name for each in fields(cls)}:
            raise WireError(f"a question of kind {header['kind']} does not come with such a message")
        given[name] = message
    try:
        run = check_name(header["run"], "run name")
    except InputError as error:
        raise WireError(f"{what}: {error}") from error
    return Request(run, codec.decode(cls, header["fields"], what=what, **given), header["number"])


def encode_answer(answer: Answer) -> bytes:
    """Return the bytes of an answer."""
    header = {"version": VERSION, "number": answer.number, "code": answer.code, "reason": answer.reason}
    return container.pack(header, _as_arrays(answer.message), entry=ANSWER)


def decode_answer(data: bytes) -> Answer:
    """Return the answer in the bytes, or raise `WireError`."""
    header, message = _opened(data, ANSWER, {"version", "number", "code", "reason"})
    if not isinstance(header["code"], str) or not isinstance(header["reason"], str):
        raise WireError("answer has a code or a reason that is no text")
    code, reason = (wording.printable(header[key]) for key in ("code", "reason"))
    return Answer(header["number"], message, code[:32], reason[:500])


def _opened(data: bytes, entry: str, expected: set[str]) -> tuple[Header, bytes]:
    """Header with the fields expected, and the bytes attached."""
    header, arrays = container.unpack(data, entry=entry, max_header=MAX_HEADER, dtypes={"U8": "uint8"})
    if header.get("version") != VERSION:
        raise WireError(f"request or answer has version {header.get('version')!r}; this dkpca reads {VERSION}")
    header = container.verify(header, arrays)
    if set(header) != expected or not set(arrays) <= {"attached"}:
        raise WireError(f"request or answer has the fields {sorted(header)}, not {sorted(expected)}")
    if not isinstance(header["number"], str) or not NUMBER.fullmatch(header["number"]):
        raise WireError("request or answer has no number of its own")
    return header, arrays["attached"].tobytes() if arrays else b""


def _as_arrays(attached: bytes) -> Arrays:
    return {"attached": np.frombuffer(attached, np.uint8)} if attached else {}
