"""A new workspace: what somebody asked for and what this installation has go in, its spec comes out."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from codehub.core.messages import Code, Message
from codehub.core.operations import DesiredState
from codehub.core.workspace import SETTINGS, InstanceBackend, Resources, Spec, StorageBackend, home_key
from codehub.web.dependencies import Defaults, Dependencies
from codehub.web.schemas import ResourcesBody, WorkspaceBody

_NEEDED = frozenset({"image_ref", "ide"})  # null means the installation's; elsewhere it means none


class NotHere(Exception):
    """This installation does not have what was asked for. Its text says what it has."""

    def __init__(self, field: str, problem: Message) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def draft(body: WorkspaceBody, owner_id: UUID, workspace_id: UUID, parts: Dependencies) -> Spec:
    """Raises NotHere."""
    defaults = parts.defaults
    if body.ide is not None:
        refuse_missing_ide(body.ide, parts)
    instance = body.instance_backend or defaults.instance_backend
    storage = _homes(body, instance, parts, defaults)
    return Spec(
        owner_user_id=owner_id,
        instance_backend=instance,
        storage_backend=storage,
        home_store_key=home_key(instance, storage, owner_id, workspace_id),
        desired_state=body.desired_state or DesiredState.RUNNING,
        **_settings(body, defaults),
    )


def _settings(body: WorkspaceBody, defaults: Defaults) -> dict[str, Any]:
    """Return what people may set: what was given, else what this installation has for it, else nothing."""
    given = {name: getattr(body, name) for name in body.model_fields_set if name in SETTINGS}
    of_installation = {name: getattr(defaults, name) for name in SETTINGS if hasattr(defaults, name)}
    chosen = {name: value for name, value in given.items() if value is not None or name not in _NEEDED}
    return of_installation | chosen | {"resources": changed_resources(body.resources, defaults.resources)}


def refuse_missing_ide(ide: str, parts: Dependencies) -> None:
    """Raise NotHere for an IDE that nothing serves here: such a workspace could only end in ERROR."""
    if parts.ides and ide not in parts.ides:
        raise NotHere("ide", Message(Code.IDE_NOT_HERE, {"ide": ide, "offered": list(parts.ides)}))


def _homes(
    body: WorkspaceBody, instance: InstanceBackend, parts: Dependencies, defaults: Defaults
) -> StorageBackend:
    """Return what holds the home, if this installation has both backends and they fit."""
    fitting = parts.homes.get(instance, ())
    if not fitting:
        raise NotHere(
            "instance_backend",
            Message(
                Code.BACKEND_NOT_HERE,
                {"backend": str(instance), "offered": [str(each) for each in parts.homes]},
            ),
        )
    if body.storage_backend is None:
        return defaults.storage_backend if defaults.storage_backend in fitting else fitting[0]
    if body.storage_backend not in fitting:
        raise NotHere(
            "storage_backend",
            Message(
                Code.HOMES_NOT_HERE, {"backend": str(instance), "offered": [str(each) for each in fitting]}
            ),
        )
    return body.storage_backend


def changed_resources(given: ResourcesBody | None, base: Resources) -> Resources:
    if given is None:
        return base
    chosen = {name: value for name, value in given.model_dump().items() if value is not None}
    return replace(base, **chosen)
