"""Storages for tests: a provider, and ways to look into its
homes and to break them, in memory or on this machine.
"""

import asyncio
import json
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar, Protocol
from uuid import UUID, uuid4

from tests.support.docker import BASE, Docker, TestEngine
from tests.support.trees import Picture, picture

from codehub.adapters.docker.containers import VOLUME
from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.storage import DockerStorage
from codehub.adapters.docker.volumes import home_name, making_name, seal_name
from codehub.adapters.local.storage import LocalStorage
from codehub.adapters.memory.storage import MemoryStorage
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.system.machine import SystemIdentity
from codehub.core.workspace import InstanceBackend, StorageBackend, home_key
from codehub.ports.storage import Amount, Home, MayCommit, RestoredVolume, StorageProvider

Files = Mapping[str, bytes]
FILES: Files = {"notes.txt": b"hello\n", "src/deep/main.py": b"print()\n" * 1000, "empty": b""}
INSTALLATION = "11111111-2222-3333-4444-555555555555"


def new_home() -> Home:
    workspace_id = uuid4()
    key = home_key(InstanceBackend.LOCAL_PROCESS, StorageBackend.LOCAL_DIR, uuid4(), workspace_id)
    return Home(workspace_id, key)


COMMITTED_AT = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)


async def granted() -> datetime | None:
    return COMMITTED_AT


def committed_after(seconds: int) -> MayCommit:
    """The database lets it be committed, so long after COMMITTED_AT."""

    async def may_commit() -> datetime | None:
        return COMMITTED_AT + timedelta(seconds=seconds)

    return may_commit


async def denied() -> datetime | None:
    return None


def unheard(_amount: Amount) -> None:
    return


class Storage(ABC):
    """What the contract's tests need beside the port. A new adapter joins by one of these."""

    provider: StorageProvider

    @abstractmethod
    def write(self, home: Home, files: Files) -> None:
        """Put files into a home, as an IDE would."""

    MOMENT_S: ClassVar[float] = 0.0
    """How far apart two changes must be to be told apart by their times."""

    async def let_a_moment_pass(self) -> None:
        began = time.time()
        while time.time() < began + self.MOMENT_S:  # noqa: ASYNC110  # a clock tells nobody
            await asyncio.sleep(0.01)

    @abstractmethod
    def files(self, home: Home) -> Files | None:
        """Return what a complete volume holds."""

    @abstractmethod
    def leave_half_a_volume(self, home: Home) -> None:
        """Leave what a provision or restore that died leaves: something, without an identity."""

    @abstractmethod
    def lose_identity(self, home: Home) -> None:
        """Remove what says which volume it is, as a person might. Its files stay."""

    @abstractmethod
    def lose_volume(self, home: Home) -> None: ...

    @abstractmethod
    def uncommit(self, key: str) -> None:
        """Leave of a committed archive what an upload that died before its commit leaves."""

    @abstractmethod
    def damage(self, key: str) -> None:
        """Cut the `.meta` of a committed archive, as a full network disk does, or a copy that ended early."""

    @abstractmethod
    def lose_archive(self, key: str) -> None: ...


class InMemory(Storage):
    MOMENT_S = 0.001

    def __init__(self) -> None:
        self.memory = MemoryStorage(now=lambda: datetime.now(UTC), identity=SystemIdentity())
        self.provider = self.memory

    def write(self, home: Home, files: Files) -> None:
        for path, content in files.items():
            self.memory.write(home.workspace_id, path, content)

    def files(self, home: Home) -> Files | None:
        return self.memory.files(home.workspace_id)

    def leave_half_a_volume(self, home: Home) -> None:
        self.memory.leave_half_a_volume(home.workspace_id, {"half": b"half"})

    def lose_identity(self, home: Home) -> None:
        self.memory.lose_identity(home.workspace_id)

    def lose_volume(self, home: Home) -> None:
        self.memory.lose_volume(home.workspace_id)

    def uncommit(self, key: str) -> None:
        self.memory.uncommit_archive(key)

    def damage(self, key: str) -> None:
        self.memory.damage_archive(key)

    def lose_archive(self, key: str) -> None:
        self.memory.lose_archive(key)


