"""Table I of the paper as functions: numbers sent by a party, and leading-order operations."""

import math


def dkpca_communication(n_samples: int, rank: int) -> int:
    """Numbers a party sends: its factor. The paper's O(D T)."""
    return n_samples * rank


def dkpca_computation(n_samples: int, n_features: int, n_parties: int, rank: int) -> int:
    """Operations of Algorithm 1, the paper's O(max{T, M/J + D J} T^2)."""
    return max(n_samples, n_features // n_parties + rank * n_parties) * n_samples**2


def dpca_communication(n_features: int, rank: int) -> int:
    """Numbers a party of the horizontal algorithm of Fan et al. 2019 sends: O(D M)."""
    return n_features * rank


def dpca_computation(n_samples: int, n_features: int, n_parties: int, rank: int) -> int:
    """Operations of Fan et al. 2019: O(max{M, T/J + D J} M^2)."""
    return max(n_features, n_samples // n_parties + rank * n_parties) * n_features**2


def kpca_communication(n_samples: int, n_features: int, n_parties: int) -> int:
    """Numbers a party sends if its raw columns go to the center: O(T M / J)."""
    return n_samples * math.ceil(n_features / n_parties)


def kpca_computation(n_samples: int) -> int:
    """Operations of central kernel PCA by SVD: O(T^3)."""
    return n_samples**3


def cubic_party_range(n_samples: int, n_features: int, rank: int) -> tuple[int, int] | None:
    """Fewest and most parties for which Algorithm 1 stays O(T^3), or None if there is no such number."""
    discriminant = n_samples**2 - 4 * n_features * (rank + 1)
    if discriminant < 0:
        return None
    root = math.sqrt(discriminant)
    low = math.ceil((n_samples - root) / (2 * (rank + 1)))
    high = math.floor((n_samples + root) / (2 * (rank + 1)))
    return (max(1, low), high) if low <= high else None
