"""At a party: the result of a run, kept beside the message it came of, under the party's own sample ids."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dkpca import messages, wire
from dkpca.errors import InputError, WireError
from dkpca.exchange import alignment
from dkpca.exchange.questions import Result
from dkpca.exchange.sending import Holding
from dkpca.messages import CommonTokens, Offer, Partials, Rows, Summary
from dkpca.network.configuration import Configuration
from dkpca.protection.rotation import Rotation
from dkpca.store import message_files, storage
from dkpca.store.runs import RESULT
from dkpca.tables import embeddings

COMMON = "common.tokens"
KINDS: Mapping[str, tuple[type[Any], ...]] = {
    "summary": (Summary,),
    "rows": (Rows, Partials),
    "offer": (Offer,),
}  # to which a result may belong


@dataclass(frozen=True)
class Sent:
    """What a message of the party was about."""

    sample_digest: str
    n_samples: int
    turned: bool = False


def keep(configuration: Configuration, result: Result, place: Path, run: str) -> None:
    """Write the scores; after a blind fit, with rows that are samples again."""
    digest, n_samples = result.scores.sample_digest, result.scores.scores.shape[0]
    answered = [each for each in sent(configuration.party, place) if each.sample_digest == digest]
    if not answered or answered[0].n_samples != n_samples:
        raise WireError("the result is about other samples than the message this party sent")
    holding = configuration.holding(result.batch)
    for ids, own in _rows(holding, n_samples, place):
        rotation = Rotation(holding.shared_key(), run, own, n_samples) if answered[0].turned else None
        if digest == (own if rotation is None else rotation.hidden_digest):
            told = result.scores if rotation is None else rotation.result(result.scores)
            produced = embeddings.embedding_files(ids, np.asarray(told.scores.decode())) | {RESULT: wire.encode(told)}
            storage.write_all({place / name: data for name, data in produced.items()})
            return
    raise InputError(f"{holding.path}: has other samples than when its message was made; ask anew")


def sent(party: str, place: Path) -> list[Sent]:
    """What the party has sent in answer to a run to which a result may belong."""
    found = []
    for ending, kinds in KINDS.items():
        if (place / f"{party}.{ending}").exists():
            message = message_files.read(place / f"{party}.{ending}", *kinds)
            if isinstance(message, Offer):
                found.append(Sent(message.agreed.sample_digest, message.agreed.rows))
            else:
                found.append(Sent(message.sample_digest, message.n_samples, getattr(message, "turned", False)))
    if not found:
        raise WireError("a result came, and this party has sent nothing to which it could belong")
    return found


def _rows(holding: Holding, n_samples: int, place: Path) -> Iterator[tuple[list[str], str]]:
    """The party's ids in an order that its message may have had, and the digest of the samples in that order."""
    if holding.reading.id_column is None:
        yield [str(row) for row in range(n_samples)], messages.row_number_digest(n_samples)
        return
    if (place / COMMON).exists():
        common = message_files.read(place / COMMON, CommonTokens)
        if common.tokens.shape[0] == n_samples:
            yield list(holding.aligned(common).order or ()), messages.digest(alignment.names(common))
    ids = holding.ids()
    yield ids, messages.digest(holding.keys(ids))
