"""Damaged and forged compact messages: each decodes to a message or ends in `WireError`, in bounded memory.

python -m fuzz.compact --count 10000000 --seed 0
"""

import argparse
import json
import random
import resource

import numpy as np

from dkpca import wire
from dkpca.errors import WireError
from dkpca.kernels import RBF
from dkpca.linalg.precision import round_by, steps_for
from dkpca.messages import Rows, Summary, row_number_digest
from dkpca.wire.compact import NUMBERS_PER_BYTE

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)


def fuzz_compact(data: bytes) -> bool:
    """Whether the bytes are a message; anything but a message or `WireError` is a defect."""
    try:
        message = wire.decode(data)
    except WireError:
        return False
    assert isinstance(message, Summary | Rows)
    assert message.factor.data.size <= NUMBERS_PER_BYTE * len(data)
    return True


def seeds() -> list[bytes]:
    """Small honest messages of several shapes; one is shorter coded than the bound allows."""
    made = []
    for rows, columns, halvings in ((5, 2, 3), (40, 3, 8), (120, 9, 5), (700, 30, 7)):
        rng = np.random.default_rng(rows)
        Q, _ = np.linalg.qr(rng.standard_normal((rows, columns)))
        values = 4.0 ** -np.arange(columns)
        sent = round_by(Q * np.sqrt(values), steps_for(values, 2.0**-halvings, rows))
        summary = Summary("hospital", RBF(0.5), row_number_digest(rows), 7, sent, 0.25, -1e-9, 1e-7, 2e-7)
        made += [wire.encode(summary), wire.encode(Rows("hospital", "0" * 64, row_number_digest(rows), sent))]
    constant = round_by(np.ones((900, 1)), np.array([0.5]))
    return [*made, wire.encode(Rows("hospital", "0" * 64, row_number_digest(900), constant))]


def mutated(rng: random.Random, whole: bytes) -> bytes:
    """One of the ways to damage a file: mostly in the coded numbers, where the coder has to cope with it."""
    header = 8 + int.from_bytes(whole[:8], "little")
    data = bytearray(whole)
    kind = rng.random()
    if kind < 0.1:
        return _other_shape(rng, whole, header)
    low = header if kind < 0.9 else 0
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        position = rng.randrange(low, len(data))
        choice = rng.random()
        if choice < 0.5:
            data[position] ^= 1 << rng.randrange(8)
        elif choice < 0.7:
            data[position] = rng.choice(INTERESTING)
        elif choice < 0.85:
            data[position] = rng.randrange(256)
        else:
            end = min(len(data), position + rng.randrange(1, 9))
            data[position:end] = rng.randbytes(end - position)
    return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.02 else data)


def _other_shape(rng: random.Random, whole: bytes, header: int) -> bytes:
    """Claim another shape for the coded numbers, and leave them as they are."""
    layout = json.loads(whole[8:header])
    inner = json.loads(layout["__metadata__"]["dkpca"])
    sizes = (1, 2, 3, 5, 40, 700, 2**16, 2**24, 2**31, 2**39, 2**63, -1)
    inner["coded"]["factor"][rng.randrange(2)] = rng.choice(sizes)
    layout["__metadata__"]["dkpca"] = json.dumps(inner)
    text = json.dumps(layout).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + whole[header:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, files, accepted = random.Random(given.seed), seeds(), 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(1, given.count + 1):
        accepted += fuzz_compact(mutated(rng, rng.choice(files)))
        if number % 100_000 == 0 or number == given.count:
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            print(f"{number} files, {accepted} of them messages, {grown} kB of memory more", flush=True)


if __name__ == "__main__":
    main()
