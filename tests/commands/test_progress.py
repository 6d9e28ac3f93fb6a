from io import StringIO

import numpy as np
from rich.console import Console

from dkpca.cli import output
from dkpca.kernels import RBF
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.leading import leading


def test_the_bar_shows_how_far_a_solver_is(monkeypatch):
    shown = StringIO()
    terminal = Console(file=shown, force_terminal=True, width=120)
    monkeypatch.setattr(output, "aside", terminal)
    with output.progress("fusing") as told:
        gram = KernelGram(RBF(1.0), np.random.default_rng(0).standard_normal((200, 3)))
        leading(gram, 3, solver="landmark", progress=told)
    assert "fusing (landmarks)" in shown.getvalue()


def test_off_a_terminal_nothing_is_drawn(monkeypatch):
    shown = StringIO()
    pipe = Console(file=shown, force_terminal=False)
    monkeypatch.setattr(output, "aside", pipe)
    with output.progress("fusing") as told:
        gram = KernelGram(RBF(1.0), np.random.default_rng(0).standard_normal((200, 3)))
        leading(gram, 3, solver="landmark", progress=told)
    assert shown.getvalue().strip() == ""
