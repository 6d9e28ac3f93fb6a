from io import StringIO

from rich.console import Console

from dkpca.cli import output
from dkpca.exchange import study
from dkpca.exchange.review import Review
from testkit.program import in_process
from testkit.studies import Actors


def test_off_a_terminal_nothing_is_said(monkeypatch):
    shown = StringIO()
    monkeypatch.setattr(output, "aside", Console(file=shown, force_terminal=False))
    output.at_work("fusing")
    assert shown.getvalue() == ""


def test_a_review_says_on_a_terminal_that_it_is_at_work(tmp_path, monkeypatch):
    shown = StringIO()
    monkeypatch.setattr(output, "aside", Console(file=shown, force_terminal=True, width=120))
    actors = Actors(tmp_path / "folder", tmp_path)
    actors.found_and_join()
    monkeypatch.setattr(study, "review", lambda *_: Review(actors.seen(), (), {}, (), ""))
    answer = in_process("study", "review", "folder", "--as", "airline", "--json", cwd=tmp_path)
    assert answer.json["green"]
    assert "running the plan on your table" in shown.getvalue()
