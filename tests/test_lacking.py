"""Samples that a party lacks: refused, dropped, replaced by the mean row, or completed; and what is said about it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from dkpca import DKPCA, subspace_error
from dkpca.errors import DataWarning, FusionError, InputError, MissingPartyWarning
from dkpca.exchange.protocols import Terms, fit
from dkpca.fusion import scoring
from dkpca.fusion.completion import held_by
from dkpca.party import extend
from dkpca.settings import Fit
from tests.test_completion import weights

T = 80
GAMMA = 0.02


@pytest.fixture(scope="module")
def whole():
    rng = np.random.default_rng(7)
    common = rng.standard_normal((T, 3))
    index = [f"s{i:02d}" for i in range(T)]
    return {
        name: pd.DataFrame(common @ rng.standard_normal((3, 5)) + 0.3 * rng.standard_normal((T, 5)), index=index)
        for name in ("bank", "clinic", "shop")
    }


@pytest.fixture(scope="module")
def tables(whole):
    has = np.random.default_rng(8).random((T, len(whole))) >= 0.2
    has[~has.any(axis=1), 0] = True
    kept = zip(whole.items(), has.T, strict=True)
    return {name: table[own].sample(frac=1, random_state=3) for (name, table), own in kept}


@pytest.fixture(scope="module")
def at_two(tables):
    """The same without samples that one party has alone."""
    held = pd.concat([table.index.to_series() for table in tables.values()]).value_counts()
    return {name: table[held[table.index].to_numpy() > 1] for name, table in tables.items()}


def estimator(**settings):
    return DKPCA(**{"n_components": 4, "gamma": GAMMA, "rank": 20, "precision": "float64", **settings})


def in_order(model, whole):
    """Eigenvectors in the order of the complete table."""
    return model.eigenvectors_[np.argsort(pd.Index(next(iter(whole.values())).index).get_indexer(model.sample_ids_))]


def grams(whole, law=None):
    kernels = {}
    for name, table in whole.items():
        X = table.to_numpy()
        kernels[name] = np.exp(-GAMMA * ((X[:, None] - X[None]) ** 2).sum(-1))
    return kernels


def true_completed(model, tables, law):
    """Gram matrix of the table that has the stated mixtures, from the parties' own columns, with W written out."""
    lacked = model.model_.lacking
    held = {name: held_by(summary, lacked.places[name], "float64") for name, summary in lacked.sent.items()}
    own = grams(tables)
    if lacked.mode == "complete":
        W = {name: weights(lacked.completion, held, name) for name in held}
    else:
        W = {}
        for name, part in held.items():
            W[name] = np.full((T, len(part.rows)), 1.0 / len(part.rows))
            W[name][part.rows] = np.eye(len(part.rows))
    parts = [W[name] @ own[name] @ W[name].T for name in held]
    return np.prod(parts, axis=0) if law == "product" else np.sum(parts, axis=0)


def centered(K):
    K = K - K.mean(axis=0)
    return K - K.mean(axis=1, keepdims=True)


def test_lacking_samples_are_refused_unless_asked_for(tables):
    with pytest.raises(InputError, match=r"have different samples: .* use lacking='drop' or 'complete'"):
        estimator().fit(tables)


def test_labels_of_another_kind_are_named_where_none_is_common(whole):
    numbered = {name: table.set_axis(range(T)) for name, table in whole.items()}
    numbered["bank"] = numbered["bank"].set_axis(map(str, range(T)))
    with pytest.raises(InputError, match="0 in common by their labels; .* the same kind of label"):
        estimator().fit(numbered)
    with pytest.raises(InputError, match="no sample is common to all parties .*; check that all use the same kind"):
        estimator(lacking="drop").fit(numbered)


def test_dropping_under_protection_is_said(tables):
    with pytest.warns(DataWarning, match="using the .* samples that all tables have"):
        estimator(lacking="drop", protect="sums", rank="auto").fit(tables)


@pytest.mark.parametrize("mode", ["mean", "complete", "drop"])
def test_with_nothing_lacking_the_answer_is_bit_equal(whole, mode):
    shuffled = {name: table.sample(frac=1, random_state=1) for name, table in whole.items()}
    shuffled["bank"] = whole["bank"]
    with pytest.warns(DataWarning, match="were put into the order of party 'bank'"):
        model = estimator(lacking=mode).fit(shuffled)
    assert np.array_equal(model.eigenvectors_, estimator().fit(whole).eigenvectors_)
    assert model.model_.lacking is None


def test_drop_uses_the_common_samples_and_says_who_has_how_many(tables):
    common = [label for label in tables["bank"].index if all(label in table.index for table in tables.values())]
    counts = ", ".join(f"{name} has {len(table)}" for name, table in tables.items())
    said = rf"using the {len(common)} samples .*\({counts}\)$"
    with pytest.warns(DataWarning, match=said):
        model = estimator(lacking="drop").fit(tables)
    assert list(model.sample_ids_) == common
    expected = estimator().fit({name: table.loc[common] for name, table in tables.items()})
    assert np.array_equal(model.eigenvectors_, expected.eigenvectors_)


