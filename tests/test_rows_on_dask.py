"""Dask in, Dask out: rows stay in their chunks, and only sums of the size of landmarks are added up."""

import os
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

from dkpca import DKPCA, subspace_error
from dkpca.errors import InputError, NoAnswerError
from dkpca.exchange import on_dask, row_sums
from dkpca.kernels import RBF, Laplacian
from dkpca.linalg import landmark
from dkpca.linalg.rows import listening
from dkpca.rank import Budget
from testkit.deadline import within
from testkit.row_blocks import CHUNK, COLUMNS, block

N, DEADLINE = 700, 600  # seconds until a hanging cluster counts as a failure
WIDTHS = {"bank": 5, "shop": 4}


def arrays(rng, n=N):
    hidden = rng.standard_normal((n, 3))
    return {
        name: hidden @ rng.standard_normal((3, width)) + 0.2 * rng.standard_normal((n, width)) + 3.0
        for name, width in WIDTHS.items()
    }


def on_chunks(tables, sizes=(200, 1, 299, 200)):
    return {name: da.from_array(X, chunks=(sizes, 2)) for name, X in tables.items()}


def joined_kernel(tables, *, kernel, gamma, standardize, center):
    X = np.hstack(list(tables.values()))
    X = (X - X.mean(axis=0)) / X.std(axis=0) if standardize else X
    if kernel == "linear":
        K = X @ X.T
    else:
        squares = np.sum(X * X, axis=1)
        K = np.exp(-gamma * np.maximum(squares[:, None] + squares[None, :] - 2.0 * X @ X.T, 0.0))
    H = np.eye(len(X)) - 1.0 / len(X)
    return H @ K @ H if center else K


@pytest.fixture
def few_rows_are_many(monkeypatch):
    monkeypatch.setattr(landmark, "SAMPLE", 150)
    monkeypatch.setattr(landmark, "SAMPLE_SHARE", 2)


