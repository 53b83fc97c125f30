"""Homes by way of a Job, which may no more than their own user:
what comes back, and what is refused by its name.
"""

import asyncio
import os
import stat
import tarfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from tests.support.home_job import JOBS, Claim, checked, claims, own
from tests.support.mounts import mounted
from tests.support.person import as_person
from tests.support.storages import INSTALLATION, new_home, unheard
from tests.support.tars import member, store, tar_of, zeros_packed
from tests.support.trees import (
    ACCESS,
    CAPABILITY,
    DEFAULT,
    Node,
    for_user,
    homes,
    may_bind_low_ports,
    picture,
    plant,
    trees_without_rights,
)

from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.jobs import JOB_UID
from codehub.adapters.objectstore.store import Objects
from codehub.core.errors import ErrorReason
from codehub.core.observation import Archive
from codehub.ports.archives import Hear, JobGrants, RunJob, archive_key
from codehub.ports.backends import ActionFailed

pytestmark = JOBS

EXAMPLES = 12


@dataclass
class Shared:
    """Archives in a directory that is mounted for Jobs, and claims."""

    store: Path
    archives: ObjectArchives
    make: Callable[[], Claim]

    def claim(self) -> Claim:
        made = self.make()
        made.archives = self.store
        return made

    def claim_with_home(self) -> Claim:
        made = self.claim()
        made.home.mkdir(mode=0o700)
        own(made.home)
        return made

    async def archive(self, claim: Claim) -> str:
        key = archive_key(uuid4(), uuid4())
        await self.write(key, claim.archive)
        return key

    async def write(self, key: str, run: RunJob) -> None:
        await self.archives.write_by_job(key, run, unheard, checked, capacity=1 << 30, time_limit_s=60)

    async def restore(self, key: str, claim: Claim) -> None:
        await self.archives.read_by_job(key, claim.restore, unheard, time_limit_s=60)

    async def there_and_back(self, claim: Claim) -> None:
        other, before = self.claim(), picture(os.fsencode(claim.home))
        key = await self.archive(claim)
        assert picture(os.fsencode(claim.home)) == before
        await self.restore(key, other)
        assert picture(os.fsencode(other.home)) == before
        assert [path.name for path in other.path.iterdir()] == ["home"]

    async def refuses(self, claim: Claim, pattern: str) -> None:
        """See that the home is not archived, and why."""
        before = picture(os.fsencode(claim.home))
        with pytest.raises(ActionFailed, match=pattern):
            await self.archive(claim)
        assert picture(os.fsencode(claim.home)) == before
        assert await self.archives.list_all() == []
        assert await self.archives.list_leftovers() == []


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    with claims() as make:
        directory = make().path
        directory.chmod(0o755)
        objects = Objects(directory.as_uri(), installation=INSTALLATION)
        await objects.prepare()
        yield Shared(directory, ObjectArchives(objects), make)


@homes(EXAMPLES)
@given(tree=trees_without_rights)
async def test_any_home_that_its_user_can_read_comes_back_as_it_was(
    tree: list[tuple[bytes, Node, int]], shared: Shared
) -> None:
    claim = shared.claim_with_home()
    with as_person(JOB_UID):
        plant(os.fsencode(claim.home), tree)
    await shared.there_and_back(claim)


async def test_lists_of_people_by_number_and_what_is_read_only_come_back(shared: Shared) -> None:
    claim = shared.claim_with_home()
    with as_person(JOB_UID):
        (claim.home / "listed").write_bytes(b"secret")
        os.setxattr(claim.home / "listed", ACCESS, for_user(1))  # who has a name on every machine
        (claim.home / "modules").mkdir()
        (claim.home / "modules" / "read only").write_bytes(b"x")
        (claim.home / "modules" / "read only").chmod(0o444)
        os.setxattr(claim.home / "modules", DEFAULT, for_user(4_000_000))
        (claim.home / "modules").chmod(0o555)
        claim.home.chmod(0o555)
    await shared.there_and_back(claim)


def closed_file(home: Path) -> None:
    (home / "closed").write_bytes(b"x")
    (home / "closed").chmod(0)


def closed_directory(home: Path) -> None:
    (home / "closed").mkdir()
    (home / "closed").chmod(0)


def read_only_with_an_attribute(home: Path) -> None:
    (home / "download").write_bytes(b"x")
    os.setxattr(home / "download", "user.origin", b"https://example.org")
    (home / "download").chmod(0o444)


def read_only_directory_with_an_attribute(home: Path) -> None:
    (home / "downloads").mkdir()
    os.setxattr(home / "downloads", "user.origin", b"https://example.org")
    (home / "downloads").chmod(0o555)


def read_only_home_with_an_attribute(home: Path) -> None:
    os.setxattr(home, "user.origin", b"https://example.org")
    home.chmod(0o555)


@pytest.mark.parametrize(
    ("prepare", "pattern"),
    [
        (closed_file, r"closed: Cannot open: Permission denied"),
        (closed_directory, r"closed: Cannot open: Permission denied"),
        (read_only_with_an_attribute, "NeedsSandbox path='download'"),
        (read_only_directory_with_an_attribute, "NeedsSandbox path='downloads'"),
        (read_only_home_with_an_attribute, r"NeedsSandbox path='\.'"),
    ],
)
async def test_what_its_user_could_not_restore_is_refused_by_its_name(
    shared: Shared, prepare: Callable[[Path], None], pattern: str
) -> None:
    claim = shared.claim_with_home()
    with as_person(JOB_UID):
        prepare(claim.home)
    await shared.refuses(claim, pattern)


