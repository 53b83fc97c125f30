"""Rows that are older than an operator's ceilings: what a start gives them, and which image it does not
run.
"""

from dataclasses import replace
from uuid import UUID

import pytest
from tests.support.engine import Plane

from codehub.core.ceilings import Ceilings, Images
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.operations import DesiredState, Phase
from codehub.core.plan import Why
from codehub.core.workspace import InstanceBackend, Resources
from codehub.engine.backends import Backends
from codehub.ports.instances import InstanceSpec
from codehub.ports.storage import Report, ignore_progress


class Started(Exception):
    """Nobody expected a start."""


async def test_a_workspace_above_a_lowered_ceiling_starts_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plane, given = Plane(), []
    low = Ceilings(Resources(memory_mb=512, cpus=1.0, pids=64, disk_mb=1024))
    plane.backends = replace(plane.backends, ceilings=low)
    start = plane.instances.start

    async def noted(spec: InstanceSpec, volume_id: str, report: Report = ignore_progress) -> None:
        given.append(spec.resources)
        await start(spec, volume_id, report)

    monkeypatch.setattr(plane.instances, "start", noted)
    workspace_id = await plane.create(DesiredState.RUNNING)
    await plane.converge(plane.controller())
    row = await plane.get(workspace_id)
    begun = [
        record.event for record in await plane.store.history(workspace_id) if record.event.after == "STARTING"
    ]
    await plane.close()
    assert row.status.phase is Phase.RUNNING
    assert [event.reason for event in begun] == [
        Message(Code.CLAMPED, {"memory": 512, "cpus": "1", "pids": 64, "disk": 1024})
    ]
    assert set(given) == {low.resources}
    assert row.spec.resources == Resources(), "what its owner asked for stays in the row"


async def test_a_start_that_gives_all_that_was_asked_for_says_nothing_of_ceilings() -> None:
    plane = Plane()
    workspace_id = await plane.create(DesiredState.RUNNING)
    await plane.converge(plane.controller())
    begun = [
        record.event for record in await plane.store.history(workspace_id) if record.event.after == "STARTING"
    ]
    await plane.close()
    assert [event.reason for event in begun] == [Message(Why.MOVES_UP)]


async def test_an_image_that_is_allowed_no_longer_is_not_started_and_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plane = Plane()
    instances = {**plane.backends.instances, InstanceBackend.LOCAL_DOCKER: plane.instances}
    ceilings = Ceilings(images=Images(("team/own",), ("team/*",)))
    plane.backends = Backends(instances, plane.backends.storage, ceilings)

    async def refuse(_spec: InstanceSpec, _volume_id: str, _report: Report = ignore_progress) -> None:
        raise Started

    monkeypatch.setattr(plane.instances, "start", refuse)
    workspace_id = await plane.create(DesiredState.RUNNING)
    await runs_image(plane, workspace_id, "evil/image:1")
    await plane.converge(plane.controller())
    row = await plane.get(workspace_id)
    await plane.close()
    error = row.status.error_info
    assert row.status.phase is Phase.ERROR
    assert error is not None
    assert error.reason is ErrorReason.IMAGE_PULL_FAILED
    assert error.message == Message(Code.IMAGE_NOT_ALLOWED, {"image": "evil/image:1"})


async def runs_image(plane: Plane, workspace_id: UUID, image: str) -> None:
    """Let it be a container of this image, as a row of earlier days is."""
    row = await plane.get(workspace_id)
    spec = replace(row.spec, instance_backend=InstanceBackend.LOCAL_DOCKER, image_ref=image)
    plane.store.roll_back({workspace_id: replace(row, spec=spec)})
