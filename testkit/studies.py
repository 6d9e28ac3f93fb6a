"""Small studies between members in temporary folders, with real files, keys and signatures."""

import datetime
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dkpca.exchange import member as members
from dkpca.exchange import plan as plans
from dkpca.exchange.folder import Folder
from dkpca.exchange.memory import Memory
from dkpca.exchange.plan import Plan, Study

PARTIES = ("airline", "registry", "weather")
FAR = datetime.date(2999, 1, 1)


def a_plan(parties: Sequence[str] = PARTIES, **changes) -> Plan:
    values: dict[str, Any] = {
        "version": 1,
        "id": secrets.token_hex(16),
        "ends": FAR,
        "center": "center",
        "parties": tuple(parties),
        "result_to": ("center", *parties),
        "align": "position",
        "samples": 10,
        "gamma": (1e-3, 1.0),
        "batches": 0,
        "batch_samples": 0,
        "fit": {"protect": "none"},
    }
    return Plan(**values | changes)


class Actors:
    """Center and parties of one study, each with a folder of its own."""

    def __init__(self, folder: str | Path, root: Path, plan: Plan | None = None):
        self.folder, self.root = Folder(str(folder)), root
        self.plan = plan or a_plan()
        self.memories = {}
        for name in self.plan.members:
            (root / name).mkdir(parents=True)
            self.memories[name] = Memory(root / name)

    def found_and_join(self) -> None:
        self.folder.write(f"{self.plan.center}/plan-1.toml", self.plan.to_toml())
        for name in self.plan.members:
            me = self.kept(name).secrets()
            said = plans.make_member(name, me, self.plan, 0 if name == self.plan.center else 4)
            self.folder.write(f"{name}/member.toml", said.to_toml())

    def kept(self, name: str):
        return self.memories[name].study(self.plan.id)

    def seen(self) -> Study:
        """The study as the folder shows it."""
        plan = self.folder.read(f"{self.plan.center}/plan-1.toml", plans.MOST_PLAN)
        joined = {name: self.folder.read(f"{name}/member.toml", 4096) or b"" for name in self.plan.members}
        return Study(1, plan or b"", joined)

    def sign(self, *names: str) -> None:
        for name in names or self.plan.members:
            study = self.seen()
            self.kept(name).remember(study, "signed")
            raw = plans.make_signature(study, name, self.kept(name).secrets(), "00" * 32)
            self.folder.write(f"{name}/signature-1", raw)

    def member(self, name: str) -> members.Membership:
        kept = self.kept(name)
        study = kept.remembered("signed")
        return members.Membership(name, self.folder, kept, members.agree(self.folder, kept, study))

    def ready(self) -> "Actors":
        self.found_and_join()
        self.sign()
        return self
