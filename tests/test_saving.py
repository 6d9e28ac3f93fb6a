"""Messages, states, models and whole estimators come back from their files as they were, or not at all."""

import itertools
import os
import pickle
import stat
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

import dkpca
from dkpca import DKPCA
from dkpca.errors import FusionError, InputError, StorageError, WireError
from dkpca.kernels import RBF, Linear
from dkpca.linalg.dense import Dense
from dkpca.messages import Statistics
from dkpca.rank import Adaptive, Budget, Fixed, RankRule
from dkpca.store.files import decode_model

DIGITS = load_digits().data[:60]
HALVES = {"left": DIGITS[:, :32], "right": DIGITS[:, 32:]}

pytestmark = pytest.mark.filterwarnings("ignore::dkpca.errors.DataWarning")  # the tables are small


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def sides(kernel=RBF(1e-3), **settings):  # noqa: B008
    both = [dkpca.summarize(X, party=p, kernel=kernel, rank=40, **settings) for p, X in HALVES.items()]
    return [summary for summary, _ in both], [state for _, state in both]


@pytest.fixture
def files(tmp_path):
    """One file of each kind."""
    summaries, states = sides()
    dkpca.save(tmp_path / "message", summaries[0])
    dkpca.save(tmp_path / "state", states[0])
    dkpca.save(tmp_path / "model", dkpca.fuse(summaries, n_components=3))
    DKPCA(3).fit(HALVES).save(tmp_path / "estimator")
    return tmp_path


