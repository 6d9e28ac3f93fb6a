"""Masked sums with files as messages: what a party reads, writes and keeps, and what the center adds up.

A party writes its offer, which goes to all, and keeps the key of this sum and its state. With the offers of all it
writes its masked numbers, one file per piece. Its ledger knows every context that it has answered.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dkpca import strict_json
from dkpca.errors import FusionError, InputError, ProtectionError
from dkpca.exchange.files import Holding, Sender, load_state
from dkpca.fields import check_party_name
from dkpca.kernels import Kernel
from dkpca.messages import MaskedSum, Offer, Rows, Scores, Summary, digest
from dkpca.protection import joint, member, quantities
from dkpca.protection.keys import Identity, SumKey, check_identity
from dkpca.protection.member import Sum
from dkpca.protection.rotation import Rotation
from dkpca.store import message_files, private_state, storage
from dkpca.tables.embeddings import embedding_files
from dkpca.tables.preparation import prepare, reading_for
from dkpca.wire import codec

WARNING = "PRIVATE: the key of one masked sum; never send it"


def new_identity(path: Path) -> Identity:
    """Make a party's identity; one that is there is not overwritten."""
    if path.exists():
        raise InputError(f"{path}: is there already; an identity is not overwritten, choose another --out")
    identity = Identity.new()
    storage.write(path, identity.secret.hex().encode() + b"\n", private=True)
    return identity


def read_identity(path: Path) -> Identity:
    """Read a party's identity."""
    try:
        return check_identity(bytes.fromhex(storage.read(path, at_most=1000).decode().strip()))
    except ValueError as error:
        raise InputError(f"{path}: is no identity; make one with 'dkpca keys new'") from error


def read_peers(path: Path) -> dict[str, str]:
    """Read the pinned fingerprints of the other parties, by name."""
    pinned = storage.read_toml(path, 'write a line such as bank = "fingerprint" for each party')
    for name, fingerprint in pinned.items():
        check_party_name(name)
        if not isinstance(fingerprint, str) or len(fingerprint) != 64:
            raise InputError(f"{path}: {name} = {fingerprint!r} is no fingerprint; 'dkpca keys show' prints it")
    return pinned


def offer_fit(
    holding: Holding, sender: Sender, asked: Sum, *, identity: Identity, key_file: Path, state: Path
) -> Offer:
    """Write the offer for a fit, and keep its key and the state."""
    with sender.answering(holding, f"offer for {asked}"):
        table, names = holding.load()
        preparation = prepare(table, reading_for(holding.reading, asked.kernel.columns_are))
        key, kept = member.join_fit(
            preparation.apply(table),
            asked,
            party_name=holding.party,
            identity=identity,
            sample_ids=names,
            policy=sender.policy,
        )
        kept = replace(kept, preparation=codec.described(preparation))
        _send(sender, key, {key_file: _encoded(key), state: private_state.encode(kept)})
    return key.offer


def offer_new(
    holding: Holding, sender: Sender, state: Path, *, identity: Identity, run: str, bits: int, key_file: Path
) -> Offer:
    """Write the offer for new samples of a fit, and keep its key."""
    kept, preparation = load_state(state)
    with sender.answering(holding, f"offer for new samples of {holding.path.name}"):
        table, names = holding.load()
        key = member.join_new(
            kept,
            preparation.apply(table),
            run,
            identity=identity,
            bits=bits,
            sample_ids=names,
            policy=sender.policy,
        )
        _send(sender, key, {key_file: _encoded(key)})
    return key.offer


def numbers(
    holding: Holding, sender: Sender, state: Path, key_file: Path, offers: Sequence[Path], peers: Path
) -> list[Path]:
    """Write a party's masked numbers, one file per piece; return the files."""
    key, (kept, preparation) = read_key(key_file), load_state(state)
    received = [message_files.read(path, Offer) for path in offers]
    by_party = {offer.party: offer for offer in received}
    if len(by_party) < len(received):
        raise ProtectionError("two of the offers are from one party; give one from each")
    written = []
    with sender.answering(holding, f"masked numbers for {key.offer.agreed.run!r}"):
        sender.policy.check_protection("sums")
        table, names = holding.load()
        X = preparation.apply(table)
        _check_same_rows(key, names, len(X), holding)
        for message in member.answers(key, kept, X, by_party, read_peers(peers)):
            path = piece_path(sender.message, message.part)
            context = hashlib.sha256(f"{message.offers} {message.part}".encode()).hexdigest()
            replace(sender, message=path).send(message, party=message.party, context=context, run=message.agreed.run)
            written.append(path)
    return written


