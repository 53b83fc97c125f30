"""A home that gets its workspace's uid keeps everything else."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from codehub.adapters.local.ownership import own_home

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change owners")
_UID = 300_000
# cap_net_raw=ep, as setcap writes it
_CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000000")


@AS_ROOT
def test_a_home_from_elsewhere_is_given_to_its_new_user_and_links_are_not_followed(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    (home / "deep" / "er").mkdir(parents=True)
    (home / "deep" / "file").write_text("")
    (home / "others").write_text("")
    outside.write_text("")
    (home / "link").symlink_to(outside)
    os.chown(home / "others", 4242, 4242)
    own_home(home, 300_000)
    owners = {path.name: path.lstat().st_uid for path in home.rglob("*")}
    assert owners == {"deep": 300_000, "er": 300_000, "file": 300_000, "link": 300_000, "others": 4242}
    assert home.stat().st_uid == 300_000
    assert outside.stat().st_uid == 0


def _special_home(place: Path) -> Path:
    home = place / "home"
    home.mkdir()
    for name in ("setuid", "capable", "plain"):
        (home / name).write_text(name)
    (home / "setuid").chmod(0o6755)
    os.setxattr(home / "capable", "security.capability", _CAPABILITY)
    return home


def _is_as_it_was(home: Path) -> bool:
    return (
        stat.S_IMODE((home / "setuid").stat().st_mode) == 0o6755
        and os.getxattr(home / "capable", "security.capability") == _CAPABILITY
        and {path.stat().st_uid for path in (home, *home.iterdir())} == {_UID}
        and os.listxattr(home / "setuid") == []
    )


@AS_ROOT
def test_setuid_bits_and_capabilities_outlive_a_new_owner(tmp_path: Path) -> None:
    home = _special_home(tmp_path)
    own_home(home, _UID)
    assert _is_as_it_was(home)


@AS_ROOT
def test_what_a_crash_right_after_the_new_owner_took_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _special_home(tmp_path)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "chmod", die)
        with pytest.raises(KeyboardInterrupt):
            own_home(home, _UID)
    assert {path.stat().st_uid for path in (home, home / "setuid", home / "capable")} == {0, _UID}
    own_home(home, _UID)
    assert _is_as_it_was(home)


@AS_ROOT
def test_a_home_deeper_than_any_stack_gets_its_owner(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    here = os.open(home, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("d", dir_fd=here)
        there = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = there
    try:
        own_home(home, _UID)
        assert os.fstat(here).st_uid == _UID
    finally:
        os.close(here)
        subprocess.run(["rm", "-rf", home], check=True)  # pytest's own removal goes by the stack
