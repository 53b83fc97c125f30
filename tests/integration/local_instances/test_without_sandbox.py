"""Where bubblewrap can't run: plain processes with a user of their own
where that is possible, and a warning nobody can miss.
"""

import os
from pathlib import Path

import pytest
from tests.support.instances import LocalWorld, become_healthy, local_world, new_spec

from codehub.adapters.local import sandbox
from codehub.ports.backends import ActionFailed

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a workspace a user of its own")


async def test_it_says_loudly_that_nothing_is_isolated_and_why() -> None:
    async with local_world(sandbox=False) as world:
        assert "NOT ISOLATED" in world.instances.warnings[0]
        assert "bubblewrap is not installed" in world.instances.warnings[0]
        await world.run()


async def test_a_bubblewrap_that_fails_is_as_none_and_its_words_are_passed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: no namespaces for you' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("codehub.adapters.local.instances.find_bubblewrap", lambda: broken)
    async with local_world() as world:
        assert "no namespaces for you" in world.instances.warnings[0]
        await world.run()


async def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert "setpriv" in str(sandbox.why_unusable(Path("/usr/bin/bwrap"), None))


@AS_ROOT
async def test_the_home_of_another_is_closed_to_it(plain: LocalWorld) -> None:
    workspace_id, other = await plain.run(), await plain.run()
    (plain.home(other) / "secret").write_text("the other's")
    output = await plain.inside(
        workspace_id, f"ls {plain.home(other)}; ls {plain.data_dir}; ls {plain.data_dir}/run/instances"
    )
    assert output.count("Permission denied") == 3
    paths = plain.instances.run_directory.of(other)
    assert "denied" in await plain.inside(workspace_id, f"cat {paths.log}; : > {paths.runtime}/ide.sock")


@AS_ROOT
async def test_a_place_its_user_can_not_reach_is_refused_with_what_to_do(plain: LocalWorld) -> None:
    spec = new_spec()
    volume_id = await plain.make_volume(spec)
    plain.data_dir.chmod(0o700)
    with pytest.raises(ActionFailed, match=f"HomeBarred path={plain.data_dir}"):
        await plain.instances.start(spec, volume_id)
    plain.data_dir.chmod(0o711)
    await plain.instances.start(spec, volume_id)
    await become_healthy(plain.instances, spec.workspace_id)
