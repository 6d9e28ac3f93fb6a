"""A kernel of a package of one's own: it goes by name through files, and whoever lacks the package is told."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dkpca import DKPCA, wire
from dkpca.errors import WireError
from dkpca.kernels import RBF

pytestmark = pytest.mark.slow  # most of these start processes


MODULE = '''
from dataclasses import dataclass
from typing import ClassVar

from dkpca.kernels import Kernel
from dkpca.kernels.laws import Law


@dataclass(frozen=True)
class MinMax(Kernel):
    """Sum over columns of the smaller of two values, over that of the larger."""

    offset: float = 0.0
    name: ClassVar[str] = "minmax"
    unit_diagonal: ClassVar[bool] = True

    @classmethod
    def from_settings(cls, *, gamma, centered):
        return cls()

    @property
    def law(self) -> Law | None:
        return None

    def __call__(self, X, Y):
        X, Y = X[:, None, :] + self.offset, Y[None, :, :] + self.offset
        return (X.clip(max=Y)).sum(-1) / (X.clip(min=Y)).sum(-1)

    def diagonal(self, X):
        return X[:, 0] * 0.0 + 1.0
'''
METADATA = "Metadata-Version: 2.1\nName: Minmax-Kernel\nVersion: 1.0\n"
ENTRY_POINTS = "[dkpca.kernels]\nminmax = minmax_kernel:MinMax\n"
TABLES = "rng = np.random.default_rng(0); bank, shop = rng.random((30, 4)), rng.random((30, 3))\n"
PARTY = f"""
import sys, numpy as np, dkpca
{TABLES}
kernel = dkpca.kernels.family("minmax")(offset=0.25)
summary, _ = dkpca.summarize(bank, party="bank", kernel=kernel, rank=20)
dkpca.save(sys.argv[1], summary)
"""
CENTER = f"""
import sys, numpy as np, dkpca
{TABLES}
received = dkpca.load(sys.argv[1])
shop, _ = dkpca.summarize(shop, party="shop", kernel=dkpca.kernels.RBF(0.5), rank=20)
model = dkpca.fuse([received, shop], n_components=3, law="sum")
print(model.meaning, received.kernel, *model.eigenvalues)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A folder with the package installed, as an installer leaves it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "minmax_kernel.py").write_text(MODULE)
    information = folder / "minmax_kernel-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(METADATA)
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def python(*arguments, path: Path | None = None, module: bool = False):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} | ({} if path is None else {"PYTHONPATH": str(path)})
    command = [sys.executable, "-m" if module else "-c", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def message(package, tmp_path_factory) -> Path:
    """What a party with the package sends."""
    path = tmp_path_factory.mktemp("sent") / "bank.summary"
    ran = python(PARTY, path, path=package)
    assert ran.returncode == 0, ran.stderr
    return path


def test_it_travels_by_name_between_those_who_installed_it(package, message):
    ran = python(CENTER, message, path=package)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("the sum of the parties' kernels MinMax(offset=0.25) ")
    rng = np.random.default_rng(0)
    bank, shop = rng.random((30, 4)) + 0.25, rng.random((30, 3))
    K = np.minimum(bank[:, None], bank[None]).sum(-1) / np.maximum(bank[:, None], bank[None]).sum(-1)
    both = {"bank": K, "shop": shop}
    model = DKPCA(3, kernel={"bank": "precomputed", "shop": RBF(0.5)}, law="sum", rank=20).fit(both)
    found = [float(value) for value in ran.stdout.split()[-3:]]
    np.testing.assert_allclose(found, model.eigenvalues_, rtol=1e-5)


def test_a_center_without_the_package_is_told_so(message):
    ran = python(CENTER, message)
    assert ran.returncode != 0
    assert "kernel 'minmax' is unknown here" in ran.stderr
    with pytest.raises(WireError, match="kernel 'minmax' is unknown here.*or install its package"):
        wire.decode(message.read_bytes())


def test_commands_offer_it_where_it_is_installed(package, message, tmp_path):
    np.save(tmp_path / "bank.npy", np.random.default_rng(0).random((30, 4)))
    summarize = ("dkpca", "summarize", tmp_path / "bank.npy", "--kernel", "minmax", "--no-standardize")
    there = python(*summarize, "--out", tmp_path / "bank.summary", path=package, module=True)
    assert there.returncode == 0, there.stderr
    shown = python("dkpca", "inspect", tmp_path / "bank.summary", path=package, module=True).stdout
    assert "minmax" in shown
    elsewhere = python(*summarize, "--out", tmp_path / "other.summary", module=True)
    assert "kernel 'minmax' is unknown here" in elsewhere.stderr
    assert elsewhere.returncode == 1


def test_a_package_that_offers_something_else_is_refused(package, tmp_path):
    information = tmp_path / "broken-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[dkpca.kernels]\nminmax = json:loads\n")
    ran = python("from dkpca.kernels import family; family('minmax')", path=tmp_path)
    assert "the package that offers kernel 'minmax' does not bring a Kernel of that name; repair it" in ran.stderr