class TestFileRoute:
    @pytest.mark.parametrize("exact", [False, True])
    @pytest.mark.parametrize("kernel", [RBF(1e-3), Linear()], ids=str)
    def test_steps_through_files_are_the_estimator(self, tmp_path, kernel, exact):
        summaries, states = sides(kernel, projection="exact" if exact else "extend")
        for summary, state in zip(summaries, states, strict=True):
            dkpca.save(tmp_path / f"{summary.party}.summary", summary)
            dkpca.save(tmp_path / f"{state.party}.state", state)
        received = [dkpca.load(tmp_path / f"{party}.summary", dkpca.Summary) for party in HALVES]
        dkpca.save(tmp_path / "model", dkpca.fuse(received, n_components=3, roster=list(HALVES)))
        model = dkpca.load(tmp_path / "model", dkpca.FusedModel)
        rows = [
            dkpca.extend(dkpca.load(tmp_path / f"{p}.state", dkpca.PartyState), X[:7], exact=exact)
            for p, X in HALVES.items()
        ]
        estimator = DKPCA(3, kernel=kernel, rank=40, projection="exact" if exact else "extend").fit(HALVES)
        np.testing.assert_array_equal(model.eigenvectors, estimator.eigenvectors_)
        placed = estimator.transform({party: X[:7] for party, X in HALVES.items()})
        np.testing.assert_allclose(dkpca.project(model, rows), placed, atol=1e-9)
        bounds, expected = model.certificate.to_dict(), estimator.certificate_.to_dict()
        for words in ("statements", *(name for name, bound in expected.items() if isinstance(bound, str))):
            assert bounds.pop(words) == expected[words]
        for name, bound in bounds.items():  # to rounding: a factor from a file lies in memory in another order
            wanted = np.array(expected[name], dtype=float)  # a bound that says nothing is None, here nan
            np.testing.assert_allclose(np.array(bound, dtype=float), wanted, rtol=1e-9, atol=1e-9, err_msg=name)

    def test_data_frames_are_tables_too(self):
        frame = pd.DataFrame(HALVES["left"])
        one, _ = dkpca.summarize(frame, party="left", kernel=RBF(1e-3), rank=3)
        other, _ = dkpca.summarize(HALVES["left"], party="left", kernel=RBF(1e-3), rank=Fixed(3))
        np.testing.assert_allclose(one.factor.data, other.factor.data, atol=1e-6)

    def test_messages_of_a_loaded_model_are_fused_with_another_party(self, tmp_path):
        summaries, _ = sides()
        dkpca.save(tmp_path / "model", dkpca.fuse(summaries[:1], n_components=3))
        known = dkpca.load(tmp_path / "model", dkpca.FusedModel).received.values()
        again = dkpca.fuse([*known, summaries[1]], n_components=3)
        np.testing.assert_allclose(again.eigenvalues, dkpca.fuse(summaries, n_components=3).eigenvalues)

    def test_every_kind_of_message_has_a_file(self, tmp_path):
        message = Statistics("bank", 3, 4, 0.5)
        dkpca.save(tmp_path / "statistics", message)
        assert dkpca.load(tmp_path / "statistics") == message
        assert (tmp_path / "statistics").read_bytes() == dkpca.wire.encode(message)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"kernel": "rbf"}, "the rbf kernel needs gamma .--gamma., a number on which all parties have agreed"),
            ({"rank": 2.5}, "rank is 2.5; give 'auto', a whole number"),
            ({"rank": True}, "rank is True; give 'auto', a whole number"),
            ({"precision": "int8"}, "precision is 'int8'; give"),
            ({"party": "a/b"}, "party name 'a/b' cannot be used"),
            ({"X": np.full((3, 2), np.nan)}, "party 'bank': NaN in columns 0, 1;"),
            ({"X": np.ones((1, 2))}, "party 'bank' has 1 row; a fit needs at least 2 samples"),
            ({"sample_ids": ["a"]}, "1 sample ids for 60 rows"),
            ({"sample_ids": 3}, "sample_ids of dkpca.summarize is 3; give the ids"),
        ],
        ids=str,
    )
    def test_a_bad_argument_of_summarize_is_named(self, change, words):
        settings = {"X": HALVES["left"], "party": "bank", "kernel": RBF(0.1), "rank": 3} | change
        with pytest.raises(InputError, match=words):
            dkpca.summarize(settings.pop("X"), **settings)

    def test_the_steps_take_what_the_estimator_takes(self):
        model = DKPCA(0.5, kernel="poly", gamma=1e-3, degree=2, standardize=True, rank=40).fit(HALVES)
        same: dict[str, Any] = {"kernel": "poly", "gamma": 1e-3, "degree": 2, "standardize": True, "rank": 40}
        sent = [dkpca.summarize(X, party=party, **same)[0] for party, X in HALVES.items()]
        assert np.allclose(dkpca.fuse(sent, n_components=0.5).eigenvalues, model.eigenvalues_, rtol=1e-9)

    def test_what_does_not_belong_is_named(self):
        summaries, states = sides()
        model = dkpca.fuse(summaries, n_components=3)
        with pytest.raises(InputError, match="dkpca.fuse takes messages of kind Summary, not a PartyState"):
            dkpca.fuse(states)
        with pytest.raises(InputError, match="dkpca.fuse takes the messages of all parties; give a list"):
            dkpca.fuse(summaries[0])
        with pytest.raises(InputError, match="dkpca.project takes messages of kind Rows or Partials, not a Summary"):
            dkpca.project(model, summaries)
        with pytest.raises(InputError, match="model of dkpca.project is .*; give the model that dkpca.fuse gave"):
            dkpca.project(summaries[0], [])
        with pytest.raises(InputError, match="n_components is '3'; give a whole number"):
            dkpca.fuse(summaries, n_components="3")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="law is 'max'; give 'product' or 'sum'"):
            dkpca.fuse(summaries, n_components=3, law="max")
        with pytest.raises(InputError, match="the fit had 32 columns .* these samples have 3 of"):
            dkpca.extend(states[0], DIGITS[:, :3])
        with pytest.raises(InputError, match="state of dkpca.extend is .*; give the state that dkpca.summarize gave"):
            dkpca.extend(summaries[0], DIGITS[:, :32])
        with pytest.raises(FusionError, match=r"no message about new samples from \['left', 'right'\]"):
            dkpca.project(model, [])
        rows = [dkpca.extend(state, X[:3]) for state, X in zip(states, HALVES.values(), strict=True)]
        with pytest.raises(FusionError, match="more than one message about new samples from party 'left'"):
            dkpca.project(model, [*rows, rows[0]])


