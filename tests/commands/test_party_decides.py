"""What a party can see before it sends, and its limits as a file."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from dkpca import wire
from dkpca.errors import InputError
from dkpca.kernels import CosineKernel, Polynomial
from dkpca.messages import RaisedIds, Summary
from dkpca.party import disclosure
from dkpca.party.disclosure import describe
from dkpca.party.limits import ANYTHING
from dkpca.store import party_file
from testkit.owners import GAMMA, OWNERS, numbers, standardized
from testkit.protocol import summaries_of

LIMITS = replace(ANYTHING, rank=12, samples=50, precision="float32")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rnk = 3", "does not know rnk; the settings are recovery"),
        ("rank = ", "not a TOML file"),
        ("rank = 3", "lacks audit_rows, batches"),
        (LIMITS.to_toml().replace("rank = 12", "rank = 0"), "rank is 0; give a whole number"),
        (None, "there is no such file, so nothing is allowed"),
    ],
)
def test_limits_with_a_mistake_are_refused(tmp_path, text, words):
    if text is not None:
        (tmp_path / "limits.toml").write_text(text)
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        party_file.read_limits(tmp_path / "limits.toml")
    assert "limits.toml" in str(caught.value)


def test_inspect_says_how_much_of_the_gram_matrix_leaves(summarized):
    X = standardized(numbers()["bank"])
    values = np.linalg.eigvalsh(rbf_kernel(X, gamma=GAMMA))[::-1]
    share = values[:20].sum() / values.sum()
    assert 0.5 < share < 0.9994
    shown = " ".join(summarized.ok("inspect", "bank.summary").out.split())
    assert f"factor @ factor.T is its kernel matrix, {share:.1%} of it" in shown
    assert "It does not contain - column names, sample ids or raw values of a column" in shown
    facts = summarized.ok("inspect", "bank.summary", "--json").json["facts"]
    assert facts["largest eigenvalues"] == pytest.approx(values[:5], rel=1e-5)


def test_the_center_names_samples_only_by_ids_that_fit(summarized):
    fuse = ("fuse", *(f"{o}.summary" for o in OWNERS), "--components", 3, "--out", "run", "--id", "person")
    (summarized.path / "ids.csv").write_text("person\n" + "\n".join(f"q{i}" for i in range(60)))
    assert "are not those of the 60 samples" in summarized.refused(*fuse, "--ids", "ids.csv")
    error = summarized.refused(*fuse, "--roster", "bank,clinic,shop,school")
    assert "no summary from ['school']; fusion needs every party" in error


@pytest.mark.parametrize("kernel", [Polynomial(0.1), CosineKernel()], ids=lambda k: k.name)
def test_the_length_of_each_sample_is_said_to_leave_where_it_does(kernel):
    X = numbers()["bank"]
    (summary,) = summaries_of([X], kernel, rank=3)
    assert summary.diagonal is not None
    np.testing.assert_allclose(summary.diagonal.decode()[:, 0], (X**2).sum(axis=1))
    described = describe(summary)
    assert any("the length of each sample" in sentence for sentence in described.reveals)
    assert described.facts["numbers"] == 60 * 3 + 60


def test_a_message_is_all_that_is_described():
    assert set(Summary.__dataclass_fields__) == {
        *("party", "kernel", "sample_digest", "n_features", "factor"),
        *("left_out_norm", "trace_left_out", "rounding_norm", "rounding_nuclear", "diagonal"),
        *("left_out_overlap", "turned"),
    }, "a new field is a new disclosure: describe it in disclosure.py and docs/disclosure.md, then here"


def test_every_kind_of_message_says_what_it_is():
    assert [kind for kind, cls in wire.KINDS.items() if not cls.__doc__] == []


def test_ids_on_their_way_round_a_ring_are_described():
    points = np.zeros(3 * 32, dtype=np.uint8)
    found = disclosure.describe(RaisedIds("lab", "bank", 1, "none", "0" * 64, points))
    assert (found.kind, found.facts["points"]) == ("raisedids", [96])
    assert "P-256 points times the secrets of the parties so far" in found.reveals[0]
