"""What a workspace has written, as people are shown it: whatever it
wrote, so much of it is read, and not by the event loop.
"""

import os
import threading
from pathlib import Path

import pytest
from tests.support.engine import ManualClock

from codehub.adapters.local.output import SHOWN_MAX, lines


async def shown(path: Path, tail: int) -> bytes:
    return b"".join([piece async for piece in lines(path, tail=tail, follow=False, clock=ManualClock())])


@pytest.mark.parametrize(
    ("written", "tail", "newest"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\nc\n", 3, b"a\nb\nc\n"),
        (b"a\nb\nc\n", 100_000, b"a\nb\nc\n"),
        (b"a\n\n\n", 2, b"\n\n"),
        (b"a\n", 0, b""),
        (b"", 5, b""),
    ],
)
async def test_the_newest_lines_are_shown(written: bytes, tail: int, newest: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(written)
    assert await shown(tmp_path / "log", tail) == newest


@pytest.mark.parametrize("line", [b"x" * (3 * SHOWN_MAX), b"x\n" * (2 * SHOWN_MAX)])
async def test_of_a_huge_line_and_of_very_many_so_much_is_shown(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(line)
    assert await shown(tmp_path / "log", 10_000_000) == line[-SHOWN_MAX:]


async def test_what_was_written_is_read_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: set[int] = set()
    pread = os.pread

    def noted(*args: int) -> bytes:
        readers.add(threading.get_ident())
        return pread(*args)

    monkeypatch.setattr(os, "pread", noted)
    log = tmp_path / "log"
    log.write_bytes(b"a\n")
    pieces = lines(log, tail=1, follow=True, clock=ManualClock())
    assert await anext(pieces) == b"a\n"
    with log.open("ab") as file:
        file.write(b"b\n")
    assert await anext(pieces) == b"b\n"
    await pieces.aclose()  # type: ignore[attr-defined]
    assert readers
    assert threading.get_ident() not in readers
