"""All workspaces together: one control group that bounds what they take, however much each of them may."""

import os
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.instances import LocalWorld

from codehub.adapters.docker.groups import ParentGroup
from codehub.adapters.groups import Totals, bind_together, totals
from codehub.adapters.local.limits import Limits
from codehub.core.workspace import Resources

MOST = Totals(memory_mb=512, pids=300)
ONE = UUID(int=1)


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    """A place that looks like cgroup v2 to whoever writes there."""
    (tmp_path / "cgroup.controllers").write_text("memory pids cpu")
    return tmp_path


def test_what_is_not_set_is_most_of_this_machine() -> None:
    here_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    resources = totals(None, None)
    assert here_mb // 2 < resources.memory_mb < here_mb
    assert resources.pids > 1000
    assert totals(512, 300) == MOST


def test_every_start_binds_the_parent_that_all_are_in(unified: Path) -> None:
    parent = unified / "codehub"
    limits = Limits(dict.fromkeys(("memory", "cpu", "pids"), parent), is_unified=True, totals=MOST)
    limits.prepare(ONE, Resources(memory_mb=100, cpus=1.0, pids=50))
    assert (parent / "memory.max").read_text() == str(512 << 20)
    assert (parent / "pids.max").read_text() == "300"
    assert (parent / str(ONE) / "pids.max").read_text() == "50"


def test_cgroup_v1_has_another_word_for_memory(tmp_path: Path) -> None:
    bind_together({"memory": tmp_path}, MOST, unified=False)
    assert (tmp_path / "memory.limit_in_bytes").read_text() == str(512 << 20)


@pytest.mark.parametrize(
    ("driver", "name"),
    [("cgroupfs", "/codehub-a-b"), ("systemd", "codehubab.slice"), ("none", None)],
)
def test_an_engine_is_told_the_parent_in_its_own_words(driver: str, name: str | None, unified: Path) -> None:
    group = ParentGroup("a-b", MOST, unified)
    assert group.name(driver) == name
    if os.geteuid() == 0:
        assert group.prepare(driver) == name
        if name is not None:
            assert (unified / name.lstrip("/") / "memory.max").read_text() == str(512 << 20)


def test_where_no_group_can_be_made_the_engine_is_told_of_none(tmp_path: Path) -> None:
    assert ParentGroup("a-b", MOST, tmp_path / "nowhere").prepare("cgroupfs") is None


async def test_a_workspace_of_this_machine_is_in_the_group_that_is_bound(sandboxed: LocalWorld) -> None:
    launcher = sandboxed.instances.launcher
    assert launcher is not None
    if "memory" in launcher.limits.missing:
        assert any("no limit on memory" in warning for warning in sandboxed.instances.warnings)
        return
    limits = Limits(launcher.limits.parents, launcher.limits.is_unified, MOST)
    object.__setattr__(launcher, "limits", limits)
    await sandboxed.run()
    file = "memory.max" if limits.is_unified else "memory.limit_in_bytes"
    assert (limits.parents["memory"] / file).read_text().strip() == str(512 << 20)
    assert (limits.parents["pids"] / "pids.max").read_text().strip() == "300"