class TestFiles:
    def test_only_the_owner_may_read_what_contains_data(self, files):
        assert mode(files / "state") == mode(files / "estimator") == 0o600
        umask = os.umask(0)
        os.umask(umask)
        assert mode(files / "message") == mode(files / "model") == 0o666 & ~umask

    def test_a_file_says_what_it_is(self, files):
        assert isinstance(dkpca.load(files / "message"), dkpca.Summary)
        assert isinstance(dkpca.load(str(files / "state")), dkpca.PartyState)
        assert isinstance(dkpca.load(files / "model"), dkpca.FusedModel)
        with pytest.raises(WireError, match="model: holds a FusedModel, not a Summary; give the right file"):
            dkpca.load(files / "model", dkpca.Summary)
        with pytest.raises(WireError, match="estimator: a fitted estimator, .* never send it, open it by DKPCA.load"):
            dkpca.load(files / "estimator")

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("message", "message: a message, not a fitted estimator; dkpca.load opens it"),
            ("model", "model: a fused model, not a fitted estimator; dkpca.load opens it"),
            ("state", "state: the state of one party, not a fitted estimator; dkpca.load opens it"),
        ],
    )
    def test_another_file_is_no_estimator(self, files, name, words):
        with pytest.raises(WireError, match=words):
            DKPCA.load(files / name)

    @pytest.mark.parametrize("name", ["state", "estimator"])
    def test_what_contains_data_is_no_message(self, files, name):
        with pytest.raises(WireError, match="it contains data; never send it"):
            dkpca.wire.decode((files / name).read_bytes())

    def test_only_messages_are_encoded(self, files):
        with pytest.raises(InputError, match="a PartyState is not a message, and is never sent; keep it with"):
            dkpca.wire.encode(dkpca.load(files / "state"))  # type: ignore[arg-type]
        with pytest.raises(InputError, match="a FusedModel is not a message"):
            dkpca.wire.encode(dkpca.load(files / "model"))  # type: ignore[arg-type]

    def test_a_model_is_no_message(self, files):
        with pytest.raises(WireError, match="this is a fused model, not a message"):
            dkpca.wire.decode((files / "model").read_bytes())

    @pytest.mark.parametrize("name", ["message", "state", "model", "estimator"])
    def test_a_damaged_file_is_refused_by_name(self, files, name, rng):
        read = DKPCA.load if name == "estimator" else dkpca.load
        whole = (files / name).read_bytes()
        for position in rng.integers(0, len(whole), 60):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << int(rng.integers(8))
            (files / name).write_bytes(damaged)
            with pytest.raises(WireError, match=f"{name}: "):
                read(files / name)
        for length in [0, 7, 8, 200, len(whole) - 1]:
            (files / name).write_bytes(whole[:length])
            with pytest.raises(WireError, match=f"{name}: "):
                read(files / name)

    @pytest.mark.parametrize("name", ["message", pytest.param("model", marks=pytest.mark.longer)])
    def test_no_bit_of_a_header_may_differ(self, files, name):
        """Not even the last digit of a number, where it changes nothing: 0.1000000000000000055 is 0.1 too."""
        whole = (files / name).read_bytes()
        for position, bit in itertools.product(range(8 + int.from_bytes(whole[:8], "little")), range(8)):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            with pytest.raises(WireError):
                decode_model(bytes(damaged)) if name == "model" else dkpca.wire.decode(bytes(damaged))

    def test_no_file_and_no_dkpca_file(self, tmp_path):
        with pytest.raises(StorageError, match="there is no such file"):
            dkpca.load(tmp_path / "nothing")
        (tmp_path / "table.csv").write_text("a,b\n1,2\n" * 20)
        with pytest.raises(WireError, match=r"table\.csv: not a whole dkpca file"):
            dkpca.load(tmp_path / "table.csv")

    def test_what_cannot_be_saved_leaves_the_old_file(self, files):
        before = (files / "model").read_bytes()
        with pytest.raises(
            InputError, match="a DKPCA cannot be saved here; give a message, a PartyState or a FusedModel"
        ):
            dkpca.save(files / "model", DKPCA())
        model = dkpca.load(files / "model", dkpca.FusedModel)
        with pytest.raises(InputError, match="cannot be written to a file or sent; give its name"):
            dkpca.save(files / "model", replace(model, settings=replace(model.settings, solver=Dense())))
        assert (files / "model").read_bytes() == before
        assert len(list(files.iterdir())) == 4


class Own(RankRule):
    def first_guess(self, n_samples):
        return 5

    def choose(self, eigenvalues, n_samples):
        return 5


class Scaled(RBF):
    name = "scaled"


