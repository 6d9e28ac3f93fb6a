"""Every parameter of `DKPCA` in every mode: it changes something that can be seen, or is refused in a sentence."""

import functools
import threading
from dataclasses import dataclass, field
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest

from dkpca import DKPCA
from dkpca.errors import DKPCAError, InputError, TooLateError
from dkpca.exchange import in_process

pytestmark = [
    pytest.mark.filterwarnings("ignore::dkpca.errors.DataWarning"),  # the tables are small
]

MODES: dict[str, dict[str, Any]] = {
    "open": {},
    "sums": {"protect": "sums"},
    "blind": {"protect": "blind", "law": "sum"},
    "device": {"device": "cpu", "solver": "landmark", "n_landmarks": 30},
}
EACH = [pytest.param(mode, marks=[pytest.mark.torch] if mode == "device" else []) for mode in MODES]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) @ RNG.normal(size=(3, 8)) + 0.1 * RNG.normal(size=(60, 8))
TABLES = {"a": X[:, :4], "b": X[:, 4:]}
NEW = {name: table[:5] + 0.1 for name, table in TABLES.items()}


@dataclass(frozen=True)
class Case:
    """A parameter, a value that is not its default, and where it is refused."""

    value: Any
    refused: dict[str, str] = field(default_factory=dict)  # by mode: words; "" where the mode is this very value
    beside: dict[str, Any] = field(default_factory=dict)  # settings without which it has no meaning


SUMS_HIDE, NO_ROWS = {"sums": "it uses the whole sum"}, "makes every party send true, unprotected rows"
ONE_KERNEL = {"sums": "takes one kernel for all parties, without weights"}
ALONE = "is for fits with protect='none'"
CASES = {
    "n_components": Case(3),
    "kernel": Case("linear"),
    "law": Case("sum", {"sums": "by its own law; leave law=None", "blind": ""}),
    "gamma": Case(0.02),
    "weights": Case({"a": 1.0, "b": 3.0}, ONE_KERNEL),
    "degree": Case(2, {"blind": "needs the length of every sample"}, {"kernel": "poly"}),
    "coef0": Case(3.0, {"blind": "needs the length of every sample"}, {"kernel": "poly"}),
    "parties": Case(4),
    "rank": Case(2, SUMS_HIDE),
    "center": Case(False, {"blind": "use center=True"}),
    "solver": Case("streamed", {"device": ""}),
    "n_landmarks": Case(9, beside={"solver": "landmark"}),
    "precision": Case("float16", {"sums": "adds numbers of precision"}),
    "protect": Case("none", {"open": "", "device": ""}),
    "projection": Case("exact", {"sums": "in its own way", "blind": "in its own way"}, {"rank": 3}),
    "audit": Case(5, {"sums": NO_ROWS, "blind": NO_ROWS}),
    "standardize": Case(True),
    "random_state": Case(7, beside={"solver": "landmark", "n_landmarks": 9}),
    "device": Case("cpu", {"sums": ALONE, "blind": ALONE, "device": ""}, {"solver": "landmark", "n_landmarks": 9}),
    "max_memory": Case("100MB", {"sums": ALONE, "blind": ALONE, "open": "", "device": ""}),
}
ELSEWHERE = {"n_jobs", "timeout", "lacking"}  # seen by where, when and about what the parties are asked, below


def seen(settings):
    """All that a fit shows, and what new samples show."""
    given = X if settings.get("parties") else TABLES
    model = DKPCA(**({"n_components": 2, "gamma": 0.05} | settings)).fit(given)
    new = X[:5] + 0.1 if settings.get("parties") else NEW
    scores = model.transform(new)
    try:
        without = model.transform({"a": NEW["a"]}).tolist()
    except DKPCAError as error:
        without = str(error)
    shown = [model.eigenvalues_.tolist(), scores.tolist(), without, model.certificate_, model.ledger_]
    return [*map(str, shown), str(model.solvers_)]


@functools.cache
def seen_before(mode, *beside):
    """The same of a mode, without the parameter; made once for all that have the same settings beside them."""
    return seen(MODES[mode] | dict(beside))


def test_every_parameter_is_looked_at():
    assert set(CASES) | ELSEWHERE == set(DKPCA().get_params())


def asked():
    """Parameters and modes; torch where a device is one of them."""
    for name, case in CASES.items():
        for mode in MODES:
            if case.refused.get(mode) != "":
                on_device = "device" in (name, mode) and mode not in case.refused
                marks = [pytest.mark.torch] if on_device else []
                yield pytest.param(name, mode, marks=marks if mode == "open" else [*marks, pytest.mark.longer])


