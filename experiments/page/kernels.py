"""Tables of the page on kernels: weights, and parties that are missing."""

import re

from experiments.page.writing import Results, Row, table

MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, results: Results) -> str:
    """The page with its tables as the results give them."""
    tables = {"weights": _weights(results["weights"]), "missing": _missing(results["missing"])}
    return MARKED.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n\n{found[3]}", text)


def _weights(result: Row) -> str:
    rows = {(row["way"], row["on"]): row for row in result["rows"]}
    ways, data = (list(dict.fromkeys(row[key] for row in result["rows"])) for key in ("way", "on"))
    header = [f"{result['settings']['n_components']} components, {result['repetitions']} splits", *data]
    return table(header, [[way, *(_accuracy(rows[way, name]) for name in data)] for way in ways])


def _missing(result: Row) -> str:
    """Accuracy with all parties, and what each missing one costs."""
    rows = {(row["law"], row["missing"]): row for row in result["rows"]}
    laws, parties = (list(dict.fromkeys(row[key] for row in result["rows"])) for key in ("law", "missing"))
    header = [
        f"{result['settings']['n_components']} components, {result['repetitions']} splits",
        "all parties",
        *(f"without {party}" for party in parties[1:]),
    ]
    return table(header, [[law, *(_accuracy(rows[law, party]) for party in parties)] for law in laws])


def _accuracy(row: Row) -> str:
    return f"{row['mean']:.3f} ± {row['std']:.3f}"
