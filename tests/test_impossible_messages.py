"""What no honest party can have sent is refused by name; what an honest one sends never is."""

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from dkpca import party, summarize, wire
from dkpca.errors import DKPCAError, FusionError, WireError
from dkpca.fusion import fuse, plausibility
from dkpca.fusion.scoring import project, project_exact
from dkpca.kernels import RBF, ChiSquared, CosineKernel, Laplacian, Linear, Overlap, Polynomial
from dkpca.linalg.landmark import Landmark
from dkpca.linalg.precision import CHECKED, PRECISIONS, Rounded, round_to
from dkpca.messages import CovariateRows, Partials, Rows, Scores
from dkpca.party.questions import HEADER, CovariatesWanted, ResultGiven, RowsWanted, decode, encode
from dkpca.rank import Adaptive, Auto, Fixed

SOLVERS = ("dense", "streamed", "landmark", Landmark(5))
COLUMNS = np.random.default_rng(5).standard_normal((40, 4))


def summary(kernel=None, precision="float32", rank=12, X=COLUMNS, **more):
    rule = Fixed(rank) if isinstance(rank, int) else rank
    how = {"party": "bank", "kernel": kernel or RBF(0.1), "rank": rule, "precision": precision}
    return summarize(X, **(how | more))[0]


def with_factor(message, change):
    """The same message with another factor, in the precision it had."""
    return replace(message, factor=round_to(change(message.factor.decode()), message.factor.precision))


def swapped(B):
    return B[:, ::-1]


def slanted(B):
    return np.hstack([B[:, :1], B[:, 1:] + 0.5 * B[:, :1]])


def one_row_longer(B):
    B = B.copy()
    B[3] *= 1.5
    return B


IMPOSSIBLE = [
    (lambda s: with_factor(s, lambda B: 3.0 * B), "and the rbf kernel of that sample with itself is 1"),
    (lambda s: with_factor(s, lambda B: 1000.0 * B), "and the rbf kernel of that sample with itself is 1"),
    (lambda s: with_factor(s, lambda B: 0.999 * B), "its rbf matrix has the trace 40"),
    (lambda s: with_factor(s, np.zeros_like), "its rbf matrix has the trace 40"),
    (lambda s: replace(with_factor(s, np.zeros_like), trace_left_out=40.0), "all of them together are at most"),
    (
        lambda s: replace(with_factor(s, np.zeros_like), trace_left_out=40.0, left_out_norm=40.0),
        "its factor is zero, and its rbf matrix is not",
    ),
    (lambda s: with_factor(s, one_row_longer), "are not orthogonal"),
    (lambda s: with_factor(s, slanted), "columns 1 and 2 of its factor are not orthogonal"),
    (lambda s: with_factor(s, swapped), "is longer than column"),
    (lambda s: replace(s, trace_left_out=-1e300), "which cannot be negative"),
    (lambda s: replace(s, trace_left_out=s.trace_left_out + 0.5), "is left out, but"),
    (lambda s: replace(s, left_out_norm=0.0), "no eigenvalue left out exceeds 0"),
    (lambda s: replace(s, factor=Rounded(1e160 * s.factor.decode())), "whose squares are too large"),
    (lambda s: replace(s, rounding_norm=1e308), "too large to compute with"),
    (lambda s: replace(s, n_features=-1), "it states -1 columns"),
]


@pytest.mark.parametrize("precision", sorted(PRECISIONS))
@pytest.mark.parametrize(("change", "words"), IMPOSSIBLE)
def test_an_impossible_summary_is_refused_with_the_name_of_its_party(change, words, precision):
    honest = summary(precision=precision)
    other = replace(honest, party="shop")
    assert fuse([honest, other], n_components=2).n_components == 2
    with pytest.raises(FusionError, match="party 'bank'") as refusal:
        fuse([change(honest), other], n_components=2)
    assert words in str(refusal.value)


@pytest.mark.parametrize("precision", sorted(PRECISIONS))
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: replace(s, trace_left_out=-1e300), "which cannot be negative"),
        (lambda s: replace(s, trace_left_out=1e300), "all of them together are at most"),
        (lambda s: with_factor(s, slanted), "are not orthogonal"),
        (lambda s: with_factor(s, swapped), "is longer than column"),
    ],
)
def test_an_impossible_linear_summary_is_refused(change, words, precision):
    honest = summary(Linear(), precision, rank=3)
    with pytest.raises(FusionError, match=words):
        fuse([change(honest)], n_components=2)


