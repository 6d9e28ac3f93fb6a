"""A bank and a shop know the same customers. Each sends one file; the center finds segments that neither sees alone.

The bank has amounts, the shop has categories: each uses the kernel that fits its columns, and the center multiplies.
Run it with: python -m examples.bank_and_shop
"""

import tempfile
from pathlib import Path

import numpy as np

import dkpca
from dkpca.kernels import RBF, Overlap
from examples.pictures import picture_file, scatters

CUSTOMERS = 400
SAVES = np.array(["spends", "saves"])
SHOPS = np.array(["in town", "online"])


def customers(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of the bank, columns of the shop, and the segment of each customer, which nobody knows."""
    rng = np.random.default_rng(seed)
    saves, online = rng.random(CUSTOMERS) < 0.5, rng.random(CUSTOMERS) < 0.5
    amounts = rng.lognormal(mean=np.where(saves, 1.6, 0.0)[:, None], sigma=0.5, size=(CUSTOMERS, 5))
    # Eight habits with three answers each; who shops online gives the third answer more often.
    share = np.where(online, 0.75, 0.15)[:, None]
    habits = np.where(rng.random((CUSTOMERS, 8)) < share, 2, rng.integers(0, 2, (CUSTOMERS, 8)))
    segment = np.char.add(np.char.add(SAVES[saves.astype(int)], ", "), SHOPS[online.astype(int)])
    return np.log(amounts), habits.astype(float), segment


def main() -> dict[str, float]:
    """Send, fuse, draw; return the bytes that left each owner."""
    out = picture_file(__doc__ or "")
    bank, shop, segment = customers()
    with tempfile.TemporaryDirectory() as folder:
        sent = {}
        for party, columns, kernel in (("bank", bank, RBF(0.05)), ("shop", shop, Overlap(0.15))):
            summary, _ = dkpca.summarize(columns, party=party, kernel=kernel, rank=30)
            dkpca.save(f"{folder}/{party}.summary", summary)  # this file is all that leaves
            sent[party] = float(Path(f"{folder}/{party}.summary").stat().st_size)
        received = [dkpca.load(f"{folder}/{party}.summary") for party in sent]
    messages = [message for message in received if isinstance(message, dkpca.Summary)]
    together = dkpca.fuse(messages, n_components=2, law="product")
    alone = {message.party: dkpca.fuse([message], n_components=2).scores for message in messages}
    for party, size in sent.items():
        print(f"{party} sent {size / 1000:.1f} kB, once")
    print(f"certified: at least {together.certificate.optimality_at_least:.1%} of what the best components capture")
    panels = {"what the bank sees": alone["bank"], "what the shop sees": alone["shop"], "together": together.scores}
    scatters(panels, segment, out)
    return sent


if __name__ == "__main__":
    main()
