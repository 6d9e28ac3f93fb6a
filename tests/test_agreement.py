"""Which party agrees with which: cosines between centered kernels, a test of being unrelated, weights from both."""

from typing import Any

import numpy as np
import pytest
import scipy.stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from dkpca import DKPCA
from dkpca.analysis.agreement import holm, p_value
from dkpca.errors import InputError

DATA = {
    "digits": load_digits().data[:300] / 16,
    "cancer": load_breast_cancer().data[:300],
    "wine": load_wine().data,
    "diabetes": load_diabetes().data[:300],
    "iris": load_iris().data,
}


def truth(X, gamma, parts=2, H=None):
    center = np.eye(len(X)) - 1 / len(X) if H is None else H
    found = [center @ rbf_kernel(block, gamma=gamma) @ center for block in np.array_split(X, parts, axis=1)]
    unit = [K / np.linalg.norm(K) for K in found]
    return np.array([[float(np.sum(a * b)) for b in unit] for a in unit]), found


@pytest.mark.longer
@pytest.mark.parametrize("rank", ["auto", 3, 10**6])
@pytest.mark.parametrize("name", DATA)
def test_cosines_are_within_their_bound_of_the_true_ones(name, rank):
    X = StandardScaler().fit_transform(DATA[name])
    model = DKPCA(2, parties=2, rank=rank, gamma=0.05).fit(X)
    true, _ = truth(X, 0.05)
    off = np.abs(model.agreement_ - true)
    assert np.all(off <= model.agreement_error_ + 1e-12)
    if rank == 10**6:
        assert model.agreement_error_.max() < 1e-3
        np.testing.assert_allclose(model.agreement_, true, atol=1e-5)


@pytest.mark.parametrize("sizes", [(1e-70, 1e-70), (1e70, 1e70), (1e-60, 1e60)])
def test_neither_they_nor_their_weights_depend_on_the_units_of_the_columns(sizes):
    X = DATA["iris"]
    fits = {}
    for units in ((1.0, 1.0), sizes):
        tables = {name: X[:, part] * unit for name, part, unit in zip("ab", ([0, 1], [2, 3]), units, strict=True)}
        model = DKPCA(2, kernel="linear", weights="statis", rank=4, precision="float64").fit(tables)
        weighed = [w * unit * unit for w, unit in zip(model.model_.weights.values(), units, strict=True)]
        fits[units] = [*weighed, model.agreement_[0, 1], model.agreement_error_[0, 1] < 1e-6, *model.eigenvalues_]
        assert model.agreement_test(n_permutations=99)["a"] == pytest.approx(0.02)
    np.testing.assert_allclose(fits[sizes], fits[1.0, 1.0], rtol=1e-9)


def test_they_are_of_kernels_off_the_covariates():
    X = DATA["digits"]
    batch = np.arange(len(X)) % 2
    model = DKPCA(2, parties=2, rank=10**6, precision="float64", gamma=0.05).fit(X, covariates={"batch": batch})
    A = np.column_stack([np.ones(len(X)), batch])
    true, _ = truth(X, 0.05, H=np.eye(len(X)) - A @ np.linalg.pinv(A))
    np.testing.assert_allclose(model.agreement_, true, atol=1e-9)


@pytest.mark.versions
@pytest.mark.longer
def test_what_protection_leaves():
    X = DATA["digits"]
    true, _ = truth(X, 0.05, parts=3)
    given: dict[str, Any] = {"parties": 3, "gamma": 0.05, "precision": "float64"}
    sums = DKPCA(2, protect="sums", **given).fit(X)
    assert sums.agreement_ is None
    assert sums.agreement_error_ is None
    assert sums.party_shares_ is None
    with pytest.raises(InputError, match="the center has the sum of all parties and nothing of any single one"):
        sums.agreement_test()
    blind = DKPCA(2, protect="blind", law="sum", rank=10**6, **given).fit(X)
    np.testing.assert_allclose(blind.agreement_, true, atol=1e-9)
    with pytest.raises(InputError, match="rows of a blind fit are not samples"):
        blind.agreement_test()
    alone = DKPCA(2).fit(X)
    assert alone.agreement_ is None
    with pytest.raises(InputError, match="there is one party"):
        alone.agreement_test()


