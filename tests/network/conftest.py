"""Federations that fail the test if they leave a process behind."""

import itertools

import pytest

from dkpca.network.nvflare import certificates
from tests.network.federation import Federation


@pytest.fixture(scope="session", autouse=True)
def keys():
    """Dealt out in turn: making a key takes half a second, and a test needs fewer than these."""
    dealt = itertools.cycle([certificates.new_key() for _ in range(12)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "new_key", lambda bits=0: next(dealt))
        yield


@pytest.fixture
def federate(tmp_path):
    """Make federations, each in a folder of its own; all are stopped at the end."""
    made: list[Federation] = []

    def make(parties=("airline", "weather"), folder="f", **options) -> Federation:
        (tmp_path / folder).mkdir()
        made.append(Federation(tmp_path / folder, parties, **options))
        return made[-1]

    yield make
    for federation in made:
        federation.stop()
