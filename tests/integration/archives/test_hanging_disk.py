"""A disk that does not answer any more, as a dead network mount does: who looks at it is told soon, and costs one thread."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.edge import until
from tests.support.storages import OnThisMachine

from codehub.core.seen import Volume
from codehub.ports.backends import BackendUnreachable


async def test_a_look_at_a_disk_that_hangs_can_be_given_up_and_the_next_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = await OnThisMachine.prepared(tmp_path)
    homes = machine.local._homes
    answers, asked = threading.Event(), 0

    def hang() -> Mapping[UUID, Volume]:
        nonlocal asked
        asked += 1
        answers.wait()
        return {}

    monkeypatch.setattr(homes, "list_all", hang)
    try:
        looking = asyncio.ensure_future(machine.provider.list_volumes())
        await until(lambda: asked == 1)
        looking.cancel()  # as a deadline would
        with pytest.raises(asyncio.CancelledError):
            await looking
        for _ in range(100):
            with pytest.raises(BackendUnreachable, match="does not answer"):
                await machine.provider.list_volumes()
        assert asked == 1
    finally:
        answers.set()
    look = machine.local._looking
    assert look._hung is not None
    await look._hung
    assert await machine.provider.list_volumes() == {}