class TestPermutations:
    @pytest.mark.slow
    def test_p_values_of_unrelated_parties_are_uniform(self):
        found = []
        for repeat in range(1000):
            rng = np.random.default_rng(repeat)
            factors = {name: rng.normal(size=(20, 3)) * [3, 2, 1] for name in "abc"}
            found.append(p_value(factors, "a", np.arange(20) % 2, 99, rng))
        spread = np.array(found) - np.random.default_rng(0).uniform(
            0, 0.01, len(found)
        )  # between multiples of 1 / 100
        assert scipy.stats.kstest(spread, "uniform").pvalue > 0.01

    @pytest.mark.longer
    def test_halves_of_digits_are_related(self):
        assert max(DKPCA(2, parties=2).fit(DATA["digits"]).agreement_test().values()) < 0.01

    def test_what_a_batch_makes_of_unrelated_parties_is_no_relation(self):
        rng = np.random.default_rng(0)
        batch = np.repeat([0, 1], 40)
        tables = {name: rng.normal(size=(80, 3)) + 3 * batch[:, None] for name in "ab"}
        labels = np.where(batch, "x", "y")
        assert max(DKPCA(2).fit(tables).agreement_test().values()) < 0.01
        assert min(DKPCA(2).fit(tables, covariates={"batch": labels}).agreement_test().values()) > 0.05

    def test_holm(self):
        assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
        assert holm([0.9, 0.8]) == [1.0, 1.0]


class TestWeights:
    @pytest.mark.longer
    def test_statis_is_the_leading_eigenvector_of_the_agreement_on_normalized_addends(self):
        X = DATA["digits"]
        model = DKPCA(3, parties=3, law="sum", weights="statis", gamma=0.05, rank=10**6, precision="float64").fit(X)
        S, K = truth(X, 0.05, parts=3)
        u = np.abs(np.linalg.eigh(S)[1][:, -1])
        expected = u / u.sum() / np.array([np.linalg.norm(each) for each in K])
        np.testing.assert_allclose(list(model.model_.weights.values()), expected, rtol=1e-9)

    def test_a_party_that_agrees_with_none_counts_least(self):
        rng = np.random.default_rng(0)
        common = rng.normal(size=(100, 2))
        tables = {"a": common, "b": common + 0.1 * rng.normal(size=(100, 2)), "noise": rng.normal(size=(100, 2))}
        model = DKPCA(2, law="sum", weights="statis").fit(tables)
        scaled = {name: w * np.linalg.norm(rbf_kernel(tables[name])) for name, w in model.model_.weights.items()}
        assert min(scaled, key=scaled.__getitem__) == "noise"

    def test_refused_where_it_cannot_be(self):
        with pytest.raises(InputError, match="under the product law a party's weight is its gamma, .* use law='sum'"):
            DKPCA(2, parties=2, weights="statis").fit(DATA["iris"])
        with pytest.raises(InputError, match="protect='sums' takes one kernel for all parties, without weights"):
            DKPCA(2, parties=2, weights="statis", protect="sums", kernel="linear").fit(DATA["iris"])


@pytest.mark.longer
def test_shares_of_parties_are_those_of_their_kernels():
    X = DATA["digits"]
    model = DKPCA(3, parties=3, law="sum", gamma=0.05, rank=10**6, precision="float64").fit(X)
    _, K = truth(X, 0.05, parts=3)
    V = model.eigenvectors_
    expected = np.array([np.sum(V * (each @ V), axis=0) for each in K]) / model.eigenvalues_
    np.testing.assert_allclose(model.party_shares_, expected, atol=1e-9)


@pytest.mark.longer
def test_everything_is_in_the_order_of_the_input():
    X = DATA["digits"]
    blocks = np.array_split(X, 3, axis=1)
    model = DKPCA(2, law="sum", gamma=0.05, rank=10**6).fit(dict(zip(["z", "m", "a"], blocks, strict=True)))
    assert model.party_names_ == ["z", "m", "a"]
    np.testing.assert_allclose(model.agreement_, truth(X, 0.05, parts=3)[0], atol=1e-5)
    same = DKPCA(2, law="sum", gamma=0.05, rank=10**6, parties=3).fit(X)
    np.testing.assert_allclose(model.party_shares_, same.party_shares_, atol=1e-9)
    assert np.all(np.diagonal(model.agreement_error_) == 0)