class InDirectory(Storage):
    """A storage whose archives lie in a directory of this machine."""

    META: ClassVar = ".meta"
    store: Path

    def uncommit(self, key: str) -> None:
        (self.store / f"{key}{self.META}").unlink()

    def damage(self, key: str) -> None:
        os.truncate(self.store / f"{key}{self.META}", 40)

    def lose_archive(self, key: str) -> None:
        (self.store / f"{key}{self.META}").unlink()
        (self.store / key).unlink()


class OnThisMachine(InDirectory):
    """local-dir homes and a `file://` store under one directory.
    `in_use` says which homes an instance runs on.
    """

    MOMENT_S = 0.05  # the kernel's own clock for files

    def __init__(
        self,
        directory: Path,
        *,
        owner: tuple[int, int] | None = None,
        store: Path | None = None,
        objects: Objects | None = None,
    ) -> None:
        self.root = directory / "data"
        self.store = store or directory / "archives"
        self.objects = objects or Objects(f"file://{self.store}", installation=INSTALLATION)
        self.archives = ObjectArchives(self.objects)
        self.in_use: set[UUID] = set()
        self.local = LocalStorage(
            self.root,
            installation=INSTALLATION,
            archives=self.archives,
            identity=SystemIdentity(),
            is_in_use=self._is_in_use,
            owner_of=lambda _workspace_id: owner,
        )
        self.provider = self.local

    @classmethod
    async def prepared(
        cls, directory: Path, *, owner: tuple[int, int] | None = None, store: Path | None = None
    ) -> "OnThisMachine":
        made = cls(directory, owner=owner, store=store)
        await made.objects.prepare()
        await made.local.prepare()
        return made

    async def _is_in_use(self, workspace_id: UUID) -> bool:
        return workspace_id in self.in_use

    def path(self, home: Home) -> Path:
        return self.root / home.home_store_key

    def write(self, home: Home, files: Files) -> None:
        write_files(self.path(home), files)

    def files(self, home: Home) -> Files | None:
        path = self.path(home)
        identity = path.with_name("volume.json")
        is_complete = identity.exists() and json.loads(identity.read_bytes())["volume_id"] is not None
        return read_files(path) if is_complete else None

    def leave_half_a_volume(self, home: Home) -> None:
        self.path(home).mkdir(parents=True, exist_ok=True)
        (self.path(home) / "half").write_bytes(b"half")
        self.path(home).with_name("volume.json").write_text('{"volume_id": null, "format": 1}')

    def lose_identity(self, home: Home) -> None:
        (self.path(home).parent / "volume.json").unlink()

    def lose_volume(self, home: Home) -> None:
        shutil.rmtree(self.path(home).parent, ignore_errors=True)

    def everything(self) -> set[str]:
        """Return every path below, directories of users left out, to see what is left behind."""
        return {
            str(path.relative_to(self.root.parent))
            for top in (self.root, self.store)
            for path in top.rglob("*")
            if not (path.is_dir() and path.name in ("users", "workspaces")) and path.parent.name != "users"
        }


