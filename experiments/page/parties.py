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
        "components": result["settings"]["n_components"],
        "repetitions": result["repetitions"],
        "last_seed": result["repetitions"] - 1,
        "simulated_small": holds(_worst(simulated) < SMALL),
        "simulated_worst": short(_worst(simulated)),
        "simulated_least": short(min(inner)),
        "real_small": holds(_worst(real) < SMALL),
        "real_worst": short(_worst(real)),
        "real_least": short(min(point["mean"] for point in real)),
        "printed_worst": short(max(row["text"]["error"] for row in once)),
        "printed_first": short(once[0]["text"]["error"]),
        "printed_last": short(once[-1]["text"]["error"]),
        "last_parties": once[-1]["n_parties"],
        "worst_parties": worst["n_parties"],
        "worst": short(at_worst["error"]),
        "worst_one_less": short(at_worst["error_one_less"]),
        "worst_one_more": short(at_worst["error_one_more"]),
        "gap": f"{at_worst['gap'] / at_worst['last_eigenvalue']:.0%}",
        "printed_gap": f"{worst['text']['gap'] / worst['text']['last_eigenvalue']:.0%}",
        "left_out": short(at_worst["left_out"] / at_worst["last_eigenvalue"]),
    }


def _worst(points: list[Row]) -> float:
    return max(point["mean"] for point in points)
