"""The attacks find what they can find, and what they say of a message is true."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import FastICA
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.neighbors import KNeighborsRegressor

import dkpca
from dkpca.kernels import RBF, ChiSquared, CosineKernel, Laplacian, Linear, Overlap, Polynomial, Precomputed
from dkpca.party.recovery import (
    Seen,
    Truth,
    against,
    measure,
    points,
    rare_first,
    regressions,
    seen_in,
    told_by,
)

RANDOM = np.random.default_rng(7)
TUMORS = load_breast_cancer().data[:300, :10]
TUMORS = (TUMORS - TUMORS.mean(axis=0)) / TUMORS.std(axis=0)


def summary_of(X, kernel, rank, **settings):
    return dkpca.summarize(X, party="clinic", kernel=kernel, rank=rank, **settings)[0]


def by_ridge(features, known, values):
    return next(regressions(features, known, values))


def r_squared(guess, truth):
    return 1.0 - ((guess - truth) ** 2).sum(axis=0) / ((truth - truth.mean(axis=0)) ** 2).sum(axis=0)


def test_regression_finds_a_linear_map_from_enough_known_rows():
    F = RANDOM.normal(size=(100, 5))
    X = F @ RANDOM.normal(size=(5, 3)) + 4.0
    np.testing.assert_allclose(by_ridge(F, np.arange(10), X[:10]), X, atol=1e-6)


def test_regression_on_noise_falls_back_to_the_mean():
    guess = by_ridge(RANDOM.normal(size=(200, 3)), np.arange(100), RANDOM.normal(size=(100, 1)))
    assert np.var(guess) < 0.1


def test_points_have_the_distances_they_were_made_from():
    X = RANDOM.normal(size=(40, 3))
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    Z = points(squared)
    np.testing.assert_allclose(((Z[:, None] - Z[None]) ** 2).sum(axis=2), squared, atol=1e-9)
    assert Z.shape[1] >= 3
    np.testing.assert_allclose(np.linalg.norm(Z[:, 3:]), 0.0, atol=1e-5)


def by_chosen_queries(squared, queries):
    """Rows of a table from their squared distances to samples that the attacker chose, one more than columns."""
    # |x - q|^2 = |x|^2 - 2 q'x + |q|^2 is linear in x and |x|^2 together.
    system = np.hstack([np.ones((len(queries), 1)), -2.0 * queries])
    return np.linalg.lstsq(system, squared - (queries**2).sum(axis=1, keepdims=True), rcond=None)[0][1:].T


def test_distances_to_chosen_samples_give_the_table_away():
    X = RANDOM.normal(size=(30, 5))
    queries = np.vstack([np.zeros(5), np.eye(5)])
    squared = ((queries[:, None] - X[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(by_chosen_queries(squared, queries), X, atol=1e-9)


@pytest.mark.longer
def test_partials_and_rows_of_chosen_samples_give_the_table_of_the_fit_away():
    kernel, queries = RBF(0.05), np.vstack([np.zeros(10), np.eye(10)])
    summary, state = dkpca.summarize(TUMORS, party="clinic", kernel=kernel, rank=60, projection="exact")
    partial = dkpca.extend(state, queries, exact=True).partial.decode()
    assert np.abs(by_chosen_queries(partial, queries) - TUMORS).max() < 1e-3
    values = dkpca.extend(state, queries).factor.decode() @ summary.factor.decode().T
    guess = by_chosen_queries(-np.log(np.clip(values, 1e-3, 1.0)) / kernel.gamma, queries)
    assert r_squared(guess, TUMORS).min() > 0.9


def test_thirty_known_patients_recover_every_column_at_the_default_rank():
    found = measure(summary_of(TUMORS, RBF(1 / 30), dkpca.rank.Auto(10)), TUMORS)
    assert found.sentence().startswith("an attacker who knows 30 rows can recover 10 of 10 columns (R² 0.9")
    assert min(found.columns) > 0.96


@pytest.mark.slow
def test_a_lower_rank_and_fewer_known_rows_recover_less():
    high, low = (measure(summary_of(TUMORS, RBF(1 / 30), rank), TUMORS) for rank in (23, 2))
    assert low.worst < high.worst
    assert np.mean(low.columns) < 0.7 * np.mean(high.columns)
    few = measure(summary_of(TUMORS, RBF(1 / 30), 23), TUMORS, known_rows=3)
    assert np.mean(few.by_attack["factor rows"]) < 0.8 * np.mean(high.by_attack["factor rows"])


def test_columns_that_the_message_says_nothing_about_are_not_recovered():
    X = np.hstack([RANDOM.normal(size=(400, 1)) * 100.0, RANDOM.normal(size=(400, 1))])
    large, small = measure(summary_of(X, Linear(), 1), X).columns
    assert large > 0.99
    assert small < 0.1


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_small_columns_beside_a_large_one_are_recovered_as_well_as_they_are_known(precision):
    X = RANDOM.normal(size=(120, 5)) * [1e6, 1.0, 1.0, 1.0, 1.0]
    assert min(measure(summary_of(X, Linear(), 5, precision=precision), X).columns) > 0.99


@pytest.mark.longer
def test_small_directions_behind_more_large_ones_than_known_rows_are_found():
    X = RANDOM.normal(size=(600, 3))
    U, lengths, _ = np.linalg.svd(np.hstack([1e-6 * X, RANDOM.normal(size=(600, 50))]), full_matrices=False)
    assert min(against([Seen(U * lengths, Linear(), 0.0, 3)], X).columns) > 0.7


def test_directions_of_noise_recover_nothing():
    noise, X = RANDOM.normal(size=(300, 80)), RANDOM.normal(size=(300, 5))
    assert against([Seen(noise, Linear(), 0.0, 5)], X).worst < 0.1


@pytest.mark.parametrize("factor", [1e-12, 1.0, 1e150])
@pytest.mark.slow
def test_units_of_a_column_change_nothing(factor):
    message = summary_of(TUMORS, RBF(1 / 30), 10)
    plain, scaled = measure(message, TUMORS), measure(message, TUMORS * factor)
    for name in plain.by_attack:
        np.testing.assert_allclose(plain.by_attack[name], scaled.by_attack[name], atol=1e-5)


@pytest.mark.longer
@pytest.mark.parametrize(
    "kernel", [RBF(0.1), Laplacian(0.1), ChiSquared(0.1), Linear(), Polynomial(0.1), Polynomial(0.1, own=True),
               CosineKernel(), CosineKernel(own=True)]
)  # fmt: skip
def test_every_kernel_of_quantities_is_attacked(kernel):
    X = TUMORS - TUMORS.min(axis=0)
    found = measure(summary_of(X, kernel, 20), X)
    assert len(found.columns) == 10
    assert found.worst > 0.6


@pytest.mark.longer
def test_categories_are_recovered_as_categories():
    codes = RANDOM.integers(0, 3, size=(300, 4)).astype(float)
    message = summary_of(codes, Overlap(0.3), 40, precision="float64")
    assert min(measure(message, codes).columns) > 0.9
    assert min(measure(message, np.array(["red", "green", "blue"], dtype=object)[codes.astype(int)]).columns) > 0.9


def ordinal(n=300):
    """Answers from 1 to 7 that one opinion makes."""
    answers = RANDOM.normal(size=(n, 1)) + 0.6 * RANDOM.normal(size=(n, 8))
    return np.clip(np.round(4.0 + 1.5 * answers), 1.0, 7.0)


@pytest.mark.longer
def test_ordinal_codes_are_scored_as_numbers_too():
    codes = ordinal()
    message = summary_of(codes, Overlap(0.3), 20)
    found = measure(message, codes).columns
    numbers = against([Seen(message.factor.decode(), Linear(), 0.0, 8)], codes).columns
    assert np.all(np.array(found) >= np.array(numbers) - 0.05)
    assert max(found) > 0.5


@pytest.mark.longer
def test_paths_over_similar_pairs_recover_what_a_narrow_kernel_hides_from_distances():
    found = measure(summary_of(TUMORS, RBF(1 / 10), 20), TUMORS).by_attack
    paths = np.max([found[name] for name in found if name.startswith("paths")], axis=0)
    assert np.mean(paths) > np.mean(found["distances"]) + 0.05
    assert np.mean(paths) > 0.9


@pytest.mark.longer
@pytest.mark.parametrize("rank", [5, 20, 60])
@pytest.mark.parametrize(
    "kernel", [RBF(1 / 10), Laplacian(0.05), Polynomial(0.1, own=True), Overlap(0.3)], ids=lambda k: k.name
)
def test_other_regressors_on_the_same_message_do_not_recover_much_more(kernel, rank):
    X = np.floor(1.5 * TUMORS[:200]) if kernel.columns_are == "categories" else TUMORS[:200]
    message = summary_of(X, kernel, rank)
    found = measure(message, X)
    seen, truth = seen_in(message, np.arange(200)), Truth.of(X, message.kernel.columns_are)
    others = []
    for features in (seen.factor, seen.coordinates, seen.coordinates[:, :10]):
        for regressor in (ExtraTreesRegressor(20, random_state=0), KNeighborsRegressor(3, weights="distance")):
            scores = []
            for seed in range(3):
                known = np.random.default_rng(seed).permutation(200)[:30]
                model = regressor.fit(features[known], truth.values[known])
                scores.append(truth.score(model.predict(features), known).clip(0.0, 1.0))
            others.append(np.mean(scores, axis=0))
    assert found.worst >= 0.9 * np.max(others)
    assert np.mean(found.columns) >= 0.9 * np.mean(np.max(others, axis=0))


def test_the_union_of_two_messages_is_measured_side_by_side():
    X = RANDOM.normal(size=(200, 6))
    halves = [Seen(X[:, part] @ RANDOM.normal(size=(3, 3)), Linear(), 0.0, 3) for part in (slice(0, 3), slice(3, 6))]
    alone, both = against(halves[:1], X), against(halves, X)
    assert max(alone.columns[3:]) < 0.3
    assert min(both.columns) > 0.99
    assert min(both.by_attack["factor rows"]) > 0.99


@pytest.mark.longer
def test_a_constant_column_and_a_matrix_of_similarities_have_nothing_to_recover():
    X = np.hstack([TUMORS[:, :2], np.full((len(TUMORS), 1), 5.0)])
    assert measure(summary_of(X, RBF(0.2), 10), X).columns[2] == 0.0
    K = RBF(0.1)(TUMORS[:50], TUMORS[:50])
    found = measure(summary_of(K, Precomputed(), 5), K)
    assert found.sentence() == ("recovery is not measured: the table is a matrix of similarities, without columns")


def test_few_samples_are_half_known_and_half_attacked():
    found = measure(summary_of(TUMORS[:20], RBF(0.1), 3), TUMORS[:20])
    assert (found.known_rows, found.rows) == (10, 20)


@pytest.mark.slow
def test_the_same_message_gives_the_same_answer_and_six_hundred_rows_are_enough():
    X = RANDOM.normal(size=(700, 4))
    message = summary_of(X, RBF(0.1), 12)
    first = measure(message, X)
    assert first == measure(message, X)
    assert first.rows == 600


@pytest.mark.longer
def test_known_rows_that_are_all_the_same_are_a_draw_like_any_other():
    X = np.repeat(np.eye(4), [20, 3, 2, 2], axis=0)
    found = [measure(summary_of(X, RBF(1.0), 3), X, known_rows=3, random_state=seed) for seed in range(4)]
    assert all(len(each.columns) == 4 and np.isfinite(each.columns).all() for each in found)


def test_another_table_is_refused():
    with pytest.raises(dkpca.errors.InputError, match=r"about a table of shape \(300, 10\), this one has the shape"):
        measure(summary_of(TUMORS, RBF(0.1), 3), TUMORS[:20])
    with pytest.raises(dkpca.errors.InputError, match=r"of shape \(300, 10\), this one has the shape \(300, 9\)"):
        measure(summary_of(TUMORS, RBF(0.1), 3), TUMORS[:, 1:])


def test_no_row_but_the_known_ones_is_used():
    message = summary_of(TUMORS, RBF(1 / 30), 10)
    seen = Seen(message.factor.decode(), message.kernel, 0.0, 10)
    changed = TUMORS.copy()
    changed[30:] = 0.0
    known = np.arange(30)
    np.testing.assert_array_equal(
        by_ridge(seen.coordinates, known, TUMORS[known]), by_ridge(seen.coordinates, known, changed[known])
    )


@pytest.mark.parametrize(("gamma", "size"), [(1e308, 1.0), (1e-300, 1.0), (1.0, 1e-300), (1.0, 1e300), (1.0, 1e-320)])
def test_numbers_at_the_ends_of_their_range_are_attacked_without_a_warning(gamma, size):
    X = RANDOM.normal(size=(40, 3)) * [1.0, 1.0, size]
    found = measure(summary_of(X, RBF(gamma), 10), X)
    assert all(0.0 <= value <= 1.0 for value in found.columns)


def test_one_number_tells_a_row_of_zeros_and_ones(rng):
    """The attack itself: known rows give the mixture of columns, and all possible rows are tried."""
    X = (rng.random((200, 10)) < 0.4).astype(float)
    summary = summary_of(X, Linear(), 1)
    sent, known = np.asarray(summary.factor.decode())[:, 0], np.arange(30)
    mixture = np.linalg.lstsq(np.column_stack([X[known], np.ones(30)]), sent[known], rcond=None)[0]
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=10)))
    told = rows[np.argmin(np.abs(sent[:, None] - (rows @ mixture[:10] + mixture[10])), axis=1)]
    assert (told == X).all()
    found = measure(summary, X)
    assert found.by_attack["decoding"] == (1.0,) * 10
    assert max(found.by_attack["factor rows"]) < 0.7


@pytest.mark.parametrize(
    ("precision", "table"),
    [("float16", lambda X: (X > 0.3).astype(float)), ("float32", lambda X: X), ("float32", lambda X: X.round(2))],
)
def test_fewer_digits_than_a_row_has_tell_none(rng, precision, table):
    X = table(rng.standard_normal((200, 16)))
    summary = summary_of(X, Linear(), 1, precision=precision)
    assert max(measure(summary, X).by_attack["decoding"]) == 0.0


def test_numbers_on_a_grid_are_told_in_as_many_mixtures_as_they_need(rng):
    X = np.column_stack([rng.integers(20, 90, 300), 0.1 * rng.integers(150, 400, (300, 5))]).astype(float)
    needed = [max(measure(summary_of(X, Linear(), k), X).by_attack["decoding"]) for k in (1, 3)]
    assert needed == [0.0, 1.0]


@pytest.mark.longer
@pytest.mark.parametrize(("n_other", "kernel", "rank"), [(1, Linear(), 20), (5, RBF(1 / 120), 60)])
def test_a_column_that_few_have_stands_out(rng, n_other, kernel, rank):
    X = rng.standard_normal((400, 60))
    X[:, 0] = np.arange(400) < n_other
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    hidden = summary_of(X[:, 1:], kernel, rank)
    shown = summary_of(X, kernel, rank)
    assert measure(shown, X).by_attack["shape"][0] == 1.0
    assert against([seen_in(hidden, np.arange(400))], X).by_attack["shape"][0] < 0.5


def test_values_far_out_hide_none_of_the_others(rng):
    """Codes for "not known": whoever cannot tell where these are knows the other 98 of 100 rows all the same."""
    X = rng.standard_normal((200, 6)) + 20.0
    X[rng.permutation(200)[:4]] = 999.0
    summary, known = summary_of(X, RBF(0.1), 12), np.arange(30)
    usual = np.abs(X - 20.0) < 10.0
    values = np.where(usual, X, X[usual].mean())[known]  # the attack itself
    guess = by_ridge(seen_in(summary, np.arange(200)).coordinates, known, values)
    rest = np.flatnonzero(usual.all(axis=1) & (np.arange(200) >= 30))
    assert np.mean(r_squared(guess[rest], X[rest])) > 0.6
    assert min(measure(summary, X).columns) > 0.6


def test_text_of_few_values_is_decoded_whatever_the_number_of_its_columns(rng):
    """Yes and no as two columns each are more columns than known rows determine; one of the two follows."""
    has = (rng.random((200, 15)) < 0.4).astype(float)
    X = np.hstack([has, 1.0 - has])
    summary, known = summary_of((X - X.mean(axis=0)) / X.std(axis=0), Linear(), 1), np.arange(30)
    sent = np.asarray(summary.factor.decode())[:, 0]
    mixture = np.linalg.lstsq(np.column_stack([has[known], np.ones(30)]), sent[known], rcond=None)[0]
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=15)))
    told = rows @ mixture[:15] + mixture[15]
    order = np.argsort(told)
    after = np.clip(np.searchsorted(told[order], sent), 1, len(rows) - 1)
    near = np.where(sent - told[order[after - 1]] < told[order[after]] - sent, after - 1, after)
    assert np.mean(rows[order[near]] == has) > 0.99
    assert measure(summary, X).by_attack["decoding"] == (1.0,) * 30
    colors = (rng.integers(0, 4, (200, 9))[:, :, None] == np.arange(4)).reshape(200, 36).astype(float)
    assert measure(summary_of(colors, Linear(), 1), colors).worst == 1.0  # 18 bits of a row, in 24


@pytest.mark.longer
def test_a_category_that_few_have_stands_out_in_a_column_of_many(rng):
    X = rng.integers(0, 4, (400, 20)).astype(float)
    common = measure(summary_of(X, Overlap(0.02), 65), X).by_attack
    X[[7, 77, 177], 0] = 4.0
    found = measure(summary_of(X, Overlap(0.02), 65), X).by_attack
    assert "shape" not in common
    assert found["shape"] == (1.0, *[0.0] * 19)


@pytest.mark.longer
def test_categories_of_one_sample_each_are_not_named_by_chance(rng):
    X = np.column_stack([rng.integers(0, 300, (200, 2)), rng.integers(0, 3, (200, 6))]).astype(float)
    assert max(measure(summary_of(X, Overlap(0.02), 3), X).by_attack["shape"]) < 0.5


def test_what_few_of_many_samples_have_is_among_the_rows_attacked(rng):
    X = rng.standard_normal((3000, 12))
    X[:, 0] = 0.0
    nobody = measure(summary_of(X, Linear(), 12), X)
    X[np.random.default_rng(0).permutation(3000)[-4:], 0] = 1.0  # the last that are drawn
    four = measure(summary_of(X, Linear(), 12), X)
    assert (nobody.columns[0], four.by_attack["shape"][0]) == (0.0, 1.0)
    assert four.rows == 600


@pytest.mark.longer
def standardized(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def by_skewness(F, known, values):
    """The attack itself: components of the largest skewness, and each column on the few that known rows point to."""
    contrast = lambda y: (y**2, 2.0 * y.mean(axis=-1))  # noqa: E731
    found = FastICA(whiten="unit-variance", fun=contrast, max_iter=400, tol=1e-3, random_state=0).fit_transform(F)
    guess = np.empty((len(F), values.shape[1]))
    for j, column in enumerate(values.T):
        near = np.argsort(-np.abs(np.corrcoef(found[known].T, column)[-1, :-1]))[:1]
        guess[:, j] = by_ridge(found[:, near], known, column[:, None])[:, 0]
    return guess


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:FastICA did not converge")
def test_what_a_message_contains_of_a_column_counts_however_it_is_mixed(rng):
    """Nearly normal columns of a message of full rank: 30 known rows do not tell the mixture, their skewness does."""
    X, known = standardized(rng.beta(1.0, 3.0, size=(5000, 60))), np.arange(30)
    summary = summary_of(X, Linear(), 60)
    guess = by_skewness(np.asarray(summary.factor.decode(), dtype=float), known, X[:30])
    assert np.median(r_squared(guess[30:], X[30:])) > 0.8
    found = measure(summary, X)
    assert min(found.columns) > 0.9
    assert max(found.by_attack["factor rows"]) < 0.7


def test_columns_in_a_narrow_part_of_the_spectrum_are_contained_in_it(rng):
    """Eight columns behind 92 larger ones: thirty known rows tell the last eight directions, not all hundred."""
    X = rng.standard_normal((1000, 100)) * np.r_[np.full(92, 5.0), np.ones(8)]
    summary = summary_of(X, Linear(), 100)
    guess = by_ridge(summary.factor.decode()[:, 92:], np.arange(30), X[:30, 92:])
    assert r_squared(guess[30:], X[30:, 92:]).min() > 0.7
    assert min(measure(summary, X).columns[92:]) > 0.9


def test_more_directions_than_rows_tell_apart_contain_little_by_chance(rng):
    X = rng.standard_normal((120, 30))
    noise = Seen(rng.standard_normal((120, 90)), Linear(), 0.0, 90, 120)
    assert max(against([noise], X).columns) < 0.4
    many = Seen(np.hstack([X, noise.factor[:, :60]]) @ rng.standard_normal((90, 90)), Linear(), 0.0, 90, 5000)
    assert min(against([many], X).columns) == 1.0  # more samples tell all directions apart
    assert max(against([replace(noise, n_samples=5000)], X).columns) < 0.4


def test_a_column_that_says_how_large_a_row_is_is_told_by_its_length(rng):
    """Severity multiplies all other columns: it is in no direction, and in the length of every row."""
    severity = rng.standard_normal(600)
    X = standardized(np.column_stack([rng.standard_normal((600, 60)) * np.exp(0.4 * severity)[:, None], severity]))
    assert measure(summary_of(X, Linear(), 15), X).columns[-1] > 0.6


def test_each_value_of_a_column_of_few_counts_by_itself(rng):
    """Whoever has the code 3 differs a little in all other columns; as a number the code is unrelated to them."""
    code = rng.integers(1, 6, size=600).astype(float)
    X = standardized(np.column_stack([rng.standard_normal((600, 60)) + 0.8 * (code == 3.0)[:, None], code]))
    found = measure(summary_of(X, Linear(), 5), X)
    assert found.columns[-1] > 0.8


def test_who_has_no_value_counts_where_gaps_were_filled_with_the_mean(rng):
    X = rng.standard_normal((300, 40))
    gaps = rng.random(300) < 0.3
    X[gaps, 20:] = X[~gaps, 20:].mean(axis=0)
    assert min(measure(summary_of(standardized(X), Linear(), 30), X).columns[20:]) > 0.7


def test_lengths_of_rows_are_attacked(rng):
    X = np.column_stack([rng.lognormal(1.0, 1.2, 300), 8.0 + rng.standard_normal((300, 14))])
    summary = summary_of(X, CosineKernel(), 1)
    found = measure(summary, X).by_attack
    without = measure(replace(summary, kernel=Linear(), diagonal=None), X).by_attack
    assert found["lengths"][0] > 0.1 + max(each[0] for name, each in without.items() if name != "content")


def searched(Q, X, j, known=30):
    """The attack itself: by turns the nearest in the space of what was sent, and the nearest whole numbers."""
    start = Q @ np.linalg.lstsq(Q[:known], X[:known, j], rcond=None)[0]
    z = X[:known, j].mean() + start / start.std() * X[:known, j].std()
    for _ in range(1000):  # the difference map
        near = Q @ (Q.T @ z)
        guess = np.clip(np.round(2 * near - z), X[:known, j].min(), X[:known, j].max())
        guess[:known] = X[:known, j]
        z += 0.9 * (guess - near)
    return guess


@pytest.mark.longer
@pytest.mark.parametrize("cuts", [[0.8], [-1.0, -0.2, 0.5, 1.3]], ids=["zeros and ones", "answers from 0 to 4"])
def test_columns_of_whole_numbers_are_found_in_what_was_sent_though_they_outnumber_the_known_rows(cuts, rng):
    X = np.digitize(rng.standard_normal((300, 40)), cuts).astype(float)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    summary = summary_of(Z, Linear(), 40)
    Q = np.linalg.qr(np.column_stack([np.ones(300), summary.factor.decode()]))[0]
    assert np.mean([(searched(Q, X, j) == X[:, j]).all() for j in range(4)]) > 0.5
    sums = Seen(points(np.square(Z[:, None] - Z[None]).sum(axis=2)), Linear(), 0.0, 40)
    for reviewed in (measure(summary, X), measure(summary_of(Z, RBF(1 / 80), 60), X), against([sums], X)):
        assert min(reviewed.by_attack["content"]) > 0.9
    assert max(measure(summary_of(Z, Linear(), 10), X).by_attack["content"]) < 0.7
    assert max(measure(summary_of(rng.standard_normal((300, 40)), Linear(), 40), X).by_attack["content"]) < 0.4


def test_columns_beside_whole_numbers_are_seen_once_these_are_found(rng):
    X = np.hstack([rng.standard_normal((300, 15)), np.digitize(rng.standard_normal((300, 40)), [-1.0, 0.0, 1.0])])
    summary = summary_of(X, Linear(), 55)
    Z = X - X.mean(axis=0)
    rest = summary.factor.decode() @ summary.factor.decode().T - Z[:, 15:] @ Z[:, 15:].T
    values, V = np.linalg.eigh(rest)
    found = by_ridge(V[:, -15:] * np.sqrt(values[-15:]), np.arange(30), X[:30, :15])
    assert r_squared(found[30:], X[30:, :15]).min() > 0.99
    reviewed = measure(summary, X)
    assert min(reviewed.columns) > 0.99
    assert max(reviewed.by_attack["factor rows"][:15]) < 0.8


def test_a_kernel_that_forgets_the_lengths_of_rows_tells_their_directions(rng):
    X = rng.standard_normal((300, 8)) * rng.lognormal(0.0, 2.0, (300, 1))
    summary = summary_of(X, CosineKernel(own=True), 8)
    shapes = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert r_squared(by_ridge(summary.factor.decode(), np.arange(30), shapes[:30]), shapes).min() > 0.99
    assert min(measure(summary, X).columns) > 0.99


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_directions_of_rows_are_told_whatever_their_unit(unit, rng):
    X = rng.standard_normal((100, 4)) * rng.lognormal(0.0, 2.0, (100, 1))
    seen = [seen_in(summary_of(X, CosineKernel(own=True), 4), np.arange(100))]
    assert min(against(seen, unit * X).columns) > 0.99


def test_rows_with_what_few_have_are_attacked_whatever_comes_before(rng):
    X = np.column_stack([rng.random((6000, 40)) < 0.004, rng.standard_normal((6000, 10))]).astype(float)
    ill, coded = rng.permutation(6000)[:9].reshape(3, 3)[:2]
    X = np.column_stack([X, np.isin(np.arange(6000), ill), rng.standard_normal(6000)])
    X[coded, -1] = 999.0
    rows = rare_first(rng.permutation(6000), X)
    assert sorted(rows) == list(range(6000))
    assert {*ill, *coded} <= set(rows[:10].tolist())


def test_a_kernel_that_forgets_the_signs_of_rows_counts_as_if_it_told_all(rng):
    X = rng.standard_normal((200, 1))
    even, odd = (summary_of(X, Polynomial(1.0, degree=k, coef0=0.0, own=True), 1) for k in (2, 3))
    assert np.allclose(np.abs(even.factor.decode()[:, 0] + 0.0), X[:, 0] ** 2, rtol=1e-5)
    assert measure(even, X).columns == (1.0,)
    nearly = summary_of(X, Polynomial(1.0, degree=2, coef0=1e-6, own=True), 1)
    assert measure(nearly, X).columns == (1.0,)
    seen = seen_in(summary_of(X, Polynomial(1.0, degree=2, coef0=1.0, own=True), 3), np.arange(200))
    assert seen.forgotten == ""
    assert measure(odd, X).by_attack.get("signs") is None


def decoded(summary, X, encoded):
    """The attack itself: all possible rows, less likely the farther from what the known rows say was sent of them."""
    sent, known = np.asarray(summary.factor.decode(), dtype=float), np.arange(30)
    rows = np.array(list(itertools.product(*map(np.unique, X.T))))
    A, C = (np.column_stack([np.ones(len(each)), encoded(each)]) for each in (X[known], rows))
    weights = np.linalg.lstsq(A, sent[known], rcond=None)[0]
    noise = ((sent[known] - A @ weights) ** 2).sum(axis=0) / (30 - np.linalg.matrix_rank(A))
    by_chance = sum(np.log((X[known, j][:, None] == rows[:, j]).mean(axis=0) + 0.02) for j in range(X.shape[1]))
    fits = by_chance - ((sent[:, None] - C @ weights) ** 2 / (2.0 * noise)).sum(axis=2)
    return rows[fits.argmax(axis=1)]


@pytest.mark.longer
def test_categories_are_decoded_by_who_has_which(rng):
    X = np.column_stack([rng.choice(4, size=400, p=rng.dirichlet(4 * np.ones(4))) for _ in range(5)]).astype(float)
    encoded = lambda codes: (codes[:, :, None] == np.arange(4)).reshape(len(codes), -1).astype(float)  # noqa: E731
    low, high = (summary_of(X, Overlap(0.2), rank) for rank in (1, 4))
    assert np.mean(decoded(high, X, encoded) == X) > 0.85 > 0.7 > np.mean(decoded(low, X, encoded) == X)
    assert min(measure(high, X).columns) == 1.0
    assert max(measure(low, X).columns) < 0.5


@pytest.mark.longer
def test_few_directions_of_a_kernel_that_is_no_inner_product_are_decoded_too(rng):
    X = (rng.random((400, 10)) < 0.4).astype(float)
    summary = summary_of((X - X.mean(axis=0)) / X.std(axis=0), RBF(1 / 20), 5)
    assert np.mean(decoded(summary, X, lambda rows: rows) == X) > 0.9
    assert measure(summary, X).by_attack["decoding"] == (1.0,) * 10
    assert max(measure(summary_of(X, RBF(1 / 20), 1), X).by_attack["decoding"]) == 0.0


@pytest.mark.parametrize("rank", [2, 5])
def test_nearly_as_many_columns_as_known_rows_are_decoded(rng, rank):
    X = (rng.random((300, 28)) < 0.3).astype(float)
    found = measure(summary_of(X, Linear(), rank), X)
    assert found.by_attack["decoding"] == (1.0,) * 28


@pytest.mark.parametrize(("width", "values", "rank"), [(40, 2, 9), (32, 2, 5), (30, 2, 4), (50, 3, 14)])
def test_columns_of_few_values_are_decoded_though_they_outnumber_the_known_rows(width, values, rank, rng):
    """Short vectors that are orthogonal to the rows sent are so to the columns, too: a hidden subset sum."""
    X = rng.integers(0, values, (250, width)).astype(float)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    assert measure(summary_of(Z, Linear(), rank), X).by_attack["decoding"] == (1.0,) * width
    assert max(measure(summary_of(Z, Linear(), 1), X).by_attack["decoding"]) == 0.0  # fewer bits than a row has
    numbers = rng.normal(size=(250, width))
    assert max(measure(summary_of(numbers, Linear(), min(rank, 9)), numbers).by_attack["decoding"]) == 0.0


def test_columns_that_say_much_about_each_other_have_fewer_bits(rng):
    """Laboratory values in two units each; twice as many that are not are told by twice as many mixtures."""
    true = rng.uniform(80, 140, 12) + rng.uniform(3, 6, 12) * rng.normal(size=(400, 12))
    X = np.hstack([np.rint(true), np.rint(true * rng.choice([0.56, 0.39, 0.26], 12))])
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    assert measure(summary_of(Z, Linear(), 3), X).by_attack["decoding"] == (1.0,) * 24
    apart = np.hstack([X[:, :12], rng.permutation(X[:, 12:])])
    Z = (apart - apart.mean(axis=0)) / apart.std(axis=0)
    assert max(measure(summary_of(Z, Linear(), 3), apart).by_attack["decoding"]) == 0.0


def test_of_0_and_1_the_rarer_value_is_what_columns_exclude(rng):
    has = np.eye(7)[rng.integers(0, 7, (300, 4))].reshape(300, 28)
    for X in (has, 1.0 - has):  # 11 bits of a row, told by one direction of as many digits
        summary = summary_of(X - X.mean(axis=0), Linear(), 1, precision="float16")
        assert measure(summary, X).by_attack["decoding"] == (1.0,) * 28


def test_rare_large_counts_are_decoded_by_how_rare_they_are(rng):
    X = (rng.random((400, 20)) < 0.12) * (1.0 + np.floor(rng.lognormal(0.0, 1.2, (400, 20))))
    assert measure(summary_of(X, Linear(), 2), X).by_attack["decoding"] == (1.0,) * 20
    often = np.floor(rng.lognormal(3.0, 1.2, (400, 20)))
    assert max(measure(summary_of(often, Linear(), 2), often).by_attack["decoding"]) == 0.0


def test_who_has_any_of_a_heavy_tailed_column_counts_as_much_as_how_much(rng):
    X = (rng.random((300, 6)) < 0.2) * np.exp(2.0 * rng.standard_normal((300, 6)))
    summary, known = summary_of((X - X.mean(axis=0)) / X.std(axis=0), RBF(1 / 3), 20), np.arange(30)
    has = (X > 0).astype(float)
    guesses = regressions(seen_in(summary, np.arange(300)).coordinates, known, has[known])  # the attack itself
    attacked = np.max([r_squared(guess[30:], has[30:]) for guess in guesses], axis=0)
    assert attacked.max() > 0.55
    assert np.all(np.array(measure(summary, X).columns) > attacked - 0.15)
    limited = Truth.of(X)  # numbers, those cut off, and who has any
    assert limited.values.shape[1] == 18
    assert np.abs(limited.values[:, 6:12]).max() < 0.5 * np.abs(limited.values[:, :6]).max()


def test_columns_are_found_where_the_mixtures_of_the_known_rows_point(rng):
    X = rng.standard_normal((400, 25))
    summary, known = summary_of(X, Linear(), 16), np.arange(30)
    sent = np.asarray(summary.factor.decode(), dtype=float)
    weights = np.linalg.lstsq(np.column_stack([np.ones(30), X[known]]), sent[known], rcond=None)[0][1:]
    attacked = np.square([np.corrcoef(sent[30:] @ weights[j], X[30:, j])[0, 1] for j in range(25)])
    found = measure(summary, X).by_attack
    assert np.mean(found["content"]) > np.mean(attacked) - 0.1
    assert np.mean(found["content"]) > np.mean(found["factor rows"]) + 0.1


@pytest.mark.slow
def test_distances_that_change_under_a_rotation_fix_every_column(rng):
    """Anybody can find the rows whose city block distances these are, from the known rows on; ridge gets 0.6."""
    X = rng.normal(size=(100, 30))
    summary = summary_of(X, Laplacian(1 / 36), 60, precision="float64")
    found = measure(summary, X)
    assert max(found.by_attack["distances"]) < 0.8
    assert np.median(found.columns) > 0.8
    A = summary.factor.decode()
    squared, known = Laplacian(1 / 36).squared_distances(A @ A.T, 1e-6), np.arange(30)
    guess = by_ridge(points(squared), known, X[known])[30:]
    for eps in (1.0, 0.3, 0.1):

        def stress(numbers, eps=eps):
            x = numbers.reshape(70, 30)
            apart = [x[:, None] - X[None, :30], x[:, None] - x[None]]
            sizes = [np.sqrt(each**2 + eps**2) for each in apart]
            off = [sizes[0].sum(axis=2) - squared[30:, :30], sizes[1].sum(axis=2) - squared[30:, 30:]]
            np.fill_diagonal(off[1], 0.0)
            slopes = [(e[:, :, None] * d / s).sum(axis=1) for e, d, s in zip(off, apart, sizes, strict=True)]
            return (off[0] ** 2).sum() + 0.5 * (off[1] ** 2).sum(), 2.0 * (slopes[0] + slopes[1]).ravel()

        guess = minimize(stress, guess.ravel(), jac=True, method="L-BFGS-B").x.reshape(70, 30)
    assert np.median(r_squared(guess, X[30:])) > 0.9


def test_exact_agreements_with_known_rows_tell_categories(rng):
    """24 columns of six values: thirty counts of agreements tell the 62 bits of a row. Few directions do not."""
    X = rng.integers(0, 6, size=(300, 24)).astype(float)
    assert measure(summary_of(X, Overlap(1 / 20), 99), X).worst > 0.8
    assert measure(summary_of(X, Overlap(1 / 20), 6), X).worst < 0.5


@pytest.mark.parametrize("kernel", [Polynomial(0.1), CosineKernel()])
def test_the_length_of_a_row_of_whole_numbers_tells_the_row(kernel, rng):
    """One number of 53 bits, a mixture of columns and their squares, which thirty known rows determine."""
    X = rng.integers((20, 90, 50, 15, 60), (90, 180, 120, 45, 200), size=(200, 5)).astype(float)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    summary = summary_of(Z, kernel, 1)
    mixture = np.column_stack([np.ones(200), X, X**2])
    off = (
        summary.diagonal.decode()[:, 0]
        - mixture @ np.linalg.lstsq(mixture[:30], summary.diagonal.decode()[:30, 0])[0]
    )
    assert np.abs(off).max() < 1e-10
    assert measure(summary, Z).worst == 1.0
    assert measure(summary, rng.normal(size=Z.shape)).worst < 0.5


def test_a_value_that_few_have_stands_out_in_a_column_of_several(rng):
    """The code 9 among 1 and 2: six patients are named without a known row."""
    X = np.column_stack([rng.integers(1, 3, size=600), rng.normal(size=(600, 40))])
    X[rng.choice(600, size=6, replace=False), 0] = 9.0
    summary = summary_of(X - X.mean(axis=0), Linear(), 41)
    assert measure(summary, X).by_attack["shape"][0] > 0.9


def test_constant_columns_are_told_by_nothing_and_take_nothing_from_others(rng):
    X = rng.normal(size=(200, 12))
    alone = measure(summary_of(X, Laplacian(1 / 14), 30), X).by_attack["content"]
    Z = np.hstack([X, np.ones((200, 60))])
    beside = measure(summary_of(Z, Laplacian(1 / 14), 30), Z).by_attack["content"]
    assert max(beside[12:]) == 0.0
    assert min(alone) > 0.5
    np.testing.assert_allclose(beside[:12], alone, atol=0.1)


def test_a_kernel_of_ones_own_that_does_not_add_up_is_measured(rng):
    @dataclass(frozen=True)
    class Same(Overlap):
        law = None  # type: ignore[assignment]

    X = rng.integers(0, 3, size=(80, 6)).astype(float)
    assert measure(summary_of(X, Same(0.2), 20), X).worst > 0.5


def test_products_of_few_directions_are_contained_in_them(rng):
    """Thirty known rows do not show that a column is the product of two directions; a guess of its form does."""
    F = rng.standard_normal((400, 4))
    genes = F @ rng.standard_normal((4, 300)) + 4.0 * rng.standard_normal((400, 300))
    X = np.hstack([genes, F[:, :1] * F[:, 1:2]])
    summary = summary_of(standardized(X) * np.r_[np.ones(300), 1e-6], Linear(), 4)
    assert measure(summary, X).columns[-1] > 0.5


def test_a_small_column_behind_a_crowd_of_directions_is_looked_for_at_their_end(rng):
    X = rng.standard_normal((200, 60)) * np.r_[np.ones(56), np.full(4, 0.1)]
    assert min(measure(summary_of(X, Linear(), 60), X).columns[56:]) > 0.7


def test_a_column_tells_one_that_is_a_threshold_of_it(rng):
    X = rng.standard_normal((300, 6))
    X[:, 5] = X[:, 0] > 1.4
    assert told_by([0, 1], X, "quantities", 30)[5] > 0.6
    assert told_by([1, 2], X, "quantities", 30)[5] < 0.1
