"""Run the search: a random part, and a part that climbs from the configurations that strained a bound most."""

import argparse
import json
import math
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import RESULTS, machine
from dkpca.errors import DataWarning, DKPCAError
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.rows import controller
from experiments.adversary import estimates
from experiments.adversary.checks import AUDITED, Check, checks, in_memory
from experiments.adversary.configurations import (
    Configuration,
    bend,
    covariates_of,
    draw,
    estimator,
    kernel_of,
    samples_of,
    tables,
)
from experiments.adversary.estimates import Judgement

CLIMBING = 0.2  # share of the configurations that are bent from others
STEPS = 20  # of a climb
AT_A_TIME = 100
FAULTS = ("crashed", "accused")
ACCUSED = "not made by dkpca"


@dataclass(frozen=True)
class Outcome:
    """What one configuration came to."""

    configuration: Configuration
    ended: str  # "answered", "refused", "accused" of a message that no party can send, or "crashed"
    words: str  # of the error
    broken: tuple[Check, ...]
    strain: float  # largest share of a bound that the truth used up, but for those that are tight by nature
    seconds: float
    audited: tuple[bool, ...] = ()  # whether what was said at 95 % is true


# Where nothing is left out these say what is so, and using them up is no sign of trouble.
TIGHT = {
    "total variance", "best", "captured", "captured share", "optimality", "eigenvalue at most", "eigenvalue at least",
    "gap", "trace gap", "trace gap exact", "kernel above",
}  # fmt: skip


def attempt(configuration: Configuration) -> Outcome:
    """Fit, project and check one configuration."""
    start = time.perf_counter()
    broken: tuple[Check, ...] = ()
    audited: tuple[bool, ...] = ()
    strain, words = 0.0, ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DataWarning)  # said of tables that are odd, as most of these are
        try:
            data, samples = tables(configuration), samples_of(configuration)
            if samples is not None:
                data = {name: table[samples[name], :] for name, table in data.items()}
            known = covariates_of(configuration)
            model = estimator(configuration).fit(data, sample_ids=samples, covariates=known)
            scores = to_numpy(in_memory(model.transform(data, sample_ids=samples, covariates=known)))
            if not np.isfinite(scores).all() or not np.isfinite(to_numpy(in_memory(model.eigenvectors_))).all():
                raise AssertionError("a score or a component is not finite")
            json.dumps(model.certificate_.to_dict(), allow_nan=False)
            made = list(checks(model, data, kernel_of(configuration), known))
            broken = tuple(check for check in made if check.broken and check.statement != AUDITED)
            audited = tuple(not check.broken for check in made if check.statement == AUDITED)
            strain = max((check.strain for check in made if check.statement not in TIGHT), default=0.0)
            ended = "answered"
        except DKPCAError as error:
            ended, words = "refused", str(error)
            if ACCUSED in words:
                ended = "accused"
        except Exception:  # noqa: BLE001 - whatever else comes out is what the search is for
            ended, words = "crashed", traceback.format_exc()
    return Outcome(configuration, ended, words, broken, strain, time.perf_counter() - start, audited)


def climb(seed: int, number: int, lacking: bool = False) -> list[Outcome]:
    """Bend a configuration again and again, and go on from what strains a bound more."""
    controller().limit(limits=1)
    rng = np.random.default_rng([seed, number, 1])
    best = attempt(draw(seed, 10**9 + number, lacking=lacking))
    outcomes = [best]
    for _ in range(STEPS - 1):
        outcome = attempt(bend(best.configuration, rng))
        outcomes.append(outcome)
        best = outcome if outcome.strain >= best.strain else best
    return outcomes


def stretch(seed: int, numbers: Sequence[int], lacking: bool = False) -> list[Outcome]:
    """Attempt some of the random configurations, in a process of its own."""
    controller().limit(limits=1)
    return [attempt(draw(seed, number, lacking=lacking)) for number in numbers]


