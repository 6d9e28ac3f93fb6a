"""Masked sums with files as messages: what a party reads, writes and keeps, and what the center adds up.

A party writes its offer, which goes to all, and keeps the key of this sum and its state. With the offers of all it
writes its masked numbers, one file per piece. The ledger and the key's own file know every context that was answered:
another folder has another ledger, and masks that were used once hide nothing a second time.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dkpca import strict_json, wire
from dkpca.errors import FusionError, InputError, ProtectionError
from dkpca.exchange import sum_rounds
from dkpca.exchange.files import load_state
from dkpca.exchange.rounds import Fit
from dkpca.exchange.sending import Holding, Sender, answered_before
from dkpca.fields import check_party_name
from dkpca.messages import MaskedSum, Offer, Rows, Scorer, Scores, Summary, digest
from dkpca.protection import joint, member, quantities
from dkpca.protection.keys import Identity, SumKey, check_identity, check_offers
from dkpca.protection.member import Sum
from dkpca.protection.ring import Numbers
from dkpca.protection.rotation import Rotation
from dkpca.store import message_files, private_state, storage
from dkpca.store.runs import RESULT
from dkpca.tables.embeddings import embedding_files
from dkpca.tables.novelty import about_new_rows
from dkpca.tables.preparation import prepare, reading_for
from dkpca.wire import codec

CERTIFICATE = "certificate"  # in a file of peers: whoever the consortium's authority certifies under the name
MOST_OF_A_KEY = 10_000_000  # bytes: a line for every piece that it has answered
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


def read_peers(path: Path, *, vouched: bool = False) -> dict[str, str]:
    """Read the pinned fingerprints of the other parties, by name; over a network a certificate may stand for one."""
    pinned = storage.read_toml(path, 'write a line such as bank = "fingerprint" for each party')
    for name, fingerprint in pinned.items():
        check_party_name(name)
        if (vouched and fingerprint == CERTIFICATE) or (isinstance(fingerprint, str) and len(fingerprint) == 64):
            continue
        raise InputError(f"{path}: {name} = {fingerprint!r} is no fingerprint; 'dkpca keys show' prints it")
    return pinned


def offer_fit(
    holding: Holding, sender: Sender, asked: Sum, *, identity: Identity, key_file: Path, state: Path
) -> tuple[Offer, Sequence[str]]:
    """Write the offer for a fit, and keep its key and the state; return it, and what was changed in reading."""
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
        return _send(sender, key, key_file, {state: private_state.encode(kept)}), preparation.notes


def offer_new(
    holding: Holding, sender: Sender, state: Path, *, identity: Identity, run: str, bits: int, key_file: Path
) -> tuple[Offer, Sequence[str]]:
    """Write the offer for new samples of a fit, and keep its key; return it, and what is new in words."""
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
        return _send(sender, key, key_file), about_new_rows(preparation, table)


def offer_share(
    holding: Holding, sender: Sender, state: Path, scorer: Scorer, *, identity: Identity, run: str, key_file: Path
) -> tuple[Offer, Sequence[str]]:
    """Write the offer for shares of the scores of new samples, after a blind fit, as `offer_new` does."""
    with sender.answering(holding, f"offer for scores of {holding.path.name}"):
        key, _, notes = _share(holding, sender, state, scorer, identity=identity, run=run)
        return _send(sender, key, key_file), notes


def numbers(
    holding: Holding,
    sender: Sender,
    state: Path,
    key_file: Path,
    offers: Sequence[Offer],
    pinned: Mapping[str, str],
    *,
    part: int = 0,
    scorer: Scorer | None = None,
) -> list[Path]:
    """Write a party's masked numbers, one file per piece, or one piece only; return the files.

    Shares of scores need the scorer that the offer was made with.
    """
    key, answered = read_key(key_file), _answered(key_file)
    if key.offer.party != holding.party:
        raise InputError(
            f"{key_file}: is the key of party {key.offer.party!r}, and the state is that of {holding.party!r}; "
            "give the key that was written with this state"
        )
    by_party = {offer.party: offer for offer in offers}
    if len(by_party) < len(offers):
        raise ProtectionError("two of the offers are from one party; give one from each")
    check_offers(key, by_party, pinned)  # before any work
    written = []
    with sender.answering(holding, f"masked numbers for {key.offer.agreed.run!r}"):
        n_parts, piece = _pieces_at_party(holding, sender, state, key, scorer)
        for number in [part] if part else range(1, n_parts + 1):
            message = piece(by_party, pinned, number)
            path = sender.message if part else piece_path(sender.message, number)
            context = hashlib.sha256(f"{message.offers} {message.part}".encode()).hexdigest()
            fingerprint = hashlib.sha256(wire.encode(message)).hexdigest()
            if answered.setdefault(context, fingerprint) != fingerprint:
                raise answered_before(message.party)
            facts = {"party": message.party, "context": context, "sum": message.agreed.run}
            replace(sender, message=path).send(message, {key_file: _encoded(key, answered)}, **facts)
            written.append(path)
    return written


def _pieces_at_party(
    holding: Holding, sender: Sender, state: Path, key: SumKey, scorer: Scorer | None
) -> tuple[int, Callable[[Mapping[str, Offer], Mapping[str, str], int], MaskedSum]]:
    """How many pieces a party's numbers have, and what makes one of them."""
    agreed = key.offer.agreed
    if agreed.kind == quantities.SCORES:
        if scorer is None:
            raise InputError("the offer is for shares of scores; give the scorer that it was made with (--scorer)")
        _, values, _ = _share(holding, sender, state, scorer, identity=Identity.new(), run=agreed.run, like=key)
        return member.n_parts_of(agreed), partial(member.masked_scores, key, values)
    kept, preparation = load_state(state)
    table, names = holding.load()
    X = preparation.apply(table)
    _check_same_rows(key, names, len(X), holding)
    if agreed.kind == quantities.NEW:
        sender.policy.check_projection()
    sender.policy.check_protection("sums")
    return member.n_parts_of(agreed), partial(member.answer, key, kept, X)


