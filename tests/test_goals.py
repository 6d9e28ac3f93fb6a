import json
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkpca import DKPCA, subspace_error, summarize, wire
from dkpca.errors import InputError, PolicyError
from dkpca.kernels import RBF, Linear
from dkpca.linalg.precision import COMPACT, PRECISIONS
from dkpca.party import extend
from dkpca.party.limits import ANYTHING
from dkpca.rank import Adaptive, All, Auto, Budget, Error, Fixed, RankRule
from dkpca.wire import codec

X = np.random.default_rng(0).standard_normal((150, 12)) * 0.8 ** np.arange(12)
KERNEL = RBF(0.05)


def sent(rank, precision=COMPACT, limits=ANYTHING):
    return summarize(X, party="a", kernel=KERNEL, rank=rank, precision=precision, limits=limits)


@dataclass(frozen=True)
class _Holder:
    rank: RankRule


def error_of(summary):
    """The error measured on the matrix itself."""
    Y = X - X.mean(0)
    B = summary.factor.decode()
    return np.abs(np.linalg.eigvalsh(KERNEL(Y, Y) - B @ B.T)).max()


@pytest.mark.longer
@settings(max_examples=10)
@given(st.floats(-4, 0.5))
def test_an_error_goal_holds_on_the_matrix_itself_at_the_fewest_bytes(exponent):
    at_most = 10.0**exponent
    summary, state = sent(Error(at_most))
    assert error_of(summary) <= at_most
    assert state.decided == repr(Error(at_most))
    coarser, _ = sent(Error(2 * at_most))
    assert wire.size(coarser) < wire.size(summary)
    assert error_of(summary) > at_most / 30 or summary.rank == 1  # the certificate's bound is not the error itself


@pytest.mark.longer
@settings(max_examples=10)
@given(st.integers(1200, 30_000))
def test_a_budget_is_kept_by_the_whole_message_and_used(budget):
    summary, _ = sent(Budget(budget))
    finest, _ = sent(Budget(10**9))
    size = len(wire.encode(summary))
    assert size <= budget
    assert size > 0.9 * min(budget, wire.size(finest))


@pytest.mark.longer
def test_no_limit_is_passed_for_a_need_and_what_was_not_met_is_said():
    summary, state = sent(All((Error(1e-4), Budget(3000))))
    assert len(wire.encode(summary)) <= 3000
    assert state.decided == "Budget(bytes=3000, precision='compact'); Error(at_most=0.0001) is not met"


@pytest.mark.longer
def test_a_limit_that_does_not_bind_changes_nothing():
    alone, together = sent(Error(0.01)), sent(All((Error(0.01), Budget(10**6))))
    assert wire.encode(alone[0]) == wire.encode(together[0])
    assert together[1].decided == "Error(at_most=0.01)"


def test_of_two_needs_the_finer_is_met():
    summary, state = sent(All((Error(0.5), Error(0.01), Fixed(2))))
    assert error_of(summary) <= 0.01
    assert state.decided == "Error(at_most=0.01)"


@pytest.mark.parametrize("precision", sorted(PRECISIONS))
def test_goals_hold_in_every_precision(precision):
    summary, _ = sent(All((Error(0.05), Budget(10**6))), precision)
    assert error_of(summary) <= 0.05
    assert summary.factor.precision == precision


@pytest.mark.parametrize(
    ("rule", "precision", "words"),
    [
        (Budget(500), COMPACT, "cannot be met in compact"),
        (Error(1e-9), COMPACT, "cannot be met in compact"),
        (Error(1e-9), "float16", "cannot be met in float16"),
    ],
)
def test_a_goal_that_cannot_be_met_is_refused_with_what_there_is(rule, precision, words):
    with pytest.raises(InputError, match=words):
        sent(rule, precision)


