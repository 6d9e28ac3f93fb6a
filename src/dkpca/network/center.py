"""What the center does besides carrying questions: runs, and going on with them when it is started again."""

import contextlib
import json
import secrets
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dkpca.errors import DKPCAError, InputError
from dkpca.fields import check_name
from dkpca.network import jobs, membership
from dkpca.network import x509 as pki
from dkpca.network.coordinator import Coordinator, check_again, check_settings, roster_of
from dkpca.network.events import Events
from dkpca.network.jobs import FitWanted, Job
from dkpca.network.membership import Consortium
from dkpca.network.pending import Pending, StoppedError
from dkpca.network.protocol import MOST_RUNS
from dkpca.network.remote import COMPUTING, RUNNING, STATUS, Status, exchange_of, state_of
from dkpca.store import storage


@dataclass
class Center:
    """What the center does besides carrying questions: jobs, one thread per run."""

    consortium: Consortium
    pending: Pending
    events: Events
    working: dict[str, str] = field(default_factory=dict)  # run: number of its job
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _revocations: tuple[tuple[int, int], tuple[int, frozenset[int], bytes]] = ((0, 0), (0, frozenset(), b""))

    @property
    def roster(self) -> frozenset[str]:
        """Parties of the consortium."""
        return frozenset(self.consortium.parties)

    def submit(self, job: Any) -> dict[str, Any]:
        """Begin a job; a job about a run that is at work already is that one if it asks for the same."""
        wanted = jobs.from_dict(job)
        folder = self._folder(wanted.run)
        if isinstance(wanted, FitWanted):
            check_settings(folder, wanted.fit)
        elif not (folder / "settings.json").exists():
            raise InputError(f"{wanted.run}: there is no finished fit of that name; make one with 'submit fit'")
        check_again(wanted.again, roster_of(folder, self.consortium.parties))
        with self._lock:
            if wanted.run in self.working:
                if json.loads(storage.read(folder / jobs.FILE))["job"] != jobs.to_dict(wanted):
                    raise InputError(f"{wanted.run}: another command about it is at work; wait for its end")
                return {"job": self.working[wanted.run]}
            if len(self.working) >= MOST_RUNS:
                raise InputError(f"{MOST_RUNS} runs are at work already; wait for the end of one")
            number = secrets.token_hex(8)
            storage.make_directory(folder)
            storage.write(folder / jobs.FILE, storage.as_json({"number": number, "job": jobs.to_dict(wanted)}))
            Status(folder / STATUS, jobs.to_dict(wanted)["what"], number).write(RUNNING)
            self._begin(wanted, number, resumes=False)
        return {"job": number}

    def resume(self) -> None:
        """Go on with the runs that were at work when the center stopped."""
        for folder in sorted((self.consortium.path / "runs").iterdir()):
            file = folder / jobs.FILE
            if file.exists() and state_of(folder) in (RUNNING, COMPUTING):
                told = json.loads(storage.read(file))
                self.events.say(f"going on with run {folder.name}", "run resumed", run=folder.name)
                self._begin(jobs.from_dict(told["job"]), told["number"], resumes=True)

    def status(self, run: str = "") -> dict[str, Any]:
        """Where a run stands, or everything."""
        if run:
            return exchange_of(self._folder(run))
        folders = sorted((self.consortium.path / "runs").iterdir())
        here = [party for party in self.consortium.parties if self.pending.connected(party)]
        return {
            "connected": here,
            "parties": list(self.consortium.parties),
            "runs": {folder.name: exchange_of(folder) for folder in folders if folder.is_dir()},
        }

    def revocations(self) -> tuple[int, frozenset[int], bytes]:
        """Number, entries and text of the revocation list; read again when the file changed."""
        file = self.consortium.path / membership.REVOKED
        version = storage.version(file)
        if version != self._revocations[0]:
            data = storage.read(file)
            ca = pki.from_pem(storage.read(self.consortium.tls / "ca.crt"), "ca.crt")
            self._revocations = version, (*pki.read_revocations(data, ca, file), data)
        return self._revocations[1]

    def _begin(self, job: Job, number: str, *, resumes: bool) -> None:
        self.working[job.run] = number
        threading.Thread(target=self._work, args=(job, number, resumes), name=job.run, daemon=True).start()

    def _work(self, job: Job, number: str, resumes: bool) -> None:
        what = jobs.to_dict(job)["what"]
        self.events.note("run begun", run=job.run, what=what, job=number)
        carry = partial(self.pending.carry, joined_by=time.monotonic() + job.join_timeout)
        home, parties = self.consortium.path / "runs", self.consortium.parties
        limits = (job.timeout, self.consortium.max_answer)
        coordinator = Coordinator(home, parties, carry, *limits, job=number, resumes=resumes)
        try:
            job.work(coordinator)
            self.events.say(f"run {job.run}: {what} finished", "run finished", run=job.run, what=what)
        except StoppedError:
            return
        except Exception as error:  # noqa: BLE001  whatever it is, it is one run; its status file has it too
            words = str(error) if isinstance(error, DKPCAError) else repr(error)
            self._failed(job.run, what, number, words)
        finally:
            self.working.pop(job.run, None)

    def _failed(self, run: str, what: str, number: str, words: str) -> None:
        self.events.say(f"run {run}: {what} failed: {words}", "run failed", run=run, what=what)
        with contextlib.suppress(DKPCAError):  # the disk may be what failed
            folder = self._folder(run)
            if state_of(folder) in (RUNNING, COMPUTING):
                Status(folder / STATUS, what, number).write("failed", words)

    def _folder(self, run: str) -> Path:
        return self.consortium.path / "runs" / check_name(run, "run name")
