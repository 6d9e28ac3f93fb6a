"""Which samples all parties have, found without telling the center any sample id.

Parties share a key and send keyed hashes (HMAC-SHA256) of their ids, sorted; the center, which has no key, tells each
party at which positions of its list the common ones are. It learns how many ids a party has.
"""

import hmac
from collections.abc import Iterable

from dkpca.messages import TOKEN_BYTES


def tokens(sample_ids: Iterable[str], key: bytes, batch: str = "") -> list[bytes]:
    """Keyed hash of each id, in the order given; of a batch others than of the fit, so that nothing links the two."""
    label = f"dkpca sample id{batch and f' of {batch}'}\0".encode()
    return [hmac.digest(key, label + each.encode(), "sha256")[:TOKEN_BYTES] for each in sample_ids]
