"""Which samples all parties have, found without telling the center any sample id.

Parties share a key and send keyed hashes (HMAC-SHA256) of their ids; the center, which has no key, answers with
the hashes that all of them sent. Row order and everything about ids that are not shared stay hidden from the
center, up to their number; a party with the key can test guesses on what it receives.
"""

import hmac
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dkpca.errors import InputError, TooFewSamplesError
from dkpca.messages import TOKEN_BYTES, CommonTokens, Tokens

SHORTEST_KEY = 16  # bytes


def tokens(sample_ids: Iterable[str], key: bytes) -> list[bytes]:
    """Keyed hash of each id, in the order given."""
    if len(key) < SHORTEST_KEY:
        raise InputError(f"the key has {len(key)} bytes; it needs at least {SHORTEST_KEY}")
    return [
        hmac.digest(key, b"dkpca sample id\0" + sample_id.encode(), "sha256")[:TOKEN_BYTES]
        for sample_id in sample_ids
    ]


def common_tokens(lists: Mapping[str, Iterable[bytes]]) -> CommonTokens:
    """Return the center's answer: tokens that every party sent."""
    common = set.intersection(*map(set, lists.values()))
    if not common:
        raise nothing_common(lists)
    return CommonTokens(len(lists), Tokens.of(common))


def nothing_common(lists: Mapping[str, Iterable[bytes]]) -> TooFewSamplesError:
    """Say whose samples are at no other party, from the lists of all."""
    count = Counter(token for own in lists.values() for token in set(own))
    shared = {party: sum(count[token] > 1 for token in set(own)) for party, own in lists.items()}
    said = ", ".join(f"{party} {n:,}" for party, n in sorted(shared.items(), key=lambda item: item[1]))
    return TooFewSamplesError(
        f"no sample is common to all of {sorted(lists)}; samples shared with at least one other party: {said}; "
        "check that all write ids alike"
    )


def common_rows(sample_ids: Sequence[str], key: bytes, common: CommonTokens) -> list[int]:
    """Row numbers of the common samples, in the common order."""
    position = {token: row for row, token in enumerate(tokens(sample_ids, key))}
    wanted = common.tokens.listed()
    missing = sum(token not in position for token in wanted)
    if missing:
        raise InputError(
            f"{missing} of the {len(wanted)} common samples are not among these ids; "
            "use the key and the table from which the tokens were made"
        )
    return [position[token] for token in wanted]
