"""What "auto" chooses as the samples become more, how long it takes, and what it certifies: no cliff.

Flights of four owners, rank 40, 10 components: `python -m benchmarks.choice`.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.flights import flights
from benchmarks.measure import once, report
from dkpca import DKPCA

SAMPLES = (1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10_000, 12_000, 15_000, 20_000, 30_000, 50_000)
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "choice.svg"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, nargs="+", default=list(SAMPLES))
    arguments = parser.parse_args()
    tables = flights()
    fits = [fit(tables, n) for n in arguments.samples]
    lines = []
    for n, seconds, solver, share in fits:
        lines.append({"what": f"{n:,} flights, center {solver}: seconds", "value": seconds})
        lines.append({"what": f"{n:,} flights: share of the best variance that is proved", "value": share})
    report("choice", lines)
    draw(fits)


def fit(tables: dict[str, np.ndarray], n: int) -> tuple[int, float, str, float]:
    """Fit so many flights; seconds, the center's solver and the share that is proved."""
    rows = np.random.default_rng(0).choice(len(next(iter(tables.values()))), n, replace=False)
    some = {owner: X[rows] for owner, X in tables.items()}
    model = DKPCA(10, gamma="scale", rank=40)
    seconds = once(lambda: model.fit(some))
    return n, seconds, model.solvers_["center"].split(" (")[0], model.certificate_.optimality_at_least


def draw(fits: list[tuple[int, float, str, float]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "choice"
    from matplotlib import pyplot as plt

    n, seconds, solvers, shares = zip(*fits, strict=True)
    figure, (above, below) = plt.subplots(2, 1, figsize=(6, 5), sharex=True, layout="constrained")
    for family, color in (("dense", "#0072b2"), ("streamed", "#009e73"), ("landmark", "#d55e00")):
        mine = [i for i, solver in enumerate(solvers) if solver.startswith(family)]
        above.plot([n[i] for i in mine], [seconds[i] for i in mine], "o", color=color, label=f"center: {family}")
        below.plot([n[i] for i in mine], [shares[i] for i in mine], "o", color=color)
    above.plot(n, seconds, "-", color="0.7", zorder=0)
    below.plot(n, shares, "-", color="0.7", zorder=0)
    above.set(xscale="log", yscale="log", ylabel="seconds of the whole fit")
    below.set(xscale="log", ylim=(0.9, 1.0), xlabel="flights", ylabel="proved share of the best variance")
    above.legend()
    figure.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
