"""How much each party shapes each component."""

import numpy as np

from dkpca.fusion import FusedModel
from dkpca.fusion.scoring import party_shares
from dkpca.tables.reading import Matrix


def influence(model: FusedModel) -> Matrix:
    """Share of each party in each component, (n_parties, n_components); every column adds up to 1."""
    return np.array(list(party_shares(model).values()))