def add_fit(paths: Sequence[Path], kernel: Kernel) -> Summary:
    """At the center: the summary of the joined table from everybody's masked numbers."""
    return joint.summary_of(kernel, _pieces(paths))


def add_new(paths: Sequence[Path], summary: Summary, fit_run: str) -> Rows:
    """At the center: new samples as rows of the joint factor; `fit_run` names the fit, where it had landmarks."""
    first = message_files.read(paths[0], MaskedSum)
    columns = first.agreed.columns
    if columns != summary.n_samples and not fit_run:
        raise InputError("the fit had landmarks, which its name decides; give it with --fit-run")
    positions = None if columns == summary.n_samples else quantities.landmarks(fit_run, summary.n_samples, columns)
    return joint.rows_of(summary, _pieces(paths), positions)


def turn_back(scores: Scores, holding: Holding, turned: Callable[[str, int], Rotation], out: Path) -> list[Path]:
    """At a party: write the scores of a blind fit with rows that are its samples again."""
    ids = holding.ids()
    rotation = turned(digest(holding.keys(ids)), len(ids))
    if rotation.hidden_digest != scores.sample_digest:
        raise InputError(
            f"{holding.path}: these scores are of other samples, or were turned by another key or for another run"
        )
    files = embedding_files(ids, rotation.turn_back(np.asarray(scores.scores.decode())))
    storage.make_directory(out)
    storage.write_all({out / name: data for name, data in files.items()})
    return [out / name for name in files]


def piece_path(path: Path, part: int) -> Path:
    """File of a piece: the first has the name that was asked for."""
    return path if part == 1 else path.with_name(f"{path.stem}.{part}{path.suffix}")


def read_key(path: Path) -> SumKey:
    """Read the key of one sum."""
    try:
        described = strict_json.loads(storage.read(path, at_most=10_000))
        offer = codec.decode(Offer, described["offer"], what="key of a sum")
        return SumKey(offer, bytes.fromhex(described["secret"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is no key of a masked sum; 'dkpca mask offer' writes it") from error


def _encoded(key: SumKey) -> bytes:
    described: dict[str, Any] = {
        "warning": WARNING,
        "secret": key.secret.hex(),
        "offer": codec.described(key.offer),
    }
    return storage.as_json(described)


def _send(sender: Sender, key: SumKey, private_files: dict[Path, bytes]) -> None:
    offer = key.offer
    facts = {"n_samples": offer.agreed.rows, "sample_digest": offer.agreed.sample_digest, "run": offer.agreed.run}
    sender.send(offer, private_files, party=offer.party, **facts)


def _check_same_rows(key: SumKey, names: Sequence[str] | None, n_rows: int, holding: Holding) -> None:
    if member.digest_of(names, n_rows) != key.offer.agreed.sample_digest:
        raise InputError(f"{holding.path}: has other rows than the offer is about; use the same table")


def _pieces(paths: Sequence[Path]) -> joint.Pieces:
    """Read the pieces one after the other, so that only one of each party is in memory."""
    by_part: dict[int, list[Path]] = {}
    n_parts = 1
    for path in paths:
        message = message_files.read(path, MaskedSum)
        by_part.setdefault(message.part, []).append(path)
        n_parts = message.n_parts
    wanted = set(range(1, n_parts + 1))
    if not paths or set(by_part) != wanted:
        raise FusionError(f"pieces {sorted(wanted ^ set(by_part))} of the masked sum are not there, or are too many")

    def read() -> Iterator[list[MaskedSum]]:
        for part in sorted(by_part):
            yield [message_files.read(path, MaskedSum) for path in by_part[part]]

    return read
