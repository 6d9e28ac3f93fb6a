"""Groups of samples, found on their scores."""

from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.report.label_columns import LabelColumn, category_column
from dkpca.tables.reading import Matrix

FITTED_ON = 10_000  # most samples from which groups are learned; the others join the nearest
JUDGED_ON = 3_000  # most samples for a silhouette, which needs all their distances
MOST_GROUPS = 10
NOISE = "in no cluster"


def cluster_columns(scores: Matrix, asked: str) -> list[LabelColumn]:
    """Columns of clusters: by k-means, by HDBSCAN, both ("auto"), or none."""
    if asked == "none" or len(scores) < 4:
        return []
    if asked == "hdbscan":
        return [_by_density(scores)]
    if asked == "auto":
        most = min(MOST_GROUPS, len(scores) - 1)
        return [_best_of(scores, range(2, most + 1)), _by_density(scores)]
    if not asked.isdecimal() or not 2 <= int(asked) < len(scores):
        raise InputError(
            f"--clusters is {asked!r}; give 'auto', 'hdbscan', 'none', or a number from 2 to {len(scores) - 1}"
        )
    return [_best_of(scores, [int(asked)])]


def _best_of(scores: Matrix, counts: Any) -> LabelColumn:
    """K-means with the number of clusters that has the best silhouette."""
    from sklearn.cluster import KMeans

    known = _sampled(scores, FITTED_ON)
    fits = [KMeans(count, n_init=4, random_state=0).fit(scores[known]) for count in counts]
    judged = _sampled(scores, JUDGED_ON)
    found = [(silhouette(scores[judged], fit.predict(scores[judged])), fit) for fit in fits]
    best, fit = max(found, key=lambda pair: pair[0])
    chosen = "the number with the best silhouette" if len(fits) > 1 else "the number asked for"
    return _column(f"k-means, {fit.n_clusters} clusters", fit.predict(scores), best, chosen)


def _by_density(scores: Matrix) -> LabelColumn:
    """HDBSCAN: groups are where samples are dense, and some samples are in none."""
    from sklearn.cluster import HDBSCAN

    known = _sampled(scores, FITTED_ON)
    smallest = max(5, len(known) // 50)
    codes = HDBSCAN(min_cluster_size=smallest, copy=True).fit_predict(scores[known])
    if len(known) < len(scores):
        from sklearn.neighbors import NearestNeighbors

        nearest = NearestNeighbors(n_neighbors=1).fit(scores[known]).kneighbors(scores, return_distance=False)
        codes = codes[nearest[:, 0]]
    judged = _sampled(scores, JUDGED_ON)
    value = silhouette(scores[judged], codes[judged])
    return _column("HDBSCAN", codes, value, f"groups of at least {smallest} samples")


def silhouette(scores: Matrix, codes: Any) -> float:
    """Mean silhouette of the samples in a cluster; 0 where there are not two clusters to compare."""
    from sklearn.metrics import silhouette_score

    inside = codes >= 0
    n_groups = len(np.unique(codes[inside]))
    if not 2 <= n_groups < inside.sum():
        return 0.0
    return float(silhouette_score(scores[inside], codes[inside]))


def _column(name: str, codes: Any, value: float, chosen: str) -> LabelColumn:
    """Clusters by size, the largest first."""
    sizes = [(int((codes == code).sum()), code) for code in np.unique(codes[codes >= 0])]
    ordered = sorted(sizes, key=lambda pair: (-pair[0], pair[1]))
    words = {code: f"cluster {number}" for number, (_, code) in enumerate(ordered, start=1)}
    values = [words.get(code, NOISE) for code in codes.tolist()]
    order = [*words.values(), *([NOISE] if NOISE in values else [])]
    judged = f"silhouette {value:.2f}" if len(words) > 1 else "fewer than two clusters, so no silhouette"
    n_inside = len(values) - values.count(NOISE)
    share = "" if n_inside == len(values) else f"; {n_inside / len(values):.0%} of the samples are in a cluster"
    return category_column(name, values, group="clusters", note=f"{judged} ({chosen}){share}", order=order)


def _sampled(scores: Matrix, most: int) -> Any:
    if len(scores) <= most:
        return np.arange(len(scores))
    return np.sort(np.random.default_rng(0).choice(len(scores), most, replace=False))
