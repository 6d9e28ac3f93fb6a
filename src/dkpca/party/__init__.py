"""A party: it turns its own table into messages for the center, and keeps a private state."""

from dkpca.party.limits import ANYTHING
from dkpca.party.state import PartyState, SumState
from dkpca.party.summaries import extend, self_values, statistics, summarize

__all__ = ["ANYTHING", "PartyState", "SumState", "extend", "self_values", "statistics", "summarize"]
