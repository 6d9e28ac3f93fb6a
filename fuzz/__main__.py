"""Fuzz every decoder: `python -m fuzz --runs N`, or `--seconds S`, each shared out over the decoders.

A decoder that raises what it should not, takes ten seconds, or takes more memory than the limit, ends with the input
in `fuzz/findings/`. The corpus in `fuzz/corpus/` is the start; what a run adds to it is kept in `build/fuzz/`.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fuzz.targets import TARGETS, seeds

HERE = Path(__file__).parent
FOUND = Path("build/fuzz")
SECONDS_AT_MOST, MEGABYTES_AT_MOST, BYTES_AT_MOST = 10, 2048, 4096


def main() -> int:
    """Fuzz; return 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[], help="decoders; none: all of them")
    parser.add_argument("--runs", type=int, default=120_000, help="inputs in all")
    parser.add_argument("--seconds", type=int, default=0, help="seconds in all, instead of a number of inputs")
    asked = parser.parse_args()
    names = asked.names or sorted(TARGETS)
    reports = [fuzz(name, asked.runs // len(names), asked.seconds // len(names)) for name in names]
    total, findings = sum(report["inputs"] for report in reports), [r["name"] for r in reports if r["finding"]]
    print(f"{total:,} inputs, findings in {findings}" if findings else f"{total:,} inputs, no finding")
    (FOUND / "report.json").write_text(json.dumps(reports, indent=1) + "\n")
    return 1 if findings else 0


def fuzz(name: str, runs: int, seconds: int) -> dict[str, Any]:
    """Fuzz one decoder in a process of its own; return how many inputs it took, and whether one was a finding."""
    added = FOUND / name
    findings = HERE / "findings"
    for folder in (added, findings):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (added / f"seed{number}").write_bytes(seed)
    kept = HERE / "corpus" / name
    start = time.perf_counter()
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "fuzz.guided", name, str(added), *([str(kept)] if kept.is_dir() else [])),
            f"-max_total_time={seconds}" if seconds else f"-runs={runs}",
            *(f"-timeout={SECONDS_AT_MOST}", f"-rss_limit_mb={MEGABYTES_AT_MOST}", f"-max_len={BYTES_AT_MOST}"),
            *(f"-artifact_prefix={findings}/{name}-", "-print_final_stats=1", "-verbosity=1"),
        ],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    counted = re.findall(r"number_of_executed_units:\s*(\d+)|Done (\d+) (?:runs )?in", ran.stderr)
    inputs = max((int(number) for pair in counted for number in pair if number), default=0)
    took = time.perf_counter() - start
    outcome = "FINDING" if ran.returncode else "no finding"
    print(f"{name:16} {inputs:>10,} inputs in {took:.0f} s, {outcome}", flush=True)
    if ran.returncode:
        print(ran.stderr[-3000:])
    return {"name": name, "inputs": inputs, "seconds": round(took, 1), "finding": bool(ran.returncode)}


if __name__ == "__main__":
    sys.exit(main())
