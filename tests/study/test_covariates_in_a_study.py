"""Covariates in a study: their owner sends them as a message of their own, which the plan names and review shows."""

import contextlib
import tomllib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dkpca import DKPCA, subspace_error, wire
from dkpca.errors import FusionError, InputError
from dkpca.exchange import protocols, study
from dkpca.exchange.member import RefusedError, WaitingError
from dkpca.exchange.protocols import Ask
from dkpca.linalg.precision import Rounded
from dkpca.messages import CovariateRows
from dkpca.party import questions as q
from dkpca.party.questions import CovariatesWanted, decode, encode
from dkpca.protection import masks
from testkit.program import in_process
from testkit.studies import ANYTHING, PARTIES, Consortium
from tests.study.test_a_study import EVERY_PROTECTION, MODES, tables

TAKEN = {"registry": ("registry0",)}


def features(given, rows=slice(None)):
    """Tables without the covariate, and the covariate."""
    found = {name: X[rows] for name, (_, X) in given.items()}
    covariate = found["registry"][:, 0]
    return found | {"registry": found["registry"][:, 1:]}, {"registry0": covariate}


def orthonormal(scores):
    return scores / np.linalg.norm(scores, axis=0)


@pytest.mark.longer
@pytest.mark.parametrize("mode", EVERY_PROTECTION)
def test_a_study_with_covariates_is_the_estimator_with_them(mode, tmp_path):
    given = tables()
    consortium = Consortium(tmp_path, given, MODES[mode], align="position", samples=10, covariates=TAKEN)
    consortium.join(**ANYTHING).sign().finish()
    assert consortium.status()["waiting"] == {}
    X, covariates = features(given)
    model = DKPCA(**MODES[mode]).fit(X, covariates=covariates)
    _, scores = consortium.embedding("airline")
    assert subspace_error(model.eigenvectors_, orthonormal(scores)) < 1e-9
    plain = DKPCA(**MODES[mode]).fit(X)
    assert subspace_error(plain.eigenvectors_, orthonormal(scores)) > 0.1
    centered = covariates["registry0"] - covariates["registry0"].mean()
    assert np.abs(centered @ orthonormal(scores)).max() < 1e-10 * np.linalg.norm(centered)


@pytest.mark.longer
@pytest.mark.parametrize("mode", EVERY_PROTECTION)
def test_covariates_follow_their_samples_through_alignment(mode, tmp_path):
    given = tables(shared=False)
    consortium = Consortium(tmp_path, given, MODES[mode], samples=10, covariates=TAKEN)
    consortium.join(**ANYTHING).sign().finish()
    ids, scores = consortium.embedding("weather")
    owner = dict(zip(given["registry"][0], given["registry"][1][:, 0], strict=True))
    covariate = np.array([owner[i] for i in ids])
    assert np.abs((covariate - covariate.mean()) @ orthonormal(scores)).max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["open", "sums", "blind"])
