"""Dask in, Dask out: a collection is a table like any other, on one worker or chunk by chunk."""

import copy
import functools
import os
import warnings
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone

from dkpca import DKPCA, rank, subspace_error
from dkpca.errors import InputError, MissingPartyWarning, NoAnswerError
from dkpca.exchange import on_cluster
from dkpca.linalg import landmark, on_dask
from dkpca.linalg.eigenpairs import orthonormalize
from testkit.deadline import within
from testkit.row_blocks import block

N, DEADLINE = 700, 600  # seconds until a hanging cluster counts as a failure
SIZES = (400, 1, 299)
WIDTHS = {"bank": 5, "shop": 4}
SETTINGS: dict[str, Any] = {
    "rbf": {"gamma": 0.02, "rank": 8},
    "rbf of the usual width, standardized": {"rank": 8, "standardize": True},
    "rbf, not centered, float16": {"gamma": 0.02, "rank": 8, "center": False, "precision": "float16"},
    "rbf, balanced": {"gamma": 0.02, "rank": 8, "weights": "balanced"},
    "rbf, added and balanced": {"gamma": 0.02, "rank": 8, "law": "sum", "weights": "balanced"},
    "rbf, added and weighed": {"gamma": 0.02, "rank": 8, "law": "sum", "weights": {"bank": 2.0, "shop": 0.5}},
    "laplacian": {"kernel": "laplacian", "rank": 6},
    "laplacian, added": {"kernel": "laplacian", "gamma": 0.05, "rank": 6, "law": "sum"},
    "chi2": {"kernel": "chi2", "rank": 6},
    "linear": {"kernel": "linear"},
    "linear, multiplied": {"kernel": "linear", "law": "product", "rank": 4},
    "poly": {"kernel": "poly", "gamma": 0.01, "rank": 9},
    "cosine": {"kernel": "cosine"},
    "by party": {"kernel": {"bank": "rbf", "shop": "linear"}, "law": "sum", "gamma": {"bank": 0.02}, "rank": 4},
    "budget": {"gamma": 0.02, "rank": rank.Budget(20_000)},
    "error": {"gamma": 0.02, "rank": rank.Error(3.0)},
    "audit": {"gamma": 0.02, "rank": 5, "audit": 20},
    "little memory, float64": {"gamma": 0.02, "rank": 6, "max_memory": "200MB", "precision": "float64"},
    "share of the variance": {"n_components": 0.8, "gamma": 0.02, "rank": 5},
}


def arrays(rng, n=N):
    hidden = rng.standard_normal((n, 3))
    return {
        name: np.abs(hidden @ rng.standard_normal((3, width)) + 0.2 * rng.standard_normal((n, width)) + 3.0)
        for name, width in WIDTHS.items()
    }


def on_chunks(tables, sizes=SIZES):
    """Chunks of rows, and of the shop's columns."""
    return {name: da.from_array(X, chunks=(sizes, 2 if name == "shop" else -1)) for name, X in tables.items()}


@pytest.fixture
def few_rows_are_many(monkeypatch):
    """Beyond 100 rows, they stay in their chunks."""
    monkeypatch.setattr(landmark, "SAMPLE", 150)
    monkeypatch.setattr(landmark, "SAMPLE_SHARE", 2)
    monkeypatch.setattr(on_cluster, "ONE_WORKER", 100)


@pytest.fixture
def nothing_tall_comes_here(monkeypatch):
    """No array with a row for each sample is computed for the client; columns of one are on a worker."""
    computed = on_dask.computed

    def watched(wanted, *rest):
        found = computed(wanted, *rest)
        tall = [np.shape(each) for each in found if isinstance(each, np.ndarray) and each.ndim > 1 and len(each) == N]
        assert not tall
        return found

    def gathered(array, *_, **__):
        assert array.shape[:1] != (N,)
        return plain(array)

    plain = da.Array.__array__
    monkeypatch.setattr(on_dask, "computed", watched)
    monkeypatch.setattr(da.Array, "__array__", gathered)


FEW_OR_MANY = [False, pytest.param(True, marks=pytest.mark.longer)]


