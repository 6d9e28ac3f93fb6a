"""Which samples all parties have, found without telling the center any sample id.

Parties share a key and send keyed hashes (HMAC-SHA256) of their ids, sorted; the center, which has no key, tells each
party at which positions of its list the common ones are. It learns how many ids a party has.
"""

import hmac
from collections.abc import Iterable

from dkpca.messages import TOKEN_BYTES


def tokens(sample_ids: Iterable[str], key: bytes) -> list[bytes]:
    """Keyed hash of each id, in the order given."""
    return [hmac.digest(key, b"dkpca sample id\0" + each.encode(), "sha256")[:TOKEN_BYTES] for each in sample_ids]
