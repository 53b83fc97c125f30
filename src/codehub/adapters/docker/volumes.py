"""Homes as Docker volumes with an identity. Refuses an engine without this installation's mark, and a volume
it was not asked about.

codehub-{installation}   the mark: an engine without it is another one, or has lost its disk; an outage, not
                         an empty list
ws-{id}-home             the home; its labels say which volume it is, and of which archive, from the moment
                         it is made
ws-{id}-trial            where an archive is tried that is to replace a whole home; counts for nobody
ws-{id}-seal-{volume}    an empty volume whose label names a home's volume_id: that one is complete. Made
                         last, removed last; each home has its own, so that nobody ever breaks another's
ws-{id}-making-{volume}  the same for a home that is being made: made before it, removed once it is sealed.
                         A home that has neither this nor a seal was complete, and has lost its seal
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from codehub.adapters.docker.address import mark_of
from codehub.adapters.docker.containers import VOLUME
from codehub.adapters.docker.engine import CONFLICT, NOT_FOUND, ROLE, WORKSPACE, DockerError, Engine, refusal
from codehub.adapters.docker.unremovable import list_unremovable
from codehub.adapters.threads import wait_for
from codehub.core.messages import Code, Message
from codehub.core.observation import Volume
from codehub.ports.backends import ActionFailed, BackendUnreachable, EngineFailed, MarkMissing
from codehub.ports.system import Identity

_HOME, _SEAL, _MAKING, _TRIAL, _MARK = "home", "helper", "helper", "helper", "mark"
_MADE_FROM = "codehub.archive"


@dataclass(frozen=True, slots=True)
class WorkspaceVolumes:
    """The volumes of one workspace: its home, and when each of the others was made."""

    home: str | None = None
    """None with `exists`: a volume that Docker made of itself, and that was never ours."""
    exists: bool = False
    made_from: str | None = None
    seals: Mapping[str, tuple[str, datetime]] = field(default_factory=dict)
    """By the volume_id that they name: what each is called, and when it was made."""
    makings: Mapping[str, tuple[str, datetime]] = field(default_factory=dict)
    """The same of what says that a home is being made."""
    trial_made_at: datetime | None = None

    @property
    def volume(self) -> Volume | None:
        if not self.exists:
            return None
        if self.home in self.seals:
            return Volume(self.home, made_from=self.made_from)
        return Volume(None, None if self.home in self.makings else self.home)

    @property
    def volume_id(self) -> str | None:
        return None if self.volume is None else self.volume.volume_id

    @property
    def name(self) -> str | None:
        return None if self.volume is None else self.volume.name

    def leftovers(self, workspace_id: UUID) -> Iterator[tuple[str, datetime]]:
        """Yield what counts for nobody: seals of homes that are gone, what says that they are being made, and
        a trial, by their names.
        """
        for volume_id, seal in self.seals.items():
            if volume_id != self.home:
                yield seal
        for volume_id, making in self.makings.items():
            if volume_id != self.home or self.home in self.seals:
                yield making
        if self.trial_made_at is not None:
            yield trial_name(workspace_id), self.trial_made_at


class Volumes:
    def __init__(self, engine: Engine, identity: Identity) -> None:
        self._engine = engine
        self._identity = identity

    async def prepare(self) -> None:
        """Mark the engine as this installation's.

        For the first start alone: afterwards a missing mark is an outage.
        """
        await self._make(self._mark, {ROLE: _MARK})
        await self.list_all()

    async def list_all(self) -> Mapping[UUID, WorkspaceVolumes]:
        """Return what there is of every workspace, by one list.

        Raises BackendUnreachable rather than leave one out.
        """
        volumes = await self._list_entries()
        if self._mark not in {entry["Name"] for entry in volumes}:
            raise MarkMissing(Message(Code.MARK_OF_ENGINE, {"name": self._mark}))
        return _group_by_workspace(volumes)

    async def list_unmarked(self) -> Mapping[UUID, WorkspaceVolumes]:
        """Return what there is, whether or not it is the right engine: for whoever has to decide that."""
        return _group_by_workspace(await self._list_entries())

    async def _list_entries(self) -> list[Mapping[str, Any]]:
        answer = await self._engine.list_labelled("volumes", {})
        if answer.get("Warnings"):
            raise BackendUnreachable(Message(Code.DOCKER_LIST_PARTIAL, {"text": str(answer["Warnings"])}))
        return answer.get("Volumes") or []

    async def inspect(self, workspace_id: UUID) -> WorkspaceVolumes:
        """Return the volumes of one workspace."""
        answer = await self._engine.list_labelled("volumes", {WORKSPACE: str(workspace_id)})
        volumes = _group_by_workspace(answer.get("Volumes") or []).get(workspace_id, WorkspaceVolumes())
        if not volumes.exists:
            await self.list_all()  # is it gone, or is this another engine?
        return volumes

    async def require(self, workspace_id: UUID, volume_id: str) -> None:
        """Refuse unless this very volume is there and complete."""
        if (await self.inspect(workspace_id)).volume_id != volume_id:
            raise ActionFailed(Message(Code.NO_SUCH_VOLUME, {"volume_id": volume_id}))

    async def make(self, workspace_id: UUID, archive_key: str | None) -> str:
        """Make a new volume, which does not count before it is sealed, and return its volume_id.

        `archive_key`: what it is made from.
        """
        volume_id = str(self._identity.new_id())
        being_made = self._engine.labels(workspace_id, _MAKING) | {VOLUME: volume_id}
        await self._make(making_name(workspace_id, volume_id), being_made)
        labels = self._engine.labels(workspace_id, _HOME) | {VOLUME: volume_id}
        if archive_key is not None:
            labels |= {_MADE_FROM: archive_key}
        answer = await self._make(home_name(workspace_id), labels)
        if (answer.get("Labels") or {}).get(VOLUME) != volume_id:
            raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": volume_id}))
        return volume_id

    async def require_unsealed(self, workspace_id: UUID, volume_id: str) -> None:
        """Refuse unless this very volume is there and still to be filled: by its name alone it might be
        somebody's home by now.
        """
        volumes = await self.inspect(workspace_id)
        if volumes.home != volume_id or volumes.volume_id is not None:
            raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": volume_id}))

    async def seal(self, workspace_id: UUID, volume_id: str) -> None:
        """Say that the volume is complete, once what it holds is on the disk. From here on it counts."""
        labels = self._engine.labels(workspace_id, _SEAL) | {VOLUME: volume_id}
        await self._make(seal_name(workspace_id, volume_id), labels)
        await self.require(workspace_id, volume_id)
        await self.drop_leftover(making_name(workspace_id, volume_id))

    async def refuse_in_use(self, workspace_id: UUID) -> None:
        """Refuse if a container uses the home.

        A later one is not excluded by this: only the workspace's operation does that.
        """
        filters = json.dumps({"volume": [home_name(workspace_id)]})
        try:
            containers = await self._engine.ask("GET", "containers/json", all=True, filters=filters)
        except DockerError as error:
            raise refusal(error) from None
        if containers:
            raise ActionFailed(Message(Code.VOLUME_HELD, {"text": ", ".join(containers[0]["Names"])}))

    async def remove(self, workspace_id: UUID, volumes: WorkspaceVolumes) -> None:
        """Remove the home, then its seal: a complete volume never looks like an incomplete one."""
        await self._drop(home_name(workspace_id), _HOME, volume_id=volumes.home)
        # Somebody who sees that the home is gone may cancel the rest; it is done all the same.
        await wait_for(asyncio.ensure_future(self._drop_rest(workspace_id, volumes)))

    async def _drop_rest(self, workspace_id: UUID, volumes: WorkspaceVolumes) -> None:
        for name, _ in (*volumes.seals.values(), *volumes.makings.values()):
            await self.drop_leftover(name)
        await self.drop_leftover(trial_name(workspace_id))

    async def make_trial(self, workspace_id: UUID) -> None:
        await self.drop_leftover(trial_name(workspace_id))
        await self._make(trial_name(workspace_id), self._engine.labels(workspace_id, _TRIAL))

    async def drop_leftover(self, name: str) -> None:
        """Remove a seal, a trial, or what says that a home is being made."""
        await self._drop(name, _SEAL)

    @property
    def _mark(self) -> str:
        return mark_of(self._engine.installation)

    async def _make(self, name: str, labels: Mapping[str, str]) -> Mapping[str, Any]:
        # An engine that is going down still makes volumes, but without their labels, and then nobody may
        # touch them. It answers no question.
        await self._engine.find(f"volumes/{name}")
        body = {"Name": name, "Labels": {**labels, "codehub.install": self._engine.installation}}
        try:
            answer: Mapping[str, Any] = await self._engine.ask("POST", "volumes/create", body=body)
        except DockerError as error:
            raise refusal(error) from None
        return answer

    async def _drop(self, name: str, role: str, *, volume_id: str | None = None) -> None:
        """Remove it. A home: only if it is still this one."""
        volume = await self._engine.find(f"volumes/{name}")
        if volume is None:
            return
        labels = volume.get("Labels") or {}
        if not self._engine.owns(labels, role):
            raise ActionFailed(Message(Code.DOCKER_NOT_OURS, {"name": name}))
        if role == _HOME and labels.get(VOLUME) != volume_id:
            raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": volume_id}))
        try:
            await self._engine.ask("DELETE", f"volumes/{name}")
        except DockerError as error:
            if error.status == CONFLICT:
                if any(container.id in error.message for container in await list_unremovable(self._engine)):
                    raise EngineFailed(
                        Message(Code.CONTAINER_HOLDS_VOLUME, {"text": error.message})
                    ) from None
                raise ActionFailed(Message(Code.VOLUME_HELD, {"text": error.message})) from None
            if error.status != NOT_FOUND:
                raise refusal(error) from None


def home_name(workspace_id: UUID) -> str:
    return f"ws-{workspace_id}-home"


def trial_name(workspace_id: UUID) -> str:
    return f"ws-{workspace_id}-trial"


def seal_name(workspace_id: UUID, volume_id: str) -> str:
    return f"ws-{workspace_id}-seal-{volume_id}"


def making_name(workspace_id: UUID, volume_id: str) -> str:
    return f"ws-{workspace_id}-making-{volume_id}"


def _group_by_workspace(entries: list[Mapping[str, Any]]) -> Mapping[UUID, WorkspaceVolumes]:
    by_workspace: dict[UUID, dict[str, Any]] = {}
    for entry in entries:
        labels = entry.get("Labels") or {}
        try:
            workspace_id = UUID(labels.get(WORKSPACE, ""))
        except ValueError:
            continue
        fields = by_workspace.setdefault(workspace_id, {"seals": {}, "makings": {}})
        name, role, volume_id = entry["Name"], labels.get(ROLE), labels.get(VOLUME)
        if name == home_name(workspace_id) and role == _HOME:
            fields |= {"exists": True, "home": volume_id, "made_from": labels.get(_MADE_FROM)}
        elif role == _SEAL and volume_id is not None and name.startswith(f"ws-{workspace_id}-seal"):
            # By its beginning: an earlier codehub left out the volume_id, and what that sealed is whole.
            fields["seals"][volume_id] = (name, datetime.fromisoformat(entry["CreatedAt"]))
        elif role == _MAKING and volume_id is not None and name == making_name(workspace_id, volume_id):
            fields["makings"][volume_id] = (name, datetime.fromisoformat(entry["CreatedAt"]))
        elif name == trial_name(workspace_id) and role == _TRIAL:
            fields["trial_made_at"] = datetime.fromisoformat(entry["CreatedAt"])
    return {workspace_id: WorkspaceVolumes(**fields) for workspace_id, fields in by_workspace.items()}
