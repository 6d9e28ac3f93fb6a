"""Processor time of `dkpca --help` and of other commands' help, beside that of a bare Python: user plus system."""

import resource
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("dkpca")
REPEATS = 7


def processor_seconds(*command: str | Path) -> float:
    """Least user and system time of a few runs."""
    spent = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def main() -> None:
    """Print one line per command."""
    bare = processor_seconds(sys.executable, "-c", "")
    print(f"{'python':<24} {bare:.3f} s")
    for command in (("--help",), ("--version",), ("summarize", "--help"), ("fuse", "--help")):
        seconds = processor_seconds(PROGRAM, *command)
        print(f"{'dkpca ' + ' '.join(command):<24} {seconds:.3f} s  {seconds / bare:.0f} x")


if __name__ == "__main__":
    main()
