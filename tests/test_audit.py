"""The audit: what true rows prove, what they let expect, and who is found out by them."""

import json
import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import StandardScaler

from dkpca import DKPCA, subspace_error
from dkpca.errors import FusionError, InputError, PolicyError, WireError
from dkpca.fusion import audit, fuse
from dkpca.fusion.audit import mean_at_most
from dkpca.linalg.precision import Rounded
from dkpca.messages import AuditRequest
from dkpca.party.limits import ANYTHING
from dkpca.party.summaries import true_rows
from testkit.joined_kernels import JOINED, fused_matrix
from testkit.joined_kernels import table as table_for


def fitted(X, D=4, n_parties=3, **settings):
    tables = {f"p{j}": b for j, b in enumerate(np.array_split(X, n_parties, axis=1))}
    return DKPCA(D, **settings).fit(tables), tables


def sent(rows):
    """All rows of an answer as they travel."""
    return replace(rows, rows=rows.rows.columns(slice(None)))


def answers(model, tables, asked):
    return [sent(true_rows(model._states[name], X, asked)) for name, X in tables.items()]


def audits(model, tables, n_rows, seeds):
    for seed in seeds:
        asked = audit.request(model.model_, n_rows, seed)
        yield audit.audited(model.model_, asked, answers(model, tables, asked)).certificate.audit


@pytest.fixture(scope="module")
def cancer():
    X = StandardScaler().fit_transform(load_breast_cancer().data)[:250]
    model, tables = fitted(X, rank=30)
    return model, tables, fitted(X, rank=250, precision="float64", solver="dense")[0]


@pytest.mark.longer
@pytest.mark.parametrize("draw", [lambda rng, n: rng.random(n) < 0.03, lambda rng, n: rng.beta(0.3, 4, n)])
def test_the_bound_by_betting_holds_as_often_as_it_says(draw, rng):
    mean = float(np.mean(draw(rng, 10**6)))
    bounds = np.array([mean_at_most(draw(rng, 60).astype(float), 0.05) for _ in range(400)])
    assert np.mean(bounds >= mean) >= 0.93
    assert np.median(bounds) < 5 * mean


def test_nothing_but_zeros_is_bounded_by_little():
    assert 0.0 < mean_at_most(np.zeros(100), 0.05) < 0.05
    assert mean_at_most(np.ones(100), 0.05) == 1.0


def test_what_it_proves_holds_and_what_it_estimates_is_near(cancer):
    model, tables, true = cancer
    kernel = np.linalg.norm(fused_matrix(true) - fused_matrix(model))
    subspace = subspace_error(true.eigenvectors_, model.eigenvectors_)
    found = list(audits(model, tables, 100, range(40)))
    bounds = np.array([each.kernel_error_at_most for each in found]) / kernel
    assert np.mean(bounds >= 1) >= 0.95
    assert np.median(bounds) < 1.3
    ratios = np.array([each.subspace_error_estimate for each in found]) / subspace
    assert np.mean((ratios > 0.2) & (ratios < 5)) >= 0.9


@pytest.mark.longer
@pytest.mark.parametrize(("data", "law", "rank"), [(load_breast_cancer, "sum", 6), (load_wine, "product", 4)])
def test_its_estimate_sees_that_what_lies_behind_the_components_gains_too(data, law, rank):
    """Where parties send few eigenpairs, the gap behind the components closes."""
    X = StandardScaler().fit_transform(data().data)[:250]
    model, tables = fitted(X, 5, rank=rank, law=law)
    true = fitted(X, 5, rank=len(X), precision="float64", solver="dense", law=law)[0]
    error = subspace_error(true.eigenvectors_, model.eigenvectors_)
    ratios = [each.subspace_error_estimate / error for each in audits(model, tables, 60, range(10))]
    assert 0.5 < np.median(ratios) < 2


@pytest.mark.longer
@pytest.mark.filterwarnings("ignore::dkpca.errors.DataWarning")
@pytest.mark.parametrize(("law", "weights"), [(None, None), ("product", None), ("sum", None), ("sum", "balanced")])
@pytest.mark.parametrize("kernel", sorted(JOINED))
def test_its_bound_holds_for_every_kernel_and_law(kernel, law, weights, rng):
    X = table_for(rng, kernel, 40)
    settings = {"kernel": kernel, "law": law, "weights": weights, "solver": "dense"}
    model, tables = fitted(X, 3, rank=3, **settings)
    true, _ = fitted(X, 3, rank=40, precision="float64", **settings)
    if weights:
        tables_of = {name: model.model_.weights[name] for name in tables}
        true = replace_weights(true, tables_of)
    error = np.linalg.norm(fused_matrix(true) - fused_matrix(model))
    found = [each.kernel_error_at_most for each in audits(model, tables, 50, range(10))]
    assert np.mean(np.array(found) >= error * (1 - 1e-9)) >= 0.9
    assert min(found) < 20 * error + 1e-9 * np.trace(fused_matrix(true))


