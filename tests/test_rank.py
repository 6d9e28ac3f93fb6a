import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkpca import summarize
from dkpca.errors import InputError
from dkpca.kernels import RBF
from dkpca.linalg.precision import COMPACT, PRECISIONS
from dkpca.party.limits import ANYTHING
from dkpca.rank import Adaptive, Auto, Budget, Error, Fixed, RankRule
from dkpca.settings import Fit

FLOATS = sorted(set(PRECISIONS) - {COMPACT})
SPECTRUM = np.array([8.0, 4.0, 2.0, 1.0, 0.5])
spectra = st.lists(st.floats(0, 100), min_size=1, max_size=20).map(lambda v: np.sort(np.array(v))[::-1])


def equation_8(eigenvalues, epsilon):
    """Eq. (8) read off the page: min{ min_D { lambda_{D+1} <= epsilon }, T }, D a number of eigenvectors."""
    T = len(eigenvalues)
    return min([D for D in range(1, T) if eigenvalues[D] <= epsilon] + [T])


@given(spectra, st.floats(0, 120))
def test_absolute_adaptive_rank_is_equation_8(eigenvalues, epsilon):
    assert Adaptive(epsilon, relative=False).choose(eigenvalues, len(eigenvalues)) == equation_8(eigenvalues, epsilon)


@given(spectra, st.floats(0, 1))
def test_relative_adaptive_rank_is_equation_8_in_units_of_the_largest_eigenvalue(eigenvalues, epsilon):
    expected = equation_8(eigenvalues, epsilon * eigenvalues[0])
    assert Adaptive(epsilon).choose(eigenvalues, len(eigenvalues)) == expected


def test_a_threshold_met_exactly_counts():
    assert Adaptive(2.0, relative=False).choose(SPECTRUM, 5) == 2


def test_a_rule_that_has_not_seen_enough_says_so():
    assert Adaptive(0.1, relative=False).choose(SPECTRUM, n_samples=50) is None
    assert Auto(3).choose(SPECTRUM, n_samples=50) is None


def test_auto_measures_from_the_second_eigenvalue():
    spectrum = np.array([1000.0, 1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.009, 0.001])
    assert Auto(2).choose(spectrum, 10) == 8


def test_auto_sends_no_fewer_than_the_components_wanted_and_five_more():
    spectrum = np.append([1000.0, 1.0], np.geomspace(1e-3, 1e-9, 12))
    assert Auto(4).choose(spectrum, 14) == 9
    assert Auto(4).choose(spectrum[:6], 6) == 6


@given(st.integers(1, 10**6), st.integers(1, 5000), st.sampled_from(FLOATS))
def test_a_budget_is_used_but_not_exceeded(budget, n_samples, precision):
    column = n_samples * PRECISIONS[precision] + (8 if precision == "float16" else 0)
    if budget < column:
        with pytest.raises(InputError, match="less than one eigenpair"):
            Budget(budget, precision).choose(SPECTRUM, n_samples)
    else:
        rank = Budget(budget, precision).choose(SPECTRUM, n_samples)
        assert rank is not None
        assert rank * column <= budget
        assert rank == n_samples or (rank + 1) * column > budget


def test_a_small_first_guess_grows_until_the_rule_is_satisfied(rng):
    X = rng.standard_normal((120, 60))
    summary, _ = summarize(X, party="a", kernel=RBF(0.01), rank=Adaptive(1e-4), precision="float64")
    from_matrix = np.linalg.eigvalsh(RBF(0.01)(X - X.mean(0), X - X.mean(0)))[::-1]
    assert summary.rank == equation_8(from_matrix, 1e-4 * from_matrix[0]) > 31


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Fixed(0), "a whole number of at least 1"),
        (lambda: Adaptive(-1.0), "give a finite number, not negative"),
        (lambda: Adaptive(float("nan")), "give a finite number, not negative"),
        (lambda: Auto(0), "n_components is 0; give a whole number of at least 1"),
        (lambda: Auto(3, float("nan")), "share is nan; give a number between 0 and 1"),
        (lambda: Budget(0), "bytes is 0; give a whole number of at least 1"),
        (lambda: Budget(100, "float8"), "one of ['compact', 'float16', 'float32', 'float64']"),
    ],
)
def test_impossible_rules_are_refused(make, words):
    with pytest.raises(InputError, match=re.escape(words)):
        make()


def test_more_rules_than_a_review_has_time_for_are_refused():
    with pytest.raises(InputError, match="rank has 9 rules; give at most 8"):
        Fit(rank=tuple(Error(10.0**-n) for n in range(1, 10)))


def test_a_rule_that_never_decides_is_refused(rng):
    class Never(RankRule):
        def first_guess(self, n_samples):
            return 3

        def choose(self, eigenvalues, n_samples):
            return None

    with pytest.raises(InputError, match="has seen all 20 eigenvalues and gives no rank"):
        summarize(rng.standard_normal((20, 3)), party="a", kernel=RBF(0.1), rank=Never())


