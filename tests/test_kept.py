"""Message files that an earlier dkpca wrote still say what they said then.

`kept/version-N` holds files of format version N and the tables they were made of. A file is never rewritten: a new
format gets a new folder, made with the release that introduced it (docs/compatibility.md).
"""

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import euclidean_distances, linear_kernel, rbf_kernel

from dkpca import DKPCA, subspace_error, wire
from dkpca.errors import WireError
from dkpca.exchange import holdings
from dkpca.fusion import fuse
from dkpca.messages import TOKEN_BYTES, digest, entries
from dkpca.party import alignment, extend
from testkit.owners import standardized

KEPT = Path(__file__).parent / "kept" / "version-1"
GAMMA = 0.2
REFUSED: tuple[str, ...] = ("sums", "blind")  # kinds of estimators of 0.1 that can no longer be used
PEOPLE = [f"p{i:02d}" for i in range(12)]
KEY = b"a key of the parties, long enough"


def message(name):
    return wire.decode((KEPT / name).read_bytes())


def table(owner):
    """The columns as `summarize` used them."""
    return standardized(pl.read_csv(KEPT / f"{owner}.csv").drop("person").to_numpy())


@pytest.fixture
def X():
    return table("bank")


def test_a_file_of_every_kind_of_0_1_0_is_kept():
    kinds = {wire.kind_of(wire.decode(p.read_bytes())) for p in KEPT.iterdir() if p.suffix not in (".csv", ".state")}
    assert kinds == {"statistics", "summary", "rows", "partials", "sampletokens", "commontokens", "scores"}


def test_statistics(X):
    kept = message("bank.statistics")
    off_diagonal = euclidean_distances(X, squared=True)[~np.eye(12, dtype=bool)]
    assert (kept.party, kept.n_samples, kept.n_features) == ("bank", 12, 3)
    assert kept.mean_squared_distance == pytest.approx(off_diagonal.mean())


@pytest.mark.parametrize(
    ("name", "truth", "tolerance"),
    [
        ("bank.summary", lambda X: rbf_kernel(X, gamma=GAMMA), 1e-6),
        ("bank.float64.summary", lambda X: rbf_kernel(X, gamma=GAMMA), 1e-13),
        ("bank.linear-float16.summary", linear_kernel, 2e-2),
    ],
)
def test_summaries_in_every_precision(X, name, truth, tolerance):
    kept = message(name)
    factor = kept.factor.decode()
    np.testing.assert_allclose(factor @ factor.T, truth(X), atol=tolerance)
    assert (kept.party, kept.n_features, kept.sample_digest) == ("bank", 3, digest(PEOPLE))


def test_rows_and_partials_place_the_first_four_people_where_the_fit_has_them(X):
    factor = message("bank.summary").factor.decode()
    rows, partials = message("bank.rows"), message("bank.partials")
    np.testing.assert_allclose(rows.factor.decode() @ factor.T, rbf_kernel(X[:4], X, gamma=GAMMA), atol=1e-5)
    np.testing.assert_allclose(partials.partial.decode(), euclidean_distances(X[:4], X, squared=True), atol=1e-5)
    assert rows.sample_digest == partials.sample_digest == digest([f"n{i}" for i in range(4)])


def test_tokens_are_those_of_the_same_people_under_the_same_key():
    kept, common = message("bank.tokens"), message("common.tokens")
    expected = sorted(alignment.tokens(PEOPLE, KEY))
    assert entries(kept.tokens, TOKEN_BYTES) == entries(common.tokens, TOKEN_BYTES) == expected
    assert (kept.party, common.n_parties) == ("bank", 2)


def test_two_kept_summaries_fuse_to_kernel_pca_of_the_joined_columns():
    model = fuse([message("bank.summary"), message("clinic.summary")], n_components=2)
    joined = np.hstack([table("bank"), table("clinic")])
    pooled = KernelPCA(2, kernel="rbf", gamma=GAMMA).fit(joined)
    assert subspace_error(pooled.eigenvectors_, model.eigenvectors) < 1e-10
    kept = message("result.scores")
    np.testing.assert_allclose(np.abs(kept.scores.decode()), np.abs(pooled.transform(joined)), atol=1e-5)
    assert 0 < kept.captured_share_at_least < kept.optimality_at_least <= 1


def test_a_private_state_places_new_samples_as_a_fresh_fit_does(X):
    state, preparation = holdings.load_state(KEPT / "bank.state")
    assert [column.source for column in preparation.columns] == ["x0", "x1", "x2"]
    rows = extend(state, X[:4]).factor.decode()
    np.testing.assert_allclose(rows, message("bank.rows").factor.decode(), atol=1e-6)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", ["open", "linear", "sums", "blind"])
def test_an_estimator_that_0_1_saved_places_samples_as_it_did_or_is_refused_with_that_version(name):
    folder = KEPT.parent / "estimators-0.1"
    expected = json.loads((folder / "expected.json").read_text())
    X = np.array(expected["X"])[:5]
    refused = pytest.raises(WireError, match="0[.]1") if name in REFUSED else nullcontext()
    with refused:
        model = DKPCA.load(folder / f"{name}.model")
        assert np.allclose(model.transform({"bank": X[:, :3], "shop": X[:, 3:]}), expected[name], atol=1e-12)