def told(work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = work()
    return result, [str(each.message) for each in caught]


class TestItIsWhatGatheredTablesGive:
    @pytest.mark.parametrize("name", ["rbf", "linear, multiplied", "laplacian, added", "budget", "audit"])
    def test_on_one_worker_to_the_last_bit(self, rng, name):
        tables = arrays(rng)
        settings: dict[str, Any] = {"n_components": 5} | SETTINGS[name]
        expected, said = told(lambda: DKPCA(**settings).fit(tables))
        model, again = told(lambda: DKPCA(**settings).fit(on_chunks(tables)))
        assert isinstance(model.eigenvectors_, da.Array)
        assert model.eigenvectors_.chunks[0] == SIZES
        np.testing.assert_array_equal(model.eigenvectors_.compute(), expected.eigenvectors_)
        np.testing.assert_array_equal(model.eigenvalues_, expected.eigenvalues_)
        assert model.certificate_ == expected.certificate_
        assert model.ledger_ == expected.ledger_
        assert again == said

    @pytest.mark.slow
    @pytest.mark.usefixtures("few_rows_are_many")
    @pytest.mark.parametrize("name", SETTINGS)
    def test_chunk_by_chunk_to_nine_digits(self, rng, name):
        tables = arrays(rng)
        settings: dict[str, Any] = {"n_components": 5, "n_landmarks": 60, "solver": "landmark"} | SETTINGS[name]
        expected, said = told(lambda: DKPCA(**settings).fit(tables))
        model, again = told(lambda: DKPCA(**settings).fit(on_chunks(tables)))
        scores = model.eigenvectors_.compute() * np.sqrt(model.eigenvalues_)
        size = float(np.sqrt(expected.eigenvalues_[0]))
        assert model.eigenvectors_.chunks[0] == SIZES
        np.testing.assert_allclose(scores, expected.eigenvectors_ * np.sqrt(expected.eigenvalues_), atol=1e-9 * size)
        np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, atol=1e-9 * expected.eigenvalues_[0])
        assert [entry.rank for entry in model.ledger_] == [entry.rank for entry in expected.ledger_]
        assert again == said
        bounds, others = model.certificate_.bounds(), expected.certificate_.bounds()
        assert bounds == pytest.approx(others, rel=0.1)  # blocks of a bound follow the chunks

    @pytest.mark.longer
    @pytest.mark.usefixtures("few_rows_are_many", "nothing_tall_comes_here")
    @pytest.mark.parametrize("name", ["rbf", "linear", "rbf, added and balanced", "poly"])
    def test_no_array_with_a_row_for_each_sample_comes_here(self, rng, name, monkeypatch):
        monkeypatch.setattr("dkpca.kernels.base.JUDGED_ROWS", 50)
        settings: dict[str, Any] = {"n_components": 5, "n_landmarks": 60} | SETTINGS[name]
        model = DKPCA(**settings).fit(on_chunks(arrays(rng)))
        inside = {
            name: X / 4 for name, X in arrays(rng).items()
        }  # of the range of the fit, which few rows judge here
        new = model.transform(on_chunks(inside, (300, 400)))
        assert new.chunks[0] == (300, 400)

    @pytest.mark.longer
    @pytest.mark.parametrize("many", [False, True])
    def test_as_many_components_as_asked(self, rng, request, many):
        if many:
            request.getfixturevalue("few_rows_are_many")
        model = DKPCA(5, rank=1, kernel="linear").fit(on_chunks(arrays(rng)))
        V = model.eigenvectors_.compute()
        assert model.eigenvalues_.shape == (5,)
        np.testing.assert_allclose(V.T @ V, np.eye(5), atol=1e-9)

    @pytest.mark.slow
    @pytest.mark.usefixtures("few_rows_are_many")
    def test_how_rows_are_scheduled_changes_no_bit(self, rng):
        tables, found = on_chunks(arrays(rng)), []
        for settings in ({"scheduler": "synchronous"}, {"scheduler": "threads", "num_workers": 3}):
            with dask.config.set(**settings):
                model = DKPCA(3, gamma=0.02, rank=8, n_landmarks=80).fit(tables)
                found.append((model.eigenvectors_.compute(), model.eigenvalues_, model.certificate_))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_array_equal(found[0][1], found[1][1])
        assert found[0][2] == found[1][2]

    @pytest.mark.longer
    @pytest.mark.usefixtures("few_rows_are_many")
    @pytest.mark.parametrize("center", [True, False])
    def test_what_is_certified_is_true(self, rng, center):
        tables = arrays(rng)
        model = DKPCA(3, gamma=0.02, rank=4, center=center, n_landmarks=80).fit(on_chunks(tables))
        X = np.hstack(list(tables.values()))
        squares = np.sum(X * X, axis=1)
        K = np.exp(-0.02 * np.maximum(squares[:, None] + squares[None, :] - 2.0 * X @ X.T, 0.0))
        H = np.eye(N) - 1.0 / N
        values, vectors = np.linalg.eigh(H @ K @ H if center else K)
        values, vectors = values[::-1], vectors[:, ::-1]
        said, slack = model.certificate_, 1e-9 * values[0]
        assert (values[:3] <= np.array(said.eigenvalues_at_most) + slack).all()
        assert (values[:3] >= np.array(said.eigenvalues_at_least) - slack).all()
        assert subspace_error(vectors[:, :3], model.eigenvectors_.compute()) <= said.subspace_error_at_most