def replace_weights(model, weights):
    """Balanced weights follow from what was sent, which differs between the two."""
    model.model_ = replace(model.model_, weights=weights)
    return model


def test_the_estimator_asks_for_it(cancer):
    _, tables, _ = cancer
    model = DKPCA(4, rank=30, audit=60, random_state=3).fit(tables)
    found = model.certificate_.audit
    assert (found.n_rows, found.confidence) == (60, 0.95)
    again = DKPCA(4, rank=30, random_state=3).fit(tables).run_audit(60)
    assert again.certificate_.audit == found
    assert DKPCA(4, rank=30).fit(tables).certificate_.audit is None
    told = json.loads(json.dumps(model.certificate_.to_dict(), allow_nan=False))
    assert told["audit"]["kernel_error_at_most"] == found.kernel_error_at_most
    assert f"An audit of 60 true rows (seed {found.seed}) proves, at 95%" in str(model.certificate_)
    assert "(estimated by an audit)" in str(model.certificate_)


def test_it_survives_saving(cancer, tmp_path):
    _, tables, _ = cancer
    model = DKPCA(4, rank=30, audit=20).fit(tables)
    model.save(tmp_path / "model")
    again = DKPCA.load(tmp_path / "model")
    assert again.certificate_.audit is not None
    assert again.certificate_.audit == model.certificate_.audit
    np.testing.assert_allclose(again.model_.nearby.vectors, model.model_.nearby.vectors)


def test_draws_follow_from_the_seed_and_prefer_what_was_left_out(cancer):
    model = cancer[0].model_
    assert audit.request(model, 50, 1) == audit.request(model, 50, 1)
    assert audit.request(model, 50, 1).samples != audit.request(model, 50, 2).samples
    missing = 1.0 - np.diagonal(fused_matrix(cancer[0]))
    chosen = audit.request(model, 60, 0).samples
    assert missing[list(chosen)].mean() > missing.mean()


def test_a_party_whose_rows_contradict_its_factor_is_named(cancer):
    model, tables, _ = cancer
    asked = audit.request(model.model_, 30, 0)
    honest = answers(model, tables, asked)
    other = tables["p1"] + 0.3 * np.random.default_rng(0).standard_normal(tables["p1"].shape)
    lying = true_rows(model._states["p1"], other, asked)
    with pytest.raises(FusionError, match="party 'p1': the rows it sent for the audit differ from its factor by"):
        audit.audited(model.model_, asked, [honest[0], lying, honest[2]])
    rows = honest[1].rows.decode()
    rows = rows - 0.05 * (np.arange(rows.shape[1])[None, :] == np.array(asked.samples)[:, None])
    lower = replace(honest[1], rows=Rounded(rows))
    with pytest.raises(FusionError, match="party 'p1': the rows it sent for the audit lie under its factor by 0.0"):
        audit.audited(model.model_, asked, [honest[0], lower, honest[2]])


def test_a_party_whose_rows_are_too_large_to_be_squared_is_named(cancer):
    model, tables, _ = cancer
    asked = audit.request(model.model_, 20, 0)
    first, second, *others = answers(model, tables, asked)
    data = np.array(second.rows.decode())
    data[3, 100] = 1e308
    with pytest.raises(FusionError, match=r"party 'p1': the rows .* as large as 1e\+308; its diagonal is at most 1:"):
        audit.audited(model.model_, asked, [first, replace(second, rows=Rounded(data)), *others])


def test_a_party_that_understates_what_it_left_out_is_named(cancer):
    """Its summary passes every check of its own: only true rows show it."""
    model, tables, _ = cancer
    summary = model.model_.summaries["p0"]
    least = float(np.max(1.0 - np.sum(summary.factor.decode() ** 2, axis=1)))
    understated = replace(summary, left_out_norm=least + summary.rounding_norm)
    assert understated.left_out_norm < summary.left_out_norm
    received = model.model_.summaries | {"p0": understated}
    false = fuse(received.values(), n_components=model.model_.n_components)
    asked = audit.request(false, 200, 0)
    told = answers(model, tables, asked)
    told[0] = replace(told[0], summary_id=model._states["p0"].summary_id)
    from dkpca import wire

    told[0] = replace(told[0], summary_id=wire.fingerprint(understated))
    with pytest.raises(FusionError, match="party 'p0': the rows it sent for the audit differ"):
        audit.audited(false, asked, told)


