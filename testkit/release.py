"""What can be checked of a release without a registry: `make release-check` builds `dist/` and runs this."""

import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import dkpca

ROOT = Path(__file__).parents[1]
NEVER = re.compile(r"\.(pyc|npz|pem|key|state|env)$|(^|/)(\.git|\.venv|node_modules|__pycache__)(/|$)")


def versions() -> list[str]:
    """Where another version stands than in the code."""
    version, wrong = dkpca.__version__, []
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text(), re.M):
        wrong.append(f"CHANGELOG.md has no section '## {version} (date)'")
    if f"\nversion: {version}\n" not in (ROOT / "CITATION.cff").read_text():
        wrong.append(f"CITATION.cff is not about {version}")
    return wrong


def wheel(path: Path) -> list[str]:
    """What is wrong with the wheel: files that do not belong, or are missing; metadata."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        told = Parser().parsestr(archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode())
    source = {
        each.relative_to(ROOT / "src").as_posix()
        for each in (ROOT / "src" / "dkpca").rglob("*")
        if each.is_file() and "__pycache__" not in each.parts
    }
    packed = {name for name in names if ".dist-info/" not in name}
    wrong = [f"{path.name} lacks {name}" for name in sorted(source - packed)]
    wrong += [f"{path.name} has {name}, which is no file of src" for name in sorted(packed - source)]
    wrong += [f"{path.name} has no license"] * (not any(name.endswith("licenses/LICENSE") for name in names))
    wrong += [f"{path.name} says nothing of {field}" for field in ("Requires-Python", "License-Expression", "Summary")
              if not told[field]]  # fmt: skip
    return wrong + [f"{path.name} is of version {told['Version']}"] * (told["Version"] != dkpca.__version__)


def sdist(path: Path) -> list[str]:
    """What is wrong with the source archive: what a packager needs is there, and nothing private."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = (
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
        "pyproject.toml",
        "tests/conftest.py",
        "Makefile",
    )
    wrong = [
        f"{path.name} lacks {name}"
        for name in needed
        if not any(name == n or n.startswith(name + "/") for n in names)
    ]
    kept = {name for name in names if name.startswith("tests/")}  # keys and states that tests were given
    return wrong + [f"{path.name} has {name}" for name in sorted(names - kept) if NEVER.search(name)]


def tracked() -> list[str]:
    """Files that no commit has: a release is made of a commit."""
    said = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [f"not committed: {line}" for line in said.stdout.splitlines()]


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    (built,), (source,) = (list((ROOT / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    wrong = [*versions(), *wheel(built), *sdist(source), *tracked()]
    print("\n".join(wrong) or f"{built.name} and {source.name} can be released.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