def search(count: int, seed: int, workers: int, *, lacking: bool = False) -> list[Outcome]:
    """Attempt so many configurations; in all of them parties lack samples, if asked."""
    climbs = int(CLIMBING * count) // STEPS
    numbers = range(count - climbs * STEPS)
    parts = [numbers[i : i + AT_A_TIME] for i in range(0, len(numbers), AT_A_TIME)]
    outcomes: list[Outcome] = []
    with ProcessPoolExecutor(workers) as pool:
        random = pool.map(stretch, repeat(seed), parts, repeat(lacking))
        climbing = pool.map(climb, repeat(seed), range(climbs), repeat(lacking))
        for part in chain(random, climbing):
            outcomes += part
            for each in part:
                if each.broken or each.ended in FAULTS:
                    print(f"FOUND {each.configuration}\n{each.words}{each.broken}", flush=True)
            print(f"{len(outcomes)} of {count}", flush=True)
    return outcomes


def summary(outcomes: Sequence[Outcome], judged: Sequence[Judgement], seed: int, seconds: float) -> dict[str, Any]:
    """What the search found: lines for the page on reliability, and what they rest on."""
    ended = Counter(o.ended for o in outcomes)
    violations = [o for o in outcomes if o.broken]
    found = [*(o for o in outcomes if o.ended in FAULTS), *violations]
    audits = [held for o in outcomes for held in o.audited]
    missed, most = audits.count(False), 0.05 * len(audits) + 3.0 * math.sqrt(0.05 * 0.95 * len(audits))
    lines = {
        f"configurations tried, seed {seed}": len(outcomes),
        "answered": ended["answered"],
        "answered, of configurations in which parties lack samples": sum(
            o.ended == "answered" and o.configuration.lacking is not None for o in outcomes
        ),
        "refused in one sentence": ended["refused"],
        "answered with a statement that is false": len(violations),
        "honest parties accused": ended["accused"],
        "ended in any other error": ended["crashed"],
        "audits": len(audits),
        "audits whose bound at 95% is false": missed,
        "kinds of estimates further off than promised": sum(each.broken for each in judged),
        "seconds in all": round(seconds),
        "seconds of the slowest": max(o.seconds for o in outcomes),
    }
    none = {
        "answered with a statement that is false",
        "honest parties accused",
        "ended in any other error",
        "kinds of estimates further off than promised",
    }
    return {
        "machine": machine(),
        "lines": [{"what": k, "value": v} | ({"limit": "0"} if k in none else {}) for k, v in lines.items()],
        "found": len(found) + sum(each.broken for each in judged) + (missed > most),
        "estimates": [asdict(each) for each in judged],
        "statements_broken": dict(Counter(check.statement for o in violations for check in o.broken)),
        "refusals": dict(Counter(_kind(o.words) for o in outcomes if o.ended == "refused").most_common()),
        "examples": [
            {
                "configuration": o.configuration.described(),
                "words": o.words,
                "broken": [asdict(check) for check in o.broken],
            }
            for o in found[:20]
        ],
    }


def _kind(words: str) -> str:
    """Sentence of a refusal without its numbers."""
    return " ".join("#" if any(c.isdigit() for c in word) else word for word in words.split())


def main(argv: Sequence[str] | None = None) -> int:
    """Search, write the result, and end with an error if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configurations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--estimates", type=int, help="fits of each kind; a tenth of the configurations if not given")
    parser.add_argument("--lacking", action="store_true", help="parties lack samples in all configurations")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args(argv)
    start = time.perf_counter()
    outcomes = search(given.configurations, given.seed, given.workers, lacking=given.lacking)
    count = given.configurations // 10 if given.estimates is None else given.estimates
    with ProcessPoolExecutor(given.workers) as pool:
        judged = estimates.search(count, given.seed, pool)
    found = summary(outcomes, judged, given.seed, time.perf_counter() - start)
    given.results.mkdir(parents=True, exist_ok=True)
    (given.results / "adversary.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name != "examples"}, indent=1))
    return 1 if found["found"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
