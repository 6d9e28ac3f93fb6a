"""What other people's scripts rely on: named once, documented, with examples that run."""

import doctest
import inspect
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dkpca

API = Path(__file__).parents[1] / "docs" / "api.md"


def expanded():
    """Public names with what they stand for; a public module stands for its own public names."""
    found: dict[str, Any] = {}
    for name in dkpca.__all__:
        value = getattr(dkpca, name)
        inside = {f"{name}.{each}": getattr(value, each) for each in getattr(value, "__all__", ())}
        found |= inside if isinstance(value, ModuleType) else {name: value}
    return found


PUBLIC = expanded()
CLASSES = {name: value for name, value in PUBLIC.items() if isinstance(value, type)}
METHODS = {
    f"{name}.{key}": method
    for name, cls in CLASSES.items()
    for key, method in inspect.getmembers(cls, callable)
    if not key.startswith("_") and str(getattr(method, "__module__", "")).startswith("dkpca")
}
EXAMPLES = {name: value for name, value in PUBLIC.items() if not name.startswith("errors.")} | {
    "errors": dkpca.errors,
    "DKPCA.save": dkpca.DKPCA.save,
}


def test_the_reference_shows_the_public_names_first_and_all_of_them():
    public, _, internals = API.read_text().partition("\n## Internals\n")
    shown = re.findall(r"^::: dkpca\.(\S+)$", public, re.MULTILINE)
    assert sorted(name.removeprefix("party.") for name in shown) == sorted(PUBLIC)
    assert "::: dkpca.linalg.leading" in internals


def test_public_names_are_listed_by_dir_and_others_are_refused():
    assert set(dkpca.__all__) <= set(dir(dkpca))
    with pytest.raises(AttributeError, match="module 'dkpca' has no attribute 'Fixed'"):
        dkpca.Fixed  # noqa: B018


LONGER = {"rank.Recovery"}  # many attacks


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.longer) if name in LONGER else name for name in EXAMPLES]
)
def test_every_public_name_has_an_example_that_runs(name):
    value = EXAMPLES[name]
    own = doctest.DocTestFinder(recurse=False).find(value, name)
    assert any(test.examples for test in own), f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    words: list[str] = []
    for test in own:
        runner.run(test, out=words.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(words)


def documented(text, title):
    """Names that a section of a numpydoc docstring describes."""
    lines, names, inside = text.splitlines(), set(), False
    for line, following in pairwise([*lines, ""]):
        if set(following) == {"-"}:
            inside = line == title
        elif inside and set(line) - {"-"} and not line.startswith(" "):
            names |= {name.strip() for name in line.partition(" : ")[0].split(",")}
    return names


def parameters(value):
    given = inspect.signature(value).parameters.values()
    return {
        p.name for p in given if p.name not in ("self", "cls") and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }


@pytest.mark.parametrize(
    "name", [n for n, v in PUBLIC.items() if not n.startswith("errors.") and not inspect.isabstract(v)]
)
def test_the_docstring_names_every_parameter_and_no_other(name):
    value = PUBLIC[name]
    text = inspect.getdoc(value)
    described = documented(text, "Parameters")
    if isinstance(value, type) and not described:  # made by the library, not by its users
        described = documented(text, "Attributes")
    assert described == parameters(value)


@pytest.mark.parametrize("name", [n for n in METHODS if n.startswith("DKPCA.")])
def test_the_docstring_of_a_method_names_every_parameter_and_no_other(name):
    assert documented(inspect.getdoc(METHODS[name]), "Parameters") == parameters(METHODS[name])


@pytest.mark.parametrize("name", METHODS)
def test_every_public_method_says_what_it_does(name):
    assert inspect.getdoc(METHODS[name])


def test_attributes_of_a_fitted_estimator_are_documented():
    model = dkpca.DKPCA(2, parties=2).fit([[0.0, 1.0], [2.0, 3.0], [1.0, 5.0]])
    computed = {name for name, value in vars(dkpca.DKPCA).items() if isinstance(value, property)}
    fitted = {name for name in {*vars(model), *computed} if name.endswith("_") and not name.startswith("_")}
    assert fitted == documented(inspect.getdoc(dkpca.DKPCA), "Attributes")


@pytest.mark.parametrize(
    "cls", [v for n, v in PUBLIC.items() if n.startswith("errors.") and not issubclass(v, Warning)]
)
def test_every_error_can_be_caught_at_once(cls):
    assert issubclass(cls, dkpca.errors.DKPCAError)
    assert cls.__doc__


LIBRARY_ONLY = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"polars", "typer", "rich", "aiohttp", "cryptography"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import dkpca
assert not {"numpy", "sklearn"} & set(sys.modules), "import dkpca alone is to be quick"
import numpy as np
for name in dkpca.__all__:
    getattr(dkpca, name)
X, folder = np.random.default_rng(0).normal(size=(40, 6)), sys.argv[1]
kept = {}
for party, columns in {"bank": X[:, :3], "shop": X[:, 3:]}.items():
    summary, state = dkpca.summarize(columns, party=party, kernel=dkpca.kernels.RBF(0.1), rank=30)
    dkpca.save(f"{folder}/{party}.summary", summary)
    dkpca.save(f"{folder}/{party}.state", state)
model = dkpca.fuse([dkpca.load(f"{folder}/{party}.summary") for party in ("bank", "shop")], n_components=2)
dkpca.save(f"{folder}/model", model)
model = dkpca.load(f"{folder}/model")
rows = [dkpca.extend(dkpca.load(f"{folder}/{p}.state"), Y) for p, Y in {"bank": X[:, :3], "shop": X[:, 3:]}.items()]
assert np.allclose(dkpca.project(model, rows), model.scores, atol=1e-5)
fitted = dkpca.DKPCA(2, gamma=0.1, rank=30).fit({"bank": X[:, :3], "shop": X[:, 3:]})
assert np.array_equal(fitted.eigenvectors_, model.eigenvectors)
fitted.save(f"{folder}/estimator")
dkpca.DKPCA.load(f"{folder}/estimator").transform({"bank": X[:, :3], "shop": X[:, 3:]})
"""


@pytest.mark.slow
def test_the_library_works_without_the_command_line_extra(tmp_path):
    ran = subprocess.run([sys.executable, "-c", LIBRARY_ONLY, tmp_path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