class OnDocker(InDirectory):
    """docker-volume homes and a `file://` store. What tests do to a home they do on the engine's disk."""

    MOMENT_S = 2.0  # Docker tells the second in which a volume was made

    def __init__(self, engine: TestEngine, directory: Path, url: str | None = None) -> None:
        self.engine = engine
        self.install_id = str(uuid4())
        self.store = directory / "archives"
        self.objects = Objects(url or f"file://{self.store}", installation=self.install_id)
        self.archives = ObjectArchives(self.objects)
        self.connection = Engine(engine.url, installation=self.install_id)
        self.pipes = directory / "pipes"
        self.docker = DockerStorage(
            self.connection,
            helper_image=BASE,
            archives=self.archives,
            identity=SystemIdentity(),
            pipes=self.pipes,
        )
        self.provider = self.docker

    async def prepare(self) -> None:
        await self.objects.prepare()
        await self.docker.prepare()

    async def close(self) -> None:
        self.engine.remove_labelled(self.install_id)
        await self.connection.close()

    def path(self, home: Home) -> Path:
        return self.engine.path_of(home_name(home.workspace_id))

    def write(self, home: Home, files: Files) -> None:
        write_files(self.path(home), files)

    def files(self, home: Home) -> Files | None:
        volume = self.engine.find(f"volumes/{home_name(home.workspace_id)}")
        if volume is None:
            return None
        volume_id = (volume["Labels"] or {}).get(VOLUME, "")
        is_sealed = self.engine.find(f"volumes/{seal_name(home.workspace_id, volume_id)}") is not None
        return read_files(self.path(home)) if is_sealed else None

    def leave_half_a_volume(self, home: Home) -> None:
        volume_id = str(uuid4())
        for role, name in (
            ("helper", making_name(home.workspace_id, volume_id)),
            ("home", home_name(home.workspace_id)),
        ):
            labels = self.connection.labels(home.workspace_id, role) | {VOLUME: volume_id}
            self.engine.ask("POST", "volumes/create", body={"Name": name, "Labels": labels})
        (self.path(home) / "half").write_bytes(b"half")

    def lose_identity(self, home: Home) -> None:
        volume = self.engine.ask("GET", f"volumes/{home_name(home.workspace_id)}")
        self.engine.ask("DELETE", f"volumes/{seal_name(home.workspace_id, volume['Labels'][VOLUME])}")

    def lose_volume(self, home: Home) -> None:
        self.engine.ask("DELETE", f"volumes/{home_name(home.workspace_id)}")


async def fill_home(storage: Storage, home: Home, files: Files = FILES) -> str:
    """Provision a home, fill it, and return its volume_id."""
    volume_id = await storage.provider.provision(home)
    storage.write(home, files)
    return volume_id


async def restore_home(storage: Storage, home: Home, key: str) -> RestoredVolume:
    """Restore as the engine does: over the volume that was seen."""
    there = (await storage.provider.list_volumes()).get(home.workspace_id)
    return await storage.provider.restore(
        home, key, unheard, replaces=None if there is None else there.volume_id
    )


async def archive_home(storage: Storage, home: Home, files: Files = FILES) -> str:
    """Archive such a home, delete its volume, and return the archive's key."""
    volume_id = await fill_home(storage, home, files)
    key = await storage.provider.archive(home, volume_id, uuid4(), unheard, granted)
    await storage.provider.delete_volume(home, volume_id)
    return key


class _WithPaths(Protocol):
    """A storage whose homes this machine can see."""

    provider: StorageProvider

    def path(self, home: Home) -> Path: ...


async def there_and_back(storage: _WithPaths, home: Home, volume_id: str) -> tuple[Picture, Picture]:
    """Archive a home, restore it as another one, remove both, and return pictures of them."""
    path = os.fsencode(storage.path(home))
    before = picture(path)
    key = await storage.provider.archive(home, volume_id, uuid4(), unheard, granted)
    # Not over the old one: ext4 takes ten times as long to make files where many were removed just now.
    other = new_home()
    restored = await storage.provider.restore(other, key, unheard)
    after = picture(os.fsencode(storage.path(other)))
    assert picture(path) == before
    await storage.provider.delete_volume(other, restored.volume_id)
    await storage.provider.delete_volume(home, volume_id)
    return before, after


def write_files(place: Path, files: Files) -> None:
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def read_files(place: Path) -> Files:
    return {str(each.relative_to(place)): each.read_bytes() for each in place.rglob("*") if each.is_file()}


@asynccontextmanager
async def docker_storage(engine: TestEngine, directory: Path) -> AsyncIterator[OnDocker]:
    storage = OnDocker(engine, directory)
    await storage.prepare()
    try:
        yield storage
    finally:
        await storage.close()


@asynccontextmanager
async def opened_storage(kind: str, directory: Path, docker: Docker) -> AsyncIterator[Storage]:
    """Return a storage of this kind with nothing in it."""
    match kind:
        case "docker-volume and file://":
            async with docker_storage(await docker(), directory) as on_docker:
                yield on_docker
        case "memory":
            yield InMemory()
        case "local-dir and file://":
            yield await OnThisMachine.prepared(directory)
        case _:
            raise ValueError(kind)
