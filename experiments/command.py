"""What every experiment's command line has in common."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeVar

from experiments.data import Expression, gse2187, stand_in
from experiments.repeat import Repetition, repetitions

HERE = Path(__file__).parent
RESULTS, STORE = HERE / "results", HERE / ".repetitions"

S = TypeVar("S")


@dataclass(frozen=True)
class Options:
    """How to run, whatever the experiment."""

    repetitions: int = 50
    quick: bool = False
    data: Path | None = None
    results: Path = RESULTS
    store: Path = STORE
    workers: int = 1

    def repeat(
        self,
        name: str,
        repetition: Repetition,
        settings: Any,
        *,
        real_data: bool = False,
        count: int | None = None,
        alone: bool = False,
    ) -> list[Any]:
        """Finished repetitions of one part of an experiment.

        `count` of them if that is not up to the user; one at a time where time is measured.
        """
        return repetitions(
            name,
            repetition,
            settings,
            count=self.repetitions if count is None else count,
            store=self.store,
            data=expression(settings.data).digest if real_data else "",
            workers=1 if alone else self.workers,
        )

    def write(self, name: str, result: Any) -> None:
        """Write one result file."""
        self.results.mkdir(parents=True, exist_ok=True)
        (self.results / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")


@cache
def expression(path: str | None) -> Expression:
    """GSE2187 from a file or folder, or the invented stand-in where there is none."""
    return stand_in() if path is None else gse2187(Path(path))


def main(run: Callable[[Options, S], None], full: S, quick: S, argv: Sequence[str] | None = None) -> None:
    """Read the command line, choose the settings, run.

    Every field of the settings is an option of the same name; tuples take several values.
    """
    parser = argparse.ArgumentParser(description=run.__doc__)
    parser.add_argument("--repetitions", type=int, help="default: 50, and 2 with --quick")
    parser.add_argument("--quick", action="store_true", help="small sizes and invented data, to see that it runs")
    parser.add_argument("--data", type=Path, help="GSE2187, a file or its folder (not needed with --quick)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--store", type=Path, default=STORE, help="folder of finished repetitions")
    parser.add_argument("--workers", type=int, default=1, help="repetitions at the same time, one thread each")
    own = [field.name for field in fields(full) if field.name != "data"]  # type: ignore[arg-type]
    for name in own:
        _add(parser, name, getattr(full, name))
    given = parser.parse_args(argv)
    settings = quick if given.quick else full
    changed = {name: _like(getattr(full, name), value) for name in own if (value := getattr(given, name)) is not None}
    if hasattr(settings, "data") and not given.quick:
        if given.data is None:
            parser.error("--data is needed: the folder of GSE2187, see experiments/README.md; or run with --quick")
        changed["data"] = str(given.data)
    options = Options(
        repetitions=given.repetitions or (2 if given.quick else 50),
        quick=given.quick,
        data=given.data,
        results=given.results,
        store=given.store,
        workers=given.workers,
    )
    run(options, replace(settings, **changed))  # type: ignore[type-var]


def described(settings: Any) -> dict[str, Any]:
    """Settings for a result file, without where the data lie."""
    return {name: value for name, value in asdict(settings).items() if name != "data"}


def mean_std(values: Sequence[float]) -> dict[str, float]:
    """Mean and standard deviation over repetitions."""
    return {"mean": fmean(values), "std": stdev(values) if len(values) > 1 else 0.0}


def _add(parser: argparse.ArgumentParser, name: str, default: Any) -> None:
    several = isinstance(default, tuple)
    kind = type(default[0] if several else default)
    parser.add_argument(f"--{name.replace('_', '-')}", type=kind, nargs="+" if several else None)


def _like(default: Any, value: Any) -> Any:
    return tuple(value) if isinstance(default, tuple) else value
