"""Tables in host memory, computed with on a device: a GPU, or where there is none torch on the CPU."""

import importlib
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from dkpca import DKPCA, party, subspace_error, summarize
from dkpca.errors import InputError
from dkpca.fusion import fuse
from dkpca.kernels import RBF, Linear, Polynomial, Precomputed
from dkpca.linalg.arrays import sent_to
from dkpca.linalg.landmark import Landmark
from dkpca.linalg.rows import groups
from dkpca.party.questions import SummaryWanted
from dkpca.rank import Fixed

pytestmark = pytest.mark.torch
KERNEL = RBF(0.2)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(scope="module")
def torch():
    return importlib.import_module("torch")


def tables(n, parties=2, columns=5):
    rng = np.random.default_rng(n)
    latent = rng.standard_normal((n, 3))
    return {
        f"party{j}": latent @ rng.standard_normal((3, columns)) + 0.3 * rng.standard_normal((n, columns))
        for j in range(parties)
    }


def fitted(given, device, *, kernel=KERNEL, precision="float32", rank=8, dtype="float64"):
    """Summaries, states and the fused model, all by landmarks."""
    asked = SummaryWanted(kernel, Fixed(rank), precision, solver="landmark")
    made = {name: party.summarize(X, asked, party=name, device=device) for name, X in given.items()}
    sent = [summary for summary, _ in made.values()]
    model = fuse(sent, n_components=3, solver="landmark", n_landmarks=60, dtype=dtype, device=device)
    return sent, [state for _, state in made.values()], model


def numbers(x):
    return np.asarray(x.cpu() if hasattr(x, "cpu") else x)


@pytest.mark.longer
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [40, 1000, 30_000], ids=["few rows", "less than a group", "chosen among a sample"])
def test_it_is_the_answer_of_a_table_that_lies_on_the_device(torch, device, n):
    given = tables(n)
    sent, states, model = fitted(given, device)
    there, their_states, on_it = fitted({p: torch.asarray(X, device=device) for p, X in given.items()}, None)
    for ours, theirs, own, other in zip(sent, there, states, their_states, strict=True):
        np.testing.assert_array_equal(own.positions, numbers(other.positions))
        np.testing.assert_allclose(ours.factor.data, numbers(theirs.factor.data), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(ours.left_out_norm, theirs.left_out_norm, rtol=1e-6)
        np.testing.assert_allclose(ours.rounding_norm, theirs.rounding_norm, rtol=1e-3)
    np.testing.assert_array_equal(model.extension.anchors, numbers(on_it.extension.anchors))
    np.testing.assert_allclose(model.eigenvalues, numbers(on_it.eigenvalues), rtol=1e-9)
    assert subspace_error(model.eigenvectors, numbers(on_it.eigenvectors)) < 1e-9
    np.testing.assert_allclose(
        model.certificate.component_error_estimates, on_it.certificate.component_error_estimates, rtol=1e-3
    )
    ours, theirs = model.certificate.bounds(), on_it.certificate.bounds()
    assert ours.keys() == theirs.keys()
    for name in ("kernel_error_below", "total_variance_at_most", "captured_at_least"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_what_comes_out_lies_in_host_memory(torch, device):
    sent, states, model = fitted(tables(2500), device)
    assert all(isinstance(summary.factor.data, np.ndarray) for summary in sent)
    kept = [kept for s in states for kept in (s.anchors, s.positions, s.weights, s.origin)]
    made = [model.eigenvectors, model.eigenvalues, model.extension.weights, model.extension.offset, model.scores]
    assert all(isinstance(array, np.ndarray) for array in [*kept, *made, model.nearby.vectors, model.nearby.values])
    assert f"rows in host memory, computed on {device}" in model.solver


@pytest.mark.parametrize("device", DEVICES)
def test_the_bounds_hold_for_the_exact_answer(torch, device):
    given = tables(600)
    _, _, model = fitted(given, device)
    K = KERNEL(np.hstack(list(given.values())), np.hstack(list(given.values())))
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values, vectors = np.linalg.eigh(K)
    values, V = values[::-1][:3], vectors[:, ::-1][:, :3]
    certificate = model.certificate
    assert (np.asarray(certificate.eigenvalues_at_least) <= values).all()
    assert (values <= np.asarray(certificate.eigenvalues_at_most)).all()
    assert subspace_error(V, model.eigenvectors) <= certificate.subspace_error_at_most
    shown = float(np.trace(model.eigenvectors.T @ K @ model.eigenvectors))
    assert certificate.captured_at_least <= shown


@pytest.mark.longer
@pytest.mark.parametrize("kernel", [Polynomial(degree=3, gamma=0.1), Linear()], ids=["poly", "linear"])
@pytest.mark.parametrize("precision", ["float64", "float32", "float16", "compact"])
def test_every_wire_precision_is_decoded_on_the_device(torch, kernel, precision):
    """Also the diagonals that a polynomial kernel sends beside its factor."""
    given = tables(1500)
    _, _, here = fitted(given, None, kernel=kernel, precision=precision)
    _, _, there = fitted(given, "cpu", kernel=kernel, precision=precision)
    assert "computed on cpu" in there.solver
    np.testing.assert_allclose(there.eigenvalues, here.eigenvalues, rtol=1e-6)
    assert subspace_error(here.eigenvectors, there.eigenvectors) < 1e-6


def memory_map(X, folder, order):
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, np.asarray(X, order=order))
    return np.load(path, mmap_mode="r")


@pytest.mark.longer
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "as_given",
    [
        lambda X, folder: memory_map(X, folder, "C"),
        lambda X, folder: memory_map(X, folder, "F"),
        lambda X, folder: np.asfortranarray(X),
        lambda X, folder: np.repeat(X, 2, axis=0)[::2],
        lambda X, folder: X[::-1].copy()[::-1],
        lambda X, folder: np.hstack([X, X])[:, : X.shape[1]],
    ],
    ids=["read-only map", "read-only Fortran map", "Fortran", "every other row", "backwards", "some columns"],
)
def test_rows_may_lie_in_any_order(torch, tmp_path, device, as_given):
    given = tables(2500)
    sent, _, _ = fitted(given, device)
    others, _, _ = fitted({name: as_given(X, tmp_path) for name, X in given.items()}, device)
    for ours, theirs in zip(sent, others, strict=True):
        np.testing.assert_allclose(theirs.factor.data, ours.factor.data, rtol=1e-4, atol=1e-6)