@pytest.fixture(scope="module")
def fitted_once():
    """Fits of gathered tables and of chunks, with few rows and with many; each is made once."""

    @functools.cache
    def of(many):
        tables = arrays(np.random.default_rng(20260101))
        settings: dict[str, Any] = {"gamma": 0.02, "rank": 6, "n_landmarks": 60, "solver": "landmark"}
        return DKPCA(3, **settings).fit(tables), DKPCA(3, **settings).fit(on_chunks(tables)), tables

    return of


@pytest.mark.parametrize("many", FEW_OR_MANY)
class TestAfterTheFit:
    @pytest.fixture
    def fits(self, request, many, fitted_once):
        if many:
            request.getfixturevalue("few_rows_are_many")
        return fitted_once(many)

    @pytest.mark.versions
    @pytest.mark.longer
    def test_new_samples_here_and_in_chunks(self, fits, rng):
        expected, model, _ = fits
        new = arrays(rng, 60)
        scores = expected.transform(new)
        placed = model.transform(on_chunks(new, (50, 10)))
        assert isinstance(placed, da.Array)
        np.testing.assert_allclose(placed.compute(), scores, atol=1e-9)
        np.testing.assert_allclose(model.transform(new), scores, atol=1e-9)
        np.testing.assert_allclose(expected.transform(on_chunks(new, (50, 10))).compute(), scores, atol=1e-9)

    def test_save_and_load(self, fits, rng, tmp_path):
        expected, model, _ = fits
        model.save(tmp_path / "model")
        again, new = DKPCA.load(tmp_path / "model"), arrays(rng, 60)
        assert isinstance(again.eigenvectors_, np.ndarray)
        np.testing.assert_allclose(again.eigenvectors_, expected.eigenvectors_, atol=1e-9)
        np.testing.assert_allclose(again.transform(new), expected.transform(new), atol=1e-9)

    def test_audit_afterwards_and_score(self, fits, rng):
        expected, model, _ = fits
        audit, other = (each.run_audit(30).certificate_.audit for each in (model, expected))
        assert audit.kernel_error_at_most == pytest.approx(other.kernel_error_at_most)
        assert model.model_.certificate.audit == audit
        new = arrays(rng, 60)
        assert model.score(new) == pytest.approx(expected.score(new))

    @pytest.mark.longer
    def test_scores_of_the_fit_are_a_dask_array(self, fits):
        _, model, tables = fits
        scores = clone(model).fit_transform(on_chunks(tables))
        assert isinstance(scores, da.Array)
        assert scores.chunks == (SIZES, (3,))

    def test_parties_may_come_in_any_order(self, fits, rng):
        expected, _, tables = fits
        turned = dict(reversed(tables.items()))
        model, new = DKPCA(**expected.get_params()).fit(on_chunks(turned)), arrays(rng, 60)
        np.testing.assert_allclose(
            model.transform(on_chunks(new, (50, 10))).compute(), expected.transform(new), atol=1e-9
        )

    def test_a_fit_on_gathered_tables_afterwards_is_an_ordinary_one(self, fits):
        _, model, tables = fits
        again = copy.copy(model).fit(tables)
        assert isinstance(again.transform(tables), np.ndarray)


@pytest.mark.longer
def test_new_rows_in_chunks_where_every_sample_of_the_fit_is_a_landmark(rng, monkeypatch):
    monkeypatch.setattr(on_dask, "memory_of_a_worker", lambda: 100_000.0)
    tables, new = arrays(rng), arrays(rng, 60)
    model = DKPCA(2, rank=5, gamma=0.02).fit(on_chunks(tables))
    assert model._cluster == "rows"
    np.testing.assert_allclose(model.transform(on_chunks(new, (50, 10))).compute(), model.transform(new), atol=1e-9)


