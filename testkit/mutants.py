"""A random sample of mutants per module: `python -m testkit.mutants --sample 30`, in the folder that mutmut made.

mutmut runs all mutants, which takes hours. This takes those of a seed, each in a fork that has loaded the library,
with the tests that reach what was changed, the quickest first.
"""

import argparse
import json
import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest
import sklearn.decomposition  # noqa: F401

import dkpca.estimator  # noqa: F401

CHOSEN = ("-m", "not slow and not torch and not gpu", "-k", "not TestBadBytes and not any_depth_of_calls")
PATIENCE = 300  # seconds; a mutant may never end


def sampled(most: int, seed: int) -> list[str]:
    """Take as many mutants of each module, or all of them where there are fewer."""
    rng = random.Random(seed)
    names: list[str] = []
    for described in sorted(Path("src").rglob("*.meta")):
        mutants = sorted(json.loads(described.read_text())["exit_code_by_key"])
        names += rng.sample(mutants, min(most, len(mutants)))
    rng.shuffle(names)
    return names


def fate(mutant: str, tests: list[str]) -> str:
    """Say what became of a mutant; a test file that cannot be loaded any more has noticed it too."""
    if not tests:
        return "not reached"
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        quiet = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(quiet, stream)
        os.environ["MUTANT_UNDER_TEST"] = mutant
        os._exit(int(pytest.main(["--rootdir=.", "-x", "-q", "-p", "no:cacheprovider", *tests, *CHOSEN])))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {0: "survived", 5: "not reached", -signal.SIGALRM: "did not end"}.get(code, "killed")


def main() -> None:
    """Run a sample; name those that no test noticed, and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    known = json.loads(Path("mutmut-stats.json").read_text())
    reached, seconds = known["tests_by_mangled_function_name"], known["duration_by_test"]
    ends: dict[str, Counter[str]] = {}
    for mutant in sampled(given.sample, given.seed):
        tests = sorted(reached.get(mutant.rpartition("__mutmut_")[0], []), key=lambda test: seconds.get(test, 0.0))
        end = fate(mutant, list(dict.fromkeys(test.partition("[")[0] for test in tests)))
        module = mutant.partition(".x")[0]
        ends.setdefault(module, Counter())[end] += 1
        if end in ("survived", "not reached"):
            print(f"{end}: {mutant}", flush=True)
    for module, counted in sorted(ends.items()):
        print(f"{module}: {dict(counted)}")
    print(f"all: {dict(sum(ends.values(), Counter()))}")


if __name__ == "__main__":
    main()
