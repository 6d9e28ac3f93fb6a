"""Values for the sections about Fig. 3."""

import numpy as np

from experiments.data.simulated import FLOOR, LEADING
from experiments.page.writing import Row, Values, short, table

SIMILAR = 2.0  # an error is called similar to another if it is at most so many times as large
FLAT = 0.05  # a change by less than this share is called none
ROUNDING = 1e-16
TRADEOFF_HEADER = (
    "parties",
    "vectors, adaptive",
    "error, adaptive",
    "error of one rank for all, same vectors",
    "error, DKPCA-15",
)


def values(result: Row) -> Values:
    """Everything the template says about Fig. 3."""
    settings, simulated, real = result["settings"], result["simulated"], result["real"]
    first, last = _spectrum(real[0]), _spectrum(real[-1])
    return {
        "settings": settings,
        "similar": f"{SIMILAR:g}",
        "points": table(
            ["data, T", "DKPCA-5", "DKPCA-10", "DKPCA-15", "adaptive", "vectors, DKPCA-15", "vectors, adaptive"],
            [*_points("simulated", simulated), *_points("GSE2187", real)],
        ),
        "order_simulated": _ordered(simulated),
        "order_real": _ordered(real),
        "adaptive_simulated": adaptive(simulated),
        "adaptive_real": adaptive(real),
        "trend_simulated": trend(simulated, "adaptive"),
        "trend_real": trend(real, "adaptive"),
        "trend_simulated_absolute": trend(simulated, "adaptive absolute"),
        "trend_real_absolute": trend(real, "adaptive absolute"),
        "largest": real[-1]["n_samples"],
        "tradeoff": table(
            TRADEOFF_HEADER,
            [_traded(name, points, settings["real_epsilon"]) for name, points in result["tradeoff"].items()],
        ),
        **_against_15("printed", result["tradeoff"]["random sizes, width as printed"], settings["real_epsilon"]),
        **_against_15("equal", result["tradeoff"]["equal sizes"], settings["real_epsilon"]),
        "lambda_1": f"{last['lambda_1_per_sample']:.2f}",
        "lambda_2": short(last["lambda_2_over_lambda_1"]),
        "cut": f"{settings['real_epsilon'] / last['lambda_2_over_lambda_1']:.2f}",
        "real_lambda_6": f"{short(first['lambda_6_over_lambda_1'])} to {short(last['lambda_6_over_lambda_1'])}",
        "simulated_leading": settings["n_components"] + 1,
        "simulated_floor": f"{FLOOR / LEADING:g}",
        "simulated_per_party": _range(
            [point["adaptive"]["vectors"]["mean"] / settings["n_parties"] for point in simulated], ".1f"
        ),
        "ten_worse": _range(
            [point["fixed 10"]["error"]["mean"] / point["adaptive"]["error"]["mean"] for point in simulated], ".0f"
        ),
    }


def adaptive(points: list[Row]) -> str:
    """Whether the adaptive rule reaches the error of DKPCA-15, and with how many of its vectors."""
    ratios = [p["adaptive"]["error"]["mean"] / max(p["fixed 15"]["error"]["mean"], ROUNDING) for p in points]
    shares = [p["adaptive"]["vectors"]["mean"] / p["fixed 15"]["vectors"]["mean"] for p in points]
    similar = sum(ratio <= SIMILAR for ratio in ratios)
    worst = max(p["adaptive"]["error"]["mean"] for p in points)
    return (
        f"for {similar} of {len(points)} T ({_range(ratios, '.2g')} times its error, {_range(shares, '.0%')} of its "
        f"vectors; the error itself is at most {short(worst)})"
    )


def _range(numbers: list[float], form: str) -> str:
    low, high = f"{min(numbers):{form}}", f"{max(numbers):{form}}"
    return low if low == high else f"{low} to {high}"


def trend(points: list[Row], rule: str) -> str:
    """How the number of vectors moves from the smallest T to the largest."""
    first, last = points[0][rule]["vectors"]["mean"], points[-1][rule]["vectors"]["mean"]
    change = last / first - 1.0
    verb = "is flat" if abs(change) < FLAT else "grows" if change > 0 else "falls"
    return (
        f"it {verb}: {first:.0f} vectors at T = {points[0]['n_samples']}, {last:.0f} at T = {points[-1]['n_samples']}"
    )


def _spectrum(point: Row) -> dict[str, float]:
    return {quantity: value["mean"] for quantity, value in point["spectrum"].items()}


def _points(name: str, points: list[Row]) -> list[list[str]]:
    return [
        [
            f"{name}, {p['n_samples']}",
            *(short(p[rule]["error"]["mean"]) for rule in ("fixed 5", "fixed 10", "fixed 15", "adaptive")),
            *(f"{p[rule]['vectors']['mean']:.0f}" for rule in ("fixed 15", "adaptive")),
        ]
        for p in points
    ]


def _ordered(points: list[Row]) -> str:
    """For how many T more vectors mean less error."""
    errors = [[p[f"fixed {rank}"]["error"]["mean"] for rank in (5, 10, 15)] for p in points]
    return f"for {sum(e == sorted(e, reverse=True) for e in errors)} of {len(errors)} T"


def _traded(name: str, points: Row, epsilon: float) -> list[str]:
    mine = points[f"adaptive {epsilon:g}"]
    vectors = mine["vectors"]["mean"]
    return [
        name,
        f"{vectors:.0f}",
        short(mine["error"]["mean"]),
        short(_fixed_error_at(points, vectors)),
        short(points["fixed 15"]["error"]["mean"]),
    ]


def _against_15(name: str, points: Row, epsilon: float) -> Values:
    """Errors of the adaptive rule and of DKPCA-15."""
    rules = {f"{name}_adaptive": f"adaptive {epsilon:g}", f"{name}_15": "fixed 15"}
    return {field: short(points[rule]["error"]["mean"]) for field, rule in rules.items()}


def _fixed_error_at(points: Row, vectors: float) -> float:
    """Error of one rank for all at so many vectors, read off between the ranks computed, in logarithms."""
    fixed = sorted(
        (p["vectors"]["mean"], p["error"]["mean"]) for name, p in points.items() if name.startswith("fixed")
    )
    return float(np.exp(np.interp(vectors, [v for v, _ in fixed], np.log([e for _, e in fixed]))))
