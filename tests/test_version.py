"""One place says the version; whatever repeats it agrees."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import dkpca

ROOT = Path(__file__).parents[1]


def test_the_installed_package_has_the_version_of_the_code():
    assert version("dkpca") == dkpca.__version__


def test_the_project_file_takes_the_version_from_the_code():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == str(Path(dkpca.__file__).relative_to(ROOT))


def test_the_changelog_has_a_section_for_the_version_below_what_is_unreleased():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["Unreleased", dkpca.__version__]


def test_the_citation_names_the_version():
    assert f"\nversion: {dkpca.__version__}\n" in (ROOT / "CITATION.cff").read_text()
