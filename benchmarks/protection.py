"""Protected fits on real data: the pooled answer, and what hiding costs.

`python -m benchmarks.protection --data FOLDER` measures all parts, or those that are named: masked sums of GSE2187
cut among 60 parties, at 32 bits and at fewer; a blind center beside an open one on 50 and on all 232,412 flights;
landmarks of all flights; how long a party attacks its own message. Without --data, an invented table stands in for
GSE2187, and the lines say so.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA
from threadpoolctl import threadpool_limits

from benchmarks.flights import N_FLIGHTS, flights
from benchmarks.measure import RESULTS, report
from dkpca import DKPCA, subspace_error, summarize
from dkpca.kernels import RBF
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading
from dkpca.party.recovery import measure
from experiments.command import expression

N_PARTIES, COMPONENTS = 60, 10
BITS = {"float32": 32, "float64": 64}
LANDMARKS = (500, 2000)  # of all flights
REFERENCE = 2000  # pivoted landmarks of the answer with which those drawn by a name are compared
Tables = dict[str, np.ndarray]


def main() -> None:
    """Measure all parts, or those in the command line; the lines of the others stay as they were."""
    parts: dict[str, Callable[[str | None], list[dict[str, Any]]]] = {
        "bits": bit_lines,
        "blind": blind_lines,
        "landmarks": landmark_lines,
        "recovery": recovery_lines,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(parts)}; else all")
    parser.add_argument("--data", help="folder of GSE2187")
    given = parser.parse_args()
    known = (
        json.loads((RESULTS / "protection.json").read_text())["lines"]
        if (RESULTS / "protection.json").exists()
        else []
    )
    chosen = given.parts or list(parts)
    lines = [line for line in known if line.get("part") not in (None, *chosen)]
    for part in chosen:
        lines += [{"part": part, **line} for line in parts[part](given.data)]
    report("protection", [line for line in lines if line["part"] in parts])


def genes(data: str | None) -> tuple[str, Tables, np.ndarray, float]:
    """Name of the data, columns of the parties, leading eigenvectors of the pooled kernel, and its width."""
    X = np.asarray(expression(data).X, dtype=np.float64)
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    parts = {f"party{j:02d}": part for j, part in enumerate(np.array_split(X, N_PARTIES, axis=1))}
    gamma = 1.0 / X.shape[1]
    truth = KernelPCA(COMPONENTS, kernel="rbf", gamma=gamma).fit(X).eigenvectors_
    name = "GSE2187" if data else "an invented table"
    return f"{name}, {X.shape[0]} samples, {X.shape[1]} columns, {N_PARTIES} parties", parts, truth, gamma


def bit_lines(data: str | None) -> list[dict[str, Any]]:
    what, tables, truth, gamma = genes(data)
    lines = []
    for precision, bits in BITS.items():
        model = DKPCA(COMPONENTS, gamma=gamma, protect="sums", precision=precision).fit(tables)
        value = error(truth, model.eigenvectors_)
        lines.append({"what": f"{what}, {bits} bit: subspace error", "value": value, "limit": "<= 1e-12"})
        lines.append({"what": f"{what}, {bits} bit: kB per party", "value": model.ledger_[0].bytes_sent / 1e3})
    return lines


def blind_lines(data: str | None) -> list[dict[str, Any]]:
    everything, lines = flights(), []
    for size in (50, N_FLIGHTS):
        tables = {owner: X[:: N_FLIGHTS // size][:size] for owner, X in everything.items()}
        models = {
            protect: DKPCA(5, kernel="linear", rank=10, precision="float64", protect=protect).fit(tables)
            for protect in ("none", "blind")
        }
        sent = [sum(line.bytes_sent for line in model.ledger_) for model in models.values()]
        what = f"blind vs unprotected, {size} flights, linear kernel, rank 10"
        found = error(models["none"].eigenvectors_, models["blind"].eigenvectors_)
        lines.append({"what": f"{what}: subspace error", "value": found, "limit": "<= 1e-12"})
        lines.append({"what": f"{what}: bytes, blind / unprotected", "value": sent[1] / sent[0], "limit": "<= 1.01"})
    return lines


def landmark_lines(data: str | None) -> list[dict[str, Any]]:
    tables, lines = flights(), []
    X = np.hstack(list(tables.values()))
    gram = Centered(KernelGram(RBF(1.0 / X.shape[1]), X))
    truth = leading(gram, COMPONENTS, solver="landmark", n_landmarks=REFERENCE).vectors
    for count in LANDMARKS:
        model = DKPCA(COMPONENTS, gamma=1.0 / X.shape[1], protect="sums", n_landmarks=count).fit(tables)
        what = f"{N_FLIGHTS} flights, 4 parties, {count} landmarks"
        value = error(truth, model.eigenvectors_)
        lines.append({"what": f"{what}: subspace error against {REFERENCE} pivoted ones", "value": value})
    return lines


def recovery_lines(data: str | None) -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 8)) @ random.normal(size=(8, 40)) + 0.3 * random.normal(size=(3000, 40))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    shares = []
    with threadpool_limits(1):  # processor time, of one thread: threads that wait for each other count as work
        for _ in range(3):
            begun = time.process_time()
            message, _ = summarize(X, party="clinic", kernel=RBF(1 / 40), rank=40)
            made = time.process_time()
            measure(message, X)
            shares.append((time.process_time() - made) / (made - begun))
    what = "3000 samples, 40 columns, rank 40: time of recovery / time of the summary"
    return [{"what": what, "value": float(np.median(shares)), "limit": "<= 3"}]


def error(truth: Any, found: Any) -> float:
    return max(0.0, float(subspace_error(np.asarray(truth), np.asarray(found))))


if __name__ == "__main__":
    main()
