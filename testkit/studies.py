"""Small studies between members in temporary folders, with real files, keys and signatures."""

import contextlib
import copy
import datetime
import secrets
import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dkpca.exchange import founding
from dkpca.exchange import member as members
from dkpca.exchange import plan as plans
from dkpca.exchange.folder import Folder
from dkpca.exchange.memory import Memory
from dkpca.exchange.plan import Plan, Study

PARTIES = ("airline", "registry", "weather")
FAR = datetime.date(2999, 1, 1)


def a_plan(parties: Sequence[str] = PARTIES, **changes) -> Plan:
    values: dict[str, Any] = {
        "version": plans.VERSION,
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
        "covariates": {},
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
        found = members.Membership(name, self.folder, self.kept(name))
        assert found.study.agreement
        return found

    def ready(self) -> "Actors":
        self.found_and_join()
        self.sign()
        return self


class Consortium:
    """Parties with real tables and a center, whose commands are called in this process."""

    def __init__(self, root: Path, tables, fit, *, url: str = "", center: str = "center", **plan):
        from dkpca.settings import Fit, to_toml

        self.root, self.tables, self.center, self.names = root, tables, center, tuple(tables)
        self.fit = Fit(**fit)
        self.url = url or str(root / "shared")
        for name, (ids, X) in tables.items():
            lines = [f"id,{','.join(f'{name}{column}' for column in range(X.shape[1]))}"]
            lines += [f"{i},{','.join(map(repr, row))}" for i, row in zip(ids, X.tolist(), strict=True)]
            (root / f"{name}.csv").write_text("\n".join(lines) + "\n")
        self.plan = self.at(center, founding.found, center, self.names, tomllib.loads(to_toml(self.fit)), **plan).plan

    def copy(self, root: Path) -> "Consortium":
        """All folders as they are now, in another place."""
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        for naming in (*root.glob("*/party.toml"), *root.glob("*/studies/*/folder")):
            naming.write_text(naming.read_text().replace(str(self.root), str(root)))
        other = copy.copy(self)
        other.root, other.url = root, str(root / "shared")
        return other

    def memory(self, name: str) -> Memory:
        return Memory(self.root / name)

    def at(self, name: str, act, *arguments, **settings):
        """Call a function of a member's command."""
        folder = Folder(self.url)
        try:
            return act(folder, self.memory(name), *arguments, **settings)
        finally:
            folder.close()

    def join(self, *names: str, **limits) -> "Consortium":
        from dkpca.exchange import study
        from dkpca.party.limits import Limits

        for name in names or self.names:
            self.at(name, study.join, self.root / f"{name}.csv", "id", name)
            (self.root / name / "limits.toml").write_text(Limits(**limits).to_toml())
        return self

    def sign(self, *names: str) -> "Consortium":
        from dkpca.exchange import study

        for name in names or (*self.names, self.center):
            fingerprint = self.at(name, study.review).study.fingerprint[:40]
            self.at(name, study.sign, fingerprint)
        return self

    def status(self):
        return self.at(self.center, lambda folder, _: founding.status(folder))

    def run(self, name: str):
        from dkpca.exchange import study

        return self.at(name, study.run)

    def finish(self, order=None) -> None:
        """Let everybody run in turn until all are done."""
        waiting = [*self.names, self.center]
        for _ in range(40):
            for name in list(waiting):
                with contextlib.suppress(members.WaitingError):
                    self.run(name)
                    waiting.remove(name)
            if not waiting:
                return
        raise AssertionError(f"{waiting} did not end")

    def close(self) -> None:
        """Let everybody close the plan, so that the folder takes the next one."""
        for name in (*self.names, self.center):
            self.at(name, founding.close, give_up=True)

    def embedding(self, name: str, batch: str = "") -> tuple[list[str], Any]:
        import numpy as np

        lines = (self.root / name / "result" / batch / "embedding.csv").read_text().splitlines()[1:]
        return [line.split(",")[0] for line in lines], np.array(
            [list(map(float, line.split(",")[1:])) for line in lines]
        )


ANYTHING: dict[str, Any] = {"recovery": 1.0, "samples": 2, "precision": "float64", "rank": 10**6, "audit_rows": 10**4}
ANYTHING |= {"batches": 100, "studies": 100, "known_rows": 1}  # a review that attacks with few rows is soon done
