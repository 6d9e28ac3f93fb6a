"""The parties' work on other processes: loky on one machine, a real Dask scheduler with two workers."""

import os
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest

from dkpca import DKPCA, subspace_error
from dkpca.errors import DKPCAError, InputError, NoAnswerError
from testkit.deadline import within

DEADLINE = 120  # seconds until a hanging cluster counts as a failure


def table(seed, n=120, columns=6):
    rng = np.random.default_rng(seed)
    shared = np.random.default_rng(99).standard_normal((n, 3))
    return shared @ rng.standard_normal((3, columns)) + 0.3 * rng.standard_normal((n, columns))


def table_and_crash_once(seed, marker):
    """Take the worker down the first time the table is opened, as a pulled plug would."""
    if not Path(marker).exists():
        Path(marker).touch()
        os._exit(1)
    return table(seed)


def always_crash():
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
        return DKPCA(3, gamma=0.05, timeout=timeout).fit(tables)


class TestSources:
    @pytest.mark.parametrize("projection", ["extend", "exact"])
    @pytest.mark.parametrize("solver", ["dense", "landmark"])
    def test_paths_and_functions_give_what_arrays_give(self, tmp_path, solver, projection):
        arrays = {"a": table(1), "b": table(2)}
        np.save(tmp_path / "a.npy", arrays["a"])
        settings = {"n_components": 3, "gamma": "scale", "solver": solver, "projection": projection}
        expected = DKPCA(**settings).fit(arrays)
        model = DKPCA(**settings).fit({"a": tmp_path / "a.npy", "b": partial(table, 2)})
        np.testing.assert_array_equal(model.eigenvectors_, expected.eigenvectors_)
        new = {"a": table(1)[:9], "b": lambda: table(2)[:9]}
        np.testing.assert_allclose(model.transform(new), expected.transform({"a": table(1)[:9], "b": table(2)[:9]}))
        assert model.n_features_in_ == 12

    def test_the_rows_of_a_source_stay_with_the_worker(self):
        model = DKPCA(3, projection="exact").fit([partial(table, 1), partial(table, 2)])
        assert all(state.anchors is None and state.training is None for state in model._states.values())

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            ("nothing.npy", "party 'b': .*nothing.npy cannot be read"),
            ("nothing.csv", "party 'b': .*nothing.csv: there is no such file"),
            ("table.json", "party 'b': .*table.json: there is no such file"),
            (lambda: np.full((120, 2), np.nan), "party 'b': 2 columns contain NaN"),
            (lambda: table(1)[:5], "'a' and 'b' differ in number of samples"),
        ],
    )
    def test_a_bad_source_names_the_party(self, source, words):
        with pytest.raises(DKPCAError, match=words):
            DKPCA(3, gamma=0.05).fit({"a": table(1), "b": source})

    def test_a_pickled_array_is_not_opened(self, tmp_path):
        np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
        with pytest.raises(InputError, match="cannot be read"):
            DKPCA(3).fit({"a": tmp_path / "x.npy"})


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
class TestDask:
    @pytest.mark.usefixtures("on_dask")
    def test_two_worker_processes_give_what_one_process_gives(self):
        sources = {name: partial(table, seed) for seed, name in enumerate("abcd")}
        model = DKPCA(3, gamma="scale").fit(sources)
        scores = model.transform(sources)
        with joblib.parallel_config(backend="sequential"):
            expected = DKPCA(3, gamma="scale").fit({name: source() for name, source in sources.items()})
        assert subspace_error(expected.eigenvectors_, model.eigenvectors_) < 1e-20
        np.testing.assert_allclose(scores, model.model_.scores, atol=1e-5)

    def test_a_worker_killed_mid_run_does_not_lose_the_run(self, client, tmp_path):
        crashing = partial(table_and_crash_once, 2, tmp_path / "crashed")
        client.wait_for_workers(2, timeout=DEADLINE)
        model = within_deadline(lambda: fit_on_dask({"a": partial(table, 1), "b": crashing}))
        assert (tmp_path / "crashed").exists()
        with joblib.parallel_config(backend="sequential"):
            expected = DKPCA(3, gamma=0.05).fit({"a": table(1), "b": table(2)})
        assert subspace_error(expected.eigenvectors_, model.eigenvectors_) < 1e-20

    def test_a_party_that_kills_every_worker_fails_loudly(self, client):
        client.wait_for_workers(2, timeout=DEADLINE)  # joblib leaves the cluster alone if it has a single core
        with pytest.raises(NoAnswerError, match=r"no answer within 5 s from one of \['a', 'b'\]"):
            within_deadline(lambda: fit_on_dask({"a": partial(table, 1), "b": always_crash}, timeout=5))


@pytest.mark.cluster
def test_loky_processes_give_what_one_process_gives():
    sources = {name: partial(table, seed) for seed, name in enumerate("ab")}
    expected = DKPCA(3, gamma="scale").fit(sources)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        model = DKPCA(3, gamma="scale").fit(sources)
    assert subspace_error(expected.eigenvectors_, model.eigenvectors_) < 1e-20
