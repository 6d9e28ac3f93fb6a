"""Values for the sections about Table II."""

from experiments.page.writing import Results, Row, Values, table
from experiments.published import N_FEATURES, TABLE_2

TASKS = {
    "toxicant-fibrate": "Toxicant against fibrate",
    "toxicant-azole": "Toxicant against azole",
    "toxicant-others": "Toxicant against all others",
}
METHODS = {"dkpca": "DKPCA", "kpca": "KPCA", "pca-published": "PCA as published", "pca": "PCA done right"}
AZOLE = "toxicant-azole"


def values(results: Results) -> Values:
    """Everything the template says about Table II."""
    rows, beyond = results["table2"], results["table2_beyond"]
    variants, settings = beyond["variants"], beyond["settings"]
    agree, entries = agreement(rows)
    at = f"sigma-{settings['azole_sigma']:g}"
    pca = hits_in_all_tasks(rows, "pca-published", "pca-published")
    return {
        "settings": settings,
        "repetitions": beyond["repetitions"],
        "agree": agree,
        "entries": entries,
        "largest_difference": f"{largest_difference(rows):.4f}",
        "comparison": "\n\n".join(_comparison(rows, task) for task in TASKS),
        "misses": _misses(results),
        "by_sigma": _by_sigma(results),
        "azole_dkpca": "{} of {}".format(*hits(variants, AZOLE, f"dkpca-{at}", "dkpca")),
        "azole_kpca": "{} of {}".format(*hits(variants, AZOLE, f"kpca-{at}", "kpca")),
        "liblinear_gap": f"{_largest_gap(rows, variants, 'kpca', 'kpca-liblinear'):.4f}",
        "kpca_hits": "{} of {}".format(*hits_in_all_tasks(rows, "kpca", "kpca")),
        "text_hits": "{} of {}".format(*hits_in_all_tasks(variants, "kpca-text-width", "kpca")),
        "pca_hits": "{} of {}".format(*pca),
        "pca_longer_hits": "{} of {}".format(*hits_in_all_tasks(variants, "pca-published-longer", "pca-published")),
        "pca_by_gene_hits": "{} of {}".format(*hits_in_all_tasks(variants, "pca-stopped", "pca-published")),
        "pca_better": f"{_better(rows, 'pca', 'kpca')} of {pca[1]}",
        "centering_gap": f"{_largest_gap(rows, variants, 'dkpca', 'dkpca-exact-centering'):.4f}",
        "extend_gap": f"{_largest_gap(rows, variants, 'dkpca', 'dkpca-extend'):.4f}",
        "leaked": ", ".join(
            f"{value['mean']:.0%} ({task.split('-')[1]})"
            for task, value in beyond["test_samples_with_a_replicate_in_training"].items()
        ),
        "grouped": "\n\n".join(_grouped(rows, beyond["grouped"], task) for task in TASKS),
    }


def cell(rows: list[Row], task: str, method: str, n_features: int) -> Row | None:
    """Our mean and standard deviation, if computed."""
    wanted = (task, method, n_features)
    return next((row for row in rows if (row["task"], row["method"], row["n_features"]) == wanted), None)


def agreement(rows: list[Row]) -> tuple[int, int]:
    """DKPCA and KPCA entries within one published standard deviation, and how many there are."""
    dkpca, kpca = (hits_in_all_tasks(rows, method, method) for method in ("dkpca", "kpca"))
    return dkpca[0] + kpca[0], dkpca[1] + kpca[1]


def largest_difference(rows: list[Row]) -> float:
    """Between DKPCA and KPCA at 10 features or more."""
    wide = [row for row in rows if row["n_features"] >= 10]
    return _largest_gap(wide, wide, "kpca", "dkpca")


def hits(rows: list[Row], task: str, method: str, published_as: str) -> tuple[int, int]:
    """Entries of a row within one published standard deviation, and how many there are."""
    known = [n for n in N_FEATURES if cell(rows, task, method, n)]
    return sum(_within(cell(rows, task, method, n), _published(task, published_as, n)) for n in known), len(known)


def hits_in_all_tasks(rows: list[Row], method: str, published_as: str) -> tuple[int, int]:
    """The same over all tasks."""
    per_task = [hits(rows, task, method, published_as) for task in TASKS]
    return sum(hit for hit, _ in per_task), sum(n for _, n in per_task)


def _published(task: str, method: str, n_features: int) -> tuple[float, float] | None:
    row = TABLE_2[task].get(method)
    return None if row is None else row[N_FEATURES.index(n_features)]


