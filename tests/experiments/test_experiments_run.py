"""Every experiment in its quick mode, and the page from what it wrote."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dkpca import DKPCA
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.linalg.gram import Centered
from dkpca.rank import Fixed
from experiments import command, figures, protocol, table2
from experiments.page import __main__ as page

EXPERIMENTS = (
    "fig2",
    "fig3",
    "table1",
    "table2",
    "bytes",
    "curve",
    "rounding",
    "rounds",
    "certificate",
    "scale",
    "missing",
    "lacking",
    "weights",
    "disclosure",
    "attacks",
    "error_bars",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quick")
    for name in EXPERIMENTS:
        module = importlib.import_module(f"experiments.{name}")
        argv = ["--quick", "--results", str(folder), "--store", str(folder / "store")]
        command.main(module.run, module.Settings(), module.QUICK, argv)
    return folder


def test_every_experiment_runs_without_the_copyrighted_data(folder: Path) -> None:
    assert {path.stem for path in folder.glob("*.json")} == {*EXPERIMENTS, "table2_beyond"}


def test_table_2_has_the_agreed_form(folder: Path) -> None:
    rows = json.loads((folder / "table2.json").read_text())
    assert {tuple(row) for row in rows} == {("task", "n_features", "method", "mean", "std")}
    assert {row["method"] for row in rows} == {"dkpca", "kpca", "pca-published", "pca"}
    assert {row["task"] for row in rows} == {"toxicant-fibrate", "toxicant-azole", "toxicant-others"}


def test_the_page_and_its_figures_follow_from_the_results(folder: Path, tmp_path: Path) -> None:
    page.main(["--results", str(folder), "--docs", str(tmp_path)])
    text = (tmp_path / "reproduction.md").read_text()
    for name in ("fig2", "fig3", "fig3_tradeoff", "table1", "table2", "bytes", "rounds", "certificate", "scale"):
        assert f"figures/{name}.svg" in text
        assert (tmp_path / "figures" / f"{name}.svg").stat().st_size > 1000
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 1000


def test_the_same_results_give_the_same_file(folder: Path, tmp_path: Path) -> None:
    for copy in ("a", "b"):
        figures.save(figures.rounds(page.read(folder)["rounds"]), "rounds", tmp_path / copy)
    assert (tmp_path / "a" / "rounds.svg").read_bytes() == (tmp_path / "b" / "rounds.svg").read_bytes()


def test_a_real_run_without_data_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(table2.run, table2.Settings(), table2.QUICK, [])
    assert "experiments/README.md" in capsys.readouterr().err


def test_settings_are_options() -> None:
    seen = []
    command.main(
        lambda _, settings: seen.append(settings),
        table2.Settings(),
        table2.QUICK,
        ["--quick", "--n-features", "1", "2", "--sigma", "7"],
    )
    assert seen == [replace(table2.QUICK, n_features=(1, 2), sigma=7.0)]


SPLIT = table2._split(table2.QUICK, "toxicant-others", 0, grouped=False)
KERNEL = protocol.rbf(table2.QUICK.sigma, "code")


def test_unscaled_scores_are_the_estimators_times_the_root_of_the_eigenvalue() -> None:
    n, rank = 5, 15
    model = DKPCA(n, kernel=KERNEL, parties=6, rank=rank, precision="float64", projection="exact").fit(SPLIT.train)
    blocks = protocol.equal_blocks(SPLIT.train.shape[1], 6)
    pairs = protocol.spectra(SPLIT.train, blocks, KERNEL, [Fixed(len(SPLIT.train))])
    fused = Centered(FusedGram(KERNEL.law, [p.head(rank).factor() for p in pairs]))
    V = np.asarray(model.eigenvectors_)
    _, new = table2._scores(fused, V, KERNEL(SPLIT.train, SPLIT.train), KERNEL(SPLIT.test, SPLIT.train))
    expected = model.transform(SPLIT.test) * np.sqrt(model.eigenvalues_)
    np.testing.assert_allclose(new, expected, atol=1e-8)


def test_centering_with_the_true_matrix_moves_all_scores_by_one_vector() -> None:
    blocks = protocol.equal_blocks(SPLIT.train.shape[1], 6)
    pairs = protocol.spectra(SPLIT.train, blocks, KERNEL, [Fixed(8)])
    fused = Centered(FusedGram(KERNEL.law, [p.factor() for p in pairs]))
    exact = Centered(KernelGram(KERNEL, SPLIT.train))
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((len(SPLIT.train), 4)))[0]
    rows, new_rows = KERNEL(SPLIT.train, SPLIT.train), KERNEL(SPLIT.test, SPLIT.train)
    moved = [a - b for a, b in zip(table2._scores(fused, V, rows, new_rows), table2._scores(exact, V, rows, new_rows),
                                   strict=True)]  # fmt: skip
    np.testing.assert_allclose(
        np.vstack(moved), np.broadcast_to(moved[0][0], (len(SPLIT.train) + len(SPLIT.test), 4))
    )


def test_a_grouped_split_has_no_replicate_on_both_sides() -> None:
    data = command.expression(None)
    rows, n_train = table2._train_first(table2.QUICK, "toxicant-azole", 3, grouped=True)
    train, test = set(data.condition[rows[:n_train]]), set(data.condition[rows[n_train:]])
    assert train.isdisjoint(test)
    assert table2.QUICK.n_train <= n_train <= table2.QUICK.n_train + 2
    assert table2._leaked(table2.QUICK, "toxicant-azole", 3) > 0.2