@pytest.mark.parametrize("precision", FLOATS)
@pytest.mark.parametrize("limits", [ANYTHING, replace(ANYTHING, rank=50)], ids=["none", "rank 50"])
def test_a_budget_holds_in_the_precision_that_is_sent(rng, precision, limits):
    X = rng.standard_normal((100, 40))
    summary, _ = summarize(X, party="a", kernel=RBF(0.01), rank=Budget(9000), precision=precision, limits=limits)
    column = 100 * PRECISIONS[precision] + (8 if precision == "float16" else 0)
    assert summary.rank == 9000 // column


class TestLargestRank:
    """A rule stops at the largest rank that the party's limits allow."""

    X = np.random.default_rng(0).standard_normal((40, 30))

    def rank(self, rule, most):
        limits = replace(ANYTHING, rank=most)
        return summarize(self.X, party="a", kernel=RBF(0.01), rank=rule, limits=limits)[0].rank

    @pytest.mark.parametrize("most", [1, 2, 3, 9, 40])
    def test_it_is_the_rule_up_to_the_limit(self, most):
        assert self.rank(Adaptive(0.02), most) == min(self.rank(Adaptive(0.02), 40), most)

    @pytest.mark.parametrize("most", [3, 32])
    def test_a_rule_that_wants_to_see_more_stops_once_the_limit_is_known(self, most):
        assert self.rank(Adaptive(1e-9), 40) > most
        assert self.rank(Adaptive(1e-9), most) == most


class TestLimits:
    """Each number a rule takes: the last one allowed, and the first one refused, with its name."""

    @pytest.mark.parametrize(
        "rule", [Fixed(1), Adaptive(0.0), Adaptive(1e308), Auto(1), Auto(1, 0.0), Auto(1, 1.0), Budget(1)], ids=str
    )
    def test_the_last_one_is_allowed(self, rule):
        assert rule == type(rule)(**vars(rule))

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: Fixed(0), "rank is 0; give a whole number of at least 1"),
            (lambda: Fixed(True), "rank is True; give a whole number of at least 1"),
            (lambda: Fixed(2.0), "rank is 2.0; give a whole number of at least 1"),  # type: ignore[arg-type]
            (lambda: Adaptive(-1e-9), "epsilon is -1e-09; give a finite number, not negative"),
            (lambda: Adaptive(float("inf")), "epsilon is inf; give a finite number, not negative"),
            (lambda: Adaptive("1"), "epsilon is '1'; give a finite number, not negative"),  # type: ignore[arg-type]
            (lambda: Adaptive(False), "epsilon is False; give a finite number, not negative"),
            (lambda: Auto(True), "n_components is True; give a whole number of at least 1"),
            (lambda: Auto(2, "1"), "share is '1'; give a number between 0 and 1"),  # type: ignore[arg-type]
            (lambda: Auto(0), "n_components is 0; give a whole number of at least 1"),
            (lambda: Auto(1, 1.001), "share is 1.001; give a number between 0 and 1"),
            (lambda: Budget(1.5), "bytes is 1.5; give a whole number of at least 1"),  # type: ignore[arg-type]
        ],
    )
    def test_the_next_is_refused(self, make, words):
        with pytest.raises(InputError) as refusal:
            make()
        assert str(refusal.value) == words

    def test_a_budget_counts_the_scales_of_float16_and_nothing_else(self):
        assert Budget(100 * 4 * 3).first_guess(100) == 3
        assert Budget(100 * 4 * 3 - 1).first_guess(100) == 2
        assert Budget(100 * 4).first_guess(100) == 1
        assert Budget((100 * 2 + 8) * 3, "float16").first_guess(100) == 3
        assert Budget((100 * 2 + 8) * 3 - 1, "float16").first_guess(100) == 2

    def test_auto_measures_by_the_second_eigenvalue_or_the_only_one(self):
        longer = np.append(SPECTRUM, [0.4, 0.3, 0.2])
        assert Auto(1, 0.09).choose(longer, 8) == 6
        assert Auto(1, 0.07).choose(longer, 8) == 7
        assert Auto(1, 0.5).choose(SPECTRUM[:2], 2) == 2
        assert Auto(1, 0.5).choose(SPECTRUM[:1], 1) == 1
        assert Auto(1, 0.1).choose(SPECTRUM, 5) == 5
        assert Auto(1, 0.1).choose(SPECTRUM, 9) is None

    def test_the_first_guess_of_a_rule_fits_its_samples(self):
        assert Adaptive(0.1).first_guess(1000) == 31
        assert Adaptive(0.1).first_guess(7) == 7
        assert Auto(3).first_guess(1000) == 63
        assert Auto(40).first_guess(1000) == 80
        assert Auto(40).first_guess(50) == 50
