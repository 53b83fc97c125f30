"""Sizes of homes that the filesystem keeps: what is asked of the kernel, and what it does where it can."""

import ctypes
import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from codehub.adapters.local.disk import LocalDisk
from codehub.adapters.local.quota import Quota, find_quota, project_of
from codehub.ports.storage import Home

# What the kernel's headers say: struct fsxattr and its two
# requests, struct if_dqblk, and Q_SETQUOTA for projects.
ATTRIBUTES, LIMITS = struct.Struct("=5I8s"), struct.Struct("=8QI4x")
GET_ATTRIBUTES, SET_ATTRIBUTES, INHERIT = 0x801C581F, 0x401C5820, 0x200
SET_LIMITS = ctypes.c_int(0x800008 << 8 | 2).value
NOT_IMPLEMENTED = 38
ONE, OTHER = UUID(int=1), UUID(int=2)
MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
22 21 8:2 / /srv rw,relatime shared:2 - xfs /dev/srv rw,attr2,prjquota
23 22 8:3 / /srv/plain rw - ext4 /dev/plain rw,noquota
24 21 0:9 / /mem rw - tmpfs tmpfs rw,size=1k
25 21 8:4 / /with\\040space rw,relatime - ext4 /dev/space rw,prjquota
26 21 8:5 / /데이터\\040디스크 rw,relatime - ext4 /dev/hidden rw
27 26 8:6 / /데이터\\040디스크 rw,relatime - ext4 /dev/korean rw,prjquota
"""


Quotactl = Callable[[int, bytes, int, "ctypes.Array[ctypes.c_char]"], int]


class FakeLibc:
    """The C library, with a kernel that answers as it is told. It
    takes the numbers out of what ctypes would pass.
    """

    def __init__(self, answer: Quotactl) -> None:
        self._answer = answer

    def quotactl(
        self,
        command: ctypes.c_int,
        device: bytes,
        project: ctypes.c_int,
        limits: "ctypes.Array[ctypes.c_char]",
    ) -> int:
        return self._answer(command.value, device, project.value, limits)


def fake_kernel(monkeypatch: pytest.MonkeyPatch, answer: Quotactl) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: FakeLibc(answer))


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/srv/homes", Quota("/dev/srv")),
        ("/with space/homes", Quota("/dev/space")),
        ("/데이터 디스크/homes", Quota("/dev/korean")),
        ("/srv/plain/homes", "/srv/plain is not mounted with prjquota"),
        ("/homes", "/ is not mounted with prjquota"),
        ("/mem/homes", "tmpfs has no project quotas"),
    ],
)
def test_the_mount_that_holds_the_homes_says_whether_there_are_quotas(
    monkeypatch: pytest.MonkeyPatch, place: str, expected: Quota | str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    fake_kernel(monkeypatch, lambda *_: 0)
    assert find_quota(Path(place), MOUNTS) == expected


def test_a_kernel_without_quotas_and_a_user_without_rights_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        ctypes.set_errno(NOT_IMPLEMENTED)
        return -1

    monkeypatch.setattr("os.geteuid", lambda: 0)
    fake_kernel(monkeypatch, refuse)
    assert find_quota(Path("/srv"), MOUNTS) == "the kernel has no quotas for /srv (Function not implemented)"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert find_quota(Path("/srv"), MOUNTS) == "only root can set quotas"


def test_everything_in_a_home_is_given_to_its_project_once_and_nothing_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    (home / "a").mkdir(parents=True)
    (home / "a" / "file").write_text("x")
    outside.write_text("not this one's")
    (home / "link").symlink_to(outside)
    os.mkfifo(home / "pipe")
    projects: dict[int, int] = {}
    asked: list[tuple[int, bytes, int, tuple[int, ...]]] = []

    def ioctl(handle: int, request: int, structure: bytes | bytearray) -> None:
        inode = os.fstat(handle).st_ino
        if isinstance(structure, bytearray):
            structure[:] = ATTRIBUTES.pack(0, 0, 0, projects.get(inode, 0), 0, bytes(8))
        else:
            flags, *_, project, _cow, _rest = ATTRIBUTES.unpack(structure)
            assert (flags == INHERIT) is Path(f"/proc/self/fd/{handle}").is_dir()
            projects[inode] = project
        assert request in (GET_ATTRIBUTES, SET_ATTRIBUTES)

    def accept(command: int, device: bytes, project: int, limits: "ctypes.Array[ctypes.c_char]") -> int:
        asked.append((command, device, project, LIMITS.unpack(limits.raw)))
        return 0

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    fake_kernel(monkeypatch, accept)
    Quota("/dev/x").bind(home, ONE, 100)
    inside = {home, home / "a", home / "a" / "file"}
    assert projects == {path.stat().st_ino: project_of(ONE) for path in inside}
    assert asked == [(SET_LIMITS, b"/dev/x", project_of(ONE), (102_400, 0, 0, 0, 0, 0, 0, 0, 1))]
    (home / "later").write_text("inherits it")
    Quota("/dev/x").bind(home, ONE, 200)
    assert (home / "later").stat().st_ino not in projects, "it is not walked again"
    assert asked[-1][3][0] == 204_800


def test_homes_have_projects_of_their_own() -> None:
    assert project_of(ONE) != project_of(OTHER)
    assert all(1 << 16 <= project_of(UUID(int=n)) < 1 << 31 for n in range(1000))


async def test_a_home_that_can_t_be_bound_is_started_and_measured_all_the_same(tmp_path: Path) -> None:
    home = Home(ONE, "home")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "file").write_bytes(bytes(3 << 20))
    disk = LocalDisk(tmp_path, floor_mb=1, quota=Quota("/dev/nowhere"))
    await disk.bind(home, 100)
    assert await disk.used_mb(home) in (3, 4)


@pytest.fixture
def formatted(tmp_path: Path) -> Iterator[tuple[Path, str | None]]:
    """A filesystem with project quotas, mounted, or why this machine has none."""
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    for command in (
        ["mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota", str(image)],
        ["mount", "-o", "loop,prjquota", str(image), str(place)],
    ):
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True)
        except FileNotFoundError as missing:
            yield place, str(missing)
            return
        if done.returncode:
            yield place, done.stderr or "it can't be mounted"
            return
    yield place, None
    subprocess.run(["umount", str(place)], check=True)


async def test_a_home_holds_what_it_was_given_where_the_kernel_keeps_quotas(
    formatted: tuple[Path, str | None],
) -> None:
    place, why_not = formatted
    quota = find_quota(place)
    if why_not is not None:
        assert isinstance(quota, str), f"{why_not}, and yet there are quotas"
        return
    assert isinstance(quota, Quota), quota
    home, disk = Home(ONE, "home"), LocalDisk(place, floor_mb=1, quota=quota)
    (place / "home").mkdir()
    (place / "home" / "before").write_bytes(os.urandom(4 << 20))
    await disk.bind(home, 8)
    with pytest.raises(OSError, match="Disk quota exceeded"):
        (place / "home" / "file").write_bytes(os.urandom(16 << 20))
    assert await disk.used_mb(home) in (7, 8)
    (place / "another").write_bytes(bytes(16 << 20))
