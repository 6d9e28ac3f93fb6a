"""Answers that are taken: written while more of them comes, examined side by side."""

import asyncio
import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dkpca.network import receiving
from dkpca.network.protocol import PIECE
from dkpca.network.receiving import Piece
from dkpca.store import message_files
from testkit.by_hand import FIT, consortium_in
from testkit.federation import DEADLINE
from testkit.owners import OWNERS


def test_a_request_that_breaks_off_keeps_its_file_open_until_its_thread_has_written(tmp_path, monkeypatch):
    """Or the thread would write into whatever file is opened next, under the same descriptor."""
    path, begun, go_on, written = tmp_path / "part", threading.Event(), threading.Event(), []

    def write(descriptor, parts, digest):
        begun.set()
        assert go_on.wait(DEADLINE)
        written.append(os.fstat(descriptor).st_ino)

    async def body():
        yield bytes(PIECE)
        await asyncio.Event().wait()

    async def break_off():
        task = asyncio.create_task(receiving.receive(body(), Piece(0, 2 * PIECE, "", ""), path))
        assert await asyncio.to_thread(begun.wait, DEADLINE)
        task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        ended = task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not ended

    monkeypatch.setattr(receiving, "_write", write)
    asyncio.run(break_off())
    assert written == [path.stat().st_ino]


def test_what_comes_in_parts_of_any_size_is_written_in_order(tmp_path):
    data = os.urandom(3 * PIECE + 17)
    sizes = [1, 2, PIECE - 1, 5, 2 * PIECE]

    async def body(start):
        for size in [*sizes, len(data)]:
            yield data[start : start + size]
            start += size

    async def take():
        piece = Piece(0, len(data), hashlib.sha256(data).hexdigest(), "")
        assert await receiving.receive(body(0), piece, tmp_path / "part")

    asyncio.run(take())
    assert (tmp_path / "part").read_bytes() == data


def test_answers_that_come_together_are_examined_side_by_side(tmp_path, monkeypatch):
    consortium = consortium_in(tmp_path)
    carried, decode, meeting = consortium.transport.carry, message_files.decode, threading.Barrier(2)

    def decode_together(path, data, *kinds):
        if path.name != f"{OWNERS[0]}.summary" and not path.is_absolute():  # the last two, as they arrive
            meeting.wait(DEADLINE)
        return decode(path, data, *kinds)

    def carry(questions, timeout, arrived, noticed):
        with ThreadPoolExecutor(len(questions)) as pool:
            list(pool.map(lambda party: carried({party: questions[party]}, timeout, arrived, noticed), questions))

    monkeypatch.setattr(message_files, "decode", decode_together)
    monkeypatch.setattr(consortium.transport, "carry", carry)
    fused = consortium.center().fit("first", FIT)
    assert sorted(fused.model.summaries) == sorted(OWNERS)
