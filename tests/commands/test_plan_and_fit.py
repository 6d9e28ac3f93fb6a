"""`plan` tells what `fit` will do: the same samples, the same kernel, the same ranks."""

import polars as pl
import pytest

from testkit.owners import OWNERS

pytestmark = pytest.mark.slow  # most of these start processes


def choices(office, *settings):
    """Kernels and ranks by party, as planned and as fitted."""
    tables = [f"{owner}.csv" for owner in OWNERS]
    asked = (*tables, "--id", "person", "--components", 3, "--json", *settings)
    planned = office.ok("plan", *asked).json
    fitted = office.ok("fit", *asked, "--jobs", 1, "--out", "run").json
    return (
        ({p["name"]: p["rank"] for p in planned["parties"]}, planned["n_samples"], planned["kernels"]),
        ({name: p["rank"] for name, p in fitted["parties"].items()}, fitted["n_samples"], fitted["kernel"]),
    )


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("--gamma", "auto"),
        ("--gamma", 0.2, "--epsilon", 0.01),
        ("--kernel", "linear"),
        ("--kernel", "laplacian"),
        ("--kernel", "cosine"),
        ("--kernel", "poly"),
    ],
)
def test_plan_and_fit_choose_the_same(office, settings):
    shorter = pl.read_csv(office.path / "shop.csv").reverse().tail(50)
    shorter.write_csv(office.path / "shop.csv")
    (ranks, n_samples, kernels), (fitted_ranks, fitted_samples, kernel) = choices(office, *settings)
    assert ranks == fitted_ranks
    assert n_samples == fitted_samples == 50
    assert all(each == kernel for each in kernels.values())
