"""Studies from the plan to the result, equal to the same fit in one process."""

import contextlib
import datetime
import json
import os
import re
import shutil
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from dkpca import wire
from dkpca.errors import InputError
from dkpca.exchange import founding, in_process, own_table, protocols, replay, study
from dkpca.exchange import plan as plans
from dkpca.exchange import review as reviews
from dkpca.exchange.folder import Folder
from dkpca.exchange.member import RefusedError, WaitingError
from dkpca.exchange.review import Finding
from dkpca.party.answers import Party
from dkpca.party.limits import Limits
from dkpca.settings import Compute
from dkpca.store import runs
from dkpca.wording import in_percent
from testkit.program import in_process as command
from testkit.studies import ANYTHING, FAR, Consortium

WIDTHS = {"airline": 5, "registry": 4, "weather": 6}


def tables(n=60, *, shared=True, seed=0):
    """Tables of three parties; without `shared`, each lacks some samples and has them in another order."""
    random = np.random.default_rng(seed)
    base = random.normal(size=(n, 3))
    made = {}
    for name, width in WIDTHS.items():
        X = base @ random.normal(size=(3, width)) + 0.5 * random.normal(size=(n, width))
        rows = np.arange(n) if shared else random.permutation(n)[: n - 4]
        made[name] = ([f"s{row}" for row in rows], X[rows])
    return made


MODES: dict[str, dict[str, Any]] = {
    "open": {"gamma": "scale", "standardize": True, "n_components": 3},
    "open, gamma from statistics": {"gamma": "scale", "n_components": 3, "kernel": "rbf"},
    "open, kernels by party": {
        "gamma": {"airline": 0.1, "weather": 0.2},
        "kernel": {"airline": "rbf", "registry": "linear", "weather": "laplacian"},
        "law": "sum",
        "n_components": 3,
    },
    "sums": {"gamma": "scale", "standardize": True, "protect": "sums", "n_components": 3},
    "sums, bounds from data": {"gamma": 0.05, "protect": "sums", "n_components": 3},
    "blind": {"gamma": "scale", "standardize": True, "protect": "blind", "law": "sum", "n_components": 3},
    "blind, gamma from a masked sum": {"gamma": "scale", "protect": "blind", "law": "sum", "n_components": 3},
}


def _table(X, columns_are):
    return X


