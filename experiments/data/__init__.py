"""The data of the experiments: simulated, GSE2187 of GEO, and flights out of New York."""

from experiments.data.flights import flights
from experiments.data.geo import Expression, gse2187, stand_in
from experiments.data.simulated import low_rank

__all__ = ["Expression", "flights", "gse2187", "low_rank", "stand_in"]