def _within(ours: Row | None, theirs: tuple[float, float] | None) -> bool:
    return ours is not None and theirs is not None and abs(ours["mean"] - theirs[0]) <= theirs[1]


def _comparison(rows: list[Row], task: str) -> str:
    """One task: ours, and theirs below it."""
    widths = [n for n in N_FEATURES if cell(rows, task, "kpca", n)]
    lines = []
    for method, name in METHODS.items():
        lines.append([name, *(_compared(rows, task, method, n) for n in widths)])
        published = [pair for n in widths if (pair := _published(task, method, n))]
        if published:
            lines.append(["*published*", *(f"{mean:.4f} ± {deviation:.4f}" for mean, deviation in published)])
    return table([TASKS[task], *widths], lines)


def _compared(rows: list[Row], task: str, method: str, n_features: int) -> str:
    """Our value, bold where the published one is farther than its standard deviation."""
    ours, theirs = cell(rows, task, method, n_features), _published(task, method, n_features)
    assert ours is not None
    text = f"{ours['mean']:.4f} ± {ours['std']:.4f}"
    return text if theirs is None or _within(ours, theirs) else f"**{text}**"


def _misses(results: Results) -> str:
    """DKPCA and KPCA entries beyond one published standard deviation, each with its reason."""
    missed = [
        _miss(results, task, method, n)
        for task in TASKS
        for method in ("dkpca", "kpca")
        for n in N_FEATURES
        if (ours := cell(results["table2"], task, method, n)) and not _within(ours, _published(task, method, n))
    ]
    return table(["entry", "ours", "published", "off by", "why"], missed) if missed else "None is farther."


def _miss(results: Results, task: str, method: str, n_features: int) -> list[str]:
    ours, theirs = cell(results["table2"], task, method, n_features), _published(task, method, n_features)
    assert ours is not None
    assert theirs is not None
    beyond = results["table2_beyond"]
    sigma = beyond["settings"]["azole_sigma"]
    narrower = cell(beyond["variants"], task, f"{method}-sigma-{sigma:g}", n_features)
    if narrower is not None and _within(narrower, theirs):
        why = f"not known; with another σ it would agree: {narrower['mean']:.4f} at σ = {sigma:g}"
    else:
        error = (ours["std"] ** 2 + theirs[1] ** 2) ** 0.5 / beyond["repetitions"] ** 0.5
        why = f"not found; {abs(ours['mean'] - theirs[0]) / error:.1f} standard errors of the difference"
    return [
        f"{TASKS[task]}, {METHODS[method]}, {n_features}",
        f"{ours['mean']:.4f}",
        "{:.4f} ± {:.4f}".format(*theirs),
        f"{(ours['mean'] - theirs[0]) / theirs[1]:+.1f} std",
        why,
    ]


def _by_sigma(results: Results) -> str:
    """Entries of the azole KPCA row that agree, for every kernel width tried."""
    beyond = results["table2_beyond"]
    tried = {
        s: hits(beyond["variants"], AZOLE, f"kpca-sigma-{s:g}", "kpca") for s in beyond["settings"]["other_sigmas"]
    }
    tried[beyond["settings"]["sigma"]] = hits(results["table2"], AZOLE, "kpca", "kpca")
    return ", ".join(f"{hit} of {n} at σ = {sigma:g}" for sigma, (hit, n) in sorted(tried.items()))


def _largest_gap(rows: list[Row], others: list[Row], method: str, variant: str) -> float:
    """Largest difference between a row of the table and a variant of it."""
    mean = {(row["task"], row["n_features"]): row["mean"] for row in rows if row["method"] == method}
    compared = [row for row in others if row["method"] == variant]
    return max(abs(row["mean"] - mean[row["task"], row["n_features"]]) for row in compared)


def _better(rows: list[Row], method: str, other: str) -> int:
    """Entries in which one method errs less than another."""
    mean = {(row["method"], row["task"], row["n_features"]): row["mean"] for row in rows}
    return sum(value < mean[other, task, n] for (name, task, n), value in mean.items() if name == method)


def _grouped(rows: list[Row], grouped: list[Row], task: str) -> str:
    """Error on whole conditions, the random split in brackets."""
    widths = [n for n in N_FEATURES if cell(grouped, task, "kpca", n)]
    lines = []
    for method in ("dkpca", "kpca", "pca"):
        pairs = [(cell(grouped, task, method, n), cell(rows, task, method, n)) for n in widths]
        lines.append([METHODS[method], *(f"{a['mean']:.4f} ({b['mean']:.4f})" for a, b in pairs if a and b)])
    return table([TASKS[task], *widths], lines)
