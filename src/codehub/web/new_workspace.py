"""A new workspace: what somebody asked for and what this installation has go in, its spec comes out."""

from dataclasses import replace
from uuid import UUID

from codehub.core.operations import DesiredState
from codehub.core.workspace import InstanceBackend, Resources, Spec, StorageBackend, home_key
from codehub.web.dependencies import Defaults, Dependencies
from codehub.web.schemas import ResourcesBody, WorkspaceBody


class NotHere(Exception):
    """This installation does not have what was asked for. Its text says what it has."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def draft(body: WorkspaceBody, owner_id: UUID, workspace_id: UUID, parts: Dependencies) -> Spec:
    """Raises NotHere."""
    defaults, given = parts.defaults, body.model_fields_set
    if body.ide is not None:
        refuse_missing_ide(body.ide, parts)
    instance = body.instance_backend or defaults.instance_backend
    storage = _homes(body, instance, parts, defaults)
    return Spec(
        owner_user_id=owner_id,
        name=body.name,
        image_ref=body.image_ref or defaults.image_ref,
        ide=(body.ide or defaults.ide),
        instance_backend=instance,
        storage_backend=storage,
        home_store_key=home_key(instance, storage, owner_id, workspace_id),
        description=body.description,
        memo=body.memo,
        resources=changed_resources(body.resources, defaults.resources),
        desired_state=body.desired_state or DesiredState.RUNNING,
        standby_ttl_seconds=(
            body.standby_ttl_seconds if "standby_ttl_seconds" in given else defaults.standby_ttl_seconds
        ),
        archive_ttl_seconds=(
            body.archive_ttl_seconds if "archive_ttl_seconds" in given else defaults.archive_ttl_seconds
        ),
    )


def refuse_missing_ide(ide: str, parts: Dependencies) -> None:
    """Raise NotHere for an IDE that nothing serves here: such a workspace could only end in ERROR."""
    if parts.ides and ide not in parts.ides:
        raise NotHere("ide", f"{ide} is not there; there is {', '.join(parts.ides)}")


def _homes(
    body: WorkspaceBody, instance: InstanceBackend, parts: Dependencies, defaults: Defaults
) -> StorageBackend:
    """Return what holds the home, if this installation has both backends and they fit."""
    fitting = parts.homes.get(instance, ())
    if not fitting:
        known = ", ".join(parts.homes)
        raise NotHere("instance_backend", f"{instance} is not set up here; there is {known}")
    if body.storage_backend is None:
        return defaults.storage_backend if defaults.storage_backend in fitting else fitting[0]
    if body.storage_backend not in fitting:
        raise NotHere("storage_backend", f"with {instance} it must be {' or '.join(fitting)}")
    return body.storage_backend


def changed_resources(given: ResourcesBody | None, base: Resources) -> Resources:
    if given is None:
        return base
    said = {name: value for name, value in given.model_dump().items() if value is not None}
    return replace(base, **said)
