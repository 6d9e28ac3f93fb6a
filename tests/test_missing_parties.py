"""New samples that lack a party: its addend is left out under the sum, its mean row stands in when asked for."""

import numpy as np
import pytest

import dkpca
from dkpca import DKPCA
from dkpca.errors import FusionError, InputError, MissingPartyWarning
from dkpca.fusion.scoring import place

SUMS = [{"kernel": "linear"}, {"law": "sum"}, {"law": "sum", "weights": "balanced"}, {"law": "sum", "center": False}]


@pytest.fixture
def tables(rng):
    X = rng.standard_normal((50, 4)) @ rng.standard_normal((4, 12)) + 0.3 * rng.standard_normal((50, 12))
    blocks = {name: X[:, columns] for name, columns in (("a", slice(5)), ("b", slice(5, 9)), ("c", slice(9, 12)))}
    return {name: X[:40] for name, X in blocks.items()}, {name: X[40:] for name, X in blocks.items()}


def without(tables, party):
    return {name: X for name, X in tables.items() if name != party}


@pytest.mark.parametrize("settings", SUMS[:3], ids=str)
def test_what_a_missing_party_leaves_out_is_its_share(tables, settings):
    fit, new = tables
    model = DKPCA(3, rank=20, precision="float64", **settings).fit(fit)
    with pytest.warns(MissingPartyWarning, match="parties lack: b 10; mean rows are used instead"):
        placed = model.transform(without(new, "b"))
    with pytest.warns(MissingPartyWarning):
        alone = {name: model.transform({name: new[name]}) for name in new}  # (a_j(y) - mean a_j) W_j of each party
    np.testing.assert_allclose(model.transform(new) - placed, alone["b"], atol=1e-9)
    np.testing.assert_allclose(sum(alone.values()), model.transform(new), atol=1e-9)


def test_mean_rows_in_some_places_are_called_so(tables):
    fit, new = tables
    made = {name: dkpca.summarize(X, party=name, kernel=dkpca.kernels.Linear(), rank=3) for name, X in fit.items()}
    model = dkpca.fuse([summary for summary, _ in made.values()], n_components=2)
    places = {"a": range(10), "b": range(6), "c": range(10)}
    rows = [dkpca.extend(made[name][1], new[name][: len(places[name])]) for name in new]
    words = place(model, rows, places=places).words
    assert words == "of 10 new samples, parties lack: b 4; mean rows are used instead"


def test_parties_with_other_samples_are_refused_where_one_is_missing(tables):
    fit, new = tables
    made = {name: dkpca.summarize(X, party=name, kernel=dkpca.kernels.Linear(), rank=3) for name, X in fit.items()}
    model = dkpca.fuse([summary for summary, _ in made.values()], n_components=2)
    ids = [f"n{i}" for i in range(10)]
    rows = [dkpca.extend(made[name][1], new[name], sample_ids=own) for name, own in (("a", ids), ("b", ids[::-1]))]
    with pytest.raises(FusionError, match="parties 'a' and 'b' differ in their samples or sample order"):
        place(model, rows, missing=["c"])


@pytest.mark.parametrize("settings", [{}, {"kernel": "poly"}, {"kernel": "cosine"}], ids=str)
def test_other_laws_refuse_with_the_reason(tables, settings):
    fit, new = tables
    model = DKPCA(2, **settings).fit(fit)
    with pytest.raises(
        InputError, match=r"from b, and the fit is the \w+ kernel of the joined table.*lacking='mean'"
    ):
        model.transform(without(new, "b"))


def test_under_the_product_the_mean_row_is_that_of_the_kernel(tables):
    fit, new = tables
    model = DKPCA(3, gamma=0.05, rank=40, precision="float64", solver="dense", lacking="mean").fit(fit)
    with pytest.warns(MissingPartyWarning):
        placed = model.transform(without(new, "b"))

    def rbf(X, Y):
        return np.exp(-0.05 * ((X[:, None, :] - Y[None, :, :]) ** 2).sum(-1))

    rows = rbf(new["a"], fit["a"]) * rbf(fit["b"], fit["b"]).mean(0) * rbf(new["c"], fit["c"])
    K = rbf(np.hstack(list(fit.values())), np.hstack(list(fit.values())))
    centered = rows - rows.mean(1, keepdims=True) - K.mean(0) + K.mean()
    expected = centered @ model.eigenvectors_ / np.sqrt(model.eigenvalues_)
    np.testing.assert_allclose(placed, expected, atol=1e-8)


@pytest.mark.parametrize("settings", [{"kernel": "poly"}, {"kernel": "cosine"}, {"weights": "balanced"}], ids=str)
def test_the_mean_row_serves_every_law(tables, settings):
    fit, new = tables
    model = DKPCA(2, lacking="mean", rank=20, **settings).fit(fit)
    with pytest.warns(MissingPartyWarning, match="mean rows are used"):
        placed = model.transform({"a": new["a"]})
    assert placed.shape == (10, 2)
    assert np.isfinite(placed).all()


@pytest.mark.torch
def test_a_mean_row_serves_torch_too(tables, torch):
    fit, new = ({name: torch.asarray(X) for name, X in each.items()} for each in tables)
    model = DKPCA(2, law="sum", rank=20).fit(fit)
    trusted = DKPCA(2, law="sum", rank=20).fit(tables[0])
    with pytest.warns(MissingPartyWarning):
        placed = model.transform(without(new, "b"))
    with pytest.warns(MissingPartyWarning):
        expected = trusted.transform(without(tables[1], "b"))
    np.testing.assert_allclose(np.abs(placed.numpy()), np.abs(expected), atol=1e-5)


def test_some_party_is_needed(tables):
    fit, _ = tables
    with pytest.raises(InputError, match="no party was given"):
        DKPCA(2, kernel="linear").fit(fit).transform({})


def test_the_exact_projection_needs_every_party(tables):
    fit, new = tables
    model = DKPCA(2, kernel="linear", projection="exact").fit(fit)
    with pytest.raises(FusionError, match=r"the exact projection needs every party, and \['b'\] are missing"):
        model.transform(without(new, "b"))
