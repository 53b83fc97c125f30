"""The controller role: one that begins anew knows who else is there before it looks at anything."""

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.engine import Dice, Plane
from tests.support.patience import until

from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemTasks
from codehub.app.control import control
from codehub.core.membership import Member, Members
from codehub.engine.system import System
from codehub.ports.store import Changes, HistoryChanged
from codehub.settings import load_settings


async def test_a_controller_that_begins_anew_joins_before_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane()
    seen: list[str] = []
    changes, beat = plane.store.changes, plane.store.beat

    async def look(cursor: str | None) -> Changes:
        if cursor is not None:
            raise HistoryChanged
        seen.append("look")
        return await changes(cursor)

    async def join(me: Member, *, alive_s: float, looked_at: datetime | None = None) -> Members:
        seen.append("join")
        return await beat(me, alive_s=alive_s, looked_at=looked_at)

    monkeypatch.setattr(plane.store, "changes", look)
    monkeypatch.setattr(plane.store, "beat", join)
    stores: Any = SimpleNamespace(api=plane.store, controller=plane.store, controller_hints=plane.hints)
    system = System(SystemClock(), Dice(), SystemIdentity(), SystemTasks())
    async with control(load_settings(data_dir=tmp_path), stores, plane.backends, system):
        await until(lambda: seen.count("look") > 1)
    assert seen[:4] == ["join", "look", "join", "look"]