@pytest.mark.parametrize("rule", [Fixed(7), Adaptive(1e-3), Adaptive(0.05, relative=False)])
def test_the_papers_rules_choose_the_same_rank_in_every_precision(rule):
    ranks = {precision: sent(rule, precision)[0].rank for precision in ("float64", COMPACT)}
    assert ranks[COMPACT] == ranks["float64"]


def test_a_stated_rank_decides_the_error_and_rounding_does_not():
    compact, exact = sent(Fixed(7))[0], sent(Fixed(7), "float64")[0]
    assert error_of(compact) <= 1.1 * error_of(exact)
    assert wire.size(compact) < wire.size(exact) / 2.5


def test_auto_in_compact_precision_errs_less_in_fewer_bytes_than_in_float32():
    compact, float32 = sent(Auto(5))[0], sent(Auto(5), "float32")[0]
    assert error_of(compact) < error_of(float32)
    assert wire.size(compact) < wire.size(float32) / 2


@pytest.mark.parametrize("rule", [Error(0.1), Budget(2000), All((Auto(3), All((Budget(10), Error(0.5)))))])
def test_goals_travel(rule):
    described = json.loads(json.dumps(rule.to_dict()))
    assert codec.decode(_Holder, {"rank": described}, what="rule").rank == rule


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Error(0.0), "at_most is 0.0; give a positive number"),
        (lambda: Error("much"), "give a positive number"),  # type: ignore[arg-type]
        (lambda: All(()), "give at least one rule"),
        (lambda: All((3,)), "give at least one rule"),  # type: ignore[arg-type]
        (lambda: DKPCA(rank=[]).fit([X]), "rank is []; give"),
    ],
)
def test_impossible_goals_are_refused(make, words):
    with pytest.raises(InputError, match=re.escape(words)):
        make()


@pytest.mark.parametrize(("allowed", "digits"), [("float64", 30), ("float32", 24), ("float16", 11), ("compact", 30)])
def test_compact_numbers_have_no_more_digits_than_the_limits_allow(allowed, digits):
    summary, _ = sent(Fixed(150), limits=replace(ANYTHING, precision=allowed))
    assert np.abs(summary.factor.data).max() <= 2**digits


@pytest.mark.parametrize(("allowed", "digits"), [("float32", 24), ("float16", 11)])
def test_new_samples_have_no_more_digits_than_the_limits_allow_either(allowed, digits):
    limits = replace(ANYTHING, precision=allowed)
    _, state = summarize(
        X, party="a", kernel=Linear(), rank=Auto(5), precision=COMPACT, projection="exact", limits=limits
    )
    far = 1e9 * X[:20]
    rows, distances = extend(state, far, limits=limits), extend(state, far, exact=True, limits=limits)
    assert np.abs(rows.factor.data).max() <= 2**digits
    assert np.abs(distances.partial.data).max() <= 2**digits


def test_a_limit_of_compact_numbers_allows_no_others():
    with pytest.raises(PolicyError, match="float16 is finer than precision = 'compact'"):
        sent(Fixed(3), "float16", replace(ANYTHING, precision="compact"))


@pytest.mark.longer
def test_the_largest_rank_of_limits_holds_for_goals_too():
    assert sent(Error(1e-4), limits=replace(ANYTHING, rank=200))[0].rank > 9
    summary, _ = sent(Budget(10**9), limits=replace(ANYTHING, rank=9))
    assert summary.rank == 9


def test_a_limit_of_ones_own_is_measured_on_the_message_that_leaves():
    seen = []

    class FewLevels(RankRule):
        limits = True

        def measured(self):
            return True

        def met_by(self, candidate):
            assert candidate.among.table.shape == X.shape
            seen.append(candidate.summary)
            return np.abs(candidate.summary.factor.data).max() <= 200

    summary, _ = sent(All((Auto(5), FewLevels())))
    assert any(summary is candidate for candidate in seen)
    assert 100 < np.abs(summary.factor.data).max() <= 200


