"""The event log of a center or a party, as a SIEM reads it."""

import json
from datetime import datetime

from dkpca.network import events
from dkpca.network.events import FILE, Events


def test_events_are_lines_of_json_in_files_that_take_turns_and_never_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "LARGEST", 2000)
    log = Events(tmp_path, "bank")
    for number in range(200):
        log.note("question", number=number, run="first")
    log.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [FILE, *(f"{FILE}.{turn}" for turn in range(1, events.KEPT + 1))]
    assert all(file.stat().st_size <= 2000 for file in files)
    lines = [json.loads(line) for file in [*reversed(files[1:]), files[0]] for line in file.read_text().splitlines()]
    assert [line["number"] for line in lines] == list(range(200 - len(lines), 200))
    assert all(datetime.fromisoformat(line["time"]).tzinfo is not None for line in lines)
    assert {line["who"] for line in lines} == {"bank"}


def test_a_log_goes_on_after_a_restart_and_what_others_sent_cannot_begin_a_line(tmp_path, capsys):
    for words in ("first", '\x1b]0;pwned\x07\n{"event": "forged"}\u2028'):
        log = Events(tmp_path, "center")
        log.say(words, "lost", reason=words)
        log.close()
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().split("\n")[:-1]]
    assert [line["event"] for line in lines] == ["lost", "lost"]
    assert "\x1b" not in (tmp_path / FILE).read_text() + capsys.readouterr().out