def test_new_samples_come_with_their_covariates(mode, tmp_path):
    given, new = tables(), tables(80, seed=1)
    consortium = Consortium(
        tmp_path, given, MODES[mode], align="position", samples=10, batches=1, batch_samples=5, covariates=TAKEN
    )
    consortium.join(**ANYTHING).sign().finish()
    for name, (_, Z) in new.items():
        head = (tmp_path / f"{name}.csv").read_text().splitlines()[0]
        lines = [f"n{i},{','.join(map(repr, row))}" for i, row in enumerate(Z[60:].tolist())]
        (tmp_path / name / "new").mkdir()
        (tmp_path / name / "new" / "1.csv").write_text("\n".join([head, *lines]) + "\n")
    consortium.finish()
    X, covariates = features(given)
    Y, theirs = features(new, slice(60, None))
    expected = DKPCA(**MODES[mode]).fit(X, covariates=covariates).transform(Y, covariates=theirs)
    for name in ("center", "weather"):
        _, scores = consortium.embedding(name, "batch-1")
        np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_all_sign_the_new_samples_before_covariates_of_them_leave(tmp_path, monkeypatch):
    """A center tells each party of masked sums that all have its new samples; nobody has one of the others'."""
    ids = [f"s{row}" for row in range(60)]
    plan: dict[str, Any] = {"align": "tokens", "samples": 10, "batches": 1, "batch_samples": 10}
    given = {name: (ids, X[:60]) for name, (_, X) in tables(60).items()}
    consortium = Consortium(tmp_path, given, MODES["sums"], covariates=TAKEN, **plan).join(**ANYTHING).sign()
    consortium.finish()
    for name, (_, X) in given.items():
        head = (tmp_path / f"{name}.csv").read_text().splitlines()[0]
        lines = [f"{name}{row},{','.join(map(repr, x))}" for row, x in enumerate(X[:20].tolist())]
        (tmp_path / name / "new").mkdir()
        (tmp_path / name / "new/1.csv").write_text("\n".join([head, *lines]) + "\n")

    honest = protocols._shape

    def lying(lists, ring, keep_all, batch):
        told = {name: q.packed_numbers(range(len(own))) for name, own in lists.items()}
        return {name: q.MatchedGiven(len(lists[name]), own, 20, ring, None, batch) for name, own in told.items()}

    def believing(names, settings, terms):
        shapes = yield Ask(terms.step("shape"), {name: q.ShapeWanted(terms.batch) for name in names})
        one = next(iter(shapes.values()))
        return q.Derived(one.n_samples, one.samples, dict(terms.columns), {})

    for name in 8 * [*consortium.names, "center"]:
        with monkeypatch.context() as patched, contextlib.suppress(WaitingError, RefusedError, FusionError):
            if name == "center":
                patched.setattr(protocols, "_matched", lying)
                patched.setattr(
                    protocols, "_shape", lambda *about: believing(*about) if about[2].batch else honest(*about)
                )
                patched.setattr(masks, "largest_power", lambda sent: 2.0**14)
            consortium.run(name)
    left = {path.name for path in (tmp_path / "shared").glob("*/batch-1.*")}
    assert "batch-1.shape" in left
    assert "batch-1.covariates" not in left


