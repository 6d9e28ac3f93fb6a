"""Batches of new samples: none smaller than the plan says, none with a sample that was answered before."""

import contextlib
import os
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dkpca import wire
from dkpca.errors import InputError
from dkpca.exchange import founding, own_table, protocols
from dkpca.exchange.member import RefusedError, WaitingError
from dkpca.exchange.replay import batches_in
from dkpca.exchange.sealed import Part
from dkpca.messages import MaskedSum
from dkpca.party import answers, summaries
from dkpca.party import questions as q
from dkpca.party.answers import Party
from dkpca.party.limits import Limits
from testkit.studies import ANYTHING, Consortium
from tests.study.test_a_study import MODES, tables


@pytest.fixture(scope="module")
def fitted_once(tmp_path_factory):
    root = tmp_path_factory.mktemp("fitted")
    consortium = Consortium(root, tables(30), MODES["blind"], samples=10, batches=2, batch_samples=5)
    consortium.join(**ANYTHING).sign().finish()
    return consortium


@pytest.fixture
def fitted(fitted_once, tmp_path):
    return fitted_once.copy(tmp_path)


@pytest.mark.parametrize(
    ("name", "writing"),
    [
        ("1.csv", lambda frame, path: frame.to_csv(path, index=False)),
        ("1.parquet", lambda frame, path: frame.to_parquet(path)),
        ("1.xlsx", lambda frame, path: frame.to_excel(path, index=False)),
    ],
)
def test_a_batch_may_come_in_another_format_than_the_table(name, writing, tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["x", "y"])
    frame.insert(0, "id", [f"s{row}" for row in range(30)])
    frame.to_csv(tmp_path / "table.csv", index=False)
    own_table.describe(tmp_path, tmp_path / "table.csv", "id", "lab", by_ids=True)
    new = frame.assign(id=[f"n{row}" for row in range(30)])
    (tmp_path / "new").mkdir()
    writing(new, tmp_path / "new" / name)
    found = batches_in(tmp_path / "new", own_table.load(tmp_path, "quantities"), 1)[0]["batch-1"]
    assert found.ids == new["id"].to_list()
    assert np.allclose(found.X, new[["x", "y"]], rtol=1e-14)
    (tmp_path / "new/1.txt").write_text("id,x,y\n")
    with pytest.raises(InputError, match=r"1\..* and 1\..* are both batch 1; keep one"):
        batches_in(tmp_path / "new", own_table.load(tmp_path, "quantities"), 1)


def test_a_batch_that_waits_for_one_before_it_or_is_one_too_many_is_named(fitted, tmp_path):
    put(fitted, tmp_path, 2, {"airline": [f"n{i}" for i in range(6)]})
    (tmp_path / "airline/new/neu.csv").write_text("id\n")
    (tmp_path / "airline/new/.DS_Store").write_text("")
    proved, counts, unread = fitted.run("airline")["notes"]
    assert proved.startswith("Proved: at least ")
    assert counts == "30 of your 30 samples are in all tables"
    named = "name the next batch 1.csv, or 1 with the suffix of another format (batches = 2 in the plan)"
    assert unread == f"{tmp_path / 'airline/new'}: not read: 2.csv, neu.csv; {named}"
    (tmp_path / "airline/limits.toml").write_text(Limits(**ANYTHING | {"batches": 0}).to_toml())
    put(fitted, tmp_path, 1, {"airline": [f"m{i}" for i in range(6)]})
    assert fitted.run("airline")["notes"][-1].endswith("1.csv, 2.csv, neu.csv; batches = 0 in limits.toml")
    assert not list((tmp_path / "shared").glob("airline/batch*"))


def test_a_run_says_how_many_samples_all_tables_have_and_where_new_ones_are(tmp_path):
    given, ids = tables(30), [f"n{i}" for i in range(6)]
    given["airline"] = ([*given["airline"][0][:24], *(f"other{i}" for i in range(6))], given["airline"][1])
    about: dict[str, Any] = {"samples": 10, "batches": 1, "batch_samples": 4, "align": "tokens"}
    study = Consortium(tmp_path, given, MODES["open"], **about).join(**ANYTHING).sign()
    study.finish()
    put(study, tmp_path, 1, {"airline": ids, "registry": ids[1:], "weather": ids})
    study.finish()
    put(study, tmp_path, 2, {"airline": ids})
    notes = study.run("airline")["notes"]
    assert "24 of your 30 samples are in all tables" in notes
    assert f"5 of your 6 new samples are placed: {tmp_path / 'airline/result/batch-1'}" in notes
    assert f"{tmp_path / 'airline/new'}: not read: 2.csv; batches = 1 in the plan" in notes
    assert f"5 new samples are placed: {tmp_path / 'center/result/batch-1'}" in study.run("center")["notes"]


