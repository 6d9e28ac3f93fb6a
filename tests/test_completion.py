"""Completed rows are stated mixtures, and every bound holds for the Gram matrix of these mixtures."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkpca.errors import InputError
from dkpca.fusion.completion import Held, complete, not_at_random

T = 60


def views(seed, n_parties=3, shared=1.0, n=T):
    """Gram matrices of RBF kernels of columns that depend on two common directions."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, 2))
    grams = {}
    for j in range(n_parties):
        X = shared * common @ rng.standard_normal((2, 4)) + 0.3 * rng.standard_normal((n, 4))
        grams[f"p{j}"] = np.exp(-0.05 * ((X[:, None, :] - X[None, :, :]) ** 2).sum(-1))
    return grams


def masks(seed, names, share=0.25, n=T):
    rng = np.random.default_rng([seed, 1])
    has = rng.random((n, len(names))) >= share
    has[~has.any(axis=1), 0] = True
    return {name: np.flatnonzero(has[:, j]) for j, name in enumerate(names)}


def sent(K, rows, rank, precision=None):
    """Leading eigenpairs over the own rows, as a party sends them."""
    values, vectors = np.linalg.eigh(K[np.ix_(rows, rows)])
    A = vectors[:, ::-1][:, :rank] * np.sqrt(np.clip(values[::-1][:rank], 0.0, None))
    B = A if precision is None else A.astype(precision).astype(float)
    rounding = np.linalg.norm(B @ B.T - A @ A.T, 2)
    return Held(B, rows, max(0.0, float(values[::-1][rank])) + 1e-14, float(rounding) + 1e-14, 1.0)


def parties_of(seed, rank=12, share=0.25, precision=None, n=T, **shape):
    grams = views(seed, n=n, **shape)
    rows = masks(seed, list(grams), share, n)
    return grams, {name: sent(K, rows[name], rank, precision) for name, K in grams.items()}


def weights(completion, parties, name):
    """W written out, from the last regression and the rows before it."""
    before = replace(completion, sweeps=completion.sweeps[:-1])
    lacking = {other: filled.lacking for other, filled in completion.filled.items()}
    rows = before.place({other: filled.factor for other, filled in completion.filled.items()}, lacking)
    Z = np.concatenate([rows[other] / completion.sizes[other] for other in sorted(rows) if other != name], axis=1)
    own, regression = parties[name].rows, completion.sweeps[-1][name]
    Zo = Z[own] - Z[own].mean(axis=0)
    G = Zo.T @ Zo
    M = np.zeros_like(G)
    if regression.penalty < np.inf:
        M = np.linalg.inv(G + regression.penalty * np.linalg.eigvalsh(G)[-1] * np.eye(len(G)))
    W = np.zeros((len(Z), len(own)))
    W[own, np.arange(len(own))] = 1.0
    w = 1.0 / len(own) + (Z[lacking[name]] - Z[own].mean(axis=0)) @ M @ Zo.T
    reach = ((w @ parties[name].factor) ** 2).sum(axis=1) + (w**2).sum(axis=1) * (
        parties[name].left_out + parties[name].rounding
    )
    W[lacking[name]] = w * np.minimum(1.0, reach**-0.5)[:, None]
    return W


@pytest.mark.longer
@settings(deadline=None, max_examples=10)
@given(
    st.integers(0, 10**6), st.integers(2, 20), st.sampled_from([0.05, 0.25, 0.5]), st.sampled_from([None, "f4", "f2"])
)
def test_bounds_hold_for_the_gram_matrix_of_the_mixtures(seed, rank, share, precision):
    grams, parties = parties_of(seed, rank, share, precision)
    completion = complete(parties, T)
    for name, K in grams.items():
        held, filled = parties[name], completion.filled[name]
        W = weights(completion, parties, name)
        np.testing.assert_allclose(W @ held.factor, filled.factor, atol=1e-7)
        true = W @ K[np.ix_(held.rows, held.rows)] @ W.T
        kept = filled.factor @ filled.factor.T
        # The W written out is shrunk without the allowance for rounding: it may be that much longer.
        assert np.linalg.norm(W, 2) ** 2 <= filled.norm_squared * (1.0 + 1e-7)
        assert (np.diagonal(true)[filled.lacking] <= filled.diagonal + 1e-7).all()
        assert (filled.diagonal <= 1.0).all()
        gap = np.linalg.eigvalsh(true - kept)
        rounding = filled.norm_squared * held.rounding + filled.product_error + 1e-9
        assert gap[0] >= -rounding
        assert gap[-1] <= filled.norm_squared * held.left_out + rounding


