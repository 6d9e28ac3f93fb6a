"""Parties with folders of their own, and transports that do what a test wants of a network."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from dkpca.exchange.rounds import Fit
from dkpca.network.coordinator import Coordinator
from dkpca.network.remote import Failure
from dkpca.network.responder import Responder
from dkpca.rank import Fixed
from testkit.owners import GAMMA, OWNERS, frame, numbers, people

FIT = Fit("rbf", GAMMA, 3, True, Fixed(20), "float32")
POLICY = 'max_rank = 40\nprojection = "exact"\n'


@dataclass
class ByHand:
    """A transport in one process: it takes requests to the parties' responders, through `tamper` on the way back."""

    folders: dict[str, Path]
    tamper: Callable[[str, bytes], bytes | Failure | None] = lambda party, answer: answer
    asked: list[list[str]] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)

    def carry(self, request: bytes, parties: Sequence[str], seconds: float, arrived) -> None:
        self.asked.append(list(parties))
        self.requests.append(request)
        for party in parties:
            answer = Responder(self.folders[party], identity=party).answer(request)
            self.answers.append(answer)
            brought = self.tamper(party, answer)
            if brought is not None:
                arrived(party, brought)


@dataclass
class Consortium:
    """A center and three parties with the same sixty people."""

    path: Path
    transport: ByHand

    def center(self) -> Coordinator:
        return Coordinator(self.path / "center", OWNERS, self.transport, seconds=5)

    def party(self, owner: str) -> Path:
        return self.transport.folders[owner]

    def policy(self, owner: str, text: str) -> None:
        (self.party(owner) / "policy.toml").write_text(text)


def scores(path: Path):
    return pl.read_parquet(path / "embedding.parquet").drop("sample", "outside", strict=False).to_numpy()


def consortium_in(path: Path) -> Consortium:
    """Make the folders of a center and of three parties with the same sixty people."""
    folders = {}
    for owner, X in numbers().items():
        folders[owner] = path / owner
        (folders[owner] / "new").mkdir(parents=True)
        frame(X, people()).write_csv(folders[owner] / "people.csv")
        frame(X[:7] + 0.1, [f"n{i}" for i in range(7)]).write_csv(folders[owner] / "new" / "spring.csv")
        (folders[owner] / "party.toml").write_text(
            f'party = "{owner}"\ntable = "people.csv"\nid = "person"\n'
            'policy = "policy.toml"\nkey_file = "shared.key"\n'
        )
        (folders[owner] / "policy.toml").write_text(POLICY)
        (folders[owner] / "shared.key").write_text("a key of the parties, long enough")
    (path / "center").mkdir()
    return Consortium(path, ByHand(folders))