def in_one_process(consortium):
    """The same protocol with the same secrets, in this process."""
    name = consortium.center
    member = consortium.at(name, founding.seat)
    run, parties = member.study.agreement, {}
    for each in consortium.names:
        kept = consortium.memory(each).study(consortium.plan.id)
        me, frozen = kept.secrets(), own_table.frozen(kept)
        parties[each] = Party(
            each,
            partial(_table, frozen.X),
            consortium.names,
            run,
            me.derive("party", run),
            coin=me.derive("nonce", "second"),
            ids=frozen.keys,
        )
    model, _ = in_process.drive(
        protocols.fit(consortium.names, consortium.fit, replay.terms_of(member)), parties, Compute()
    )
    return model


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The study of a mode, which nobody changes."""

    @cache
    def of(mode):
        root = tmp_path_factory.mktemp("study")
        consortium = Consortium(root, tables(), MODES[mode], align="position", samples=10).join(**ANYTHING).sign()
        consortium.finish()
        return consortium

    return of


SLOW = pytest.mark.slow
EVERY_PROTECTION = ["open", pytest.param("sums", marks=SLOW), pytest.param("blind", marks=SLOW)]
EVERY_MODE = [
    mode if mode == "open" else pytest.param(mode, marks=SLOW if "," in mode else pytest.mark.longer)
    for mode in MODES
]


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_a_study_is_the_fit_in_one_process_bit_for_bit(mode, finished):
    consortium = finished(mode)
    model = in_one_process(consortium)
    _, center = consortium.embedding("center")
    assert np.array_equal(center, np.asarray(model.scores))
    found = [consortium.embedding(name) for name in consortium.names]
    for ids, scores in found:
        assert ids == [f"s{row}" for row in range(60)]
        assert np.array_equal(scores, found[0][1])
    if consortium.fit.protect != "blind":
        assert np.array_equal(found[0][1], center)


@pytest.mark.parametrize("mode", ["open", "sums", "blind"])
def test_a_study_is_the_estimator_on_the_same_tables(mode, finished):
    from dkpca import DKPCA, subspace_error

    given, consortium = tables(), finished(mode)
    model = DKPCA(**MODES[mode]).fit({name: X for name, (_, X) in given.items()})
    _, scores = consortium.embedding("airline")
    if mode == "open":
        assert np.array_equal(scores, model.fit_transform({name: X for name, (_, X) in given.items()}))
    orthonormal = scores / np.linalg.norm(scores, axis=0)
    assert subspace_error(model.eigenvectors_, orthonormal) < 1e-9


@pytest.mark.longer
@pytest.mark.parametrize("mode", [*EVERY_PROTECTION, pytest.param("open, kernels by party", marks=SLOW)])
def test_a_result_says_with_which_settings_and_kernels_it_was_made(mode, finished):
    consortium = finished(mode)
    model = in_one_process(consortium)
    found = []
    planned = {key: value for key, value in consortium.plan.fit.items() if key not in ("kernel", "law")}
    law = {"none": "product"}.get(consortium.plan.fit["law"], consortium.plan.fit["law"])  # what rbf implies
    for name in (*consortium.names, "center"):
        folder = consortium.root / name / "result"
        said = json.loads((folder / "settings.json").read_text())
        assert {key: said[key] for key in planned} == planned
        assert said["law"] == law
        assert (said["n_samples"], said["n_components"], said["columns"]) == (60, 3, WIDTHS)
        gammas = {kernel.get("gamma") for kernel in said["kernel"].values()}
        if mode != "blind":  # where the center's model has no kernel
            assert gammas == {getattr(kernel, "gamma", None) for kernel in model.kernels.values()}
        found.append(gammas)
        command("report", folder, cwd=consortium.root)
        page = (folder / "report.html").read_text()
        assert all(str(gamma) in page for gamma in gammas if gamma)
    assert all(gammas == found[0] and any(gammas) for gammas in found)


def test_a_result_of_a_study_is_not_a_run_to_fuse_into(finished):
    folder = finished("open").root / "airline/result"
    with pytest.raises(InputError, match="not a run"):
        runs.check(folder)
    with pytest.raises(InputError, match="not a run"):
        runs.load(folder)


@pytest.mark.parametrize("wrong", [{"kernel": {"<b>": 3}}, {"columns": ["<b>"]}, {"n_samples": "<b>"}, {"<b>": 3}])
def test_a_report_shows_settings_as_text(wrong, finished, tmp_path):
    shutil.copytree(finished("open").root / "airline/result", tmp_path / "result")
    file = tmp_path / "result/settings.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | wrong))
    command("report", "result", cwd=tmp_path)
    page = (tmp_path / "result/report.html").read_text()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


@pytest.mark.longer
@pytest.mark.parametrize("mode", EVERY_PROTECTION)
def test_samples_are_matched_by_tokens(mode, tmp_path):
    given = tables(shared=False)
    consortium = Consortium(tmp_path, given, MODES[mode], samples=10).join(**ANYTHING).sign()
    consortium.finish()
    common = set.intersection(*(set(ids) for ids, _ in given.values()))
    found = {name: consortium.embedding(name) for name in consortium.names}
    for ids, scores in found.values():
        assert set(ids) == common
        assert ids == found["airline"][0]
        assert np.array_equal(scores, found["airline"][1])
    named, _ = consortium.embedding("center")
    assert not set(named) & common  # the center knows tokens, or numbers, and no id


@pytest.mark.longer
def test_an_audit_draws_rows_that_nobody_chose(tmp_path):
    fit = MODES["open"] | {"audit": 5}
    consortium = Consortium(tmp_path, tables(), fit, align="position", samples=10).join(**ANYTHING).sign()
    consortium.finish()
    certificate = json.loads((tmp_path / "center/result/certificate.json").read_text())
    assert certificate["audit"]


def put_new(root, tables):
    """Write a first batch of new samples: the rows of tables from the 61st on."""
    for name, (_, X) in tables.items():
        (root / name / "new").mkdir()
        head = (root / f"{name}.csv").read_text().splitlines()[0]
        lines = [f"n{i},{','.join(map(repr, row))}" for i, row in enumerate(X[60:].tolist())]
        (root / name / "new/1.csv").write_text("\n".join([head, *lines]) + "\n")


@pytest.mark.longer
@pytest.mark.parametrize("mode", EVERY_PROTECTION)
def test_batches_of_new_samples_are_placed(mode, tmp_path):
    given, new = tables(), tables(80)
    consortium = (
        Consortium(tmp_path, given, MODES[mode], samples=10, batches=2, batch_samples=5).join(**ANYTHING).sign()
    )
    consortium.finish()
    told = command("study", "run", consortium.url, "--as", tmp_path / "center", cwd=tmp_path).out.splitlines()
    assert told[-1] == "Run this again, or with --watch, when a party adds new samples (batches left: 2)."
    put_new(tmp_path, new)
    with pytest.raises(WaitingError, match="The result of the fit is ready. Waiting for"):
        consortium.run("airline")
    assert any("batch-1" in step for step in consortium.status()["waiting"])
    for name in (*consortium.names, *consortium.names):
        with pytest.raises(WaitingError):
            consortium.run(name)
    status = partial(command, "study", "status", consortium.url, cwd=tmp_path)
    assert consortium.status()["waiting"] == {"batch-1.result": ["center"]}
    assert "The result of the fit is ready. Waiting for center to run" in status().out
    with contextlib.suppress(WaitingError):
        consortium.run("center")
    consortium.finish()
    assert status().out.splitlines()[-1] == "The result is ready."
    assert consortium.status()["waiting"] == {}
    found = {name: consortium.embedding(name, "batch-1") for name in consortium.names}
    assert set(found["airline"][0]) == {f"n{i}" for i in range(20)}
    for ids, scores in found.values():
        assert ids == found["airline"][0]
        assert np.array_equal(scores, found["airline"][1])


@pytest.mark.longer
def test_bounds_of_gamma_are_for_one_that_follows_from_the_data(tmp_path):
    """Masked sums with one over the number of columns ended in a refusal, when all had been sent."""
    fit = {"gamma": None, "kernel": "rbf", "protect": "sums", "n_components": 2}
    consortium = Consortium(tmp_path, tables(30), fit, samples=10, gamma=(0.5, 1.0))
    consortium.join(**ANYTHING).sign().finish()
    assert json.loads((tmp_path / "center/result/settings.json").read_text())["kernel"]["airline"]["gamma"] == 1 / 15


@pytest.mark.longer
def test_whoever_is_not_to_get_the_result_does_not(tmp_path):
    consortium = (
        Consortium(tmp_path, tables(), MODES["open"], align="position", samples=10, result_to=("center", "airline"))
        .join(**ANYTHING)
        .sign()
    )
    consortium.finish()
    assert (tmp_path / "airline/result/embedding.csv").exists()
    assert not (tmp_path / "weather/result").exists()


@pytest.mark.longer
def test_waiting_says_for_whom(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"], samples=10).join(**ANYTHING).sign("airline", "center")
    with pytest.raises(WaitingError) as waiting:
        consortium.run("airline")
    first = waiting.value
    assert (first.step, first.members) == ("signature", ("registry", "weather"))
    assert str(first) == "Waiting for registry, weather to sign ('dkpca study review', then 'dkpca study sign')."
    for _ in range(2):
        assert consortium.status()["waiting"] == {"signature-1": ["registry", "weather"]}
        (tmp_path / "shared/weather").joinpath("refusal").write_bytes(b"of a stranger")
    assert "weather refused. (" in command("study", "status", consortium.url, cwd=tmp_path).out


@pytest.mark.longer
def test_a_review_after_signing_does_not_invite_to_sign(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"], samples=10).join(**ANYTHING)
    assert consortium.at("airline", study.review).words()[-1] == "GREEN: you may sign."
    consortium.sign("airline")
    assert consortium.at("airline", study.review).words()[-1] == "GREEN: you have signed."


def test_a_folder_that_is_not_there_is_not_waited_for(tmp_path):
    with pytest.raises(InputError, match="there is no such folder"):
        founding.status(Folder(str(tmp_path / "typo")))
    (tmp_path / "shared").mkdir()
    with pytest.raises(WaitingError):
        founding.status(Folder(str(tmp_path / "shared")))


def test_whoever_has_not_signed_is_told_to_and_waits_for_nobody(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"], samples=10).join(**ANYTHING)
    with pytest.raises(InputError, match="airline has not signed: run 'dkpca study review', then 'dkpca study sign'"):
        consortium.run("airline")


@pytest.mark.longer
def test_the_measure_at_go_takes_samples_in_the_order_of_the_review(tmp_path, monkeypatch):
    seen = []

    def worst(case):
        seen.append(list(case.table.keys))
        return {}, ()

    monkeypatch.setattr(reviews, "_worst", worst)
    consortium = Consortium(tmp_path, tables(), MODES["open"], samples=10)  # tokens put samples into another order
    consortium.join(**ANYTHING | {"recovery": 0.9}).sign().finish()
    whole = [keys for keys in seen if len(keys) == 60]
    assert len(whole) == 2 * len(consortium.names)  # a review and a go of each; and halves of the samples
    assert all(keys == sorted(keys, key=lambda key: int(key[1:])) for keys in seen)


@pytest.mark.longer
def test_a_table_with_other_columns_than_the_party_joined_with_is_measured_and_not_signed(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"], samples=10).join(**ANYTHING)
    with (tmp_path / "airline" / "party.toml").open("a") as file:
        file.write('exclude = ["airline0"]\n')
    found = consortium.at("airline", study.review)
    assert [finding.limit for finding in found.findings if not finding.ok] == ["columns"]
    assert "RED   columns: 4 (must be 5, with which you joined)" in found.words()
    assert set(found.columns) == {f"airline{column}" for column in range(1, 5)}
    assert found.nearest.startswith("the same plan, once center has written it as the next plan")
    with pytest.raises(InputError, match="the last review was red"):
        consortium.at("airline", study.sign, found.study.fingerprint)


def test_a_party_toml_that_reads_the_table_otherwise_than_before_is_not_ignored(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"])
    (tmp_path / "one.toml").write_text('table = "airline.csv"\nid = "id"\n')
    (tmp_path / "two.toml").write_text('table = "airline.csv"\nid = "id"\nexclude = ["airline0"]\n')
    consortium.at("airline", study.join, tmp_path / "one.toml", None, "airline")
    with pytest.raises(InputError, match=r"party.toml: reads the table otherwise than .*two.toml \(exclude\)"):
        consortium.at("airline", study.join, tmp_path / "two.toml", None, "airline")


def reworded(found, *, share=1.0, green=True, columns=None):
    """A review with other numbers, as a person reads it."""
    leaving = tuple(replace(each, share=share) for each in found.leaving)
    findings = (Finding("recovery", 0.5, 1.0, ok=green),)
    return replace(found, leaving=leaving, findings=findings, columns=columns or found.columns).words()


def test_a_review_lists_what_is_above_the_limit_and_says_where_little_is_left(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"] | {"n_components": 1}, samples=10).join(**ANYTHING)
    found = consortium.at("airline", study.review)
    assert "GREEN: you may sign." in reworded(found, share=0.3)
    assert reworded(found, share=0.011)[-1] == (
        "GREEN: you may sign. But the summary has only 1.1% of the variance of your kernel matrix: expect little of "
        "the result."
    )
    lines = reworded(found, green=False, columns={f"c{number}": 0.95 - 0.04 * number for number in range(19)})
    assert sum(line.startswith("  c") for line in lines) == 12  # all above 0.5
    assert "  7 more columns: at most 0.47" in lines
    assert any("exclude such columns in party.toml, or list those that may be known" in line for line in lines)
    assert any(line.endswith("limits.toml, or have limits.toml changed.") for line in lines)
    assert any(": 1 component (" in line for line in lines)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_a_review_names_a_column_in_large_units_unless_the_plan_standardizes(kernel, tmp_path_factory):
    given, lines = tables(), []
    given["airline"][1][:, 1] *= 50.0
    for number, standardize in enumerate((False, True)):
        width = {"gamma": 0.1} if kernel == "rbf" else {}
        fit = {**MODES["open"], "kernel": kernel, "gamma": None, **width, "standardize": standardize}
        consortium = Consortium(tmp_path_factory.mktemp(f"{number}"), given, fit, samples=10).join(**ANYTHING)
        lines.append(consortium.at("airline", study.review).words())
        assert "of the distances between" not in "".join(consortium.at("weather", study.review).words())
    (line,) = [line for line in lines[0] if line.startswith("'airline1' makes up 9")]
    assert line.endswith("% of the distances between your samples; ask center for a plan with --standardize.")
    assert not any("of the distances between" in line for line in lines[1])


def test_the_center_is_told_that_nothing_of_its_own_leaves(tmp_path):
    found = Consortium(tmp_path, tables(), MODES["open"], samples=10).join(**ANYTHING).at("center", study.review)
    assert "Nothing of center's leaves: it has no table." in found.words()
    assert found.green


def test_what_is_only_computed_is_not_said_to_be_sent(tmp_path):
    found = Consortium(tmp_path, tables(), MODES["blind"], samples=10).join(**ANYTHING).at("airline", study.review)
    assert any(line.endswith("can compute this; nothing is sent)") for line in found.words())
    assert not any("(0 B)" in line for line in found.words())


@pytest.mark.longer
def test_where_no_plan_near_a_red_one_is_green_the_review_says_what_is_left_to_do(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"], samples=10).join(**ANYTHING)
    red = replace(consortium.at("airline", study.review), findings=(Finding("recovery", 0.5, 1.0, ok=False),))
    assert any(line.startswith("No small change would bring this plan within your limits") for line in red.words())


def test_join_shows_an_id_without_the_names_of_the_ways_it_was_made_alike(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"])
    (tmp_path / "own.toml").write_text('table = "airline.csv"\nid = "id"\nid_normalize = ["strip", "case"]\n')
    told = consortium.at("airline", study.join, tmp_path / "own.toml", None, "airline")
    assert "note: sample ids: column 'id', matched as 'a99' (50), 'a9' (10) after strip+case; compare this" in told


@pytest.mark.longer
def test_a_plan_whose_last_day_is_over_is_not_reviewed_as_if_it_could_be_signed(tmp_path, monkeypatch):
    last = datetime.date(2998, 1, 1)
    consortium = Consortium(tmp_path, tables(), MODES["open"], samples=10, ends=last).join(**ANYTHING)
    monkeypatch.setattr(plans, "_after", lambda days: FAR)  # today
    with pytest.raises(InputError, match="the study ended on 2998-01-01"):
        consortium.at("airline", study.review)


@pytest.mark.longer
def test_a_party_joins_with_the_party_toml_that_check_wrote(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"], samples=10)
    own = (tmp_path / "airline.csv").read_text().replace(",", ";").replace(".", ",")
    (tmp_path / "airline.csv").write_text(own.replace("id;", "Flight No;"))
    (tmp_path / "air.toml").write_text('table = "airline.csv"\nid = "Flight No"\ndecimal = ","\n')
    for table in ("air.toml", "air.toml", "airline.csv", "airline/party.toml"):  # a repeat changes nothing
        told = consortium.at("airline", study.join, tmp_path / table, None, "airline")
        assert "Joined as airline with 60 samples and 5 columns." in told
    (tmp_path / "airline" / "limits.toml").write_text(Limits(**ANYTHING).to_toml())
    consortium.join("weather", "registry", **ANYTHING).sign().finish()
    assert len(consortium.embedding("airline")[0]) == 60
    (tmp_path / "none.toml").write_text('party = "airline"\n')
    with pytest.raises(InputError, match=r"none.toml: names no table"):
        consortium.at("weather", study.join, tmp_path / "none.toml", None, "weather")


@pytest.mark.longer
def test_too_few_common_samples_end_the_study_for_all(tmp_path):
    consortium = Consortium(tmp_path, tables(shared=False), MODES["open"], samples=50).join(**ANYTHING).sign()
    for again in (consortium.finish, lambda: consortium.run("airline")):  # what it refused, it can read again
        with pytest.raises(
            RefusedError, match="airline refused at step 'shape': too few samples .*49 of the 56 here"
        ):
            again()
    with pytest.raises(RefusedError, match="airline refused at step 'shape': too few samples") as refused_there:
        consortium.run("weather")
    then = "; next, all run 'dkpca study close'; then the center can run 'dkpca study create' in this folder again"
    assert str(refused_there.value).endswith(then)
    told = command("study", "status", consortium.url, cwd=tmp_path).out
    refused = "airline refused at step 'shape': too few samples are common to all (if hardly any are: do all parties"
    assert refused in told
    assert "('dkpca study run' checks that this is genuine.)" in told
    assert "Waiting" not in told


@pytest.mark.longer
@pytest.mark.parametrize(
    ("lowered", "reason"),
    [
        ({"samples": 60}, "'shape': fewer samples are common to all than its own limits ask for .*49 of the 56 here"),
        pytest.param({"recovery": 0.001, "known_rows": 30}, "'go': the study exceeds its limits", marks=SLOW),
        ({"precision": "float16"}, "'go': the study exceeds its limits .*: precision float32, where limits.toml"),
        (
            {"protect": ("blind",)},
            "'go': the study exceeds its limits .*: protect none, where limits.toml allows blind",
        ),
        ({"rank": 2}, r"'summary': the study exceeds its limits \(rank \d+, where limits.toml allows 2"),
    ],
)
def test_a_party_refuses_what_is_beyond_its_limits_when_the_samples_are_known(lowered, reason, tmp_path):
    fit = MODES["open"] | {"rank": 20}
    consortium = Consortium(tmp_path, tables(shared=False), fit, samples=10).join(**ANYTHING).sign()
    (tmp_path / "airline/limits.toml").write_text(Limits(**ANYTHING | lowered).to_toml())
    with pytest.raises(RefusedError, match=f"airline refused at step {reason}"):
        consortium.finish()


@pytest.mark.longer
def test_limits_that_are_raised_after_signing_let_nothing_more_leave(tmp_path):
    consortium = Consortium(tmp_path, tables(40), MODES["open"], samples=10).join(**ANYTHING | {"rank": 5})
    consortium.sign()
    (tmp_path / "airline/limits.toml").write_text(Limits(**ANYTHING | {"rank": 50}).to_toml())
    found = consortium.at("airline", study.review)  # a review of what was signed
    assert [each.asked for each in found.findings if each.limit == "rank"] == [5]
    consortium.finish()
    (opened,) = tmp_path.glob("center/studies/*/opened/airline.summary.center")
    sent: Any = wire.decode(opened.read_bytes())
    assert sent.rank == 5
    (left,) = tmp_path.glob("airline/studies/*/left.npz")
    with np.load(left) as counted:
        assert {factor.shape[1] for factor in counted.values()} == {5}


def test_a_run_says_that_the_table_was_written_after_it_was_signed(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"], samples=10).join(**ANYTHING).sign()
    for written in (False, True):
        if written:
            later = (tmp_path / "airline.csv").stat().st_mtime + 3600.0
            os.utime(tmp_path / "airline.csv", (later, later))
        with pytest.raises(WaitingError) as waiting:
            consortium.run("airline")
        said = f"{tmp_path / 'airline.csv'} changed since you signed; the study uses the table that you signed"
        assert (said in getattr(waiting.value, "__notes__", [])) == written
    (tmp_path / "airline.csv").unlink()
    consortium.finish()


def sent_by(name, root):
    """The summary of a party, as the center opened it."""
    (path,) = root.glob(f"center/studies/*/opened/{name}.summary.center")
    return wire.decode(path.read_bytes())


def test_auto_stops_at_the_rank_limit_and_review_shows_the_rank_that_is_sent(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"], samples=10).join(**ANYTHING | {"rank": 10})
    found = consortium.at("airline", study.review)
    assert "green rank: 10 (limits.toml: 10)" in found.words()
    assert any("summary of rank 10, with" in line for line in found.words())
    consortium.sign().finish()
    assert sent_by("airline", tmp_path).rank == 10


def test_a_review_shows_the_highest_rank_of_the_widths_that_the_plan_allows(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open, gamma from statistics"], samples=10).join(**ANYTHING)
    found = consortium.at("airline", study.review)
    (rank,) = [finding.asked for finding in found.findings if finding.limit == "rank"]
    assert any(f"summary of rank up to {rank}, with" in each.what for each in found.leaving)


def test_common_samples_that_need_a_higher_rank_than_all_samples_get_the_highest_allowed(tmp_path):
    """The review sees three large directions, which most samples have; those that all parties have are of others."""
    random, ids = np.random.default_rng(0), [f"s{row}" for row in range(100)]
    few = {name: (ids[:40], random.normal(size=(40, 4))) for name in ("registry", "weather")}
    X = 1000.0 * random.normal(size=(100, 3)) @ random.normal(size=(3, 20))
    X[:40] = random.normal(size=(40, 20))
    fit = {"kernel": "linear", "law": "sum", "n_components": 2}
    consortium = Consortium(tmp_path, {"airline": (ids, X), **few}, fit, samples=10).join(**ANYTHING | {"rank": 10})
    assert consortium.at("airline", study.review).green
    consortium.sign().finish()
    assert sent_by("airline", tmp_path).rank == 10


@pytest.mark.longer
def test_without_a_common_sample_the_center_names_who_shares_none_and_the_parties_hear_why(tmp_path):
    given = tables()
    given["weather"] = ([f"00{row}" for row in range(60)], given["weather"][1])
    consortium = Consortium(tmp_path, given, MODES["open"], samples=10).join(**ANYTHING).sign()
    with pytest.raises(RefusedError) as refused:
        consortium.finish()
    assert refused.value.reason == "samples"
    assert "weather 0, airline 60, registry 60" in str(refused.value)
    assert "name the right column of ids" in str(refused.value)


def test_a_join_that_lacks_the_id_column_can_be_repeated_with_it(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"])
    table = tmp_path / "airline.csv"
    table.write_text(table.read_text().replace("id,", "flight,", 1))
    with pytest.raises(InputError, match="the plan matches samples by their ids; name the column with --id"):
        consortium.at("airline", study.join, table, None, "airline")
    assert "Joined as airline" in consortium.at("airline", study.join, table, "flight", "airline")
    with pytest.raises(InputError, match=r"party.toml: names 'flight' as the ids; correct the line id = ... there"):
        consortium.at("airline", study.join, table, "x0", "airline")


@pytest.mark.longer
def test_a_member_that_closed_the_study_is_told_so_and_not_that_its_table_is_missing(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"], samples=10).join(**ANYTHING).sign()
    consortium.at("airline", lambda folder, memory: founding.seat(folder, memory).memory.close())
    with pytest.raises(InputError, match="this study is closed here"):
        consortium.run("airline")


def test_join_shows_an_id_with_the_spaces_around_it(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"])
    table = tmp_path / "airline.csv"
    table.write_text(re.sub("^s", " s", table.read_text(), flags=re.MULTILINE))
    told = consortium.at("airline", study.join, table, "id", "airline")
    assert "matched as ' a99' (50), ' a9' (10); compare this and id_normalize with the other parties" in told


def test_join_says_which_columns_were_left_out_or_expanded(tmp_path):
    rows = [f"s{i},{i % 7},{('north', 'south')[i % 2]},1,2024-01-{1 + i % 28:02}" for i in range(40)]
    consortium = Consortium(tmp_path, tables(), {})
    (tmp_path / "airline.csv").write_text("\n".join(["id,delay,side,constant,day", *rows]) + "\n")
    told = consortium.at("airline", study.join, tmp_path / "airline.csv", None, "airline")
    assert told.splitlines()[:3] == [
        "note: sample ids: column 'id', matched as 'a99' (30), 'a9' (10); "
        "compare this and id_normalize with the other parties",
        "note: left out: 'constant', 'day' (exclude in party.toml)",
        "note: expanded text column 'side' into 2 columns of 0 and 1",
    ]
    assert "Joined as airline with 40 samples and 3 columns." in told


@pytest.mark.parametrize(
    ("fit", "said"),
    [
        ({"protect": "blind"}, "a blind center can only add matrices up"),
        ({"protect": "blind", "law": "sum", "center": False}, "centered matrices only"),
        ({"protect": "sums", "weights": "balanced"}, "one kernel for all parties, without weights"),
    ],
)
def test_a_plan_that_could_not_run_is_neither_created_nor_joined(fit, said, tmp_path):
    """Before, all signed it, and the first run refused it."""
    words = ["study", "create", "shared", "--as", "center", "--name", "center"]
    words += [word for name in WIDTHS for word in ("--member", name)]
    words += [word for name, value in fit.items() for word in ("--set", f"{name}={json.dumps(value).strip(chr(34))}")]
    answer = command(*words, cwd=tmp_path)
    assert answer.code != 0
    assert said in answer.err
    assert not (tmp_path / "shared").exists()
    with pytest.raises(InputError, match=said):
        Consortium(tmp_path, tables(), fit).join("airline")


def test_a_study_too_many_is_not_answered_by_advice_to_exclude_columns(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"], samples=10).join(**ANYTHING)
    red = replace(consortium.at("airline", study.review), findings=(Finding("studies", 1, 2, ok=False),))
    words = " ".join(red.words())
    assert "exclude such columns" not in words
    assert "Close earlier studies" in words
    assert "raise studies in limits.toml" in words


def test_a_review_lists_all_that_leaves_before_a_matrix_that_cannot_be_measured(tmp_path):
    squares = {name: (ids, X @ X.T) for name, (ids, X) in tables().items()}
    consortium = Consortium(tmp_path, squares, MODES["open"] | {"kernel": "precomputed", "law": "sum"}, samples=10)
    for name, (ids, _) in squares.items():  # a column for each sample
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join([f"id,{','.join(ids)}", *path.read_text().splitlines()[1:]]) + "\n")
    found = consortium.join(**ANYTHING).at("airline", study.review)
    assert [each.what for each in found.leaving][-1] == "something that cannot be measured: a precomputed kernel"
    assert found.leaving[0].what.startswith("keyed tokens of the sample ids")
    assert found.leaving[-1].bytes == 8 * 60 * 60


@pytest.mark.parametrize("mode", ["open", "blind"])
def test_a_review_says_what_share_of_the_variance_a_summary_has(mode, tmp_path):
    fit = MODES[mode] | {"kernel": "linear", "gamma": None, "rank": 2, "standardize": False}
    found = Consortium(tmp_path, tables(), fit, samples=10).join(**ANYTHING).at("airline", study.review)
    _, X = tables()["airline"]
    singular = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    (leaving,) = [each for each in found.leaving if "of rank 2" in each.what]
    assert leaving.share == pytest.approx(singular[:2].sum() / singular.sum(), rel=1e-6)
    assert f"with {in_percent(leaving.share)} of the variance of your kernel matrix" in leaving.what