@pytest.mark.parametrize("many", FEW_OR_MANY)
def test_a_fit_on_arrays_forgets_the_columns_of_a_table_before(rng, request, many):
    X = np.hstack(list(arrays(rng).values()))
    model = DKPCA(2, parties=2, gamma=0.02, rank=4).fit(pd.DataFrame(X[:60]).add_prefix("c"))
    if many:
        request.getfixturevalue("few_rows_are_many")
    model.fit(da.from_array(X, chunks=(300, -1)))
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("many", FEW_OR_MANY)
def test_samples_outside_the_fit_are_counted_over_all_chunks(rng, request, many):
    if many:
        request.getfixturevalue("few_rows_are_many")
    tables = arrays(rng)
    model = DKPCA(2, gamma=0.02, rank=6).fit(on_chunks(tables))
    new = arrays(rng, 60)
    for row in (3, 55):
        new["bank"][row] += 1e3
    _, words = told(lambda: model.transform(on_chunks(new, (50, 10))))
    _, expected = told(lambda: DKPCA(2, gamma=0.02, rank=6).fit(tables).transform(new))
    assert words == expected
    assert "2 of 60 new samples" in words[0]
    assert "first row 3" in words[0]


def test_a_party_may_be_missing_under_the_sum_law(rng):
    model = DKPCA(2, kernel="linear").fit(on_chunks(arrays(rng)))
    new = on_chunks(arrays(rng, 60), (60,))
    with pytest.warns(MissingPartyWarning):
        scores = model.transform({"bank": new["bank"]})
    assert scores.shape == (60, 2)


@pytest.mark.usefixtures("few_rows_are_many")
def test_rows_on_workers_need_every_party(rng):
    model = DKPCA(2, kernel="linear").fit(on_chunks(arrays(rng)))
    new = arrays(rng, 60)
    with pytest.raises(InputError, match=r"rows on workers need every party: gather the new samples"):
        model.transform(on_chunks({"bank": new["bank"]}, (60,)))
    with pytest.warns(MissingPartyWarning):
        assert model.transform({"bank": new["bank"]}).shape == (60, 2)