@pytest.mark.parametrize("name", ["left_out_norm", "trace_left_out", "rounding_norm", "rounding_nuclear"])
@pytest.mark.parametrize("size", [1e300, 3e306, 1.7e308])
def test_statements_that_add_up_to_infinity_are_refused_and_the_others_give_a_finite_certificate(name, size):
    states_much = replace(summary(Linear(), rank=3), **{name: size})
    many = [replace(states_much, party=f"p{j:02d}") for j in range(60)]
    try:
        numbers = fuse(many, n_components=2).certificate.to_dict()
    except FusionError as refused:
        refusal = str(refused)
    else:
        refusal = ""
        json.dumps(numbers, allow_nan=False)
    assert not refusal or "party 'p" in refusal


def far_apart(X):
    return 100.0 * X


def with_duplicates(X):
    return X[np.arange(len(X)) % max(1, len(X) // 3)]


def categories(X):
    return (X.max(axis=1, keepdims=True) == X).astype(float)


def tied_pairs(X):
    return np.sign(X)


TABLES: dict[str, Callable[[Any], Any]] = {
    "plain": lambda X: X,
    "far apart": far_apart,
    "duplicates": with_duplicates,
    "categories": categories,
    "ties": tied_pairs,
    "large": lambda X: 1e3 * X,
    "huge": lambda X: 1e40 * X,
    "small": lambda X: 1e-6 * X,
    "offset": lambda X: X + 30.0,
    "seconds": lambda X: 1e9 + 1e6 * X,
    "constant": np.ones_like,
}


@st.composite
def honest_summaries(draw):
    """Whatever the library makes of any table, with any of its settings."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, m = draw(st.sampled_from([2, 3, 5, 17, 60, 130])), draw(st.sampled_from([1, 2, 5, 30]))
    X = TABLES[draw(st.sampled_from(sorted(TABLES)))](rng.standard_normal((n, m)))
    gamma = draw(st.sampled_from([1e-3, 0.1, 1.0, 10.0])) / m
    kind = draw(st.sampled_from([None, "float32", "float64"]))
    if kind is not None:
        torch = importlib.import_module("torch")
        X = torch.as_tensor(X, dtype=getattr(torch, kind))
    kernels = [RBF(gamma), Linear(), Linear(centered=False), Laplacian(gamma), Polynomial(gamma), CosineKernel()]
    kernel = draw(st.sampled_from([*kernels, Polynomial(gamma, own=True), ChiSquared(gamma), Overlap(gamma)]))
    how = {
        "precision": draw(st.sampled_from(sorted(PRECISIONS))),
        "rank": draw(st.sampled_from([1, 3, 20, 1000, Auto(3), Adaptive(1e-3)])),
        "solver": draw(st.sampled_from(SOLVERS)),
    }
    try:
        return summary(kernel, X=X, **how)
    except DKPCAError:  # the party itself refuses: nothing is sent
        reject()


@pytest.mark.slow
@pytest.mark.torch
@settings(max_examples=300)
@given(honest_summaries())
def test_no_honest_summary_is_refused(honest):
    plausibility.check_summary(honest)


def test_the_row_that_cannot_be_is_named():
    honest = summary(precision="float64")
    lengths = (honest.factor.decode() ** 2).sum(axis=1)
    with pytest.raises(FusionError, match=rf": row {lengths.argmax() + 1} of its factor has the squared length"):
        plausibility.check_summary(with_factor(honest, lambda B: 3.0 * B))
    with pytest.raises(FusionError, match=rf"but row {lengths.argmin() + 1} of its factor has the squared length"):
        plausibility.check_summary(replace(honest, left_out_norm=honest.trace_left_out / 27))


def test_a_rounding_that_is_stated_is_granted():
    """A factor rounded as coarsely as it says is accepted; the same factor that states nothing is not."""
    honest = summary(precision="float64")
    B = honest.factor.decode()
    step = 1e-3
    coarse = np.round(B / step) * step
    spectral = np.abs(np.linalg.eigvalsh(coarse @ coarse.T - B @ B.T))
    left_out = honest.trace_left_out + (B * B).sum() - (coarse * coarse).sum()
    silent = replace(honest, factor=Rounded(coarse), trace_left_out=left_out)
    with pytest.raises(FusionError):
        plausibility.check_summary(silent)
    plausibility.check_summary(
        replace(silent, rounding_norm=spectral.max(), rounding_nuclear=spectral.sum() + honest.rounding_nuclear)
    )


def beyond_float64(shape, precision):
    """Finite numbers and finite scales, with one product that is not."""
    if precision == "compact":
        data, scale = np.zeros(shape, np.int32), np.full(shape[1], 2.0**1000)
        data[-1, 0] = -(2**31)
    else:
        data, scale = np.zeros(shape, np.float16), np.full(shape[1], 1e308)
        data[-1, 0] = -1000
    return Rounded(data, scale)


@pytest.mark.parametrize("precision", ["compact", "float16"])
def test_finite_numbers_times_a_scale_that_make_an_infinite_one_are_refused_when_they_are_read(precision):
    rows = beyond_float64((CHECKED + 3, 2), precision)
    with pytest.raises(WireError, match="rows has numbers times a scale that exceed float64"):
        wire.decode(wire.encode(CovariateRows("bank", rows)))
    smaller = replace(rows, scale=rows.scale / 2.0**31)
    read = wire.decode(wire.encode(CovariateRows("bank", smaller)))
    assert isinstance(read, CovariateRows)
    assert np.isfinite(read.rows.decode()).all()


@pytest.mark.parametrize("size", [1e308, 1e200])
def test_covariates_whose_products_are_no_numbers_are_not_orthonormal(size):
    rows = size * np.array([[1.0, -1.0], [1.0, 1.0], [0.0, 1.0]])
    with pytest.raises(FusionError, match="party 'bank' sent covariates that are not orthonormal"):
        CovariatesWanted(("age",), 3).check("bank", CovariateRows("bank", Rounded(rows)))


def test_messages_about_new_samples_have_a_row_for_each_and_no_more_bytes_than_these_take():
    """Before, a party could send four gigabytes to a center that had asked for sixty rows."""
    rows, asked = Rounded(COLUMNS), len(COLUMNS) + 1
    about: dict[str, Any] = {"n_samples": asked, "of_fit": 5, "batch": "batch-1"}
    for question, answer in (
        (RowsWanted(**about), Rows("bank", "0" * 64, "0" * 64, rows)),
        (RowsWanted(exact=True, **about), Partials("bank", "0" * 64, "0" * 64, rows)),
        (CovariatesWanted(("age",), **about), CovariateRows("bank", rows)),
    ):
        assert HEADER < question.most_bytes() <= HEADER + 8 * 7 * asked
        with pytest.raises(FusionError, match=f"party 'bank' sent {len(COLUMNS)} rows of the {asked} new samples"):
            question.check("bank", answer)
        replace(question, n_samples=len(COLUMNS)).check("bank", answer)


@pytest.mark.parametrize("words", ["\x1b[31m", "\ud800", "two\nlines"])
def test_words_that_cannot_be_printed_are_refused_when_they_are_read(words):
    scores = Scores(2, None, "0" * 64, Rounded(COLUMNS), 0.5, 0.5, words)
    with pytest.raises(WireError, match="meaning has letters that cannot be printed"):
        decode(encode(ResultGiven(scores)))


@pytest.mark.parametrize(
    ("entry", "shares"), [("captured_share_at_least", (1e308, 0.5)), ("optimality_at_least", (1.0 + 1e-9, 1e308))]
)
def test_a_share_above_1_is_refused_when_it_is_read(entry, shares):
    scores = Scores(2, None, "0" * 64, Rounded(COLUMNS), *shares)
    with pytest.raises(WireError, match=rf"{entry} is 1e\+308, not a share from 0 to 1"):
        decode(encode(ResultGiven(scores)))


class TestNewSamples:
    @pytest.fixture
    def fitted(self):
        made = [
            summarize(COLUMNS + j, party=name, kernel=RBF(0.1), rank=Fixed(9), projection="exact")
            for j, name in enumerate(("bank", "shop"))
        ]
        return fuse([s for s, _ in made], n_components=2), [state for _, state in made]

    @pytest.mark.parametrize(
        ("answer", "place"), [(party.extend, project), (partial(party.extend, exact=True), project_exact)]
    )
    @pytest.mark.parametrize("rows", [1, 4])
    def test_another_number_of_rows_is_refused_not_broadcast(self, fitted, answer, place, rows):
        model, states = fitted
        messages = [answer(state, COLUMNS[:n]) for state, n in zip(states, (rows, 5), strict=True)]
        messages[0] = replace(messages[0], sample_digest=messages[1].sample_digest)
        with pytest.raises(FusionError, match=f"'bank' and 'shop' differ in number of new samples .{rows} and 5"):
            place(model, messages)

    def test_negative_distances_are_refused(self, fitted):
        model, states = fitted
        bank, shop = (party.extend(state, COLUMNS[:5], exact=True) for state in states)
        negative = replace(bank, partial=round_to(-bank.partial.decode() - 1e9, "float64"))
        with pytest.raises(FusionError, match="party 'bank': it sent the distance -1e\\+09"):
            project_exact(model, [negative, shop])
