"""What happens at a center or a party: a line of JSON for programs, and a sentence on the terminal for people."""

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from dkpca import wording

FILE = "events.jsonl"
LARGEST, KEPT = 10_000_000, 5  # bytes of a file, and older files


class Events:
    """The event log of one folder; rotated, so that it never fills the disk."""

    def __init__(self, folder: Path, who: str) -> None:
        self.who = who
        self._handler = RotatingFileHandler(folder / FILE, maxBytes=LARGEST, backupCount=KEPT, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter("%(message)s"))

    def close(self) -> None:
        """Close the file."""
        self._handler.close()

    def note(self, event: str, *, level: int = logging.INFO, **facts: Any) -> None:
        """Write one line; nothing in it can command a terminal or begin a line of its own."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        clean = {key: wording.printable(value) if isinstance(value, str) else value for key, value in facts.items()}
        line = json.dumps(
            {"time": time, "level": logging.getLevelName(level), "who": self.who, "event": event, **clean}
        )
        self._handler.handle(logging.LogRecord("dkpca", level, "", 0, line, None, None))

    def say(self, sentence: str, event: str, *, level: int = logging.INFO, **facts: Any) -> None:
        """Write one line, and the same in words to the terminal."""
        self.note(event, level=level, words=sentence, **facts)
        print(f"{self.who}: {wording.printable(sentence)}", file=sys.stdout, flush=True)
