from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dkpca import DKPCA, fusion, subspace_error, summarize
from dkpca.kernels import RBF, Linear
from dkpca.rank import Adaptive, Fixed, RankRule
from experiments import protocol
from experiments.repeat import repetitions

X = np.random.default_rng(0).standard_normal((50, 24)) @ np.random.default_rng(1).standard_normal((24, 24))
KERNEL = RBF(0.002)


@pytest.mark.parametrize("rule", [Fixed(3), Fixed(9), Adaptive(0.02)])
def test_truncated_spectra_send_what_a_party_would(rule: RankRule) -> None:
    blocks = protocol.random_blocks(24, 4, np.random.default_rng(2))
    pairs = protocol.spectra(X, blocks, KERNEL, [Fixed(3), Fixed(9), Adaptive(0.02)])
    answers = [
        summarize(X[:, c], party=f"p{j}", kernel=KERNEL, rank=rule, precision="float64")[0]
        for j, c in enumerate(blocks)
    ]
    assert protocol.ranks(pairs, rule) == [summary.rank for summary in answers]
    model = fusion.fuse(answers, n_components=4)
    assert protocol.error(model.eigenvectors, protocol.fused(KERNEL, pairs, rule, center=True)) < 1e-18


def test_the_estimator_gives_the_error_of_the_pieces() -> None:
    true = protocol.truth(X, KERNEL, 4, center=True)
    model = DKPCA(4, kernel=KERNEL, parties=3, rank=5, precision="float64").fit(X)
    pairs = protocol.spectra(X, protocol.equal_blocks(24, 3), KERNEL, [Fixed(12)])
    found = protocol.error_at_rank(true, KERNEL, pairs, 5, center=True)
    assert found == pytest.approx(subspace_error(true, model.eigenvectors_), rel=1e-6)


def test_a_party_with_fewer_columns_than_its_rank_sends_what_it_has() -> None:
    pairs = protocol.spectra(X, protocol.equal_blocks(24, 24), Linear(centered=False), [Fixed(10)])
    assert protocol.ranks(pairs, Fixed(10)) == [1] * 24


@pytest.mark.parametrize("blocks", [protocol.random_blocks, protocol.equal_blocks])
def test_blocks_cover_every_column_once(blocks: Callable[..., list[Any]]) -> None:
    parts = blocks(24, 7, np.random.default_rng(3))
    assert len(parts) == 7
    assert sorted(np.concatenate(parts).tolist()) == list(range(24))
    assert min(map(len, parts)) >= 1


def test_the_printed_width_is_twice_as_wide_in_squared_distance() -> None:
    assert protocol.rbf(50.0, "code").gamma == pytest.approx(2 * protocol.rbf(50.0, "text").gamma)


@dataclass(frozen=True)
class Settings:
    factor: int = 2
    data: str | None = None


CALLS: list[int] = []


def multiplied(settings: Settings, seed: int) -> int:
    CALLS.append(seed)
    return settings.factor * seed


def test_a_finished_repetition_is_not_repeated(tmp_path: Path) -> None:
    CALLS.clear()
    assert repetitions("fig2", multiplied, Settings(), count=2, store=tmp_path) == [0, 2]
    assert repetitions("fig2", multiplied, Settings(), count=4, store=tmp_path) == [0, 2, 4, 6]
    assert CALLS == [0, 1, 2, 3]


def test_other_settings_or_other_data_are_computed_anew(tmp_path: Path) -> None:
    CALLS.clear()
    repetitions("fig2", multiplied, Settings(), count=1, store=tmp_path)
    repetitions("fig2", multiplied, Settings(factor=3), count=1, store=tmp_path)
    repetitions("fig2", multiplied, Settings(), count=1, store=tmp_path, data="other")
    repetitions("fig2", multiplied, Settings(data="elsewhere"), count=1, store=tmp_path)
    assert CALLS == [0, 0, 0]