@pytest.mark.usefixtures("few_rows_are_many")
class TestTheAnswer:
    @pytest.mark.parametrize("center", [True, False])
    @pytest.mark.parametrize("standardize", [True, False])
    @pytest.mark.parametrize(
        ("kernel", "rank", "gamma"),
        [("rbf", 12, 0.02), ("rbf", 4, 0.02), ("rbf", 12, 1e-5), ("linear", 2, None), ("linear", "auto", None)],
    )
    @pytest.mark.parametrize("precision", ["float32", "float64"])
    def test_what_is_certified_is_true(self, rng, center, standardize, kernel, rank, gamma, precision):
        """Also where landmarks are almost the same sample to the kernel."""
        tables = arrays(rng)
        model = DKPCA(
            3,
            kernel=kernel,
            gamma=gamma,
            rank=rank,
            center=center,
            standardize=standardize,
            precision=precision,
            n_landmarks=80,
        ).fit(on_chunks(tables))
        K = joined_kernel(tables, kernel=kernel, gamma=gamma, standardize=standardize, center=center)
        values, vectors = np.linalg.eigh(K)
        values, vectors = values[::-1], vectors[:, ::-1]
        V, said = model.eigenvectors_.compute(), model.certificate_
        slack = 1e-9 * values[0]
        np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-9)
        assert (values[:3] <= np.array(said.eigenvalues_at_most) + slack).all()
        assert (values[:3] >= np.array(said.eigenvalues_at_least) - slack).all()
        assert np.trace(K) <= said.total_variance_at_most + slack
        assert np.trace(V.T @ K @ V) >= said.captured_at_least - slack
        assert values[:3].sum() <= said.captured_best_at_most + slack
        error = subspace_error(vectors[:, :3], V)
        assert error <= said.subspace_error_at_most
        assert error < (0.05 if rank in (2, 4) else 1e-3)

    @pytest.mark.parametrize("kernel", ["rbf", "linear"])
    def test_it_is_what_gathered_tables_give(self, rng, kernel):
        tables, rank = arrays(rng), 8 if kernel == "rbf" else 2
        settings = {"n_components": 3, "kernel": kernel, "gamma": "scale", "rank": rank, "n_landmarks": 150}
        solver = "landmark" if kernel == "rbf" else "auto"
        expected = DKPCA(**settings, solver=solver).fit(tables)
        model = DKPCA(**settings).fit(on_chunks(tables))
        assert subspace_error(expected.eigenvectors_, model.eigenvectors_.compute()) < 1e-5
        np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-3)
        assert model.gamma_ == pytest.approx(expected.gamma_) if kernel == "rbf" else model.gamma_ is None
        assert [e.rank for e in model.ledger_] == [e.rank for e in expected.ledger_]
        estimates = [each.certificate_.subspace_error_estimate for each in (model, expected)]
        assert estimates[0] == pytest.approx(estimates[1], rel=0.3)
        assert "4 chunks of rows that stay on their workers" in model.solvers_["center"]

    def test_scores_are_a_dask_array_of_the_same_chunks(self, rng):
        tables = arrays(rng)
        model = DKPCA(2, gamma=0.02, rank=10, n_landmarks=80)
        scores = model.fit_transform(on_chunks(tables))
        assert isinstance(scores, da.Array)
        assert scores.chunks == ((200, 1, 299, 200), (2,))
        values = scores.compute()
        np.testing.assert_allclose(model.transform(on_chunks(tables)).compute(), values, atol=1e-12)
        np.testing.assert_allclose(model.transform(tables), values, atol=1e-12)
        assert (values[np.abs(values).argmax(axis=0), range(2)] > 0).all()

    def test_how_rows_are_scheduled_changes_no_bit(self, rng):
        tables, found = on_chunks(arrays(rng)), []
        for settings in ({"scheduler": "synchronous"}, {"scheduler": "threads", "num_workers": 3}):
            with dask.config.set(**settings):
                model = DKPCA(3, gamma=0.02, rank=8, n_landmarks=80).fit(tables)
                found.append((model.eigenvectors_.compute(), model.eigenvalues_, model.certificate_))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_array_equal(found[0][1], found[1][1])
        assert found[0][2] == found[1][2]

    def test_tables_that_are_cut_otherwise_are_cut_as_the_first(self, rng):
        tables = arrays(rng)
        cut = {
            "bank": da.from_array(tables["bank"], chunks=(350, -1)),
            "shop": da.from_array(tables["shop"], chunks=90),
        }
        scores = DKPCA(2, gamma=0.02, rank=5).fit_transform(cut)
        assert scores.chunks[0] == (350, 350)

    def test_one_table_is_cut_into_parties(self, rng):
        X = np.hstack(list(arrays(rng).values()))
        model = DKPCA(2, gamma=0.02, rank=6, parties=[range(5), range(5, 9)]).fit(da.from_array(X, chunks=(300, 4)))
        expected = DKPCA(2, gamma=0.02, rank=6).fit(
            on_chunks({"party0": X[:, :5], "party1": X[:, 5:]}, (300, 300, 100))
        )
        np.testing.assert_array_equal(model.eigenvectors_.compute(), expected.eigenvectors_.compute())

    def test_progress_is_told(self, rng):
        told = []
        with listening(lambda what, share: told.append((what, share))):
            DKPCA(2, gamma=0.02, rank=6).fit(on_chunks(arrays(rng)))
        assert told == [("rows", 0.2), ("rows", 0.6), ("rows", 0.8), ("rows", 1.0)]

    def test_no_more_than_a_sample_of_rows_comes_here(self, rng, monkeypatch):
        seen: list[int] = []
        computed = on_dask.Chunks.computed

        def noted(self, wanted):
            found = computed(self, wanted)
            seen.extend(max(np.shape(each)) for part in found for each in _arrays_in(part))
            return found

        monkeypatch.setattr(on_dask.Chunks, "computed", noted)
        DKPCA(2, gamma=0.02, rank=6, n_landmarks=60).fit(on_chunks(arrays(rng)))
        assert 100 <= max(seen) <= 150 + 400  # those that landmarks are chosen among, and those of the estimate


def _arrays_in(value):
    if isinstance(value, np.ndarray):
        return [value] if value.ndim else []
    inner = value if isinstance(value, tuple | list) else getattr(value, "__dict__", {}).values()
    return [array for each in inner for array in _arrays_in(each)]