@pytest.mark.longer
@pytest.mark.parametrize("device", DEVICES)
def test_single_precision_stays_single(torch, device):
    single = {p: X.astype(np.float32) for p, X in tables(2500).items()}
    _, states, model = fitted(single, device, dtype="float32")
    assert {state.weights.dtype for state in states} == {np.dtype(np.float32)} == {model.eigenvectors.dtype}
    _, _, there = fitted({p: torch.asarray(X, device=device) for p, X in single.items()}, None, dtype="float32")
    assert subspace_error(numbers(there.eigenvectors).astype(float), model.eigenvectors.astype(float)) < 1e-5


@pytest.mark.gpu
def test_torch_in_host_memory_comes_back_as_torch_in_host_memory(torch):
    given = tables(30_000)
    _, _, ours = fitted({p: torch.asarray(X) for p, X in given.items()}, "cuda")
    assert ours.eigenvectors.device.type == "cpu"
    assert "computed on cuda" in ours.solver
    assert subspace_error(fitted(given, None)[2].eigenvectors, ours.eigenvectors.numpy()) < 1e-9


@pytest.mark.gpu
def test_the_device_never_holds_half_of_the_table(torch):
    given = tables(2**23, parties=1, columns=16)
    torch.cuda.reset_peak_memory_stats()
    fitted(given, "cuda")
    assert torch.cuda.max_memory_allocated() < given["party0"].nbytes / 2


@pytest.mark.slow
def test_no_more_than_a_group_of_rows_travels_at_a_time(torch, monkeypatch):
    n, seen = 60_000, []

    def watched(x, place):
        seen.append(x.shape[0])
        return sent_to(x, place)

    monkeypatch.setattr("dkpca.linalg.rows.sent_to", watched)
    monkeypatch.setattr("dkpca.linalg.precision.sent_to", watched)
    fitted(tables(n), "cpu")
    assert len(seen) > 10
    # Landmarks are chosen among 10,000 rows, and the estimate looks at a sample of them, however many there are.
    assert max(seen) <= max(groups(n)[0].stop, 10_000)


def test_a_device_that_is_not_there_is_named(torch):
    for device in ("cuda:99", "abacus"):
        with pytest.raises(InputError, match=rf"device '{device}' cannot be computed on \(.*\); leave"):
            DKPCA(2, device=device).fit(tables(30))


