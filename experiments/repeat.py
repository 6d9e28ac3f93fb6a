"""Repetitions that survive an interruption: each is one small file, written whole, and done only once.

A repetition belongs to its settings, its data and the code that computes it; when one of them changes it is
done again.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import dkpca

HERE = Path(__file__).parent
SHARED = ["protocol.py", "whole.py", "data", "baselines"]

Repetition = Callable[[Any, int], Any]  # (settings, seed) -> anything JSON can hold


def repetitions(
    name: str, repetition: Repetition, settings: Any, *, count: int, store: Path, data: str = "", workers: int = 1
) -> list[Any]:
    """Results of seeds 0 to count - 1, computed where they are not stored yet.

    Parameters
    ----------
    name : str
        Name of the experiment: the module in this folder that defines `repetition`.
    repetition : callable
        A function of settings and seed, at the top level of a module.
    settings : dataclass
        What the repetition depends on.
    count : int
        Repetitions wanted.
    store : Path
        Folder of the finished ones.
    data : str
        Digest of the data, where there is any.
    workers : int
        Repetitions computed at the same time, one thread each.
    """
    part = f"{name}-{repetition.__name__}"
    folder = store / part / _key(name, settings, data)
    folder.mkdir(parents=True, exist_ok=True)
    missing = [seed for seed in range(count) if not _file(folder, seed).exists()]
    jobs = (joblib.delayed(_do)(repetition, settings, seed, folder) for seed in missing)
    done = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")(jobs)
    for _ in tqdm(done, desc=part, initial=count - len(missing), total=count):
        pass
    return [json.loads(_file(folder, seed).read_text()) for seed in range(count)]


def _do(repetition: Repetition, settings: Any, seed: int, folder: Path) -> None:
    with threadpool_limits(1):
        result = repetition(settings, seed)
    unfinished = _file(folder, seed).with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(result))
    unfinished.replace(_file(folder, seed))


def _file(folder: Path, seed: int) -> Path:
    return folder / f"{seed:04}.json"


def _key(name: str, settings: Any, data: str) -> str:
    """Fingerprint of everything a result follows from."""
    chosen = {name: value for name, value in asdict(settings).items() if name != "data"}  # a path; the digest counts
    state = sha256(json.dumps([chosen, data], sort_keys=True).encode())
    for path in _sources(name):
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


def _sources(name: str) -> list[Path]:
    library = sorted(Path(dkpca.__file__).parent.rglob("*.py"))
    shared = [
        p for entry in SHARED for p in ([HERE / entry] if entry.endswith(".py") else (HERE / entry).glob("*.py"))
    ]
    return [*library, *sorted(shared), HERE / f"{name}.py"]