def _share(
    holding: Holding,
    sender: Sender,
    state: Path,
    scorer: Scorer,
    *,
    identity: Identity,
    run: str,
    like: SumKey | None = None,
) -> tuple[SumKey, Numbers, Sequence[str]]:
    """A key, a party's share of the scores of new samples, and what is new in them; of the rows of another key."""
    kept, preparation = load_state(state)
    if kept.protect != "blind":
        raise InputError(f"party {kept.party!r}: shares are added up after a blind fit, and this state is of none")
    sender.policy.check_protection("blind")
    table, names = holding.load()
    X = preparation.apply(table)
    if like is not None:
        _check_same_rows(like, names, len(X), holding)
    made = member.scores(kept, scorer, X, run, identity=identity, sample_ids=names, policy=sender.policy)
    return *made, about_new_rows(preparation, table)


def add_fit(paths: Sequence[Path], settings: Callable[[str], Fit]) -> Summary:
    """At the center: the summary of the joined table from everybody's masked numbers.

    Settings are a function of the name of the kernel whose quantities were added up.
    """
    first = message_files.read(paths[0], MaskedSum)
    with message_files.naming(paths[0]):
        joint.check_of_fit(first.agreed)
    return sum_rounds.joined(settings(first.agreed.kernel), first.parties, first.n_features, _pieces(paths))


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
    ids = holding.ids() if holding.order is None else list(holding.order)
    names = holding.keys(ids) if holding.names is None else holding.names
    with message_files.naming(holding.path):
        result = turned(digest(names), len(ids)).result(scores)
    files = embedding_files(ids, np.asarray(result.scores.decode())) | {RESULT: wire.encode(result)}
    storage.make_directory(out)
    storage.write_all({out / name: data for name, data in files.items()})
    return [out / name for name in files]


def piece_path(path: Path, part: int) -> Path:
    """File of a piece: the first has the name that was asked for."""
    return path if part == 1 else path.with_name(f"{path.stem}.{part}{path.suffix}")


def read_key(path: Path) -> SumKey:
    """Read the key of one sum."""
    try:
        described = strict_json.loads(storage.read(path, at_most=MOST_OF_A_KEY))
        offer = codec.decode(Offer, described["offer"], what="key of a sum")
        return SumKey(offer, bytes.fromhex(described["secret"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is no key of a masked sum; 'dkpca mask offer' writes it") from error


def _answered(path: Path) -> dict[str, str]:
    """Contexts that a key has answered, and the fingerprint of each answer."""
    known = strict_json.loads(storage.read(path, at_most=MOST_OF_A_KEY)).get("answered", {})
    if not isinstance(known, dict):
        raise InputError(f"{path}: its list of what was answered is damaged; start another sum")
    return {str(context): str(fingerprint) for context, fingerprint in known.items()}


def _encoded(key: SumKey, answered: Mapping[str, str]) -> bytes:
    described: dict[str, Any] = {
        "warning": WARNING,
        "secret": key.secret.hex(),
        "offer": codec.described(key.offer),
        "answered": dict(answered),
    }
    return storage.as_json(described)


def _send(sender: Sender, key: SumKey, key_file: Path, private_files: Mapping[Path, bytes] | None = None) -> Offer:
    """Write an offer, and keep its key; who offers the same again offers the same key."""
    before, answered = (read_key(key_file), _answered(key_file)) if key_file.exists() else (key, {})
    same = replace(key.offer, key=before.offer.key, signature=before.offer.signature, vouch=before.offer.vouch)
    certified = [None if offer.vouch is None else offer.vouch.certificate for offer in (before.offer, key.offer)]
    if before.offer == same and certified[0] == certified[1]:
        key = before
    offer, answered = key.offer, answered if key is before else {}
    facts = {"n_samples": offer.agreed.rows, "sample_digest": offer.agreed.sample_digest, "sum": offer.agreed.run}
    sender.send(offer, {key_file: _encoded(key, answered), **(private_files or {})}, party=offer.party, **facts)
    return offer


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
