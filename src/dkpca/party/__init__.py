"""What a party does: from its own table to the messages that may leave, and what it keeps for itself."""

from dkpca.party.state import PartyState, SumState
from dkpca.party.summaries import ANYTHING, extend, measured, partials, self_values, statistics, summarize

__all__ = [
    "ANYTHING",
    "PartyState",
    "SumState",
    "extend",
    "measured",
    "partials",
    "self_values",
    "statistics",
    "summarize",
]
