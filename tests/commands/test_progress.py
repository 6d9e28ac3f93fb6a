from io import StringIO

import numpy as np
from rich.console import Console

from dkpca.cli import output
from dkpca.exchange import study
from dkpca.exchange.review import Review
from dkpca.kernels import RBF
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.leading import leading
from testkit.program import in_process
from testkit.studies import Actors


def test_the_bar_shows_how_far_a_solver_is(monkeypatch):
    shown = StringIO()
    terminal = Console(file=shown, force_terminal=True, width=120)
    monkeypatch.setattr(output, "aside", terminal)
    with output.progress("fusing"):
        gram = KernelGram(RBF(1.0), np.random.default_rng(0).standard_normal((200, 3)))
        leading(gram, 3, solver="landmark")
    assert "fusing (landmarks)" in shown.getvalue()


def test_off_a_terminal_nothing_is_drawn(monkeypatch):
    shown = StringIO()
    pipe = Console(file=shown, force_terminal=False)
    monkeypatch.setattr(output, "aside", pipe)
    with output.progress("fusing"):
        gram = KernelGram(RBF(1.0), np.random.default_rng(0).standard_normal((200, 3)))
        leading(gram, 3, solver="landmark")
    assert shown.getvalue().strip() == ""


def test_a_review_says_on_a_terminal_that_it_is_at_work(tmp_path, monkeypatch):
    shown = StringIO()
    monkeypatch.setattr(output, "aside", Console(file=shown, force_terminal=True, width=120))
    actors = Actors(tmp_path / "folder", tmp_path)
    actors.found_and_join()
    monkeypatch.setattr(study, "review", lambda *_: Review(actors.seen(), (), {}, (), ""))
    answer = in_process("study", "review", "folder", "--as", "airline", "--json", cwd=tmp_path)
    assert answer.json["green"]
    assert "running the plan on your table" in shown.getvalue()
