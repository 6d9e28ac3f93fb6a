"""Table of the page on the certificate: what is proved and estimated, beside the truth."""

import re

from experiments.page.writing import Results, Row, short, table

MARKED = re.compile(r"(<!-- table: error bars -->\n).*?(<!-- end -->)", re.DOTALL)
HEADER = (
    *("data", "rank", "audits", "true error", "proved", "estimate / true", "at least half", "at most 100 x"),
    *("audit's estimate / true", "within 5 x", "audit's kernel bound / true", "holds"),
)


def filled(text: str, results: Results) -> str:
    """The page with its table as the results give it."""
    rows = [_row(row) for row in results["error_bars"]["rows"]]
    return MARKED.sub(lambda found: f"{found[1]}\n{table(HEADER, rows)}\n\n{found[2]}", text)


def _row(row: Row) -> list[str]:
    return [
        *(row["on"], str(row["rank"]), str(row["audits"]), short(row["true"]), short(row["proved"])),
        *(short(row["free_ratio"]), f"{row['free_at_least_half']:.0%}", f"{row['free_within_100']:.0%}"),
        *(short(row["audit_ratio"]), f"{row['audit_within_5']:.1%}"),
        *(f"{row['audit_kernel_ratio']:.2f}", f"{row['audit_kernel_holds']:.1%}"),
    ]