def test_new_samples_are_rounded_as_the_fit_was():
    summary, state = sent(Auto(5))
    again = extend(state, X)
    np.testing.assert_array_equal(again.factor.scale, summary.factor.scale)
    assert (np.abs(again.factor.data - summary.factor.data) <= 1).all()


def test_new_samples_far_away_do_not_overflow():
    _, state = summarize(X, party="a", kernel=Linear(), rank=Auto(5), precision=COMPACT)
    far = extend(state, 1e9 * X[:3]).factor.decode()
    exact = extend(summarize(X, party="a", kernel=Linear(), rank=Auto(5), precision="float64")[1], 1e9 * X[:3])
    np.testing.assert_allclose(far[:, :5], exact.factor.decode()[:, :5], rtol=1e-6, atol=1e-6 * np.abs(far).max())


def test_partial_distances_in_compact_precision_keep_five_digits():
    distances = {}
    for precision in ("float64", COMPACT):
        _, state = summarize(X, party="a", kernel=KERNEL, rank=Auto(5), precision=precision, projection="exact")
        distances[precision] = extend(state, X[:9], exact=True).partial.decode()
    np.testing.assert_allclose(distances[COMPACT], distances["float64"], atol=1e-5 * distances["float64"].max())


@pytest.mark.parametrize("projection", ["extend", "exact"])
def test_the_estimator_in_compact_precision_agrees_with_float64(projection):
    parts = {"left": X[:, :6], "right": X[:, 6:]}
    models = {
        precision: DKPCA(3, rank=60, precision=precision, projection=projection).fit(parts)
        for precision in ("float64", COMPACT)
    }
    compact, exact = models[COMPACT], models["float64"]
    assert subspace_error(exact.eigenvectors_, compact.eigenvectors_) < 1e-8
    new = {"left": X[:20, :6] + 0.1, "right": X[:20, 6:] - 0.1}
    np.testing.assert_allclose(np.abs(compact.transform(new)), np.abs(exact.transform(new)), atol=1e-3)
    assert sum(e.bytes_sent for e in compact.ledger_) < sum(e.bytes_sent for e in exact.ledger_) / 2


def test_the_ledger_says_which_goal_decided():
    model = DKPCA(3, rank=[Auto(3), Budget(2500)], precision=COMPACT).fit({"a": X})
    assert model.ledger_[0].decided == "Budget(bytes=2500, precision='compact')"
    assert model.ledger_[0].bytes_sent <= 2500


@pytest.mark.longer
@settings(max_examples=10)
@given(st.integers(0, 1000), st.sampled_from([Auto(3), Error(0.1), Budget(4000)]))
def test_the_certificate_holds_in_compact_precision(seed, rule):
    table = np.random.default_rng(seed).standard_normal((80, 6))
    parts = {"a": table[:, :3], "b": table[:, 3:]}
    model = DKPCA(3, gamma=0.1, rank=rule, precision=COMPACT).fit(parts)
    whole = DKPCA(3, gamma=0.1, rank=80, precision="float64").fit({"all": table})
    certificate = model.certificate_
    assert subspace_error(whole.eigenvectors_, model.eigenvectors_) <= certificate.subspace_error_at_most
    below, above = np.array(certificate.eigenvalues_at_least), np.array(certificate.eigenvalues_at_most)
    assert (below <= whole.eigenvalues_ + 1e-9).all()
    assert (whole.eigenvalues_ <= above + 1e-9).all()


def test_several_goals_are_saved_with_the_estimator(tmp_path):
    model = DKPCA(3, rank=[Auto(3), Budget(2500)], precision=COMPACT).fit({"a": X})
    model.save(tmp_path / "model")
    again = DKPCA.load(tmp_path / "model")
    assert again.rank == [Auto(3), Budget(2500)]
    assert again.ledger_ == model.ledger_
    np.testing.assert_array_equal(again.transform({"a": X[:4]}), model.transform({"a": X[:4]}))
