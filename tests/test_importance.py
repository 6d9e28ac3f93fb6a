"""Columns that drive a component: derivatives against finite differences, associations against known causes."""

from typing import Any

import numpy as np
import pytest

from dkpca import DKPCA
from dkpca.analysis.importance import associations
from dkpca.errors import InputError

FULL: dict[str, Any] = {"rank": 10**6, "precision": "float64", "solver": "dense"}
STEP = 1e-4


def tables():
    rng = np.random.default_rng(0)
    common = rng.normal(size=(70, 2))
    return {name: common @ rng.normal(size=(2, 3)) + rng.normal(size=(70, 3)) for name in ("a", "b")}


@pytest.mark.longer
@pytest.mark.parametrize(
    ("kernel", "law", "weights"),
    [
        ("rbf", "product", None),
        ("rbf", "sum", None),
        ("rbf", "sum", {"a": 2.0, "b": 0.5}),
        ("linear", "sum", None),
        ({"a": "rbf", "b": "linear"}, "sum", None),
    ],
)
def test_derivatives_are_finite_differences(kernel, law, weights):
    X = tables()
    asked: dict[str, Any] = {"kernel": kernel, "law": law, "weights": weights} | FULL
    asked["gamma"] = {"a": 0.1} if isinstance(kernel, dict) else 0.1
    batch = np.random.default_rng(1).choice(["x", "y"], 70)
    for covariates in (None, {"batch": batch}):
        found = DKPCA(3, **asked).fit(X, covariates=covariates).column_importance()
        for party in X:
            for column in range(3):
                moved = []
                for sign in (1.0, -1.0):
                    other = {name: table.copy() for name, table in X.items()}
                    other[party][:, column] *= 1.0 + sign * STEP
                    moved.append(DKPCA(3, **asked).fit(other, covariates=covariates).eigenvalues_)
                expected = (moved[0] - moved[1]) / (2 * STEP)
                np.testing.assert_allclose(found[party][column], expected, rtol=1e-4, atol=1e-4)


def test_equal_eigenvalues_share_one_value():
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    X = {"a": np.column_stack([np.cos(angle), np.sin(angle), np.zeros(60)])}
    found = DKPCA(2, kernel="linear", **FULL).fit(X).column_importance()["a"]
    np.testing.assert_allclose(found, [[30.0, 30.0], [30.0, 30.0], [0.0, 0.0]], atol=1e-9)


@pytest.mark.parametrize("linear", [True, False])
def test_a_column_that_makes_a_component_has_the_largest_association(linear):
    hits = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        score = rng.normal(size=120)
        X = rng.normal(size=(120, 8))
        known = int(rng.integers(8))
        X[:, known] = (score if linear else score**2) + 0.3 * rng.normal(size=120)
        hits += int(associations(X, score[:, None])[:, 0].argmax()) == known
    assert hits >= 95


def test_through_a_fit_a_known_curve_is_on_top():
    rng = np.random.default_rng(0)
    t = rng.uniform(-1, 1, 150)
    X = {"a": np.column_stack([3 * np.cos(3 * t), 3 * np.sin(3 * t), *0.3 * rng.normal(size=(4, 150))])}
    found = DKPCA(2, gamma=0.05).fit(X).column_association()["a"]
    assert set(found.argmax(axis=0)) <= {0, 1}
    assert found.shape == (6, 2)
    assert found.min() >= 0.0
    assert found.max() <= 1.0


def test_what_has_no_columns_or_no_derivative_is_refused(tmp_path):
    X = tables()
    with pytest.raises(InputError, match="derivatives are for the rbf kernel, .* not for laplacian"):
        DKPCA(2, kernel="laplacian").fit(X).column_importance()
    with pytest.raises(InputError, match="column_importance is for fits with protect='none'"):
        DKPCA(2, protect="sums").fit(X).column_importance()
    DKPCA(2).fit(X).save(tmp_path / "model")
    again = DKPCA.load(tmp_path / "model")
    with pytest.raises(InputError, match="needs the tables of the fit"):
        again.column_importance()
    np.testing.assert_allclose(again.column_importance(X)["a"], DKPCA(2).fit(X).column_importance()["a"], rtol=1e-6)