class TestTables:
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

    @pytest.mark.versions
    @pytest.mark.longer
    @pytest.mark.parametrize("many", FEW_OR_MANY)
    def test_columns_of_new_rows_are_found_by_name(self, rng, request, many):
        if many:
            request.getfixturevalue("few_rows_are_many")
        frames = self.frames(rng)
        model = DKPCA(2, gamma=0.02, rank=6)
        scores = model.fit_transform(frames).compute()
        turned = {name: frame[list(frame.columns)[::-1]] for name, frame in frames.items()}
        np.testing.assert_allclose(model.transform(turned).compute(), scores, atol=1e-9)
        here = {name: frame.compute() for name, frame in turned.items()}
        np.testing.assert_allclose(np.asarray(model.transform(here)), scores, atol=1e-9)
        with pytest.raises(InputError, match="'bank': its columns differ from those of the fit"):
            model.transform(frames | {"bank": frames["bank"].rename(columns={"bank0": "z"})})

    @pytest.mark.parametrize("many", FEW_OR_MANY)
    def test_covariates_are_matched_by_the_index(self, rng, request, many):
        if many:
            request.getfixturevalue("few_rows_are_many")
        frames = self.frames(rng)
        here = {name: frame.compute() for name, frame in frames.items()}
        known = pd.DataFrame({"age": rng.standard_normal(N)}, index=here["bank"].index)
        mixed = known.sample(frac=1.0, random_state=0)
        settings: dict[str, Any] = {"gamma": 0.02, "rank": 6, "solver": "landmark"}
        expected = DKPCA(2, **settings).fit(here, covariates=known)
        scores = expected.transform(here, covariates=known)
        model = DKPCA(2, **settings).fit(frames, covariates=mixed)
        np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
        np.testing.assert_allclose(np.asarray(model.transform(frames, covariates=mixed)), scores, atol=1e-9)
        np.testing.assert_allclose(model.transform(here, covariates=mixed), scores, atol=1e-9)
        with pytest.raises(InputError, match="covariates have no row for 1 of 700 samples, such as 'p0'"):
            model.transform(frames, covariates=known[1:])

    @pytest.mark.longer
    @pytest.mark.usefixtures("few_rows_are_many")
    def test_covariates_match_by_position_where_partitions_count_their_own_rows(self, rng):
        table, known = arrays(rng)["bank"], pd.DataFrame({"age": rng.standard_normal(N)})
        halves = dd.concat([dd.from_pandas(pd.DataFrame(half), npartitions=1) for half in np.split(table, 2)])
        settings: dict[str, Any] = {"gamma": 0.02, "rank": 6, "solver": "landmark"}
        expected = DKPCA(2, **settings).fit(table, covariates=known)
        model = DKPCA(2, **settings).fit(halves, covariates=known)
        np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-9)

    @pytest.mark.parametrize("many", [False, True])
    def test_an_id_column_is_refused(self, rng, request, many):
        if many:
            request.getfixturevalue("few_rows_are_many")
        frames = self.frames(rng)
        bank = frames["bank"].compute().assign(id=np.arange(N))
        with pytest.raises(InputError, match="party 'bank': column 'id' looks like an id column"):
            DKPCA(2, gamma=0.02).fit(frames | {"bank": dd.from_pandas(bank, npartitions=3, sort=False)})

    def test_an_audit_takes_the_frames_of_the_fit(self, rng):
        frames = self.frames(rng)
        model = DKPCA(2, gamma=0.02, rank=6).fit(frames)
        assert model.run_audit(5, frames).certificate_.audit.kernel_error_at_most > 0

    @pytest.mark.usefixtures("few_rows_are_many")
    def test_rows_in_another_order_are_refused_with_what_to_do(self, rng):
        frames = self.frames(rng)
        other = frames["shop"].compute()[::-1]
        with pytest.raises(InputError, match=r"indexes of \['shop'\] differ .* sort and partition all tables alike"):
            DKPCA(2, gamma=0.02).fit(frames | {"shop": dd.from_pandas(other, npartitions=3, sort=False)})

    def test_tables_that_are_cut_otherwise_are_cut_as_the_first(self, rng):
        tables = arrays(rng)
        cut = {
            "bank": da.from_array(tables["bank"], chunks=(350, -1)),
            "shop": da.from_array(tables["shop"], chunks=90),
        }
        assert DKPCA(2, gamma=0.02, rank=5).fit_transform(cut).chunks[0] == (350, 350)

    @pytest.mark.longer
    @pytest.mark.parametrize("many", FEW_OR_MANY)
    def test_one_table_is_cut_into_parties(self, rng, request, many):
        if many:
            request.getfixturevalue("few_rows_are_many")
        X = np.hstack(list(arrays(rng).values()))
        settings: dict[str, Any] = {"gamma": 0.02, "rank": 6, "parties": [[*range(5)], [*range(5, 9)]]}
        settings["solver"] = "landmark"
        model = DKPCA(2, **settings).fit(da.from_array(X, chunks=(300, 4)))
        expected = DKPCA(2, **settings).fit(X)
        np.testing.assert_allclose(model.eigenvectors_.compute(), expected.eigenvectors_, atol=1e-9)
        np.testing.assert_allclose(
            model.transform(da.from_array(X[:9], chunks=4)).compute(), expected.transform(X[:9]), atol=1e-9
        )

    def test_tables_here_and_elsewhere(self, rng):
        tables = arrays(rng)
        with pytest.raises(InputError, match=r"the tables of \['shop'\] are not Dask collections, the others are"):
            DKPCA(2).fit(on_chunks(tables) | {"shop": tables["shop"]})

    @pytest.mark.usefixtures("few_rows_are_many")
    def test_tables_of_different_lengths(self, rng):
        tables = on_chunks(arrays(rng))
        with pytest.raises(InputError, match=r"tables have 700 and 500 rows"):
            DKPCA(2).fit(tables | {"shop": tables["shop"][:500]})

    @pytest.mark.parametrize("many", [False, True])
    def test_what_is_no_number_names_party_and_column(self, rng, request, many):
        if many:
            request.getfixturevalue("few_rows_are_many")
        tables = arrays(rng)
        tables["shop"][650, 2] = np.nan
        with pytest.raises(InputError, match="party 'shop'.* NaN"):
            DKPCA(2, gamma=0.02).fit(on_chunks(tables))