async def test_a_capability_is_refused_by_the_name_of_its_file(shared: Shared) -> None:
    claim = shared.claim_with_home()
    (claim.home / "server").write_bytes(b"x")
    own(claim.home)
    os.setxattr(claim.home / "server", CAPABILITY, may_bind_low_ports())
    await shared.refuses(claim, "CapabilityUngiven path='server'")


async def test_another_filesystem_in_the_home_is_refused(shared: Shared) -> None:
    claim = shared.claim_with_home()
    with mounted(claim.home / "more"):
        await shared.refuses(claim, "OtherFilesystem path='more'")


HOSTILE: dict[str, tuple[bytes, int]] = {
    "an absolute path": (tar_of((member("/etc/codehub-was-here"), b"x")), 1),
    "a path that climbs": (tar_of((member("./../../written"), b"x")), 1),
    "a symlink out": (tar_of(member("./l", kind=tarfile.SYMTYPE, link="/etc/passwd")), 1),
    "a hard link out": (tar_of(member("./h", kind=tarfile.LNKTYPE, link="/etc/passwd")), 1),
    "a device": (tar_of(member("./null", kind=tarfile.CHRTYPE, devmajor=1, devminor=3)), 1),
    "a file through a symlink": (
        tar_of(
            member("./d", kind=tarfile.SYMTYPE, link="e"),
            member("./e", kind=tarfile.DIRTYPE),
            (member("./d/f"), b"x"),
        ),
        3,
    ),
    "no tar at all": (b"hello" * 1000, 1),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_archive_is_refused_and_nothing_of_it_is_there(shared: Shared, name: str) -> None:
    tar, files = HOSTILE[name]
    await corrupted(shared, store(shared.store, new_home(), tar, files=files))


async def test_a_bomb_is_refused_before_it_fills_memory_or_disk(shared: Shared) -> None:
    packed = zeros_packed(512 << 20)
    await corrupted(shared, store(shared.store, new_home(), bytes(10240), files=0, packed=packed))


async def test_an_archive_whose_checksum_is_wrong_is_refused(shared: Shared) -> None:
    tar = tar_of((member("./f"), os.urandom(100_000)))
    await corrupted(shared, store(shared.store, new_home(), tar, files=1, sha256="0" * 64))


async def corrupted(shared: Shared, key: str) -> None:
    claim = shared.claim()
    with pytest.raises(ActionFailed) as failed:
        await shared.restore(key, claim)
    assert failed.value.reason is ErrorReason.ARCHIVE_CORRUPTED
    assert list(claim.path.iterdir()) == []


async def test_nothing_is_restored_over_files(shared: Shared) -> None:
    claim = shared.claim_with_home()
    key = await shared.archive(claim)
    (claim.home / "worked on").write_bytes(b"precious")
    with pytest.raises(ActionFailed, match="HomeNotEmpty"):
        await shared.restore(key, claim)
    assert (claim.home / "worked on").read_bytes() == b"precious"


async def test_a_restore_takes_away_what_a_killed_one_has_left(shared: Shared) -> None:
    claim, other = shared.claim_with_home(), shared.claim()
    (claim.home / "f").write_bytes(b"x")
    key = await shared.archive(claim)
    (other.path / ".codehub-restoring-dead" / "half").mkdir(parents=True)
    own(other.path / ".codehub-restoring-dead")
    await shared.restore(key, other)
    assert [path.name for path in other.path.iterdir()] == ["home"]


async def test_a_disk_too_full_to_restore_is_told_and_nothing_is_left(shared: Shared) -> None:
    claim, small = shared.claim_with_home(), shared.claim()
    (claim.home / "f").write_bytes(os.urandom(12_000_000))
    own(claim.home)
    key = await shared.archive(claim)
    small.path.rmdir()
    with mounted(small.path):
        os.chown(small.path, JOB_UID, JOB_UID)
        with pytest.raises(ActionFailed, match="HomesFull"):
            await shared.restore(key, small)
        assert list(small.path.iterdir()) == []


async def test_a_job_that_comes_late_replaces_nothing_that_was_committed(shared: Shared) -> None:
    claim, late = shared.claim_with_home(), shared.claim_with_home()
    (late.home / "stale").write_bytes(b"stale")
    own(late.home)
    given, is_committed = asyncio.Event(), asyncio.Event()

    async def run_late(grants: JobGrants, hear: Hear) -> str:
        given.set()
        await is_committed.wait()
        return await late.archive(grants, hear)

    key = archive_key(uuid4(), uuid4())
    stale = asyncio.ensure_future(shared.write(key, run_late))
    await given.wait()
    await shared.write(key, claim.archive)
    committed = (shared.store / key).read_bytes()
    is_committed.set()
    await stale
    assert (shared.store / key).read_bytes() == committed
    assert await shared.archives.head(key) == Archive(committed=True)
    assert stat.S_IMODE((shared.store / key).stat().st_mode) == 0o600
    assert await shared.archives.list_leftovers() == []
