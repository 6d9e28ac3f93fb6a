"""Shared data and hypothesis settings."""

import gc
import importlib
import os
from collections import Counter

os.environ["SCIPY_ARRAY_API"] = "1"  # before scipy is imported: scikit-learn's array API check asks for it

import numpy as np
import pytest
from hypothesis import settings

pytest.register_assert_rewrite("testkit")  # before a test imports it: its assertions say what they saw

from testkit.pairs import left_out

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=10)
# Other examples each time: HYPOTHESIS_PROFILE=random make quick. What fails is printed so that it can be repeated.
settings.register_profile("random", deadline=None, max_examples=100, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

LONG = {"browser", "cluster", "longer", "slow"}


def pytest_addoption(parser):
    parser.addoption("--pairs", action="store_true", help="of many combinations of parameters, only all pairs")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    if config.getoption("--pairs"):
        unneeded = left_out(items)
        config.hook.pytest_deselected(items=unneeded)
        items[:] = [item for item in items if item not in {*unneeded}]
    # Files with many long tests first: the last that a worker gets is a short one.
    long = Counter(item.path for item in items if LONG & {mark.name for mark in item.iter_markers()})
    items.sort(key=lambda item: -long[item.path])


def pytest_collection_finish():
    gc.freeze()  # what was imported stays: looking through it for garbage takes half a second each time


@pytest.fixture(params=["numpy", pytest.param("torch", marks=pytest.mark.torch)])
def xp(request):
    """Each array library the numerics must run on."""
    return importlib.import_module(f"array_api_compat.{request.param}")


@pytest.fixture
def torch():
    """For tests that are marked so: where it is not installed, the other tests still run."""
    return importlib.import_module("torch")


@pytest.fixture
def rng():
    return np.random.default_rng(20260101)


@pytest.fixture
def table(rng):
    """Correlated columns with an offset, 90 samples."""
    return rng.standard_normal((90, 5)) @ rng.standard_normal((5, 12)) + 0.3 * rng.standard_normal((90, 12)) + 7.0
