"""Values for the section about Fig. 2."""

from experiments.page.writing import Row, Values, holds, short

SMALL = 0.01  # an error below this is called small
ROUNDING = 1e-12


def values(result: Row) -> Values:
    """Everything the template says about Fig. 2."""
    simulated, real, once = result["simulated"], result["real"], result["real_in_file_order"]
    inner = [point["mean"] for point in simulated if point["mean"] > ROUNDING]
    worst = max(once, key=lambda row: row["code"]["error"])
    at_worst = worst["code"]
    return {
        "settings": result["settings"],
        "repetitions": result["repetitions"],
        "last_seed": result["repetitions"] - 1,
        "simulated_small": holds(_worst(simulated) < SMALL),
        "simulated_worst": short(_worst(simulated)),
        "simulated_least": short(min(inner)),
        "real_small": holds(_worst(real) < SMALL),
        "real_worst": short(_worst(real)),
        "real_least": short(min(point["mean"] for point in real)),
        "once_worst": short(at_worst["error"]),
        "once_worst_parties": worst["n_parties"],
        "once_least": short(min(row["code"]["error"] for row in once)),
        "gap": short(at_worst["gap"]),
        "gap_share": f"{at_worst['gap'] / at_worst['last_eigenvalue']:.0%}",
        "left_out": ", ".join(f"{short(row['code']['left_out'])} at J = {row['n_parties']}" for row in once),
    }


def _worst(points: list[Row]) -> float:
    return max(point["mean"] for point in points)
