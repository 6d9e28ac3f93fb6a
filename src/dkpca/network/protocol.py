"""What travels between a party and its center besides message files, and the largest size of everything.

Imports nothing heavy: a party that waits is a small process.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dkpca import strict_json
from dkpca.errors import WireError

QUESTIONS, ANSWERS, REVOCATIONS = "/v1/questions", "/v1/answers", "/v1/revocations"
RUNS, HEALTH, METRICS = "/v1/runs", "/health", "/metrics"

POLL_SECONDS = 25.0  # a poll waits so long for a question
POLL_SPARE = 15.0  # and its reply is so late at most
MOST_OPEN = 16  # questions that a party holds, and requests that it has under way
MOST_RUNS = 32  # that a center works on at once
LARGEST_QUESTION = 2**14  # bytes of JSON
LARGEST_POLL = MOST_OPEN * LARGEST_QUESTION + 2**12
LARGEST_NOTICE = 2**12
LARGEST_SUBMIT = 2**16
LARGEST_REVOCATIONS = 2**18
MESSAGE_HEADER = 2**17  # bytes of a message beside its numbers
MOST_COMPONENTS = 1000  # of a result that is sent back
PIECE = 2**20  # bytes read, hashed and written at a time
QUESTIONS_PER_MINUTE = 120  # that a party works on
REQUESTS_PER_SECOND = 50  # that a center takes from one name

NUMBER = re.compile(r"[0-9a-f]{32}")
DIGEST = re.compile(r"[0-9a-f]{64}")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Asked:
    """One question for one party, as it travels; a message attached to it comes by a request of its own."""

    number: str  # used for one question of one party
    run: str
    question: Mapping[str, Any]
    attached: int = 0  # bytes of that message; 0: none
    sha256: str = ""  # of that message

    def to_bytes(self) -> bytes:
        """JSON of it."""
        return to_json(asdict(self))

    @classmethod
    def from_dict(cls, value: Any) -> "Asked":
        """Return what the object describes, or raise `WireError`."""
        if not isinstance(value, dict) or set(value) != {"number", "run", "question", "attached", "sha256"}:
            raise WireError("a question does not have the fields of a question")
        number, run, digest, attached = (value[name] for name in ("number", "run", "sha256", "attached"))
        if not (isinstance(number, str) and NUMBER.fullmatch(number)):
            raise WireError("a question has no number of its own")
        if not (isinstance(run, str) and NAME.fullmatch(run)):
            raise WireError("a question has a run name that cannot be used")
        if type(attached) is not int or attached < 0 or not isinstance(value["question"], dict):
            raise WireError("a question has a field of the wrong type")
        if not isinstance(digest, str) or not (DIGEST.fullmatch(digest) if attached else digest == ""):
            raise WireError("a question does not name the message that is attached to it")
        return cls(number, run, value["question"], attached, digest)


def to_json(value: Any) -> bytes:
    """Compact JSON; the same value gives the same bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def from_json(data: bytes, largest: int) -> Any:
    """Strict JSON of a known size, or `WireError`."""
    if len(data) > largest:
        raise WireError(f"{len(data)} bytes came, more than the {largest} allowed here")
    try:
        return strict_json.loads(data.decode())
    except ValueError as error:
        raise WireError("what came is not JSON as this protocol has it") from error


@dataclass
class Rate:
    """So much at once, and again so much per period."""

    burst: float
    seconds: float
    left: float = field(init=False)
    at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.left = self.burst

    def take(self) -> bool:
        """Whether one more is allowed now."""
        now = time.monotonic()
        self.left = min(self.burst, self.left + (now - self.at) * self.burst / self.seconds)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True
