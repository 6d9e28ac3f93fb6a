"""One record of settings: the estimator's parameters, their checks, and TOML."""

import inspect
import tomllib
from dataclasses import fields

import pytest

from dkpca import DKPCA, kernels, rank
from dkpca.errors import InputError
from dkpca.settings import Compute, Fit, from_values, to_toml

ELSEWHERE = {"parties"}  # how to cut one table: no part of what is computed


def test_the_parameters_of_the_estimator_are_the_fields_of_the_settings():
    signature = inspect.signature(DKPCA).parameters
    defaults = {each.name: each.default for record in (Fit, Compute) for each in fields(record)}
    assert {name: parameter.default for name, parameter in signature.items() if name not in ELSEWHERE} == defaults


def test_every_setting_has_a_sentence_of_help():
    for record in (Fit, Compute):
        assert [each.name for each in fields(record) if not each.metadata["help"].endswith(".")] == []


@pytest.mark.parametrize(
    "fit",
    [
        Fit(),
        Fit(n_components=None, center=False, random_state=3, audit=20),
        Fit(n_components=0.9, kernel=kernels.RBF(0.25), precision="compact"),
        Fit(kernel={"bank": "rbf", "shop": kernels.Linear()}, law="sum", weights={"bank": 1.0, "shop": 2.5}),
        Fit(gamma={"bank": 0.1}, rank=(rank.Error(0.1), rank.Recovery(0.5, 50))),
        Fit(kernel="poly", degree=2, coef0=0.5, gamma="scale", rank=40),
    ],
    ids=str,
)
def test_settings_come_back_from_toml(fit):
    assert from_values(Fit, tomllib.loads(to_toml(fit)), what="plan", complete=True) == fit


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour = 1", "plan does not know colour; the settings are n_components, kernel"),
        ("n_components = 3", "plan lacks audit, center"),
        (to_toml(Fit()).replace("n_components = 10", "n_components = 0"), "n_components is 0; give a whole number"),
        (to_toml(Fit()).replace('"float32"', "32"), "precision must be text, not 32"),
    ],
)
def test_toml_that_is_not_just_the_settings_is_refused(text, words):
    with pytest.raises(InputError, match=words):
        from_values(Fit, tomllib.loads(text), what="plan", complete=True)


def test_a_file_of_settings_may_leave_out_what_is_as_by_default():
    assert from_values(Fit, {"n_components": 3, "law": "none"}, what="settings.toml") == Fit(n_components=3)


def test_settings_do_not_change_with_the_dict_they_were_made_from():
    by_party = {"bank": 1.0}
    fit = Fit(gamma=by_party)
    by_party["bank"] = 2.0
    assert fit.gamma == {"bank": 1.0}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"projection": "exact", "weights": "balanced"}, "projection='exact' needs one kernel of the joined table"),
        ({"protect": "sums", "audit": 10}, "audit=10 makes every party send true, unprotected rows"),
        ({"protect": "blind", "audit": 10}, "audit=10 makes every party send true, unprotected rows"),
        ({"protect": "sums", "rank": 5}, "protect='sums' has no rank"),
        (
            {"protect": "blind", "rank": (rank.Fixed(3), rank.Recovery(0.5))},
            "a recovery limit on the rank has no effect",
        ),
        ({"protect": "sums", "projection": "exact"}, "places new samples in its own way"),
        ({"protect": "blind", "lacking": "complete"}, "protect='blind' cannot hide the others' numbers"),
        ({"lacking": "mean", "audit": 10}, "lacking='mean' replaces the rows that a party lacks"),
        ({"lacking": "complete", "projection": "exact"}, "but projection='exact' needs the true ones"),
    ],
)
def test_settings_that_exclude_each_other_are_refused_before_anything_is_computed(asked, words):
    with pytest.raises(InputError, match=words):
        Fit(**asked)


@pytest.mark.parametrize("protect", ["sums", "blind"])
@pytest.mark.parametrize("where", [{"device": "cuda"}, {"max_memory": "8GB"}])
def test_where_to_compute_is_refused_under_protection(protect, where):
    with pytest.raises(InputError, match="is for fits with protect='none'"):
        Compute(**where).check_with(Fit(protect=protect))
