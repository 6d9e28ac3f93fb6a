"""A folder served by one process until it is stopped by a signal."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from dkpca.errors import DKPCAError
from dkpca.store import storage

STOPPED = 130


def main(serve: Callable[[Path, asyncio.Event], Awaitable[None]]) -> None:
    """Serve the folder in the command line; what cannot be is one sentence. Threads do not hold up the end."""
    folder = Path(sys.argv[1]).resolve()

    async def until_signal() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await serve(folder, stopped)

    code = STOPPED
    try:
        with storage.alone(folder):
            asyncio.run(until_signal())
    except DKPCAError as error:
        print(f"dkpca: {error}", file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