def test_dropping_leaves_as_few_new_samples_as_all_parties_have(whole):
    model = estimator(lacking="drop").fit(whole)
    new = {name: table.iloc[[own, 5]] for own, (name, table) in enumerate(whole.items())}
    with pytest.warns(DataWarning, match="using the 1 sample that all tables have"):
        placed = model.transform(new)
    np.testing.assert_allclose(placed[0], model.transform(whole)[5], atol=1e-9)
    with pytest.raises(InputError, match="no sample is common to all parties .*; check"):
        model.transform({name: table.iloc[:1] for name, table in new.items()})


@pytest.mark.parametrize("law", ["product", "sum"])
@pytest.mark.parametrize("solver", ["dense", "streamed", "landmark"])
@pytest.mark.parametrize("mode", ["mean", "complete"])
@pytest.mark.parametrize("precision", ["float64", "float16"])
def test_what_is_proved_holds_for_the_table_with_the_mixtures(tables, law, solver, mode, precision):
    model = estimator(law=law, solver=solver, lacking=mode, precision=precision, n_landmarks=70).fit(tables)
    K = centered(true_completed(model, tables, law))
    certificate, V = model.certificate_, model.eigenvectors_
    fused = centered(np.asarray(model.model_.law.recombine([s.factor.decode() @ s.factor.decode().T for s in
                     model.model_.summaries.values()])))  # fmt: skip
    gap = np.linalg.eigvalsh(K - fused)
    assert -certificate.kernel_error_below <= gap[0] + 1e-9
    assert gap[-1] <= certificate.kernel_error_above + 1e-9
    values, vectors = np.linalg.eigh(K)
    assert (np.array(certificate.eigenvalues_at_least) <= values[::-1][:4] + 1e-9).all()
    assert (values[::-1][:4] <= np.array(certificate.eigenvalues_at_most) + 1e-9).all()
    assert subspace_error(vectors[:, ::-1][:, :4], V) <= certificate.subspace_error_at_most
    captured = np.trace(V.T @ K @ V)
    assert certificate.captured_at_least <= captured + 1e-9
    assert np.trace(K) <= certificate.total_variance_at_most + 1e-9


def test_mean_rows_at_full_rank_are_kernel_pca_of_the_padded_kernels(tables):
    model = estimator(lacking="mean", rank=T, solver="dense").fit(tables)
    K = centered(true_completed(model, tables, "product"))
    values, vectors = np.linalg.eigh(K)
    np.testing.assert_allclose(model.eigenvalues_, values[::-1][:4], rtol=1e-10)
    assert subspace_error(vectors[:, ::-1][:, :4], model.eigenvectors_) < 1e-12


@pytest.mark.longer
def test_completed_rows_halve_the_error_of_mean_rows(whole, tables):
    best = estimator(rank=T).fit(whole).eigenvectors_
    errors = {
        mode: subspace_error(best, in_order(estimator(lacking=mode, rank=T).fit(tables), whole))
        for mode in ("mean", "complete")
    }
    assert errors["complete"] < 0.5 * errors["mean"]


def test_the_certificate_keeps_what_is_proved_apart_from_what_is_held_out(tables):
    model = estimator(lacking="complete").fit(tables)
    *_, proved, estimated = model.certificate_.statements()
    assert f"Of {T} samples, {T - len(tables['bank'])} are missing from bank" in proved
    assert "hold for the table with mixtures of the party's own rows in place of the missing ones" in proved
    assert "estimated on held-out rows (R²): bank 0." in estimated
    assert "proved" not in estimated
    found = model.certificate_.to_dict()["completed"]
    assert set(found["held_out"]) == set(tables)
    assert all(size > 1.0 for size in found["norm_squared"].values())
    worst = min(found["held_out"].values())
    replaced = "(estimated, for the table with replaced rows"
    assert model.certificate_.verdict().endswith(f"{replaced}, whose held-out R² is {worst:.2f} or more).")
    means = estimator(lacking="mean").fit(tables).certificate_
    assert means.completed.held_out == {}
    assert means.verdict().endswith(f"{replaced}).")


@pytest.mark.versions
@pytest.mark.longer
@pytest.mark.parametrize("mode", ["mean", "complete"])
@pytest.mark.parametrize("law", ["product", "sum"])
@pytest.mark.parametrize("solver", ["dense", "landmark"])
def test_samples_of_the_fit_that_come_again_get_their_scores(tables, mode, law, solver, tmp_path):
    model = estimator(lacking=mode, law=law, solver=solver).fit(tables)
    with pytest.warns(MissingPartyWarning, match=rf"of {T} new samples, parties lack: bank \d+"):
        again = model.transform(tables)
    np.testing.assert_allclose(again, model.fit_transform(tables), atol=1e-6)
    model.save(tmp_path / "model")
    with pytest.warns(MissingPartyWarning):
        np.testing.assert_allclose(DKPCA.load(tmp_path / "model").transform(tables), again, atol=1e-9)