@pytest.mark.parametrize("solver", ["dense", "streamed"])
def test_an_exact_solver_says_that_it_needs_all_rows_there(torch, solver):
    with pytest.raises(InputError, match=f"solver '{solver}' compares all .* samples with all where they lie"):
        DKPCA(2, device="cpu", solver=solver).fit(tables(30))


def test_few_samples_are_solved_exactly_where_they_lie(torch):
    given = tables(60)
    model = DKPCA(3, device="cpu").fit(given)
    assert model.solvers_["center"].endswith("small enough to build the matrix)")
    np.testing.assert_array_equal(model.eigenvectors_, DKPCA(3).fit(given).eigenvectors_)


def test_a_landmark_solver_with_settings_of_its_own_goes_there_too(torch):
    model = DKPCA(3, device="cpu", solver=Landmark(40)).fit(tables(300))
    assert all("computed on cpu" in words for words in model.solvers_.values())


def test_a_precomputed_matrix_is_refused(torch):
    K = KERNEL(tables(50)["party0"], tables(50)["party0"])
    with pytest.raises(InputError, match="a precomputed kernel matrix is used where it is stored; leave device"):
        DKPCA(2, kernel=Precomputed(), law="sum", device="cpu", solver="landmark").fit({"lab": K})


@pytest.mark.parametrize("protect", ["sums", "blind"])
def test_a_protected_fit_is_refused(torch, protect):
    with pytest.raises(InputError, match="device='cpu' is for fits with protect='none'"):
        DKPCA(2, device="cpu", protect=protect, law="sum", kernel="linear").fit(tables(30))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.full((30, 2), np.nan), "party 'bank': NaN in columns 0, 1;"),
        (np.ones((1, 2)), "a fit needs at least 2 samples"),
    ],
    ids=["nan", "one row"],
)
def test_a_bad_table_is_refused_as_without_a_device(torch, table, words):
    with pytest.raises(InputError, match=words):
        DKPCA(1, device="cpu", solver="landmark").fit({"bank": table})


def test_two_rows_are_enough(torch):
    model = DKPCA(1, device="cpu", solver="landmark").fit({"bank": np.array([[0.0, 1.0], [2.0, 0.0]])})
    assert np.isfinite(model.eigenvectors_).all()


@pytest.mark.longer
def test_the_estimator_takes_a_device(torch):
    given = tables(1500)
    expected = DKPCA(3, solver="landmark", gamma="scale").fit(given)
    model = DKPCA(3, solver="landmark", gamma="scale", device="cpu").fit(given)
    assert all("rows in host memory, computed on cpu" in words for words in model.solvers_.values())
    assert subspace_error(expected.eigenvectors_, model.eigenvectors_) < 1e-9
    np.testing.assert_allclose(model.transform(given), expected.transform(given), atol=1e-6)


def test_after_the_fit_everything_is_computed_where_it_lies(torch):
    _, _, model = fitted(tables(300), "cpu")
    assert "computed on cpu" in model.solver
    others = [message for name, message in model.received.items() if name != "party0"]
    assert "computed on" not in fuse(others, n_components=3).solver


@pytest.mark.slow
def test_little_memory_and_a_device_go_together(torch):
    """Tall arrays lie in files then, and are written there from the device."""
    X = tables(100_000, parties=1)["party0"]
    solver = Landmark(80, bounded=False)
    work = partial(summarize, X, party="bank", kernel=RBF(0.05), rank=Fixed(64), solver=solver)
    plenty, _ = work()
    tight, state = work(device="cpu", max_memory="100MB")
    assert "in files to keep within 0.1 GB" in state.solver
    assert "computed on cpu" in state.solver
    np.testing.assert_allclose(tight.factor.data[:, :5], plenty.factor.data[:, :5], atol=1e-5)


@pytest.mark.longer
@pytest.mark.torch
def test_covariates_go_with_rows_that_are_sent_to_a_device():
    given, batch = tables(3000, parties=2, columns=4), np.array(["a", "b", "c"])[np.arange(3000) % 3]
    model = DKPCA(3, gamma=0.01, rank=20, solver="landmark", n_landmarks=200)
    here, there = (clone(model).set_params(device=d).fit(given, covariates={"batch": batch}) for d in (None, "cpu"))
    assert subspace_error(here.eigenvectors_, np.asarray(there.eigenvectors_)) < 1e-9
