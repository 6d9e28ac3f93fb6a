"""Which columns of a party drive a component, in a study: the party's own file, and nothing is sent for it."""

from dataclasses import replace

import numpy as np
import pytest

from dkpca import DKPCA
from dkpca.analysis.importance import from_csv
from dkpca.exchange import protocols
from dkpca.exchange.member import RefusedError
from dkpca.linalg.precision import Rounded
from testkit.studies import ANYTHING, Consortium
from tests.study.test_a_study import MODES, tables


def finished(root, mode, **plan):
    given = tables()
    consortium = Consortium(root, given, mode, align="position", samples=10, **plan)
    consortium.join(**ANYTHING).sign().finish()
    return consortium, {name: X for name, (_, X) in given.items()}


def at(consortium, name):
    return from_csv((consortium.root / name / "result" / "importance.csv").read_bytes())[1]


@pytest.mark.longer
@pytest.mark.parametrize("mode", ["open", "blind"])
def test_under_the_sum_law_they_are_exact_and_nothing_is_sent_for_them(mode, tmp_path):
    fit = MODES[mode] | {"law": "sum", "rank": 10**6, "precision": "float64"}
    consortium, X = finished(tmp_path, fit)
    true = DKPCA(**fit | {"protect": "none"}).fit(X).column_importance()
    for name in X:
        np.testing.assert_allclose(at(consortium, name), true[name], rtol=1e-9, atol=1e-9)


@pytest.mark.longer
def test_a_kernel_without_derivatives_has_no_file(tmp_path):
    finished(tmp_path, MODES["open, kernels by party"])
    assert {path.parts[-3] for path in tmp_path.glob("*/result/importance.csv")} == {"airline", "registry"}


@pytest.mark.longer
def test_a_party_has_none_under_the_product(tmp_path):
    finished(tmp_path, MODES["open"])
    assert not list(tmp_path.glob("*/result/importance.csv"))


@pytest.mark.longer
def test_row_means_are_refused(tmp_path, monkeypatch):
    """A party could divide the fused kernel by its own, and have the kernel of all others."""
    consortium = Consortium(tmp_path, tables(), MODES["open"], align="position", samples=10)
    consortium.join(**ANYTHING).sign()
    honest, means = protocols.published, Rounded(np.ones((60, 1)))
    monkeypatch.setattr(protocols, "published", lambda *about: replace(honest(*about), row_means=means))
    with pytest.raises(RefusedError, match="result"):
        consortium.finish()