@pytest.mark.usefixtures("few_rows_are_many")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"protect": "blind", "kernel": "linear"}, "protect='blind' needs all rows in one place"),
        ({"device": "cuda"}, "device='cuda' needs all rows in one place"),
        ({"projection": "exact"}, "projection='exact' needs all rows in one place"),
        pytest.param({"n_components": 900}, "n_components is 900; there are 700 samples", marks=pytest.mark.longer),
        ({"precision": "compact"}, "precision='compact' needs all rows in one place"),
        ({"solver": "streamed"}, "compares all 700 samples with all where they lie"),
        ({"kernel": "precomputed", "gamma": None, "law": "sum"}, "kernel='precomputed' needs all rows in one place"),
        ({"rank": rank.Recovery(at_most=0.5)}, "recovery is measured on all rows"),
    ],
)
def test_what_needs_all_rows_in_one_place_is_refused_beyond_one_worker(rng, settings, words):
    with pytest.raises(InputError, match=words):
        DKPCA(**{"n_components": 2, "gamma": 0.02} | settings).fit(on_chunks(arrays(rng)))


LIMIT = 450 * 10**6
LARGE, SMALL = (3_000, 1_000), (200, 50)  # rows and columns of a chunk
CHUNKS = 10  # of two tables of 240 MB each; every one is a dozen messages at each step of a fit


def on_workers(seed, chunks, marker=None, size=SMALL):
    """A table whose chunks the workers make."""
    parts = [dask.delayed(block)(seed, number, marker, size) for number in range(chunks)]
    return da.concatenate([da.from_delayed(part, size, float) for part in parts])


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
    def model(self, size=SMALL, **settings):
        return DKPCA(3, gamma=0.05 / size[1], rank=8, n_landmarks=60, timeout=DEADLINE, **settings)

    def test_workers_smaller_than_the_tables_fit_them(self, client):
        tables = {"bank": on_workers(1, CHUNKS, size=LARGE), "shop": on_workers(2, CHUNKS, size=LARGE)}
        assert {spec["memory_limit"] for spec in client.scheduler_info()["workers"].values()} == {LIMIT}
        assert sum(table.nbytes for table in tables.values()) > LIMIT
        before = client.run(os.getpid)
        model = within_deadline(lambda: self.model(LARGE).fit(tables))
        assert client.run(os.getpid) == before  # none went beyond its memory
        assert model.certificate_.n_samples == CHUNKS * LARGE[0]
        assert model.certificate_.subspace_error_estimate < 1e-2

    @pytest.mark.usefixtures("few_rows_are_many")
    def test_workers_give_what_one_process_gives(self, client):
        client.wait_for_workers(2, timeout=DEADLINE)
        tables = {"bank": on_workers(1, 3), "shop": on_workers(2, 3)}
        model = within_deadline(lambda: self.model(solver="landmark").fit(tables))
        V = model.eigenvectors_.compute()
        here = {name: table.compute() for name, table in tables.items()}
        expected = self.model(solver="landmark").set_params(timeout=None).fit(here)
        np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
        np.testing.assert_allclose(V, expected.eigenvectors_, atol=1e-9)

    @pytest.mark.usefixtures("few_rows_are_many")
    def test_a_worker_killed_mid_fit_does_not_lose_the_fit(self, client, tmp_path):
        client.wait_for_workers(2, timeout=DEADLINE)
        marker = str(tmp_path / "crashed")
        model = within_deadline(lambda: self.model().fit([on_workers(1, 3), on_workers(2, 3, marker)]))
        assert Path(marker).exists()
        expected = self.model().fit([on_workers(1, 3), on_workers(2, 3)])
        np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-9)

    def test_a_chunk_that_kills_every_worker_fails_loudly(self, client):
        client.wait_for_workers(2, timeout=DEADLINE)
        with pytest.raises(NoAnswerError, match="took down every worker|no answer within"):
            within_deadline(lambda: self.model().fit([on_workers(1, 2, "always")]))


@pytest.mark.parametrize("chunk", [4, 50])
def test_a_column_that_vanishes_is_filled_in_beside_columns_that_are_unit_vectors(chunk):
    V = np.zeros((50, 3))
    V[2, 0], V[5:15, 1] = 1.0, 10**-0.5
    found, moved = orthonormalize(da.from_array(V, chunks=(chunk, 3)), np.array([2.0, 1.0]))
    W = np.asarray(found)
    np.testing.assert_allclose(W[:, :2], V[:, :2], atol=1e-12)
    np.testing.assert_allclose(W.T @ W, np.eye(3), atol=1e-12)
    assert moved < 1e-12
