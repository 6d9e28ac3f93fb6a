"""A party's worker: the process that reads the table and computes. It has no connection; its parent asks it.

Each line on its input is one command, followed by so many bytes; each line it writes is one answer.
"""

import ctypes
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from dkpca.network.protocol import Asked
from dkpca.network.responder import Responder

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Answer until the input ends."""
    folder, identity, parent = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is for the parent
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # whatever prints does not disturb the answers
        responder = Responder(folder, identity)
        for line in sys.stdin.buffer:
            command = json.loads(line)
            asked = Asked.from_dict(command["asked"])
            attached = sys.stdin.buffer.read(command["attached"])
            answer = responder.weigh(asked) if command["do"] == "weigh" else responder.answer(asked, attached)
            out.write(json.dumps(asdict(answer), default=str).encode() + b"\n")
            out.flush()


if __name__ == "__main__":
    main()
