"""Federations that fail the test if they leave a process behind."""

import pytest

from testkit import sites
from testkit.federation import Federation, configure
from testkit.owners import OWNERS, frame, numbers, people


@pytest.fixture(scope="session", autouse=True)
def forks(tmp_path_factory):
    """Centers and parties are forks of one process."""
    with sites.forked_from(tmp_path_factory.mktemp("sites")):
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


def with_tables(path, parties=OWNERS) -> Federation:
    """A federation whose parties hold columns about the same sixty people."""
    federation = Federation(path, parties)
    tables = list(numbers().values())
    for place, party in enumerate(parties):
        X = tables[place % len(tables)] + 0.01 * (place // len(tables))
        frame(X, people()).write_csv(path / party / "people.csv")
        frame(X[:7] + 0.1, [f"n{i}" for i in range(7)]).write_csv(path / party / "new" / "spring.csv")
        configure(path / party, "people.csv")
    return federation


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Three parties and their center, as processes."""
    federation = with_tables(tmp_path_factory.mktemp("running"))
    try:
        yield federation.start()
    finally:
        federation.stop()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """The same, without a process."""
    return with_tables(tmp_path_factory.mktemp("quiet"))
