"""The parties' work on other processes: loky on one machine, a real Dask scheduler with two workers."""

import os
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest

from dkpca import DKPCA, subspace_error
from dkpca.errors import InputError, NoAnswerError
from dkpca.exchange import in_process
from dkpca.settings import Compute, Fit
from testkit.deadline import within

DEADLINE = 120  # seconds until a hanging cluster counts as a failure


def table(seed, n=120, columns=6):
    rng = np.random.default_rng(seed)
    shared = np.random.default_rng(99).standard_normal((n, 3))
    return shared @ rng.standard_normal((3, columns)) + 0.3 * rng.standard_normal((n, columns))


def opened(seed, columns_are):
    """As the commands' tables are opened by the worker."""
    return table(seed)


def table_and_crash_once(seed, marker, columns_are):
    """Take the worker down the first time the table is opened, as a pulled plug would."""
    if not Path(marker).exists():
        Path(marker).touch()
        os._exit(1)
    return table(seed)


def always_crash(columns_are):
    os._exit(1)


@pytest.fixture(scope="module")
def client():
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),  # each brings a new worker
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", resources={"party": 1}
        ) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


@pytest.fixture
def on_dask(client):
    with joblib.parallel_config(backend="dask", resources={"party": 1}):
        yield


def within_deadline(work):
    return within(DEADLINE, work)


def fit_on_dask(tables, timeout=DEADLINE):
    with joblib.parallel_config(backend="dask", resources={"party": 1}):
        return in_process.fit(tables, Fit(3, gamma=0.05), Compute(timeout=timeout))[0]


@pytest.mark.parametrize("given", ["nothing.npy", Path("table.csv"), lambda: table(2)])
def test_a_path_or_a_function_is_no_table(given):
    with pytest.raises(InputError, match="party 'b': .* is no table in memory; pass an array"):
        DKPCA(3, gamma=0.05).fit({"a": table(1), "b": given})


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
class TestDask:
    @pytest.mark.usefixtures("on_dask")
    def test_two_worker_processes_give_what_one_process_gives(self):
        tables = {name: table(seed) for seed, name in enumerate("abcd")}
        model = DKPCA(3, gamma="scale").fit(tables)
        scores = model.transform(tables)
        with joblib.parallel_config(backend="sequential"):
            expected = DKPCA(3, gamma="scale").fit(tables)
        assert subspace_error(expected.eigenvectors_, model.eigenvectors_) < 1e-20
        np.testing.assert_allclose(scores, model.model_.scores, atol=1e-5)

    def test_a_worker_killed_mid_run_does_not_lose_the_run(self, client, tmp_path):
        crashing = partial(table_and_crash_once, 2, tmp_path / "crashed")
        client.wait_for_workers(2, timeout=DEADLINE)
        model = within_deadline(lambda: fit_on_dask({"a": partial(opened, 1), "b": crashing}))
        assert (tmp_path / "crashed").exists()
        with joblib.parallel_config(backend="sequential"):
            expected = DKPCA(3, gamma=0.05).fit({"a": table(1), "b": table(2)})
        assert subspace_error(expected.eigenvectors_, model.eigenvectors) < 1e-20

    def test_a_party_that_kills_every_worker_fails_loudly(self, client):
        client.wait_for_workers(2, timeout=DEADLINE)  # joblib leaves the cluster alone if it has a single core
        with pytest.raises(NoAnswerError, match=r"no answer within 5 s from one of \['a', 'b'\]"):
            within_deadline(lambda: fit_on_dask({"a": partial(opened, 1), "b": always_crash}, timeout=5))


@pytest.mark.cluster
def test_loky_processes_give_what_one_process_gives():
    tables = {name: table(seed) for seed, name in enumerate("ab")}
    expected = DKPCA(3, gamma="scale").fit(tables)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        model = DKPCA(3, gamma="scale").fit(tables)
    assert subspace_error(expected.eigenvectors_, model.eigenvectors_) < 1e-20
