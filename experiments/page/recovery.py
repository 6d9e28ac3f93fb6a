"""Tables of the page on disclosure: what known rows recover, by who holds what."""

import re

from experiments.page.writing import Results, Row, table

MARKED = re.compile(r"(<!-- table: recovery (\d+) -->\n).*?(<!-- end -->)", re.DOTALL)
NOISE = "nothing: noise [1]"
SAME = "as the center"
Cells = dict[tuple[str, str, int], str]


def filled(text: str, results: Results) -> str:
    """The page with its tables as the results give them; a quick run knows fewer rows and changes none."""
    result = results["disclosure"]
    known = {row["known_rows"] for row in result["rows"]}

    def written(found: re.Match[str]) -> str:
        count = int(found[2])
        return f"{found[1]}\n{_table(result, count)}\n\n{found[3]}" if count in known else found[0]

    return MARKED.sub(written, text)


def _table(result: Row, known: int) -> str:
    """Rows are who, columns are modes; a cell has the range of R squared on each data set, in their order."""
    cells: dict[tuple[str, str], list[str]] = {}
    for row in result["rows"]:
        if row["known_rows"] == known:
            cells.setdefault((row["mode"], row["who"]), []).append(f"{row['low']:.2f}–{row['high']:.2f}")
    measured = {key: " · ".join(values) for key, values in cells.items()}
    message = "center, or an outsider with the message"
    factors, compact = measured["factors", message], measured["compact factors", message]
    blind = measured["blind", "center, or an outsider with the messages"]
    with_all = measured["masked sums", "center and all other parties"]
    with_key = measured["blind", "center and another party, who has the key"]
    result_only = {mode: text for (mode, who), text in measured.items() if who == "whoever gets it"}
    own, both = (measured[mode, "another party"] for mode in ("its own columns", "its own columns, and the result"))
    rows = [
        ["the center", factors, compact, measured["masked sums", "center"], blind],
        ["an outsider with the party's messages", SAME, SAME, NOISE, SAME],
        ["the center and all other parties together", SAME, SAME, with_all, with_key],
        *([f"whoever gets {mode}", text, "the same", "the same", "the same"] for mode, text in result_only.items()),
        ["another party, from its own columns alone", own, "the same", "the same", "the same"],
        ["another party, from these and the result", both, "the same", "the same", "the same"],
    ]
    return table([f"{known} known rows", "factors", "compact factors", "masked sums", "blind"], rows)
