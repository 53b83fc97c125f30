"""Platforms on which a test can keep what is deleted from going: memory by its hooks, a cluster by
finalizers, as an operator's own controllers set them.
"""

from typing import Any, Protocol
from uuid import UUID

import pytest
from tests.support.instances import InstanceWorld, MemoryWorld
from tests.support.kubernetes_world import MERGE, KubernetesWorld

from codehub.adapters.kubernetes import claim_store
from codehub.adapters.kubernetes import instances as kubernetes_instances
from codehub.adapters.kubernetes.labels import claim_name, pod_name
from codehub.ports.storage import Home, StorageProvider

_HOLDS = "codehub.dev/a-test-holds-it"
_PATIENCE_S = 1.0


class EndingWorld(Protocol):
    @property
    def world(self) -> InstanceWorld: ...

    @property
    def storage(self) -> StorageProvider: ...

    def lose_patience(self, patch: pytest.MonkeyPatch) -> None:
        """Let nobody wait for long until what was deleted is gone."""

    def hold_instance(self, workspace_id: UUID) -> None: ...

    def release_instance(self, workspace_id: UUID) -> None: ...

    def hold_volume(self, home: Home) -> None: ...

    def release_volume(self, home: Home) -> None: ...


class MemoryEndings:
    def __init__(self) -> None:
        self.world = MemoryWorld()
        self.storage = self.world.storage

    def lose_patience(self, patch: pytest.MonkeyPatch) -> None:
        for backend in (self.world.instances, self.storage):
            patch.setattr(backend.finalizers, "patience_s", 0.01)

    def hold_instance(self, workspace_id: UUID) -> None:
        self.world.instances.hold(workspace_id)

    def release_instance(self, workspace_id: UUID) -> None:
        self.world.instances.release(workspace_id)

    def hold_volume(self, home: Home) -> None:
        self.storage.hold(home.workspace_id)

    def release_volume(self, home: Home) -> None:
        self.storage.release(home.workspace_id)


class KubernetesEndings:
    def __init__(self, world: KubernetesWorld) -> None:
        self.world = world
        self.storage = world.storage
        self._held: set[str] = set()

    def lose_patience(self, patch: pytest.MonkeyPatch) -> None:
        for module in (claim_store, kubernetes_instances):
            patch.setattr(module, "_GONE_S_MAX", _PATIENCE_S)

    def hold_instance(self, workspace_id: UUID) -> None:
        self._hold(self.world.path_of("pods", pod_name(workspace_id)))

    def release_instance(self, workspace_id: UUID) -> None:
        self._release(self.world.path_of("pods", pod_name(workspace_id)))

    def hold_volume(self, home: Home) -> None:
        self._hold(self._claim(home))

    def release_volume(self, home: Home) -> None:
        self._release(self._claim(home))

    def release_all(self) -> None:
        for path in self._held.copy():
            self._release(path)

    def _claim(self, home: Home) -> str:
        return self.world.path_of("persistentvolumeclaims", claim_name(home.workspace_id))

    def _hold(self, path: str) -> None:
        self._held.add(path)
        self._patch(path, [*self._finalizers(path), _HOLDS])

    def _release(self, path: str) -> None:
        self._held.discard(path)
        self._patch(path, [each for each in self._finalizers(path) if each != _HOLDS])

    def _finalizers(self, path: str) -> list[str]:
        item: Any = self.world.cluster.find(path)
        return [] if item is None else list(item["metadata"].get("finalizers") or [])

    def _patch(self, path: str, finalizers: list[str]) -> None:
        if self.world.cluster.find(path) is not None:
            self.world.cluster.ask("PATCH", path, {"metadata": {"finalizers": finalizers}}, kind=MERGE)
