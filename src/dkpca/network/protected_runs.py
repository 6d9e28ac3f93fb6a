"""The center's part of protected runs: sums of masked numbers become messages in the run's directory.

messages/PARTY.offer, PARTY.sums, PARTY.sums-2 ...   as received
messages/joined.summary, joined.rows                 what their sum is: a party that has all columns
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dkpca import wire
from dkpca.exchange import alignment, sum_rounds
from dkpca.exchange.questions import ScorerGiven, TokensWanted
from dkpca.exchange.rounds import Fit
from dkpca.exchange.sum_rounds import Received
from dkpca.fusion.scoring import scorers
from dkpca.messages import CommonTokens, Message, Offer
from dkpca.network.remote import RemoteParties
from dkpca.protection import joint, quantities
from dkpca.protection.member import BITS
from dkpca.store import message_files, storage
from dkpca.store.runs import Run


def gather_sums(remote: RemoteParties, fit: Fit, folder: Path) -> tuple[Sequence[str] | None, dict[str, Any]]:
    """Have the summary of the joined table in the run's directory; return the samples' names, and how to fuse it."""
    sum_rounds.check_parties(remote.names, fit.protect)
    common = alignment.intersect(remote.ask(TokensWanted()).values()) if fit.align else None
    summary, _ = sum_rounds.for_fit(remote, fit, run=remote.run, bits=BITS[fit.precision], common=common)
    _write(folder, "summary", summary)
    names = None if common is None else alignment.names(common)
    return names, {"center": fit.center, "roster": [joint.JOINED]}


def gather_new(
    remote: RemoteParties, whole: RemoteParties, run: Run, fit: Fit, batch: str, common: CommonTokens | None
) -> list[Path]:
    """Have new samples placed by masked sums; return the messages from which the center takes their scores.

    `whole` keeps what is said about the run, and `remote` what is said about the batch.
    """
    name = f"{remote.run}.{batch}"[:64]
    if fit.protect == "blind":
        whole.ask({party: ScorerGiven(scorer) for party, scorer in scorers(run.model).items()})
        return _files(remote, sum_rounds.shares(remote, run=name, batch=batch, common=common))
    (summary,) = run.model.summaries.values()
    fitted = message_files.read(whole.folder / "messages" / f"{whole.names[0]}.offer", Offer).agreed
    positions = quantities.positions(fitted)
    rows = sum_rounds.new_rows(
        remote, summary, positions, run=name, bits=BITS[fit.precision], batch=batch, common=common
    )
    return [_write(remote.folder, "rows", rows)]


def _files(remote: RemoteParties, received: Received) -> list[Path]:
    """Where masked numbers lie."""
    endings = ["sums", *(f"sums-{part}" for part in range(2, len(received.answers) + 1))]
    return [remote.folder / "messages" / f"{party}.{ending}" for ending in endings for party in remote.names]


def _write(folder: Path, ending: str, message: Message) -> Path:
    path = folder / "messages" / f"{joint.JOINED}.{ending}"
    storage.write(path, wire.encode(message))
    return path
