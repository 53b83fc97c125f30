"""Containers that the engine can't remove: they get a name that nothing looks for, and are removed later.

A dockerd that was killed may leave a container's layer mounted: the container is dead, its deletion fails
with 500, and its name stays in use. It holds nothing of the home, which is a volume or a directory.
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
class UnremovableContainer:
    """A container that the engine could not remove, under its new name."""

    id: str
    name: str
    workspace_id: UUID
    made_at: datetime


async def discard(engine: Engine, container_id: str) -> int:
    """Remove a container, and return 0 or the engine's status: it is gone already, or being removed.

    A container that does not run and that the engine can't remove is renamed: its old name is free."""
    try:
        await engine.ask("DELETE", f"containers/{container_id}", wait=True, force=True, v=True)
    except DockerError as error:
        if error.status in (NOT_FOUND, CONFLICT):
            return error.status
        if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise refusal(error) from None
        await _rename_away(engine, container_id, error)
        return NOT_FOUND
    return 0


async def list_unremovable(engine: Engine) -> Sequence[UnremovableContainer]:
    containers = []
    for entry in await engine.list_labelled("containers/json", {}, all=True):
        name = next((name.lstrip("/") for name in entry["Names"] or ()), "")
        with suppress(ValueError):
            workspace_id = UUID((entry.get("Labels") or {}).get(WORKSPACE, ""))
            if name.startswith(_ASIDE):
                made_at = datetime.fromtimestamp(entry["Created"], UTC)
                containers.append(UnremovableContainer(entry["Id"], name, workspace_id, made_at))
    return containers


async def retry_removal(engine: Engine, container: UnremovableContainer) -> bool:
    """Try once more to remove it, and return whether it is gone."""
    try:
        await engine.ask("DELETE", f"containers/{container.id}", wait=True, force=True, v=True)
    except DockerError as error:
        if error.status != NOT_FOUND:
            log.warning("container_still_aside", container=container.name, reason=error.message)
            return False
    return True


async def _rename_away(engine: Engine, container_id: str, error: DockerError) -> None:
    inspection = await engine.find(f"containers/{container_id}/json")
    if inspection is None:
        return
    if inspection["State"].get("Running"):
        raise refusal(error) from None
    name = f"{_ASIDE}{inspection['Id'][:12]}"
    try:
        await engine.ask("POST", f"containers/{inspection['Id']}/rename", name=name)
    except DockerError as other:
        if other.status != NOT_FOUND:
            raise refusal(error) from None
    log.warning("container_set_aside", container=name, reason=error.message)