class TestDataFrames:
    def frames(self, rng, npartitions=3):
        index = [f"p{i}" for i in range(N)]
        return {
            name: dd.from_pandas(
                pd.DataFrame(X, columns=[f"{name}{j}" for j in range(X.shape[1])], index=index),
                npartitions=npartitions,
                sort=False,
            )
            for name, X in arrays(rng).items()
        }

    def test_columns_of_new_rows_are_found_by_name(self, rng):
        frames = self.frames(rng)
        model = DKPCA(2, gamma=0.02, rank=6)
        scores = model.fit_transform(frames).compute()
        turned = {name: frame[list(frame.columns)[::-1]] for name, frame in frames.items()}
        np.testing.assert_allclose(model.transform(turned).compute(), scores, atol=1e-12)
        here = {name: frame.compute() for name, frame in turned.items()}
        np.testing.assert_allclose(model.transform(here), scores, atol=1e-12)
        with pytest.raises(InputError, match="'bank': these samples have other columns than the fit"):
            model.transform(frames | {"bank": frames["bank"].rename(columns={"bank0": "z"})})

    def test_rows_in_another_order_are_refused_with_what_to_do(self, rng):
        frames = self.frames(rng)
        other = frames["shop"].compute()[::-1]
        with pytest.raises(InputError, match=r"indexes of \['shop'\] differ .* sort and partition all tables alike"):
            DKPCA(2, gamma=0.02).fit(frames | {"shop": dd.from_pandas(other, npartitions=3, sort=False)})


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"protect": "blind", "kernel": "linear"}, "protect='blind' needs rows in one place"),
            ({"audit": 10}, "audit=10 needs rows in one place"),
            ({"projection": "exact"}, "projection='exact' needs rows in one place"),
            ({"n_components": 0.9}, "n_components=0.9 needs the whole spectrum"),
            ({"n_components": 900}, "n_components is 900, but there are 700 samples"),
            ({"precision": "compact"}, "float32 or float64, not precision='compact'"),
            ({"weights": "balanced"}, "weights are not for rows on a Dask cluster"),
            ({"solver": "streamed"}, "solver='streamed' compares all samples with all"),
            ({"rank": Budget(bytes=5000)}, "is measured on a message"),
            ({"kernel": Laplacian(0.1)}, r"not for \['laplacian'\] with the product law"),
            ({"kernel": RBF(0.1), "law": "sum"}, r"not for \['rbf'\] with the sum law"),
        ],
    )
    def test_each_with_what_to_do(self, rng, settings, words):
        with pytest.raises(InputError, match=words):
            DKPCA(**{"n_components": 2, "gamma": 0.02} | settings).fit(on_chunks(arrays(rng)))

    def test_tables_here_and_elsewhere(self, rng):
        tables = arrays(rng)
        with pytest.raises(InputError, match=r"the tables of \['shop'\] are no Dask collections, the others are"):
            DKPCA(2).fit(on_chunks(tables) | {"shop": tables["shop"]})

    def test_sample_ids(self, rng):
        with pytest.raises(InputError, match="leave sample_ids out"):
            DKPCA(2).fit(on_chunks(arrays(rng)), sample_ids=range(N))

    def test_tables_of_different_lengths(self, rng):
        tables = on_chunks(arrays(rng))
        with pytest.raises(InputError, match=r"different numbers of rows \{'bank': 700, 'shop': 500\}"):
            DKPCA(2).fit(tables | {"shop": tables["shop"][:500]})

    def test_what_is_no_number_names_party_and_column(self, rng):
        tables = arrays(rng)
        tables["shop"][650, 2] = np.nan
        with pytest.raises(InputError, match="party 'shop': its column 3 contains NaN or infinity"):
            DKPCA(2, gamma=0.02).fit(on_chunks(tables))

    def test_methods_that_need_all_samples_say_so(self, rng, tmp_path):
        tables = on_chunks(arrays(rng))
        model = DKPCA(2, gamma=0.02, rank=5).fit(tables)
        for method in (
            partial(model.save, tmp_path / "model"),
            partial(model.score, tables),
            partial(model.party_scores, tables),
            partial(model.inverse_transform, np.zeros((1, 2))),
        ):
            with pytest.raises(InputError, match="needs the samples of the fit in one place"):
                method()

    def test_a_party_that_is_missing(self, rng):
        tables = on_chunks(arrays(rng))
        model = DKPCA(2, gamma=0.02, rank=5).fit(tables)
        with pytest.raises(InputError, match="the fit had the parties"):
            model.transform({"bank": tables["bank"]})

    def test_a_fit_on_gathered_tables_afterwards_is_an_ordinary_one(self, rng):
        tables = arrays(rng)
        model = DKPCA(2, gamma=0.02, rank=5).fit(on_chunks(tables)).fit(tables)
        assert isinstance(model.transform(tables), np.ndarray)
        assert 0 < model.score(tables) <= 1