@pytest.mark.parametrize(("name", "mode"), list(asked()))
def test_a_parameter_is_used_or_refused(name, mode):
    case = CASES[name]
    words = case.refused.get(mode)
    changed = MODES[mode] | case.beside | {name: case.value}
    if words is not None:
        with pytest.raises(InputError, match=words):
            seen(changed)
    else:
        assert seen(changed) != seen_before(mode, *case.beside.items())


@pytest.fixture
def before_answers(monkeypatch):
    """What every party does in its worker before it answers: a list of functions without arguments."""
    hooks, answer = list[Any](), in_process.answer

    def answered(party, question):
        for hook in hooks:
            hook()
        return answer(party, question)

    monkeypatch.setattr(in_process, "answer", answered)
    return hooks


@pytest.mark.parametrize("mode", ["open", "sums", "blind"])
class TestWhereAndWhen:
    def test_jobs_are_spread_over_workers_at_fit_and_transform(self, mode, before_answers):
        model = DKPCA(2, gamma=0.05, n_jobs=2, **MODES[mode])
        fitted, placed = set[int](), set[int]()
        with joblib.parallel_config("threading"):
            for threads, work in ((fitted, lambda: model.fit(TABLES)), (placed, lambda: model.transform(NEW))):
                before_answers[:] = [lambda threads=threads: threads.add(threading.get_ident())]
                work()
        assert fitted - {threading.get_ident()}
        assert placed - {threading.get_ident()}

    def test_an_answer_that_is_too_late_is_not_waited_for(self, mode, before_answers):
        late, here = threading.Event(), threading.get_ident()
        before_answers.append(lambda: threading.get_ident() == here or late.wait(30))
        model = DKPCA(2, gamma=0.05, n_jobs=2, timeout=0.01, **MODES[mode])
        try:
            with joblib.parallel_config("threading"), pytest.raises(TooLateError, match="no answer within 0.01 s"):
                model.fit(TABLES)
        finally:
            late.set()


@pytest.mark.longer
def test_a_solver_keeps_to_the_memory_that_is_allowed():
    tables = {name: RNG.normal(size=(2_400, 4)) for name in "ab"}  # dense takes 138 MB
    used = [DKPCA(1, gamma=0.05, rank=2, max_memory=most).fit(tables).solvers_["a"] for most in ("100MB", "8GB")]
    assert [words.partition(" ")[0] for words in used] == ["streamed:", "dense"]


@pytest.mark.longer
@pytest.mark.parametrize("mode", EACH)
def test_samples_that_a_party_lacks_are_treated_as_asked_or_refused(mode):
    whole = pd.DataFrame(X, index=[f"p{i}" for i in range(60)], columns=[f"c{j}" for j in range(8)])
    tables = {"a": whole.iloc[:, :3], "b": whole.iloc[:50, 3:6], "c": whole.iloc[:, 6:]}
    with pytest.raises(InputError, match="have different samples"):
        DKPCA(2, gamma=0.05, **MODES[mode]).fit(tables)
    assert len(DKPCA(2, gamma=0.05, lacking="drop", **MODES[mode]).fit(tables).sample_ids_) == 50
    for way in ("mean", "complete"):
        model = DKPCA(2, gamma=0.05, lacking=way, **MODES[mode])
        protect = MODES[mode].get("protect")
        if protect:  # which hides only what all have
            with pytest.raises(InputError, match="lacking='drop'|or 'drop'"):
                model.fit(tables)
        else:
            assert len(model.fit(tables).sample_ids_) == 60


class TestTransform:
    @pytest.mark.torch
    def test_new_samples_are_compared_on_the_device_that_is_asked_for(self):
        model = DKPCA(2, gamma=0.05).fit(TABLES)
        expected = model.transform(NEW)
        with pytest.raises(InputError, match="device 'nowhere' cannot be computed on"):
            model.set_params(device="nowhere").transform(NEW)
        assert np.allclose(model.set_params(device="cpu").transform(NEW), expected, atol=1e-9)

    def test_memory_that_cannot_be_is_refused(self):
        model = DKPCA(2, gamma=0.05).fit(TABLES)
        with pytest.raises(InputError, match="too little memory"):
            model.set_params(max_memory="1MB").transform(NEW)
        assert np.array_equal(
            model.set_params(max_memory="200MB").transform(NEW), model.set_params(max_memory=None).transform(NEW)
        )
