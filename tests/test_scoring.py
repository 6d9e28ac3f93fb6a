"""Under the sum law each party scores its own columns, and one may be missing."""

import numpy as np
import pytest

from dkpca import DKPCA, wire
from dkpca.errors import FusionError, InputError
from dkpca.fusion.scoring import add_scores, party_shares, scorers
from dkpca.messages import digest
from dkpca.party import score


@pytest.fixture
def fitted(rng):
    X = rng.standard_normal((50, 4)) @ rng.standard_normal((4, 12)) + 0.3 * rng.standard_normal((50, 12))
    blocks = {name: X[:, columns] for name, columns in (("a", slice(5)), ("b", slice(5, 9)), ("c", slice(9, 12)))}
    fit = {name: block[:40] for name, block in blocks.items()}
    return fit, {name: block[40:] for name, block in blocks.items()}


def parts_of(model, new):
    return [score(model._states[name], scorer, new[name]) for name, scorer in scorers(model.model_).items()]


@pytest.mark.parametrize("settings", [{"kernel": "linear"}, {"law": "sum"}, {"law": "sum", "weights": "balanced"}])
@pytest.mark.parametrize("solver", ["dense", "landmark"])
def test_shares_add_up_to_the_scores_by_factor_rows(fitted, settings, solver):
    fit, new = fitted
    model = DKPCA(3, rank=20, precision="float64", solver=solver, **settings).fit(fit)
    placed = add_scores(model.model_, parts_of(model, new))
    np.testing.assert_allclose(placed.scores, model.transform(new), atol=1e-9)
    assert placed.missing == ()
    assert placed.share_missing == (0.0, 0.0, 0.0)


def test_a_missing_party_lacks_just_its_share(fitted):
    fit, new = fitted
    model = DKPCA(3, kernel="linear", precision="float64", rank=12).fit(fit)
    a, b, c = parts_of(model, new)
    placed = add_scores(model.model_, [a, c], missing=["b"])
    whole = add_scores(model.model_, [a, b, c])
    np.testing.assert_allclose(whole.scores - placed.scores, b.scores.decode(), atol=1e-12)
    shares = party_shares(model.model_)
    np.testing.assert_allclose(placed.share_missing, shares["b"])


def test_shares_are_those_of_the_variance(fitted):
    fit, _ = fitted
    model = DKPCA(3, kernel="linear", precision="float64", rank=12).fit(fit)
    V = model.eigenvectors_
    for name, share in party_shares(model.model_).items():
        X = fit[name] - fit[name].mean(0)
        np.testing.assert_allclose(share, ((X.T @ V) ** 2).sum(0) / model.eigenvalues_, rtol=1e-9)


def test_messages_survive_the_wire(fitted):
    fit, new = fitted
    model = DKPCA(2, kernel="linear", rank=3).fit(fit)
    for scorer, part in zip(scorers(model.model_).values(), parts_of(model, new), strict=True):
        for message in (scorer, part):
            assert wire.encode(wire.decode(wire.encode(message))) == wire.encode(message)


def test_what_cannot_be_added_is_refused(fitted):
    fit, new = fitted
    model = DKPCA(2, kernel="linear", rank=3).fit(fit)
    a, b, c = parts_of(model, new)
    fused = model.model_
    with pytest.raises(FusionError, match=r"no scores from \['c'\]; wait for them, or say that they are missing"):
        add_scores(fused, [a, b])
    with pytest.raises(FusionError, match=r"\['c'\] are said to be missing, but their scores are there"):
        add_scores(fused, [a, b, c], missing=["c"])
    with pytest.raises(FusionError, match=r"\['shop'\] had no part in the fit"):
        add_scores(fused, [a, b, c], missing=["shop"])
    with pytest.raises(FusionError, match="at least one has to"):
        add_scores(fused, [], missing=["a", "b", "c"])
    other = score(model._states["a"], scorers(fused)["a"], new["a"], sample_ids=[str(i) for i in range(10)])
    assert other.sample_digest == digest([str(i) for i in range(10)])
    with pytest.raises(FusionError, match="scored different samples"):
        add_scores(fused, [other, b, c])
    again = DKPCA(2, kernel="linear", rank=2).fit(fit)
    with pytest.raises(FusionError, match="its scores are for another fit"):
        add_scores(again.model_, [a, b, c])
    with pytest.raises(InputError, match="the scorer is for 'b' and another fit"):
        score(model._states["a"], scorers(fused)["b"], new["a"])


def test_a_product_has_no_shares(fitted):
    fit, _ = fitted
    with pytest.raises(InputError, match="no party can score its columns alone; .*fit with law='sum'"):
        scorers(DKPCA(2, gamma=0.1).fit(fit).model_)
