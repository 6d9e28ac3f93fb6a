"""Parties with folders of their own, and transports that do what a test wants of a network."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import polars as pl

from dkpca.exchange.rounds import Fit
from dkpca.network.coordinator import Coordinator
from dkpca.network.protocol import LARGEST_QUESTION, Asked, from_json
from dkpca.network.remote import Delivered, Failure, Outgoing
from dkpca.network.responder import Responder
from dkpca.rank import Fixed
from testkit.owners import GAMMA, OWNERS, frame, numbers, people

FIT = Fit("rbf", GAMMA, 3, True, Fixed(20), "float32")
POLICY = 'max_rank = 40\nprojection = "exact"\n'


@dataclass
class ByHand:
    """A transport in one process: questions go to the parties' responders, messages come back through `tamper`."""

    folders: dict[str, Path]
    tamper: Callable[[str, bytes], bytes | Failure | None] = lambda party, message: message
    asked: list[list[str]] = field(default_factory=list)
    questions: list[tuple[str, Asked, bytes]] = field(default_factory=list)  # party, question, message attached
    sent: list[bytes] = field(default_factory=list)  # messages, by whomever

    def carry(self, questions: Mapping[str, Outgoing], timeout: float, arrived, noticed) -> None:
        self.asked.append(list(questions))
        for party, outgoing in questions.items():
            self.questions.append((party, outgoing.asked, outgoing.attached))
            asked = Asked.from_dict(from_json(outgoing.asked.to_bytes(), LARGEST_QUESTION))
            answer = Responder(self.folders[party], identity=party).answer(asked, outgoing.attached)
            if answer.code != "ok":
                brought = self.tamper(party, b"")
                reason = answer.reason if answer.reason.startswith(answer.code) else f"{answer.code}: {answer.reason}"
                if brought is not None:
                    arrived(party, Failure(reason))
                continue
            message = answer.file.read_bytes() if answer.file else b""
            self.sent.append(message)
            brought = self.tamper(party, message)
            if isinstance(brought, bytes):
                assert len(brought) <= outgoing.largest
                outgoing.part.write_bytes(brought)
                arrived(party, Delivered(outgoing.part, len(brought), hashlib.sha256(brought).hexdigest()))
                outgoing.part.unlink(missing_ok=True)
            elif brought is not None:
                arrived(party, brought)


@dataclass
class Consortium:
    """A center and three parties with the same sixty people."""

    path: Path
    transport: ByHand

    def center(self) -> Coordinator:
        return Coordinator(self.path / "center", OWNERS, self.transport.carry, timeout=5)

    def party(self, owner: str) -> Path:
        return self.transport.folders[owner]

    def policy(self, owner: str, text: str) -> None:
        (self.party(owner) / "policy.toml").write_text(text)


def scores(path: Path):
    return pl.read_parquet(path / "embedding.parquet").drop("sample", "outside", strict=False).to_numpy()


def consortium_in(path: Path) -> Consortium:
    """Make the folders of a center and of three parties with the same sixty people."""
    for name, text in _files().items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    (path / "center").mkdir()
    return Consortium(path, ByHand({owner: path / owner for owner in OWNERS}))


@cache
def _files() -> dict[str, str]:
    """What the parties have, by path; written out once, since every test of an exchange begins with it."""
    files = {}
    for owner, X in numbers().items():
        files[f"{owner}/people.csv"] = frame(X, people()).write_csv()
        files[f"{owner}/new/spring.csv"] = frame(X[:7] + 0.1, [f"n{i}" for i in range(7)]).write_csv()
        files[f"{owner}/party.toml"] = (
            f'party = "{owner}"\ntable = "people.csv"\nid = "person"\n'
            'policy = "policy.toml"\nkey_file = "shared.key"\n'
        )
        files[f"{owner}/policy.toml"] = POLICY
        files[f"{owner}/shared.key"] = "a key of the parties, long enough"
    return files
