"""Values for the sections beyond the paper: bytes, rounds, certificate, scale."""

from collections.abc import Callable

from experiments.page.writing import Row, Values, megabytes, plus_minus, seconds, short, table

EQUAL_BYTES = ((15, "float64"), (30, "float32"), (60, "float16"))  # the first is the paper's setting
WIDTHS = {"text": "as printed", "code": "as released"}
CERTIFICATE_HEADER = (
    "data", "rank",
    "kernel error, true", "proved",
    "subspace error, true", "proved", "Theorem 1",
    "share of the best variance, true", "proved",
)  # fmt: skip
SCALE_HEADER = (
    "flights",
    "slowest party", "center", "whole fit", "central KernelPCA",
    "peak, DKPCA", "peak, KernelPCA",
    "subspace error", "share of the best variance, proved",
    "sent", "raw columns",
)  # fmt: skip
DATA = {"simulated": "simulated", "real": "GSE2187"}


def bytes_values(result: Row) -> Values:
    """Error against bytes."""
    nystroem = [r for r in result["rows"] if r["method"] == "nystroem" and r["convention"] == "text"]
    return {
        "settings": result["settings"],
        "equal": table(
            ["kernel width", *(f"rank {rank}, {precision}" for rank, precision in EQUAL_BYTES), "times lower"],
            [[words, *_equal(result, convention)] for convention, words in WIDTHS.items()],
        ),
        "extra": f"{_extra_bytes(result):.1%}",
        "ratio_text": f"{equal_bytes_ratio(result, 'text'):.0f}",
        "ratio_code": f"{equal_bytes_ratio(result, 'code'):.0f}",
        "nystroem": ", ".join(f"{short(r['mean'])} ({r['rank']}, {r['precision']})" for r in nystroem),
    }


def equal_bytes_ratio(result: Row, convention: str) -> float:
    """How many times lower the error is than in the paper's setting, at its bytes."""
    found = _at_equal_bytes(result, convention)
    return float(found[0]["mean"] / found[-1]["mean"])


def rounds_values(result: Row) -> Values:
    """Error against rounds."""
    lines = [
        [f"{words}, rank {point['rank']}", short(point["mean"]), _rounds_needed(result[part], point["mean"])]
        for part, words in DATA.items()
        for point in result[part]["dkpca"]
    ]
    return {
        "points": table(["data, rank", "error after one round of DKPCA", "rounds the iteration needs for it"], lines),
        "one_more": " and ".join(
            f"from {short(curve[0]['mean'])} to {short(curve[1]['mean'])} ({words})"
            for part, words in DATA.items()
            for curve in [result[part]["iteration after dkpca"]]
        ),
    }


def certificate_values(result: Row) -> Values:
    """What is proved against what is true."""
    trivial = float(result["settings"]["n_components"])
    lines = [
        [
            words,
            f"{p['rank']:.0f}",
            *(short(p[key]["mean"]) for key in ("kernel_error", "kernel_error_bound", "subspace_error")),
            *(_bound(p[key]["mean"], trivial) for key in ("subspace_error_bound", "theorem_1_squared")),
            *(f"{p[key]['mean']:.3%}" for key in ("optimality", "optimality_bound")),
        ]
        for part, words in DATA.items()
        for p in result[part]
    ]
    points = [p for part in DATA for p in result[part]]
    return {
        "settings": result["settings"],
        "points": table(CERTIFICATE_HEADER, lines),
        "broken": sum(p["broken"] for p in points),
        "checks": 3 * result["repetitions"] * len(points),
    }


def scale_values(result: Row) -> Values:
    """Time, memory, bytes and error over T."""
    lines = [
        [
            f"{r['n_samples']:,}",
            *(_known(r, key, seconds) for key in ("slowest_party_s", "center_s", "fit_s", "central_s")),
            *(_known(r, key, megabytes) for key in ("peak_mb", "central_peak_mb")),
            _known(r, "subspace_error", short),
            f"{r['optimality_at_least']:.2%}",
            *(f"{r[key] / 1e6:.2f} MB" for key in ("bytes_sent", "bytes_raw")),
        ]
        for r in result["rows"]
    ]
    return {"settings": result["settings"], "points": table(SCALE_HEADER, lines)}


def _at_equal_bytes(result: Row, convention: str) -> list[Row]:
    rows = {(r["method"], r["convention"], r["rank"], r["precision"]): r for r in result["rows"]}
    return [rows["dkpca", convention, rank, precision] for rank, precision in EQUAL_BYTES]


def _equal(result: Row, convention: str) -> list[str]:
    errors = [plus_minus(row) for row in _at_equal_bytes(result, convention)]
    return [*errors, f"{equal_bytes_ratio(result, convention):.0f}"]


def _extra_bytes(result: Row) -> float:
    """What the scales of float16 add to the bytes of the paper's setting."""
    first, *_, last = (row["bytes_per_party"] for row in _at_equal_bytes(result, "text"))
    return float(last / first - 1.0)


def _rounds_needed(part: Row, error: float) -> str:
    reached = [p["round"] for p in part["iteration"] if p["mean"] <= error]
    return str(reached[0]) if reached else f"more than {part['iteration'][-1]['round']}"


def _bound(value: float, trivial: float) -> str:
    return "-" if value >= trivial else short(value)


def _known(row: Row, key: str, write: Callable[[float], str]) -> str:
    return write(row[key]) if key in row else "-"