def put(consortium, tmp_path, batch, ids_by_party):
    """Write a batch of each party, of rows that are not in the fit."""
    new = tables(60)
    for name, ids in ids_by_party.items():
        head = (tmp_path / f"{name}.csv").read_text().splitlines()[0]
        rows = new[name][1][30 : 30 + len(ids)].tolist()
        lines = [f"{key},{','.join(map(repr, row))}" for key, row in zip(ids, rows, strict=True)]
        (tmp_path / name / "new").mkdir(exist_ok=True)
        (tmp_path / name / f"new/{batch}.csv").write_text("\n".join([head, *lines]) + "\n")


def test_a_batch_that_cannot_be_read_does_not_hold_up_the_fit(tmp_path):
    study = Consortium(tmp_path, tables(30), MODES["open"], samples=10, batches=1, batch_samples=5)
    study.join(**ANYTHING).sign()
    put(study, tmp_path, 1, {"airline": ["n0", "n0", "n1", "n2", "n3"]})
    with pytest.raises(InputError, match=r"1\.csv.*'n0'"):
        study.finish()
    assert len(study.embedding("airline")[0]) == 30


@pytest.mark.longer
def test_a_sample_is_placed_once_and_a_small_batch_not_at_all(fitted, tmp_path):
    put(fitted, tmp_path, 1, {"airline": ["n0", "n1", "n2"]})
    with pytest.raises(InputError, match="batch-1 has 3 samples; the plan asks for at least 5"):
        fitted.run("airline")
    put(fitted, tmp_path, 1, {"airline": ["n0", "n1", "n2", "n3", "s7"]})
    with pytest.raises(InputError, match="batch-1: 1 of its samples were placed before"):
        fitted.run("airline")
    put(fitted, tmp_path, 1, {name: [f"n{i}" for i in range(6)] for name in fitted.names})
    fitted.finish()
    put(fitted, tmp_path, 2, {"airline": [f"n{i}" for i in range(5, 12)]})
    with pytest.raises(InputError, match="batch-2: 1 of its samples were placed before"):
        fitted.run("airline")


@pytest.mark.longer
def test_scores_of_new_samples_of_a_blind_study_have_the_signs_of_the_fit(fitted, tmp_path):
    old = tables(30)
    for name, (_, X) in old.items():
        head = (tmp_path / f"{name}.csv").read_text().splitlines()[0]
        lines = [f"n{row},{','.join(map(repr, values))}" for row, values in enumerate(X.tolist())]
        (tmp_path / name / "new").mkdir()
        (tmp_path / name / "new/1.csv").write_text("\n".join([head, *lines]) + "\n")
    fitted.finish()
    before, after = fitted.embedding("airline"), fitted.embedding("airline", "batch-1")
    of_fit = dict(zip(before[0], before[1], strict=True))
    same = np.array([of_fit[f"s{name.removeprefix('n')}"] for name in after[0]])
    np.testing.assert_allclose(after[1], same, atol=1e-6)


@pytest.mark.longer
def test_a_batch_of_which_few_samples_are_common_ends_there(fitted, tmp_path):
    own = {name: ["n0", "n1", *(f"{name}{i}" for i in range(6))] for name in fitted.names}
    put(fitted, tmp_path, 1, own)
    with pytest.raises(RefusedError, match="too few samples are common"):
        fitted.finish()
    assert not list((tmp_path / "shared").glob("*/*sums*"))


@pytest.mark.longer
def test_tokens_of_a_batch_are_linked_with_no_row_of_the_fit(tmp_path):
    """The center saw which new samples of one party are in another party's table, though in no fit."""
    given, ids = tables(30), [f"n{i}" for i in range(6)]
    given["airline"] = ([*given["airline"][0][:25], *ids[:5]], given["airline"][1])
    about: dict[str, Any] = {"samples": 10, "batches": 1, "batch_samples": 5, "align": "tokens"}
    study = Consortium(tmp_path, given, MODES["open"], **about).join(**ANYTHING).sign()
    study.finish()
    put(study, tmp_path, 1, {name: ids if name != "airline" else [f"m{i}" for i in range(6)] for name in study.names})
    for name in study.names * 2:
        with contextlib.suppress(WaitingError):
            study.run(name)
    with pytest.raises(RefusedError):  # no sample of the batch is common
        study.run("center")

    def entries(step):
        (path,) = tmp_path.glob(f"center/studies/*/opened/{step}.center")
        sent: Any = wire.decode(path.read_bytes())
        return set(sent.entries())

    fit, batch = entries("airline.tokens"), entries("weather.batch-1.tokens")
    assert len(fit & entries("weather.tokens")) == 25
    assert len(batch & entries("registry.batch-1.tokens")) == 6
    assert not fit & batch


