"""What a party lets be recovered from its message: as a goal, and as its limits."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import dkpca
from dkpca.errors import InputError, PolicyError
from dkpca.kernels import RBF, Linear
from dkpca.party import candidates
from dkpca.party.limits import ANYTHING
from dkpca.party.recovery import measure
from dkpca.rank import Fixed, Recovery

TUMORS = load_breast_cancer().data[:120, :10]
TUMORS = (TUMORS - TUMORS.mean(axis=0)) / TUMORS.std(axis=0)
KERNEL = RBF(1 / 30)


def summarized(**settings):
    return dkpca.summarize(TUMORS, party="clinic", kernel=KERNEL, **settings)


@pytest.mark.longer
@pytest.mark.parametrize(("precision", "most"), [("float32", 0.7), ("float16", 0.7), ("compact", 0.95)])
def test_a_message_within_the_limit_is_found_and_a_finer_one_is_beyond_it(precision, most):
    goals = dkpca.rank.All((Fixed(23), Recovery(at_most=most)))
    summary, state = summarized(rank=goals, precision=precision)
    assert measure(summary, TUMORS).worst <= most
    assert summary.rank < 23
    assert "Recovery" in state.decided
    finer, _ = summarized(rank=summary.rank + 3, precision=precision)
    assert measure(finer, TUMORS).worst > most


def test_most_of_the_search_for_a_rank_attacks_few_rows(monkeypatch):
    tried = []

    def counted(summary, X, *, known_rows, roughly):
        tried.append((summary.rank, roughly))
        return measure(summary, X, known_rows=known_rows, roughly=roughly)

    monkeypatch.setattr(candidates, "measure", counted)
    table = np.random.default_rng(0).standard_normal((400, 24))
    summary, _ = dkpca.summarize(table, party="clinic", kernel=Linear(), rank=Recovery(0.5))
    assert 1 < summary.rank < 24
    assert (summary.rank, False) in tried
    assert len([rank for rank, roughly in tried if not roughly]) <= 4
    assert max(rank for rank, _ in tried) <= 24
    assert (
        measure(summary, table).worst
        <= 0.5
        < measure(dkpca.summarize(table, party="clinic", kernel=Linear(), rank=summary.rank + 1)[0], table).worst
    )


@pytest.mark.longer
def test_the_estimator_takes_the_goal():
    model = dkpca.DKPCA(2, parties=2, rank=[Fixed(20), Recovery(0.7)], gamma=1 / 30).fit(TUMORS)
    assert all(entry.rank < 20 for entry in model.ledger_)


def test_a_goal_that_changes_nothing_is_not_named():
    summary, state = summarized(rank=dkpca.rank.All((Fixed(2), Recovery(at_most=0.99))))
    assert summary.rank == 2
    assert state.decided == "Fixed(rank=2)"


@pytest.mark.longer
def test_a_goal_that_no_message_meets_is_refused():
    with pytest.raises(InputError, match=r"Recovery\(at_most=0.1, known_rows=30\) cannot be met in float32"):
        summarized(rank=Recovery(at_most=0.1))


@pytest.mark.parametrize("settings", [{"at_most": 0.0}, {"at_most": 1.5}, {"at_most": 0.5, "known_rows": 0}])
def test_a_limit_that_is_none_is_refused(settings):
    with pytest.raises(InputError, match=r"(at_most|known_rows) is .*; give a (share|whole number)"):
        Recovery(**settings)


def limited(recovery, **others):
    return replace(ANYTHING, recovery=recovery, **others)


@pytest.mark.longer
def test_limits_lower_the_rank_until_they_hold():
    summary, state = summarized(rank=23, limits=limited(0.7))
    assert summary.rank < 23
    assert state.recovery.worst <= 0.7
    assert measure(summary, TUMORS).worst == pytest.approx(state.recovery.worst, abs=1e-6)


def test_limits_that_no_message_meets_refuse_instead_of_sending_less():
    with pytest.raises(PolicyError, match="recovers a column from rank 1 with"):
        summarized(rank=23, limits=limited(0.1))


@pytest.mark.longer
def test_limits_count_more_known_rows_as_more_danger():
    """A column that follows from the one direction sent, but not by a line: three rows do not show how."""
    random = np.random.default_rng(0)
    t = random.uniform(-1.0, 1.0, size=(300, 1))
    X = np.hstack([t + random.normal(size=(300, 200)), 0.01 * np.sin(5.0 * t)])

    def sent(**limits):
        return dkpca.summarize(X, party="clinic", kernel=Linear(), rank=1, limits=limited(0.6, **limits))[0]

    assert sent(known_rows=3).rank == 1
    with pytest.raises(PolicyError, match=r"who knows 30 rows recovers a column from rank 1 with R² 0\.8"):
        sent()


@pytest.mark.longer
def test_limits_of_rank_and_recovery_hold_together():
    assert summarized(rank=dkpca.rank.Auto(10), limits=limited(0.9, rank=3))[0].rank <= 3


def test_the_linear_kernel_of_few_columns_is_limited_too():
    X = np.random.default_rng(0).normal(size=(300, 8))
    summary, state = dkpca.summarize(X, party="clinic", kernel=Linear(), rank=8, limits=limited(0.9))
    assert 1 < summary.rank < 8
    assert state.recovery.worst <= 0.9


def test_nothing_is_measured_where_nobody_asked():
    assert summarized(rank=5)[1].recovery is None


@pytest.mark.longer
def test_what_was_measured_is_kept_with_the_private_state_and_not_in_the_message(tmp_path):
    summary, state = summarized(rank=23, limits=limited(0.9))
    dkpca.save(tmp_path / "clinic.state", state)
    assert dkpca.load(tmp_path / "clinic.state").recovery == state.recovery
    assert b"recover" not in dkpca.wire.encode(summary)
    assert np.isfinite(state.recovery.worst)