ROWS, LIMIT = 30_000, 450 * 10**6  # two tables of 240 MB each


def large_table(seed, marker=None, rows=ROWS):
    parts = [dask.delayed(block)(seed, number, marker) for number in range(rows // CHUNK)]
    return da.concatenate([da.from_delayed(part, (CHUNK, COLUMNS), float) for part in parts])


def within_deadline(work):
    return within(DEADLINE, work)


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),  # each brings a new worker
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            memory_limit=LIMIT,
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
class TestOnACluster:
    def model(self, **settings):
        return DKPCA(3, gamma=0.05 / COLUMNS, rank=8, n_landmarks=60, timeout=DEADLINE, **settings)

    def test_workers_smaller_than_the_tables_fit_them(self, client):
        tables = {"bank": large_table(1), "shop": large_table(2)}
        assert {spec["memory_limit"] for spec in client.scheduler_info()["workers"].values()} == {LIMIT}
        assert sum(table.nbytes for table in tables.values()) > LIMIT
        before = client.run(os.getpid)
        model = within_deadline(lambda: self.model().fit(tables))
        assert client.run(os.getpid) == before  # none went beyond its memory
        assert model.certificate_.n_samples == ROWS
        assert model.certificate_.subspace_error_estimate < 1e-2

    def test_workers_give_the_bits_that_one_process_gives(self, client):
        client.wait_for_workers(2, timeout=DEADLINE)
        tables = {"bank": large_table(1, rows=3_000), "shop": large_table(2, rows=3_000)}
        model = within_deadline(lambda: self.model().fit(tables))
        V = model.eigenvectors_.compute()
        with dask.config.set(scheduler="synchronous"), pytest.MonkeyPatch.context() as patch:
            patch.setattr(on_dask, "_client", lambda: None)
            expected = self.model().fit(tables)
            np.testing.assert_array_equal(model.eigenvalues_, expected.eigenvalues_)
            np.testing.assert_array_equal(V, expected.eigenvectors_.compute())
        assert model.certificate_ == expected.certificate_

    def test_a_worker_killed_mid_fit_does_not_lose_the_fit(self, client, tmp_path):
        client.wait_for_workers(2, timeout=DEADLINE)
        marker = str(tmp_path / "crashed")
        model = within_deadline(
            lambda: self.model().fit([large_table(1, rows=3_000), large_table(2, marker, rows=3_000)])
        )
        assert Path(marker).exists()
        expected = self.model().fit([large_table(1, rows=3_000), large_table(2, rows=3_000)])
        np.testing.assert_array_equal(model.eigenvalues_, expected.eigenvalues_)

    def test_a_chunk_that_kills_every_worker_fails_loudly(self, client):
        client.wait_for_workers(2, timeout=DEADLINE)
        with pytest.raises(NoAnswerError, match="took down every worker|no answer within"):
            within_deadline(lambda: self.model().fit([large_table(1, "always", rows=2_000)]))


def test_sums_of_columns_are_added_as_if_at_once(rng):
    X = rng.standard_normal((50, 3)) * [1.0, 1e3, 1e-3] + 1e6
    parts = [row_sums.column_sums("bank", part) for part in (X[:7], X[7:30], X[30:])]
    sums = (parts[0] + parts[1]) + parts[2]
    np.testing.assert_allclose(sums.mean, X.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(sums.squares / 50, X.var(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(sums.largest, np.abs(X).max(axis=0))
