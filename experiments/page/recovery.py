"""Tables of the page on disclosure: one per data set, what known rows recover by mode and by who holds what."""

import re

from experiments.page.writing import Results, Row, table

MARKED = re.compile(r"(<!-- table: recovery on ([^\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)
AS_CENTER, AS_OPEN, NOISE = "as for the center", "as unprotected", "noise [1]"


def filled(text: str, results: Results) -> str:
    """The page with its tables as the results give them; a quick run knows fewer components and changes none."""
    result = results["disclosure"]
    whole = len(result["settings"]["n_components"]) > 1

    def written(found: re.Match[str]) -> str:
        return f"{found[1]}\n{_table(result, found[2])}\n\n{found[3]}" if whole else found[0]

    return MARKED.sub(written, text)


def _table(result: Row, on: str) -> str:
    """Rows are who, with 30 and with 100 known rows; columns are modes."""
    known = result["settings"]["known_rows"]
    cells = {
        (row["mode"], row["who"], row["known_rows"]): f"{row['low']:.2f}–{row['high']:.2f}"
        for row in result["rows"]
        if row["on"] == on
    }

    def cell(mode: str, who: str) -> str:
        return " · ".join(cells[mode, who, count] for count in known)

    message = "center, or an outsider with the message"
    blind = cell("blind", "center, or an outsider with the messages")
    sums = cell("masked sums", "center")
    public = cell("blind", "center that has the second party's columns")
    together = cell("masked sums", "center and all other parties")
    with_key = cell("blind", "center and another party, who has the key")
    factors, compact = cell("factors", message), cell("compact factors", message)
    results = {mode: cell(mode, who) for mode, who, _ in cells if who == "whoever gets it"}
    own, both = (cell(mode, "another party") for mode in ("its own columns", "its own columns, and the result"))
    rows = [
        ["the center", factors, sums, blind],
        ["the center, compact factors", compact, "", ""],
        ["an outsider with the party's messages", AS_CENTER, NOISE, AS_CENTER],
        ["a center that has another party's columns", factors, f"at least {sums}", public],
        ["the center and one other party", factors, f"at least {sums}", with_key],
        ["the center and all other parties", factors, together, with_key],
        *([f"anyone who gets {mode}", text, AS_OPEN, AS_OPEN] for mode, text in results.items()),
        ["another party, from its own columns alone", own, AS_OPEN, AS_OPEN],
        ["another party, from its own columns and the result", both, AS_OPEN, AS_OPEN],
    ]
    return table([f"{on}: {' · '.join(map(str, known))} known rows", "unprotected", "masked sums", "blind"], rows)