def test_answers_that_do_not_belong_are_refused(cancer):
    model, tables, _ = cancer
    asked = audit.request(model.model_, 20, 0)
    told = answers(model, tables, asked)
    with pytest.raises(FusionError, match=r"no audit from \['p2'\]"):
        audit.audited(model.model_, asked, told[:2])
    with pytest.raises(FusionError, match="more than one audit from party 'p0'"):
        audit.audited(model.model_, asked, [*told, told[0]])
    others = answers(model, tables, audit.request(model.model_, 20, 1))
    with pytest.raises(FusionError, match="party 'p0': sent other rows than those that were drawn"):
        audit.audited(model.model_, asked, [others[0], *told[1:]])
    with pytest.raises(FusionError, match="party 'p1': its rows are for another summary"):
        audit.audited(model.model_, asked, [told[0], replace(told[1], summary_id="0" * 64), told[2]])
    with pytest.raises(FusionError, match="drawn for another model"):
        audit.audited(model.model_, replace(asked, seed=5), told)


def test_a_party_answers_about_the_table_of_the_fit_within_its_limits(cancer):
    model, tables, _ = cancer
    asked = audit.request(model.model_, 20, 0)
    state, X = model._states["p0"], tables["p0"]
    with pytest.raises(
        InputError, match="party 'p0': the audit is about 250 samples of a fit, and the table has 249"
    ):
        true_rows(state, X[:-1], asked)
    with pytest.raises(InputError, match="party 'p0': the table has 3 columns, the fit had 10"):
        true_rows(state, X[:, :3], asked)
    with pytest.raises(PolicyError, match="rows for an audit are more than audit_rows = 5"):
        true_rows(state, X, asked, limits=replace(ANYTHING, audit_rows=5))
    found = sent(true_rows(state, X, asked, limits=replace(ANYTHING, audit_rows=20)))
    assert found.rows.decode().shape == (len(asked.samples), 250)


def test_a_fit_that_is_protected_is_not_audited_in_the_open(cancer):
    model, tables, _ = cancer
    asked = audit.request(model.model_, 20, 0)
    with pytest.raises(InputError, match="audit=20 makes every party send true, unprotected rows"):
        DKPCA(4, rank=30, audit=20, protect="sums").fit(tables)
    with pytest.raises(InputError, match="party 'p0': its fit was protected"):
        true_rows(replace(model._states["p0"], protect="blind"), tables["p0"], asked)
    with pytest.raises(PolicyError, match=r"protect = \['sums'\] only"):
        true_rows(model._states["p0"], tables["p0"], asked, limits=replace(ANYTHING, protect=("sums",)))


@pytest.mark.parametrize("samples", [(), (3, 3), (4, 2), (-1, 2)])
def test_a_request_for_samples_that_cannot_be_is_refused(samples):
    from dkpca.wire import codec

    described = {"n_samples": 9, "sample_digest": "0" * 64, "seed": 1, "draws": 4, "samples": list(samples)}
    with pytest.raises(WireError, match="ascending and each once"):
        codec.decode(AuditRequest, described, what="a request")
    with pytest.raises(InputError, match="cannot be these"):
        AuditRequest(9, "0" * 64, 1, 4, (8, 9))


def test_more_rows_than_an_audit_has_are_refused(cancer):
    with pytest.raises(InputError, match="an audit of 0 rows; ask for 1 to 5000"):
        audit.request(cancer[0].model_, 0, 0)


@pytest.mark.torch
def test_torch_agrees(cancer, torch):
    _, tables, _ = cancer
    ours = DKPCA(4, rank=30, audit=20).fit(tables).certificate_.audit
    theirs = DKPCA(4, rank=30, audit=20).fit({n: torch.asarray(X) for n, X in tables.items()}).certificate_.audit
    assert math.isclose(ours.kernel_error_at_most, theirs.kernel_error_at_most, rel_tol=1e-6)
    assert math.isclose(ours.subspace_error_estimate, theirs.subspace_error_estimate, rel_tol=1e-3)


def test_rows_at_hand_say_what_sent_rows_say(cancer):
    model, tables, _ = cancer
    asked = audit.request(model.model_, 30, 0)
    open_rows = [true_rows(model._states[name], X, asked) for name, X in tables.items()]
    told = [audit.audited(model.model_, asked, rows) for rows in (open_rows, map(sent, open_rows))]
    assert told[0].certificate.audit == told[1].certificate.audit


@pytest.mark.longer
def test_tables_at_hand_are_audited_without_their_rows_of_the_matrix(rng):
    tables = {f"p{j}": rng.standard_normal((12_000, 2)) for j in range(4)}
    model = DKPCA(2, rank=3, gamma=0.2, solver="landmark", n_landmarks=30).fit(tables)
    tracemalloc.start()
    model.run_audit(100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    rows = 100 * 12_000 * 8
    assert peak < 2 * rows  # those of four parties, the true and the fused ones would be three times as much
