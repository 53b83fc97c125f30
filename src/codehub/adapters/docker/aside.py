"""Containers that the engine can't remove go in; they are set aside under a name that nobody asks for, and removed when they can be.

A dockerd that was killed may leave a container's layer mounted: it is dead, its deletion fails with 500, and its name is taken. It holds
nothing of the home, which is a volume or a directory.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from uuid import UUID

import structlog

from codehub.adapters.docker.engine import CONFLICT, NOT_FOUND, WORKSPACE, DockerError, Engine, refusal

log = structlog.get_logger()

_ASIDE = "codehub-aside-"


@dataclass(frozen=True, slots=True)
class Aside:
    """A container that was set aside."""

    id: str
    name: str
    workspace_id: UUID
    made_at: datetime


async def discard(engine: Engine, container_id: str) -> int:
    """Remove a container, and return the engine's answer: 0, or that it is gone or going already. One that does not run and that the engine
    can't remove is set aside, and gone for whoever asks by its name."""
    try:
        await engine.ask("DELETE", f"containers/{container_id}", wait=True, force=True, v=True)
    except DockerError as error:
        if error.status in (NOT_FOUND, CONFLICT):
            return error.status
        if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise refusal(error) from None
        await _set_aside(engine, container_id, error)
        return NOT_FOUND
    return 0


async def list_aside(engine: Engine) -> Sequence[Aside]:
    found = []
    for each in await engine.listed("containers/json", {}, all=True):
        name = next((name.lstrip("/") for name in each["Names"] or ()), "")
        with suppress(ValueError):
            workspace_id = UUID((each.get("Labels") or {}).get(WORKSPACE, ""))
            if name.startswith(_ASIDE):
                made_at = datetime.fromtimestamp(each["Created"], UTC)
                found.append(Aside(each["Id"], name, workspace_id, made_at))
    return found


async def remove_aside(engine: Engine, aside: Aside) -> bool:
    """Try once more, and say whether it is gone."""
    try:
        await engine.ask("DELETE", f"containers/{aside.id}", wait=True, force=True, v=True)
    except DockerError as error:
        if error.status != NOT_FOUND:
            log.warning("container_still_aside", container=aside.name, reason=error.message)
            return False
    return True


async def _set_aside(engine: Engine, container_id: str, error: DockerError) -> None:
    said = await engine.find(f"containers/{container_id}/json")
    if said is None:
        return
    if said["State"].get("Running"):
        raise refusal(error) from None
    name = f"{_ASIDE}{said['Id'][:12]}"
    try:
        await engine.ask("POST", f"containers/{said['Id']}/rename", name=name)
    except DockerError as other:
        if other.status != NOT_FOUND:
            raise refusal(error) from None
    log.warning("container_set_aside", container=name, reason=error.message)
