"""Which columns of a party drive a component, in a study: row means that the plan names, and the party's own file."""

from dataclasses import replace

import numpy as np
import pytest

from dkpca import DKPCA, wire
from dkpca.analysis.importance import Drives
from dkpca.errors import InputError
from dkpca.exchange import protocols, study
from dkpca.exchange.member import RefusedError
from dkpca.exchange.protocols import Terms
from dkpca.fusion import fused_model
from dkpca.linalg import leading
from dkpca.linalg.precision import Rounded
from dkpca.party.disclosure import describe
from dkpca.settings import Fit
from testkit.program import in_process
from testkit.studies import ANYTHING, Consortium
from tests.study.test_a_study import MODES, tables


def finished(root, mode, **plan):
    given = tables()
    consortium = Consortium(root, given, mode, align="position", samples=10, **plan)
    consortium.join(**ANYTHING).sign().finish()
    return consortium, {name: X for name, (_, X) in given.items()}


def at(consortium, name):
    return Drives.from_csv((consortium.root / name / "result" / "importance.csv").read_bytes())


@pytest.mark.longer
@pytest.mark.parametrize("mode", ["open", "open, gamma from statistics", "sums"])
def test_with_row_means_each_party_has_them_within_its_bound(mode, tmp_path):
    fit = MODES[mode] | {"n_components": 20}
    consortium, X = finished(tmp_path, fit, row_means=True)
    true = DKPCA(**fit | {"protect": "none", "rank": 10**6}).fit(X).column_importance()
    for name in X:
        found = at(consortium, name)
        assert found.columns == tuple(f"{name}{j}" for j in range(X[name].shape[1]))
        assert np.all(
            np.abs(found.values - true[name])[:, :5] <= found.errors[:, :5] + 1e-3 * np.abs(true[name]).max()
        )
        assert 0 < found.errors[:, 0].max() < 0.1 * np.abs(true[name][:, 0]).max()


@pytest.mark.longer
@pytest.mark.parametrize("mode", ["open", "blind"])
def test_under_the_sum_law_they_are_exact_and_nothing_is_sent_for_them(mode, tmp_path):
    fit = MODES[mode] | {"law": "sum", "rank": 10**6, "precision": "float64"}
    consortium, X = finished(tmp_path, fit)
    true = DKPCA(**fit | {"protect": "none"}).fit(X).column_importance()
    for name in X:
        found = at(consortium, name)
        assert found.errors.max() == 0
        np.testing.assert_allclose(found.values, true[name], rtol=1e-9, atol=1e-9)


@pytest.mark.longer
def test_a_kernel_without_derivatives_has_no_file(tmp_path):
    finished(tmp_path, MODES["open, kernels by party"])
    assert {path.parts[-3] for path in tmp_path.glob("*/result/importance.csv")} == {"airline", "registry"}


@pytest.mark.longer
def test_without_row_means_a_party_has_none_under_the_product(tmp_path):
    finished(tmp_path, MODES["open"])
    assert not list(tmp_path.glob("*/result/importance.csv"))


@pytest.mark.longer
def test_where_the_solver_picks_landmarks_center_and_parties_say_that_none_are_sent(tmp_path, monkeypatch):
    monkeypatch.setattr(leading, "WORK", 1e3)
    consortium, _ = finished(tmp_path, MODES["open"] | {"n_landmarks": 20}, row_means=True)
    assert "the landmark solver" in " ".join(consortium.run("center")["notes"])
    command = ("study", "run", consortium.url, "--as", str(tmp_path / "airline"))
    told = in_process(*command, cwd=tmp_path).out
    assert told.startswith("note: center used landmarks and sent no row means, so there is no importance.csv\nDone:")


@pytest.mark.longer
def test_review_and_inspect_say_that_they_leave(tmp_path):
    consortium = Consortium(tmp_path, tables(), MODES["open"], align="position", samples=10, row_means=True)
    said = consortium.join(**ANYTHING).at("airline", study.review).words()
    assert any("result: row means of the fused kernel, a number for each sample" in line for line in said)
    model = DKPCA(2).fit({name: X for name, (_, X) in tables().items()}).model_
    told = fused_model.result(model, model.scores, "0" * 64, with_row_means=True)
    assert "how similar each is on average" in " ".join(describe(told).reveals)
    again = wire.decode(wire.encode(told))
    np.testing.assert_array_equal(again.row_means.decode(), told.row_means.decode())
    assert again.residual == told.residual


@pytest.mark.longer
def test_row_means_that_the_plan_does_not_have_are_refused(tmp_path, monkeypatch):
    consortium = Consortium(tmp_path, tables(), MODES["open"], align="position", samples=10)
    consortium.join(**ANYTHING).sign()
    honest = protocols.published
    monkeypatch.setattr(protocols, "published", lambda model, rows, row_means: honest(model, rows, row_means=True))
    with pytest.raises(RefusedError, match="result"):
        consortium.finish()


@pytest.mark.longer
@pytest.mark.parametrize("change", [{"residual": 1e308}, {"row_means": Rounded(np.full((60, 1), 1e308))}])
def test_numbers_that_make_them_infinite_are_refused(change, tmp_path, monkeypatch):
    consortium = Consortium(tmp_path, tables(), MODES["open"], align="position", samples=10, row_means=True)
    consortium.join(**ANYTHING).sign()
    honest = protocols.published
    monkeypatch.setattr(protocols, "published", lambda *about, **kw: replace(honest(*about, **kw), **change))
    with pytest.raises(RefusedError, match="'result': .*not in the plan"):
        consortium.finish()
    assert not list(tmp_path.glob("*/result/importance.csv"))


@pytest.mark.parametrize(
    ("fit", "said"),
    [
        ({"law": "sum"}, "rbf kernels under the product law"),
        ({"kernel": "linear"}, "rbf kernels under the product law"),
        ({"center": False}, "centered fits of samples that all parties have"),
        ({"lacking": "mean"}, "centered fits of samples that all parties have"),
        ({"solver": "landmark"}, "without landmarks"),
    ],
)
def test_where_they_are_of_no_use_they_are_refused(fit, said):
    with pytest.raises(InputError, match=said):
        protocols.check_terms(["a", "b"], Fit(**fit), Terms("", row_means=True))


def test_the_command_writes_them_into_the_plan(tmp_path):
    words = (
        "study",
        "create",
        "shared",
        "--as",
        "center",
        "--name",
        "center",
        "--member",
        "clinic",
        "--member",
        "lab",
    )
    for given, said in (("maybe", "the plan: row_means"), ("true --law sum", "product law")):
        answer = in_process(*words, "--set", *f"row_means={given}".split(), cwd=tmp_path)
        assert answer.code != 0
        assert said in answer.err
    taken = in_process(*words, "--set", "row_means=true", "--set", "covariates=clinic:age", cwd=tmp_path)
    assert "do not apply to a kernel without its covariates" in taken.err
    assert in_process(*words, "--set", "row_means=true", cwd=tmp_path).code == 0
    assert "row_means = true" in (tmp_path / "shared/center/plan-1.toml").read_text()