@pytest.mark.longer
@pytest.mark.parametrize("change", ["other numbers", "another half", "no file"])
def test_a_batch_is_what_its_file_was_when_the_first_message_left(change, fitted, tmp_path):
    """A file that was read while it was still being copied took the batch from everybody."""
    put(fitted, tmp_path, 1, {name: [f"n{i}" for i in range(6)] for name in fitted.names})
    with pytest.raises(WaitingError):
        fitted.run("airline")
    path, notes = tmp_path / "airline/new/1.csv", []
    whole = path.read_text()
    path.unlink()
    if change != "no file":
        path.write_text(whole.replace("n0,", "n0,1") if change == "other numbers" else whole + '"n6')
        (kept,) = tmp_path.glob("airline/studies/*/table/batch-1/numbers.npy")
        os.utime(path, ns=(kept.stat().st_mtime_ns + 10**9,) * 2)
        notes = [f"{path} changed since its first message left; the study uses what it was"]
    fitted.finish()
    assert [note for note in fitted.run("airline")["notes"] if "changed" in note] == notes
    names, scores = fitted.embedding("airline", "batch-1")
    assert sorted(names) == [f"n{i}" for i in range(6)]
    np.testing.assert_array_equal(scores, fitted.embedding("registry", "batch-1")[1])


def on_another_machine(monkeypatch):
    """There the last digits would be others: none may be computed again."""

    def again(*_, **__):
        raise AssertionError("computed again")

    for module, name in ((summaries, "summarize"), (answers, "measured_for"), (protocols, "fused_by")):
        monkeypatch.setattr(module, name, again)


@pytest.mark.longer
@pytest.mark.parametrize("mode", ["open", "blind", "sums"])
def test_a_batch_takes_nothing_of_the_fit_that_is_computed_again(mode, tmp_path, monkeypatch):
    study = Consortium(tmp_path, tables(30), MODES[mode], samples=10, batches=1, batch_samples=5)
    study.join(**ANYTHING).sign().finish()
    model = (tmp_path / "center/result/model.safetensors").read_bytes()
    (tmp_path / "center/result/model.safetensors").write_bytes(b"somebody looked at it")
    put(study, tmp_path, 1, {name: [f"n{i}" for i in range(6)] for name in study.names})
    on_another_machine(monkeypatch)
    study.finish()
    assert len(study.embedding("airline", "batch-1")[0]) == 6
    assert (tmp_path / "center/result/model.safetensors").read_bytes() == model
    study.close()
    assert not [*tmp_path.glob("*/studies/*/table"), *tmp_path.glob("*/studies/*/opened")]  # where they were kept


@pytest.mark.longer
def test_an_audit_is_of_the_summary_that_was_sent(tmp_path, monkeypatch):
    study = Consortium(tmp_path, tables(30), MODES["open"] | {"audit": 3}, samples=10).join(**ANYTHING).sign()
    while len([*tmp_path.glob("shared/*/summary")]) < len(study.names):
        for name in (*study.names, "center"):
            with contextlib.suppress(WaitingError):
                study.run(name)
    fused = protocols.fused_by
    on_another_machine(monkeypatch)
    monkeypatch.setattr(protocols, "fused_by", fused)  # the center has not fused yet
    study.finish()


@pytest.mark.longer
def test_a_batch_is_of_the_result_that_was_told_where_the_center_was_killed_before_it_kept_the_model(
    fitted, tmp_path, monkeypatch
):
    (tmp_path / "center/studies" / fitted.plan.id / "opened/model").unlink(missing_ok=True)
    honest: Any = protocols.published
    monkeypatch.setattr(protocols, "published", lambda *about: replace(honest(*about), captured_share_at_least=0.0))
    put(fitted, tmp_path, 1, {name: [f"n{i}" for i in range(6)] for name in fitted.names})
    fitted.finish()
    assert len(fitted.embedding("airline", "batch-1")[0]) == 6