def test_where_nothing_is_lacking_the_rows_are_those_that_were_sent():
    _, parties = parties_of(0, share=0.0)
    completion = complete(parties, T)
    for name, held in parties.items():
        assert np.array_equal(completion.filled[name].factor, held.factor)
        assert completion.filled[name].norm_squared == 1.0
        assert completion.filled[name].product_error == 0.0


def test_own_rows_stay_as_they_are_and_party_order_does_not_matter():
    _, parties = parties_of(1)
    completion, other = complete(parties, T), complete(dict(reversed(parties.items())), T)
    for name, held in parties.items():
        assert np.array_equal(completion.filled[name].factor[held.rows], held.factor)
        assert np.array_equal(completion.filled[name].factor, other.filled[name].factor)
    assert completion.held_out == other.held_out


def test_a_sample_of_the_fit_that_comes_again_is_completed_to_the_same_row():
    _, parties = parties_of(2)
    completion = complete(parties, T)
    lacking = {name: filled.lacking for name, filled in completion.filled.items()}
    hollow = {name: np.array(filled.factor) for name, filled in completion.filled.items()}
    for name, rows in lacking.items():
        hollow[name][rows] = np.nan
    again = completion.place(hollow, lacking)
    for name, filled in completion.filled.items():
        np.testing.assert_allclose(again[name], filled.factor, atol=1e-12)


def feature_r2(grams, parties, completion, name):
    """R^2 of the lacking rows against the true ones, in the party's feature space."""
    W, held, lacking = weights(completion, parties, name), parties[name], completion.filled[name].lacking
    K = grams[name]
    w, m = W[lacking], np.full((len(lacking), len(held.rows)), 1.0 / len(held.rows))
    own = K[np.ix_(held.rows, held.rows)]

    def missed(weight):
        across = (weight * K[np.ix_(lacking, held.rows)]).sum(axis=1)
        return float((1.0 - 2.0 * across + ((weight @ own) * weight).sum(axis=1)).sum())

    return 1.0 - missed(w) / missed(m)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 0.3, 1.0])
def test_the_held_out_r2_is_near_the_true_one(shared):
    gaps = []
    for seed in range(5):
        grams, parties = parties_of(seed, n_parties=4, shared=shared, n=200)
        completion = complete(parties, 200)
        gaps += [abs(completion.held_out[name] - feature_r2(grams, parties, completion, name)) for name in parties]
    assert np.median(gaps) < 0.1


def test_a_party_that_others_do_not_predict_gets_its_mean_row():
    _, parties = parties_of(3, shared=0.0)
    completion = complete(parties, T)
    unpredicted = [name for name, share in completion.held_out.items() if share <= 0.0]
    assert unpredicted
    for name in unpredicted:
        filled = completion.filled[name]
        mean = np.tile(parties[name].factor.mean(axis=0), (len(filled.lacking), 1))
        np.testing.assert_allclose(filled.factor[filled.lacking], mean, rtol=1e-12)


@pytest.mark.longer
@pytest.mark.parametrize("size", [1e-120, 1e120])
def test_parties_of_very_different_size_are_completed_alike(size):
    _, parties = parties_of(4)
    plain = complete(parties, T)
    scale = 2.0 ** np.round(np.log2(size))
    name = "p1"
    held = parties[name]
    changed = replace(
        held,
        factor=held.factor * scale,
        left_out=held.left_out * scale**2,
        rounding=held.rounding * scale**2,
        longest=scale**2,
    )
    other = complete(parties | {name: changed}, T)
    np.testing.assert_allclose(other.filled["p0"].factor, plain.filled["p0"].factor, atol=1e-12)
    np.testing.assert_allclose(other.filled[name].factor / scale, plain.filled[name].factor, atol=1e-12)


def test_parties_that_hardly_share_samples_are_refused():
    _, parties = parties_of(5, n_parties=2)
    held = parties["p0"]
    few = replace(parties["p1"], rows=np.arange(T, T + len(parties["p1"].rows)))
    with pytest.raises(InputError, match=r"party 'p0' shares 0 of its \d+ samples with other parties; .* kind of id"):
        complete({"p0": held, "p1": few}, 2 * T)


def test_lacking_that_goes_with_a_score_is_found():
    scores = np.random.default_rng(0).standard_normal((400, 3))
    by_score, at_random = np.flatnonzero(scores[:, 1] > 0.8), np.arange(0, 400, 5)
    lacking = {"a": by_score, "b": at_random, "c": np.array([], dtype=int)}
    places = {party: np.setdiff1d(np.arange(400), rows) for party, rows in lacking.items()}
    (found,) = not_at_random(places, scores, ["x", "y", "z"])
    assert found.startswith("party 'a'")
    assert "the gaps go with y (correlation 0." in found