@pytest.mark.longer
def test_review_says_what_the_center_will_see_and_to_whom_it_belongs(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"], align="position", samples=10, covariates=TAKEN)
    consortium.join(**ANYTHING)
    found = {name: consortium.at(name, study.review) for name in consortium.names}
    owner, other = found["registry"], found["airline"]
    assert any("covariates registry0, of every sample, in the clear to center" in line for line in owner.words())
    assert not any("in the clear" in each.what for each in other.leaving)
    assert "  taken out of the components: registry0 of registry" in other.words()
    assert set(owner.columns) == {"registry0", "registry1", "registry2", "registry3"}
    assert owner.columns["registry0"] == 1.0
    (tmp_path / "b").mkdir()
    blind = Consortium(tmp_path / "b", tables(), MODES["blind"], align="position", samples=10, covariates=TAKEN)
    said = blind.join(**ANYTHING).at("registry", study.review).words()
    assert any("covariates registry0, rotated with the samples" in line for line in said)


FIT = {"kernel": "rbf", "gamma": 0.02, "n_components": 2, "rank": 1, "standardize": True}
MANY = tuple(f"registry{column}" for column in range(20))


@pytest.mark.slow
@pytest.mark.parametrize("taken", [MANY, MANY[:1]])
def test_columns_are_sent_in_the_clear_only_if_their_owner_lists_them(taken, tmp_path):
    """A plan that takes for covariates what it wants to read. The careless twin lists whatever is asked for."""
    random = np.random.default_rng(4)
    given = {name: ([f"s{i}" for i in range(120)], random.normal(size=(120, 25))) for name in PARTIES}
    consortium = Consortium(tmp_path, given, FIT, align="position", samples=50, covariates={"registry": taken})
    found = consortium.join().at("registry", study.review)
    assert [finding.limit for finding in found.findings if not finding.ok] == ["covariates"]
    assert {name for name, value in found.columns.items() if value == 1.0} == set(taken)
    assert any(line.startswith("RED   covariates: ") for line in found.words())
    consortium.join("registry", covariates=taken[1:])
    assert not consortium.at("registry", study.review).green
    consortium.join("registry", covariates=taken)
    assert consortium.at("registry", study.review).green
    consortium.sign().finish()
    (path,) = (tmp_path / "center/studies").glob("*/opened/registry.covariates.center")
    message = wire.decode(path.read_bytes())
    assert isinstance(message, CovariateRows)
    A = np.column_stack([np.ones(120), np.asarray(message.rows.decode())])
    X = given["registry"][1][:, : len(taken)]
    np.testing.assert_allclose(A[30:] @ np.linalg.lstsq(A[:30], X[:30], rcond=None)[0], X[30:], atol=1e-3)


@pytest.mark.longer
@pytest.mark.parametrize(("batches", "red"), [(0, False), (1, True)])
def test_covariates_of_a_blind_fit_are_hidden_but_those_of_new_samples_are_not(batches, red, tmp_path):
    about: dict[str, Any] = {"align": "position", "samples": 10, "covariates": TAKEN}
    about |= {"batches": batches, "batch_samples": 10 * batches}
    consortium = Consortium(tmp_path, tables(), MODES["blind"], **about).join(**ANYTHING | {"recovery": 0.99})
    found = consortium.at("registry", study.review)
    assert ("covariates" in [finding.limit for finding in found.findings if not finding.ok]) == red
    assert ("registry0" in found.columns) == red


@pytest.mark.longer
def test_covariates_that_single_samples_out_are_not_shown_to_a_blind_center(tmp_path):
    given = tables()
    given["registry"][1][:, 0] = 0.0
    given["registry"][1][:2, 0] = 1.0
    consortium = Consortium(tmp_path, given, MODES["blind"], align="position", samples=10, covariates=TAKEN)
    consortium.join(**ANYTHING)
    found = consortium.at("registry", study.review)
    assert any("single out 2 of" in line for line in found.words())
    assert set(found.columns.values()) == {1.0}  # something that cannot be measured counts as recovered
    other = consortium.at("airline", study.review).words()
    assert "  center, if it knows these, learns how similar their groups are in your table" in other
    with pytest.raises(RefusedError, match="registry"):
        consortium.sign().finish()


@pytest.mark.slow
def test_categories_are_taken_out_as_the_table_is_read(tmp_path):
    given = tables()
    consortium = Consortium(
        tmp_path, given, MODES["open"], align="position", samples=10, covariates={"registry": ("batch",)}
    )
    batch = np.array(["monday", "tuesday", "friday"])[np.arange(60) % 3]
    lines = (tmp_path / "registry.csv").read_text().splitlines()
    (tmp_path / "registry.csv").write_text(
        "\n".join([lines[0] + ",batch", *(f"{a},{b}" for a, b in zip(lines[1:], batch, strict=True))]) + "\n"
    )
    (tmp_path / "registry").mkdir(exist_ok=True)
    words = ("registry.csv", "--id", "id", "--text", "one-hot", "--write", "registry/party.toml")
    assert in_process("check", *words, cwd=tmp_path).code == 0
    consortium.join(**ANYTHING).sign().finish()
    _, scores = consortium.embedding("airline")
    model = DKPCA(**MODES["open"]).fit({name: X for name, (_, X) in given.items()}, covariates={"batch": batch})
    assert subspace_error(model.eigenvectors_, orthonormal(scores)) < 1e-9
    for each in np.unique(batch):
        assert abs(orthonormal(scores)[batch == each].sum(axis=0)).max() < 1e-9


@pytest.mark.parametrize(
    ("plan", "fit", "said"),
    [
        ({"covariates": {"bank": ("age",)}}, "open", "name one of the parties"),
        ({"covariates": TAKEN | {"airline": ("airline0",)}}, "open", "covariates cannot be used"),
    ],
)
def test_plans_that_cannot_be_kept_are_not_written(plan, fit, said, tmp_path):
    with pytest.raises(InputError, match=said):
        Consortium(tmp_path, tables(), MODES[fit], **plan)
    assert not list(tmp_path.glob("shared/*/plan-1.toml"))


def test_covariates_of_an_uncentered_fit_and_columns_that_are_not_there_are_refused(tmp_path):
    (tmp_path / "uncentered").mkdir()
    uncentered = Consortium(tmp_path / "uncentered", tables(), MODES["open"] | {"center": False}, covariates=TAKEN)
    with pytest.raises(InputError, match="covariates are removed from the centered kernel"):
        uncentered.join("airline")
    consortium = Consortium(tmp_path, tables(), MODES["open"], covariates={"registry": ("age",)})
    with pytest.raises(InputError, match="the plan takes out 'age', but these are not columns"):
        consortium.join(**ANYTHING)


def test_columns_that_are_not_orthonormal_would_falsify_the_bounds_and_are_refused():
    wanted = CovariatesWanted(("age",), 4)
    wanted.check("bank", CovariateRows("bank", Rounded(np.full((4, 1), 0.5))))
    for Q in (np.ones((4, 1)), np.full((3, 1), 3**-0.5), np.full((4, 2), 0.5)):
        with pytest.raises(FusionError, match="not orthonormal columns of all samples"):
            wanted.check("bank", CovariateRows("bank", Rounded(Q)))


def test_the_command_writes_them_into_the_plan(tmp_path):
    words = ("study", "create", "shared", "--as", "center", "--name", "center", "--member", "clinic")
    answer = in_process(*words, "--member", "lab", "--set", "covariates=clinic:batch,age", cwd=tmp_path)
    assert answer.code == 0, answer.err
    written = tomllib.loads((tmp_path / "shared/center/plan-1.toml").read_text())
    assert written["covariates"] == {"clinic": ["batch", "age"]}


@pytest.mark.slow
def test_where_samples_are_lacking_their_owner_has_all_of_them(tmp_path):
    given = tables()
    lacking = {name: (ids, X) if name == "registry" else (ids[5:], X[5:]) for name, (ids, X) in given.items()}
    fit = MODES["open"] | {"lacking": "mean"}
    (tmp_path / "all").mkdir()
    consortium = Consortium(tmp_path / "all", lacking, fit, samples=10, covariates=TAKEN)
    consortium.join(**ANYTHING).sign().finish()
    ids, scores = consortium.embedding("registry")
    owner = dict(zip(given["registry"][0], given["registry"][1][:, 0], strict=True))
    covariate = np.array([owner[i] for i in ids])
    assert len(ids) == 60
    assert np.abs((covariate - covariate.mean()) @ orthonormal(scores)).max() < 1e-9
    (tmp_path / "some").mkdir()
    some = lacking | {"registry": (given["registry"][0][:50], given["registry"][1][:50])}
    other = Consortium(tmp_path / "some", some, fit, samples=10, covariates=TAKEN).join(**ANYTHING).sign()
    with pytest.raises(RefusedError, match="registry"):
        other.finish()


def test_slopes_of_another_shape_or_for_another_party_are_refused(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["blind"], align="position", samples=10, covariates=TAKEN)
    consortium.join(**ANYTHING).sign().finish()
    for copied, (shape, who) in enumerate([((1, 7), "registry"), ((2, 3), "registry"), ((1, 3), "airline")]):
        told = consortium.copy(tmp_path / f"{copied}")
        (opened,) = told.root.glob(f"{who}/studies/*/opened/center.result.{who}")
        result: Any = decode(opened.read_bytes())
        opened.write_bytes(encode(replace(result, slopes=Rounded(np.ones(shape)))))
        with pytest.raises(RefusedError, match=f"{who} refused at step 'result': .* not in the plan"):
            told.run(who)


@pytest.mark.longer
def test_review_of_a_blind_plan_lists_the_slopes_and_counts_no_rows_of_new_samples(tmp_path):
    plan: dict[str, Any] = {
        "align": "position",
        "samples": 10,
        "covariates": TAKEN,
        "batches": 2,
        "batch_samples": 10,
    }
    consortium = Consortium(tmp_path, tables(), MODES["blind"], **plan).join(**ANYTHING)
    for name in ("registry", "airline"):
        leaves = {each.what: each for each in consortium.at(name, study.review).leaving}
        slopes = leaves["result: what each covariate adds to a score"]
        assert (slopes.to, slopes.bytes) == ("registry", 8 * 1 * 3)
    own = consortium.at("registry", study.review).leaving
    assert [each.bytes for each in own if each.what.startswith("covariates")] == [8 * 60]