@pytest.mark.longer
def test_a_study_of_a_version_that_kept_no_state_goes_on(fitted, tmp_path):
    for kept in ("state", "summary"):
        for path in tmp_path.glob(f"*/studies/*/table/{kept}"):
            path.unlink()
    put(fitted, tmp_path, 1, {name: [f"n{i}" for i in range(6)] for name in fitted.names})
    fitted.finish()
    assert len(fitted.embedding("airline", "batch-1")[0]) == 6


def test_a_weight_too_large_to_be_squared_is_refused(weighed_once, tmp_path):
    weighed = weighed_once.copy(tmp_path)
    center = weighed.at("center", founding.seat)
    told: Any = q.decode(center.memory.kept("asked/result.airline") or b"")
    (opened,) = tmp_path.glob("airline/studies/*/opened/center.result.airline")
    opened.write_bytes(q.encode(replace(told, weight=1e300)))
    with pytest.raises(RefusedError, match="airline refused at step 'result': .* not in the plan"):
        weighed.run("airline")


@pytest.fixture(scope="module")
def weighed_once(tmp_path_factory):
    fit = MODES["blind"] | {"weights": "balanced"}
    root = tmp_path_factory.mktemp("weighed")
    consortium = Consortium(root, tables(30), fit, samples=10, batches=1, batch_samples=5).join(**ANYTHING)
    consortium.sign().finish()
    put(consortium, root, 1, {name: [f"n{i}" for i in range(6)] for name in consortium.names})
    return consortium


class TestARestoredFolder:
    """Its owner's batch was answered, the folder's host hides that, and the numbers are others by now."""

    def masked(self, consortium):
        """What the center opens of the airline's masked shares."""
        (path,) = consortium.root.glob("center/studies/*/opened/airline.batch-1.sums-1.center")
        message = wire.decode(path.read_bytes())
        path.unlink()
        assert isinstance(message, MaskedSum)
        return message.values.view("<i8")

    def answered_again(self, consortium, change):
        """Masked numbers of the first time, and of a folder from before the batch after a change."""
        root = consortium.root
        shutil.copytree(root / "airline", root / "copy")
        consortium.finish()
        first = self.masked(consortium)
        shutil.rmtree(root / "airline")
        (root / "copy").rename(root / "airline")
        for hidden in root.glob("shared/airline/batch-1*"):
            hidden.unlink()
        change(consortium)
        for _ in range(6):
            with contextlib.suppress(WaitingError):
                consortium.run("airline")
        center = consortium.at("center", founding.seat)
        with contextlib.suppress(WaitingError):
            center.receive("airline", "batch-1.sums-1", "center", at_most=10**6, question=self.asked(center))
        return first, self.masked(consortium)

    def asked(self, center):
        return q.digest(q.decode(center.memory.kept("asked/batch-1.sums-1.all") or b""))

    def another_file(self, consortium):
        path = consortium.root / "airline/new/1.csv"
        path.write_text(path.read_text().replace("n0,", "n0,1"))

    def another_weight(self, consortium):
        """The center tells the restored party that its matrix was weighed otherwise."""
        center = consortium.at("center", founding.seat)
        told: Any = q.decode(center.memory.kept("asked/result.airline") or b"")
        other = q.encode(replace(told, weight=0.5 * told.weight))
        for path in (center.memory.path / "sent/result", consortium.root / "shared/center/result"):
            path.unlink()
        for opened in consortium.root.glob("airline/studies/*/opened/center.result.*"):
            opened.unlink()
        replace(center).send("result", [Part("airline", ("airline",), [other])], kind="question")

    @pytest.mark.longer
    @pytest.mark.parametrize("change", ["another_file", "another_weight"])
    @pytest.mark.parametrize("careless", [False, True])
    def test_adds_no_other_numbers_under_the_same_masks(self, change, careless, weighed_once, tmp_path, monkeypatch):
        """The careless twin: seeds that do not follow from the batch. The masks cancel in the difference."""
        if careless:
            monkeypatch.setattr(Party, "secret_of", lambda self, batch: self.secret)
        first, again = self.answered_again(weighed_once.copy(tmp_path), getattr(self, change))
        difference = again - first
        assert np.any(difference)
        small = np.mean(np.abs(difference.astype(float)) < 2.0**54)  # as differences of shares are, of 64 bits
        assert small == 1.0 if careless else small < 0.1