@pytest.mark.longer
def test_new_samples_without_a_party_are_completed(whole):
    fit, new = ({name: table.iloc[rows] for name, table in whole.items()} for rows in (slice(60), slice(60, None)))
    model = estimator(lacking="complete").fit(fit)
    true = model.transform(new)
    some = {name: table for name, table in new.items() if name != "shop"}
    with pytest.warns(MissingPartyWarning, match="shop 20; rows completed from the other parties"):
        completed = model.transform(some)
    with pytest.warns(MissingPartyWarning, match="shop 20; mean rows are used instead"):
        by_mean = estimator(lacking="mean").fit(fit).transform(some)
    assert np.linalg.norm(completed - true) < 0.5 * np.linalg.norm(by_mean - true)


@pytest.mark.longer
def test_ids_are_the_labels_of_the_rows(tables):
    model = estimator(lacking="complete", kernel="linear", gamma=None, rank=5, n_components=3).fit(tables)
    assert list(model.sample_ids_)[: len(tables["bank"])] == list(tables["bank"].index)
    assert set(model.sample_ids_) == set().union(*(table.index for table in tables.values()))
    scores = model.set_output(transform="pandas").fit_transform(tables)
    assert list(scores.index) == list(model.sample_ids_)


@pytest.mark.longer
def test_values_for_samples_in_another_order_are_refused(tables, whole):
    y = pd.Series(np.arange(T), index=whole["bank"].index)
    with pytest.raises(InputError, match=r"the 80 values of y do not match .* take y.loc\[model.sample_ids_\]"):
        estimator(lacking="complete").fit(tables, y)
    with pytest.raises(InputError, match="values of y do not match"):
        make_pipeline(estimator(lacking="mean"), LogisticRegression()).fit(tables, np.zeros(len(tables["bank"])))
    model = estimator(lacking="complete").fit(tables)
    estimator(lacking="complete").fit(tables, y.loc[model.sample_ids_])


@pytest.mark.longer
def test_lacking_that_is_not_at_random_is_said(whole):
    scores = estimator().fit_transform(whole)
    gone = scores[:, 0] > np.quantile(scores[:, 0], 0.75)
    tables = whole | {"shop": whole["shop"][~gone]}
    with pytest.warns(DataWarning, match=r"'shop' does not lack samples at random: .* component 1 \(corr"):
        estimator(lacking="complete").fit(tables)
    classes = pd.Series(np.where(gone, "ill", "well"), index=whole["bank"].index)
    with (
        pytest.warns(DataWarning, match="component 1"),
        pytest.warns(DataWarning, match="the gaps go with y = ill"),
    ):
        estimator(lacking="complete").fit(tables, classes)


@pytest.mark.parametrize("kernel", ["poly", "cosine"])
def test_kernels_that_need_the_length_of_every_sample_are_refused(tables, kernel):
    with pytest.raises(
        InputError, match=f"^the {kernel} kernel of the joined table .* and some are lacking; use another"
    ):
        estimator(kernel=kernel, lacking="complete").fit(tables)


def test_what_cannot_be_is_refused_with_the_reason(tables, whole):
    few = {"bank": whole["bank"].iloc[:45], "clinic": whole["clinic"].iloc[40:]}
    with pytest.raises(InputError, match="party 'bank' shares 5 of its 45 samples with other parties"):
        estimator(lacking="complete").fit(few)
    with pytest.raises(InputError, match=r"\['shop'\] have no labels to match by; give them with sample_ids"):
        estimator(lacking="complete").fit(tables | {"shop": tables["shop"].to_numpy()})
    model = estimator(lacking="complete").fit(tables)
    with pytest.raises(InputError, match="run_audit needs the true rows, but some parties lack rows"):
        model.run_audit(5)
    with pytest.raises(InputError, match="score needs samples that every party has"):
        model.score(tables)


@pytest.mark.parametrize("mode", ["mean", "complete"])
@pytest.mark.parametrize("protect", ["sums", "blind"])
def test_protected_fits_keep_only_samples_that_all_have(tables, protect, mode):
    with pytest.raises(InputError, match=f"protect='{protect}' cannot hide the others' numbers for them"):
        DKPCA(2, kernel="linear", protect=protect, lacking=mode).fit(tables)


def test_a_study_by_position_lacks_no_samples():
    protocol = fit(["bank", "shop"], Fit(lacking="complete"), Terms("run", study=True))
    with pytest.raises(InputError, match="when rows match by position none are lacking; use align='tokens' or 'psi'"):
        next(protocol)


def test_new_samples_that_extend_another_summary_are_refused(tables):
    model, other = (estimator(lacking="mean", gamma=gamma).fit(tables) for gamma in (GAMMA, 2 * GAMMA))
    new = {name: extend(model._states[name], table.to_numpy()[:2]) for name, table in tables.items()}
    places = dict.fromkeys(new, (0, 1)) | {"bank": (0, 2)}
    assert scoring.place(model.model_, new.values(), lacking="mean", places=places).scores.shape == (3, 4)
    with pytest.raises(FusionError, match="party 'bank': its new samples are others, or extend another summary"):
        scoring.place(other.model_, new.values(), lacking="mean", places=places)
