"""Activity through a real edge: what keeps a workspace awake is
recorded, an open tab is not, and no request writes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from tests.proxy.sockets import PRINT, QUIET, Uses, counts, frame, socket, socket_server, synced
from tests.support.edge import get
from tests.support.hub import COOKIE, NAVIGATION, SESSION, Hub, hub
from tests.support.workspaces import workspace

from codehub.adapters.memory.credentials import MemoryCredentials
from codehub.adapters.system.machine import SystemClock
from codehub.core.operations import Phase
from codehub.ports.store import StoreUnavailable
from codehub.proxy.engine.block_cache import BlockCache
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.websocket import FrameReader
from codehub.proxy.policy.activity import Activity, WorkspaceMonitor
from codehub.proxy.policy.database_time import DatabaseTime
from codehub.proxy.policy.header_rules import header_rules

ide = socket_server(*[frame(b"line")] * 20)


@asynccontextmanager
async def watched(
    flush_s: float = 0.0, keys: MemoryCredentials | None = None
) -> AsyncIterator[tuple[Hub, Activity, Uses]]:
    uses = Uses()
    time = DatabaseTime()
    activity = Activity(uses, keys or MemoryCredentials(), time, clock=SystemClock(), flush_s=flush_s)
    async with hub(ide, monitor_of=activity.monitor, time=time) as made:
        yield made, activity, uses


async def test_a_navigation_and_a_program_are_uses_and_a_pages_own_requests_are_not() -> None:
    async with watched() as (made, activity, uses):
        row = await made.workspace()
        for lines, used in ((NAVIGATION, True), (QUIET, False), (("User-Agent: curl/8",), True)):
            monitor = activity.monitor(row)
            monitor.used_at -= 5  # as if it were a while ago
            monitor.recorded_at -= 5
            assert (await made.ask(f"/w/{row.id}/", COOKIE, *lines))[0] == 200
            assert await counts(activity, uses) is used, lines


async def test_an_idle_tabs_frames_are_no_use_and_typing_is() -> None:
    async with watched() as (made, activity, uses):
        row = await made.workspace()
        talk = await socket(made, row)
        for _ in range(30):
            await talk.send(frame(b"x" * 20, masked=True))
        await synced(talk)
        assert not await counts(activity, uses)
        for _ in range(60):
            await talk.send(frame(b"x" * 60, masked=True))
        await synced(talk)
        assert await counts(activity, uses)
        await talk.close()


async def test_three_forgotten_tabs_are_no_use() -> None:
    async with watched() as (made, activity, uses):
        row = await made.workspace()
        tabs = [await socket(made, row) for _ in range(6)]
        for talk in tabs:
            for _ in range(20):
                await talk.send(frame(b"x" * 20, masked=True))
            await synced(talk)
        assert not await counts(activity, uses)
        for _ in range(60):
            await tabs[0].send(frame(b"x" * 60, masked=True))
        await synced(tabs[0])
        assert await counts(activity, uses)
        for talk in tabs:
            await talk.close()


async def test_for_jupyterlab_a_key_is_a_use_and_a_ping_is_not() -> None:
    async with watched() as (made, activity, uses):
        row = await made.workspace(ide="jupyterlab")
        talk = await socket(made, row)
        for _ in range(100):
            await talk.send(frame(b"ping", opcode=9, masked=True))
        await synced(talk)
        assert not await counts(activity, uses)
        await talk.send(frame(b'["stdin","a"]', opcode=1, masked=True))
        await synced(talk)
        assert await counts(activity, uses)
        await talk.close()


async def test_for_jupyterlab_a_terminal_that_prints_is_a_use() -> None:
    async with watched() as (made, activity, uses):
        row = await made.workspace(ide="jupyterlab")
        talk = await socket(made, row)
        await talk.send(PRINT)
        await talk.exactly(20 * 6)
        assert await counts(activity, uses)
        await talk.close()


async def test_for_jupyterlab_what_it_tells_its_tab_of_the_tabs_own_doing_is_no_use() -> None:
    """Recorded: every ten seconds an untouched tab lists its
    folder, and is told of each file in it that was read.
    """
    async with watched() as (made, activity, uses):
        row = await made.workspace(ide="jupyterlab")
        talk = await socket(made, row, "/api/events/subscribe")
        await talk.send(PRINT)
        await talk.exactly(20 * 6)
        assert not await counts(activity, uses)
        await talk.close()


async def test_a_key_is_noted_while_its_owner_works_and_not_for_an_open_tab() -> None:
    keys = MemoryCredentials()
    async with watched(keys=keys) as (made, activity, _uses):
        row = await made.workspace()
        talk = await socket(made, row)
        await talk.send(frame(b"x" * 20, masked=True))
        await synced(talk)
        await activity.flush(everything=True)
        assert keys.in_use == set()
        for _ in range(60):
            await talk.send(frame(b"x" * 60, masked=True))
        await synced(talk)
        await activity.flush()
        assert keys.in_use == set(), "not before a minute has passed"
        await activity.flush(everything=True)
        assert keys.in_use == {SESSION}
        await talk.close()


async def test_a_key_that_could_not_be_noted_is_noted_later() -> None:
    is_down = True

    async def fault(_call: str) -> None:
        if is_down:
            raise StoreUnavailable("down")

    keys = MemoryCredentials(faults=fault)
    async with watched(keys=keys) as (made, activity, _uses):
        row = await made.workspace()
        await made.ask(f"/w/{row.id}/", COOKIE)
        await activity.flush(everything=True)
        assert keys.in_use == set()
        is_down = False
        await activity.flush(everything=True)
        assert keys.in_use == {SESSION}


async def test_a_thousand_requests_are_one_write() -> None:
    async with watched(flush_s=30.0) as (made, activity, uses):
        row = await made.workspace()
        talk = await made.connect()
        for _ in range(1000):
            await talk.send(f"GET /w/{row.id}/ HTTP/1.1\r\nHost: hub.test\r\n{COOKIE}\r\n\r\n".encode())
            await talk.head()
        await talk.close()
        monitor = activity.monitor(row)
        monitor.recorded_at = monitor.used_at - 30
        await activity.flush()
        await activity.flush()
        assert len(uses.written) == 1
        assert set(uses.written[0]) == {row.id}


async def test_a_use_before_the_database_s_time_is_known_is_recorded_when_it_is() -> None:
    uses, time, clock = Uses(), DatabaseTime(), SystemClock()
    activity = Activity(uses, MemoryCredentials(), time, clock=clock, flush_s=0.0)
    row = workspace(Phase.RUNNING)
    activity.monitor(row).used_at = clock.monotonic() + 1
    await activity.flush()
    assert uses.written == []
    time.note(datetime(2026, 11, 18, tzinfo=UTC), clock.monotonic())
    await activity.flush()
    assert [set(written) for written in uses.written] == [{row.id}]


@pytest.mark.parametrize(
    "error", [StoreUnavailable("down"), RuntimeError("a mistake")], ids=["outage", "mistake"]
)
async def test_what_could_not_be_recorded_is_recorded_later(error: Exception) -> None:
    async with watched() as (made, activity, uses):
        row = await made.workspace()
        await made.ask(f"/w/{row.id}/", COOKIE)
        touch = uses.touch

        async def down(_accesses: object) -> None:
            raise error

        uses.touch = down  # type: ignore[assignment]
        await activity.flush()
        uses.touch = touch  # type: ignore[method-assign]
        await activity.flush()
        assert set(uses.written[0]) == {row.id}


async def test_the_recorded_time_is_the_databases() -> None:
    async with watched() as (made, activity, uses):
        row = await made.workspace()
        before = (await made.store.load([row.id])).now
        await made.ask(f"/w/{row.id}/", COOKIE)
        await activity.flush()
        after = (await made.store.load([row.id])).now
        guess = timedelta(seconds=2)
        assert before - guess < uses.written[0][row.id] < after + guess


async def test_a_tab_that_is_told_of_the_ides_own_files_is_no_use() -> None:
    """Recorded with code-server in a container whose home is open: its lock file is touched every second."""
    message = b'\x01\x00\x00\x03X\x0c$onFileEvent\x00\x00\x00\xc5[{"created":[],"changed":[{"$mid":1,"path":"/home/coder/%s"}]}]'
    async with watched() as (made, activity, uses):
        row = await made.workspace(ide="code-server")
        talk = await socket(made, row)
        own = message % b".local/share/code-server/User/workspaceStorage/-7db23357/vscode.lock"
        for _ in range(60):
            await talk.send(frame(own, masked=True))
        await synced(talk)
        assert not await counts(activity, uses)
        for _ in range(60):
            await talk.send(frame(message % b"project/main.py", masked=True))
        await synced(talk)
        assert await counts(activity, uses)
        await talk.close()


@pytest.mark.parametrize("size", [0, 1, 125, 126, 1_000, 1_024, 1_025, 65_535, 65_536, 200_000])
@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
def test_frames_are_read_however_they_are_cut(size: int, piece: int) -> None:
    first, second = b"ab" * (size // 2) + b"a" * (size % 2), b"b" * size
    parts = [
        frame(first, masked=True),
        frame(b"", opcode=9),
        frame(second),
        frame(b"c", opcode=0),
    ]
    stream = b"".join(parts)
    reader = FrameReader()
    read = [frame for at in range(0, len(stream), piece) for frame in reader.feed(stream[at : at + piece])]
    is_short = size <= 1_024
    assert read == [(size, first if is_short else b""), (size, second if is_short else b""), (1, b"c")]


@pytest.mark.parametrize("piece", [1, 7, 106, 1 << 20])
def test_as_much_is_counted_however_the_frames_are_cut(piece: int) -> None:
    frames = [frame(b"x" * size, masked=True) for size in (1, 62, 100, 101, 1_025, 5)]
    frames.insert(2, frame(b"ping", opcode=9, masked=True))
    stream = b"".join(frames)
    monitor = WorkspaceMonitor(workspace(spec={"ide": "code-server"}), SystemClock(), 30.0)
    passed: list[bytes] = []
    head = RequestHead(BlockCache(header_rules(secure=False)))
    head.read(get())
    sockets = [monitor.open_socket(head) for _ in range(2)]
    cut, whole = (socket for socket in sockets if socket is not None)
    cut_up, whole_up = cut.count_up(passed.append), whole.count_up(passed.append)
    for at in range(0, len(stream), piece):
        cut_up(stream[at : at + piece])
    assert b"".join(passed) == stream
    for frame_bytes in frames:
        whole_up(frame_bytes)
    assert cut.bytes_up == whole.bytes_up == sum((1, 62, 100, 101, 1_025, 5)) + 6 * 6
