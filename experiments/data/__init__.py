"""The data of the experiments: simulated, and GSE2187 of GEO. Flights are those of the benchmarks."""

from experiments.data.geo import Expression, gse2187, stand_in
from experiments.data.simulated import low_rank

__all__ = ["Expression", "gse2187", "low_rank", "stand_in"]
