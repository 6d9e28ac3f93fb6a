"""Values for the section about Table I."""

from experiments.complexity import cubic_party_range
from experiments.page.writing import Row, Values, seconds, table
from experiments.published import CUBIC_EXAMPLE

METHODS = ("dkpca", "dpca", "kpca")
HEADER = (
    "T", "M", "J",
    "DKPCA sends", "D T", "slowest party", "center", "all parties and center",
    "DPCA sends", "D M", "slowest party", "center",
    "KPCA sends", "T M / J", "center",
)  # fmt: skip


def values(result: Row) -> Values:
    """Everything the template says about Table I."""
    cases = result["cases"]
    within = all(case[m]["numbers_sent"] <= case[m]["formula_numbers"] for case in cases for m in METHODS)
    return {
        "timings": result["timings"],
        "rank": cases[0]["rank"],
        "cases": table(HEADER, [_line(case) for case in cases]),
        "example": CUBIC_EXAMPLE,
        "range": cubic_party_range(CUBIC_EXAMPLE["T"], CUBIC_EXAMPLE["M"], CUBIC_EXAMPLE["D"]),
        "verdict": "never hold more numbers than" if within else "in some cases hold more numbers than",
    }


def _line(case: Row) -> list[object]:
    dkpca, dpca, kpca = (case[method] for method in METHODS)
    return [
        *(case[size] for size in ("n_samples", "n_features", "n_parties")),
        *_sent(dkpca),
        *(seconds(dkpca[part]) for part in ("slowest_party_s", "center_s", "total_s")),
        *_sent(dpca),
        *(seconds(dpca[part]) for part in ("slowest_party_s", "center_s")),
        *_sent(kpca),
        seconds(kpca["center_s"]),
    ]


def _sent(costs: Row) -> list[str]:
    return [f"{costs['numbers_sent']:.0f}", f"{costs['formula_numbers']:.0f}"]
