"""What a study costs: fifty members in one folder, a waiting command, sealing beside a plain copy, matching ids.

`python -m benchmarks.study members [50]`, and the same with `watch` (in a local folder, and in
a stand-in for S3), `sealing`, or `psi [10000]`.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from dkpca.exchange.folder import Folder

MEGABYTE = 2**20
SAMPLES, COLUMNS = 60, 5


def counted() -> Counter[str]:
    """Count what every folder of this process is asked for."""
    counts: Counter[str] = Counter()

    def counting(name: str, call: Any) -> Any:
        def called(*arguments: Any, **more: Any) -> Any:
            counts[name] += 1
            return call(*arguments, **more)

        return called

    for name in ("listing", "opened", "_publish"):
        setattr(Folder, name, counting(name, getattr(Folder, name)))
    return counts


def members(count: int) -> None:
    """Time a whole study of so many parties and a center, each command in this process, open and by masked sums."""
    import numpy as np

    from testkit.studies import ANYTHING, Consortium

    random, counts = np.random.default_rng(0), counted()
    tables = {
        f"p{number}": ([f"s{row}" for row in range(SAMPLES)], random.normal(size=(SAMPLES, COLUMNS)))
        for number in range(count - 1)
    }
    for protect in ("none", "sums"):
        counts.clear()
        with tempfile.TemporaryDirectory() as folder:
            fit = {"gamma": 0.02, "standardize": True, "n_components": 3, "protect": protect}
            start = time.perf_counter()
            study = Consortium(Path(folder), tables, fit, samples=10).join(**ANYTHING | {"known_rows": 30}).sign()
            signed = time.perf_counter()
            study.finish()
            seconds = (signed - start, time.perf_counter() - signed)
            files = [path for path in Path(study.url).rglob("*") if path.is_file()]
            size = sum(path.stat().st_size for path in files)
        print(
            f"{count} members, protect={protect!r}: {sum(seconds):.0f} s ({seconds[0]:.0f} s to the last signature); "
            f"{len(files)} files, {size / 1e6:.1f} MB, {counts['listing']} listings, {counts['opened']} opened"
        )


def watch() -> None:
    """Memory of `dkpca study run --watch` while it waits, and whether NumPy is loaded in it."""
    import fsspec

    from testkit import servers

    waiting("")
    with tempfile.TemporaryDirectory() as folder, servers.s3(Path(folder) / "log") as (url, endpoint):
        settings = {"endpoint_url": endpoint, "key": "stand-in", "secret": "stand-in"}
        os.environ["FSSPEC_S3"] = json.dumps(settings)  # for the command
        fsspec.config.conf["s3"] = settings
        fsspec.filesystem("s3").mkdir("studies")
        waiting(url)


def waiting(url: str) -> None:
    """Have a party wait in the study of a folder, local where no URL is given."""
    from testkit.studies import ANYTHING, Consortium
    from tests.study.test_a_study import MODES, tables

    with tempfile.TemporaryDirectory() as folder:
        study = Consortium(Path(folder), tables(), MODES["open"], url=url, samples=10)
        study.join(**ANYTHING).sign("airline")
        command = [sys.executable, "-m", "dkpca", "study", "run", study.url, "--as", f"{folder}/airline", "--watch"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as command_running:
            process, deadline, ran = psutil.Process(command_running.pid), time.monotonic() + 120, False
            while time.monotonic() < deadline and not (ran and not process.children()):
                ran = ran or bool(process.children())  # which does the member's work, and then ends
                time.sleep(0.2)
            time.sleep(5)  # it has looked again by now
            used = process.memory_info().rss / 1e6
            loaded = any("numpy" in each.path for each in process.memory_maps())
            command_running.kill()
    place = url.partition("://")[0] or "a local folder"
    print(f"waiting in {place}: {used:.0f} MB, NumPy {'is' if loaded else 'is not'} loaded")


def sealing() -> None:
    """Four bodies of 100 MB sealed to one reader each, beside a plain copy with hashing: processor time."""
    from dkpca.exchange.sealed import Part
    from testkit.studies import Actors

    body = memoryview(os.urandom(MEGABYTE) * 100)
    plain, sealed = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            actors = Actors(root / "folder", root / "own").ready()
            member = actors.member("airline")
            start = time.process_time()
            for number in range(4):
                member.send(f"step-{number}", [Part("center", ("center",), [body])])
            sealed.append(time.process_time() - start)
            start = time.process_time()
            for number in range(4):
                _copied(body, root / f"own {number}", root / f"folder {number}")
            plain.append(time.process_time() - start)
    print(f"sealing: {min(sealed):.2f} s, copying with hashing: {min(plain):.2f} s, {min(sealed) / min(plain):.2f} x")


def psi(count: int) -> None:
    """Match so many ids of each of four parties, three quarters of them common: processor time of each party."""
    from dkpca.protection.psi import Ring, RingMember, fully_raised, intersection

    ring = Ring("a study", ("airline", "weather", "registry", "airport"))
    seconds, members = Counter[str](), {}

    def timed(name: str, work: Any) -> Any:
        start = time.process_time()
        done = work()
        seconds[name] += time.process_time() - start  # type: ignore[assignment]
        return done

    for number, name in enumerate(ring.roster):
        ids = [f"P-{i:06}" for i in range(number * count // 16, number * count // 16 + count)]
        members[name] = timed(name, lambda name=name, ids=ids: RingMember(ring, name, ids, os.urandom(32)))
    lists = [timed(name, member.first) for name, member in members.items()]
    for hop in range(1, ring.hops + 1):
        at = [ring.at(raised.owner, hop) for raised in lists]
        lists = [timed(a, lambda a=a, x=x: members[a].raise_list(x)) for a, x in zip(at, lists, strict=True)]
    found = intersection(fully_raised(ring, lists))
    assert {len(positions) for positions in found.values()} == {count - 3 * count // 16}
    spent = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    print(f"{count:,} ids at each of four parties, processor seconds: {spent}")


def _copied(body: memoryview, own: Path, folder: Path) -> None:
    """Write a body to the own disk while it is hashed, then copy it to the folder: a study in the clear."""
    state = hashlib.sha256()
    with own.open("wb") as file:
        for start in range(0, len(body), MEGABYTE):
            state.update(body[start : start + MEGABYTE])
            file.write(body[start : start + MEGABYTE])
        file.flush()
        os.fsync(file.fileno())
    with own.open("rb") as source, folder.open("wb") as target:
        while piece := source.read(MEGABYTE):
            target.write(piece)
        target.flush()
        os.fsync(target.fileno())


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        what, *numbers = sys.argv[1:] or ["members"]
        count = int(numbers[0]) if numbers else {"members": 50, "psi": 10_000}.get(what, 0)
        {"members": lambda: members(count), "watch": watch, "sealing": sealing, "psi": lambda: psi(count)}[what]()