class Alias(RBF):
    pass


class TestEstimator:
    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"kernel": Linear(centered=False), "center": np.bool_(False), "rank": 5},
            {"kernel": RBF(1e-3), "rank": Adaptive(1e-3), "precision": "float16", "solver": "streamed"},
            {"rank": Budget(60 * 4 * 9), "random_state": 3, "n_landmarks": 30, "solver": "landmark"},
            {"gamma": np.float64(1e-3), "projection": "exact", "n_jobs": 1},
            {"kernel": "laplacian", "weights": {"left": 1.0, "right": 2.0}},
            {"kernel": {"left": RBF(1e-3), "right": "linear"}, "law": "sum", "weights": "balanced"},
        ],
        ids=str,
    )
    def test_everything_comes_back(self, tmp_path, settings):
        model = DKPCA(3, **settings).fit(HALVES)
        model.save(tmp_path / "model")
        again = DKPCA.load(tmp_path / "model")
        assert again.get_params() == model.get_params()
        for name in (name for name in vars(model) if name.endswith("_") and name != "model_"):
            np.testing.assert_equal(getattr(again, name), getattr(model, name))
        new = {party: X[:9] for party, X in HALVES.items()}
        np.testing.assert_allclose(again.transform(new), model.transform(new), atol=1e-12)
        np.testing.assert_allclose(again.fit(HALVES).eigenvalues_, model.eigenvalues_)

    @pytest.mark.parametrize(
        "parties",
        [
            2,
            [range(30), np.arange(30, 64)],
            {"a": ["c1", "c0"], "b": [f"c{j}" for j in range(2, 64)]},
            [(3,), [*range(3), *range(4, 64)]],
        ],
        ids=["number", "ranges", "names", "tuples"],
    )
    def test_groups_of_columns_come_back(self, tmp_path, parties):
        frame = pd.DataFrame(DIGITS, columns=[f"c{j}" for j in range(64)])
        model = DKPCA(3, parties=parties).fit(frame)
        model.save(tmp_path / "model")
        again = DKPCA.load(tmp_path / "model")
        assert list(again.feature_names_in_) == list(frame.columns)
        np.testing.assert_allclose(again.transform(frame[:9]), model.transform(frame[:9]), atol=1e-12)
        np.testing.assert_allclose(again.fit(frame).eigenvalues_, model.eigenvalues_)
        assert again.party_names_ == model.party_names_

    def test_what_has_no_place_in_a_file_is_named(self, tmp_path):
        with pytest.raises(InputError, match="the rank rule .* can be neither sent nor saved; use one of"):
            DKPCA(3, rank=Own()).fit(HALVES).save(tmp_path / "model")
        with pytest.raises(InputError, match=r"Dense\(.*\) cannot be written to a file or sent; give its name"):
            DKPCA(3, solver=Dense()).fit(HALVES).save(tmp_path / "model")
        model = DKPCA(3, kernel=Scaled(0.01)).fit(HALVES)
        with pytest.raises(InputError, match="the kernel 'scaled' is not one of dkpca, .* use pickle"):
            model.save(tmp_path / "model")
        for item in (model.model_, model._states["left"]):
            with pytest.raises(InputError, match="the kernel 'scaled' is not one of dkpca"):
                dkpca.save(tmp_path / "model", item)
        assert not list(tmp_path.iterdir())
        assert pickle.loads(pickle.dumps(model)).kernel_ == Scaled(0.01)

    def test_a_kernel_with_the_name_of_ours_is_not_saved_as_ours(self, tmp_path):
        with pytest.raises(InputError, match="the kernel 'rbf' is not one of dkpca"):
            DKPCA(3, kernel=Alias(0.01)).fit(HALVES).save(tmp_path / "model")

    def test_a_loaded_estimator_can_be_saved_and_pickled_again(self, files):
        once = DKPCA.load(files / "estimator")
        once.save(files / "again")
        assert (files / "again").read_bytes() == (files / "estimator").read_bytes()
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(once)).eigenvectors_, once.eigenvectors_)

    def test_no_pickle_is_inside(self, files):
        for file in files.iterdir():
            assert b"\x80\x04\x95" not in file.read_bytes()[: 2**16], file
            with pytest.raises((pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError, AttributeError)):
                pickle.loads(file.read_bytes())
