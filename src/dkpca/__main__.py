"""`dkpca`, and `python -m dkpca`."""

import os
import signal
import sys

from dkpca.errors import InputError, needed_from


def main() -> None:
    """Run the command line, or say how to install it."""
    signal.signal(signal.SIGINT, _leave)
    for stream in (sys.stdout, sys.stderr):  # a terminal of few letters shows '?' for the others
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        with needed_from("cli", "the command line"):
            from dkpca.cli import run
    except InputError as error:
        sys.exit(f"dkpca: {error}")
    sys.exit(run())


def _leave(*_: object) -> None:
    """End at once while nothing is done yet: an exception would be raised wherever an import happens to be."""
    os.write(2, b"dkpca: interrupted; no file was left half written, the command can be repeated\n")
    os._exit(130)


if __name__ == "__main__":
    main()
