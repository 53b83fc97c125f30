"""The command line in a real terminal: what a person sees, types and is asked."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from tests.api.conftest import opened_site, site
from tests.support.boots import starts_held
from tests.support.command import Command
from tests.support.program import environment, running
from tests.support.site import PASSWORD, Site, create
from tests.support.terminal import NO_TMUX, Terminal, terminal

from codehub.adapters.system.machine import SystemIdentity
from codehub.core.history import events_of_pass
from codehub.core.messages import verbatim
from codehub.core.operations import Operation, Phase
from codehub.core.progress import Progress
from codehub.ports.store import Change

__all__ = ["opened_site", "site"]
pytestmark = NO_TMUX
Opened = Callable[[Terminal], None]


def environ_of(command: Command, **changes: str) -> dict[str, str]:
    environ = command.environment(**changes)
    return environ | {"PATH": f"{Path(sys.executable).parent}:{environ['PATH']}"}


# Whatever waits for the terminal waits in a thread: the site that
# is asked there is served by the loop of these tests.


async def seen(opened: Terminal, pattern: str) -> str:
    return await asyncio.to_thread(opened.until, pattern)


@pytest.fixture
async def shell(command: Command) -> AsyncIterator[Terminal]:
    with terminal(environ_of(command)) as opened:
        yield opened


async def test_steps_are_seen_as_they_are_done(living_site: Site, shell: Terminal) -> None:
    with starts_held(living_site.instances) as let_go:
        await asyncio.to_thread(shell.run, "codehub ws create demo --wait")
        await seen(shell, r"[⠀-⣿] starting +\d:\d\d:\d\d")
        let_go()
        screen = await seen(shell, "/w/")
    assert re.search(r"✓ started \(\d+ s\)\ndemo is RUNNING.\nhttp://", screen), screen
    await asyncio.to_thread(shell.run, "codehub ws list")
    await seen(shell, "^demo +RUNNING +jupyterlab +never +in \\d+ min *$")
    assert "\x1b[32mRUNNING" in await asyncio.to_thread(shell.screen, coloured=True)


async def test_a_bar_shows_how_many_bytes_were_moved(site: Site, tmp_path: Path) -> None:
    """Nothing moves by itself here: the test is the controller."""
    ann = await site.program("ann")
    made = UUID((await create(ann, "demo"))["id"])
    await ann.post(f"/api/v1/workspaces/{made}:archive")
    store, op_id = site.world.controller, SystemIdentity().new_id()

    async def become(**fields: object) -> None:
        before = (await site.world.api.get(made)).status
        after = replace(before, **fields)  # type: ignore[arg-type]
        events = tuple(events_of_pass(before, after, actor="test", reason=verbatim("as the test says")))
        assert not await store.persist([Change(made, after, events)])

    await become(operation=Operation.ARCHIVING, op_id=op_id, op_started_at=await site.world.now())
    token = ann.headers["Authorization"].removeprefix("Bearer ")
    command = Command(tmp_path, {"url": site.address, "token": token})
    with terminal(environ_of(command), columns=100) as shell:
        await asyncio.to_thread(shell.run, "codehub ws archive demo --wait")
        await seen(shell, "archiving its files")
        moved = Progress("archive", 42_000_000, 100_000_000, 12_000_000.0, 5.0)
        await store.write_progress({made: (op_id, moved)}, [])
        bar = await seen(shell, "archiving its files .*42.0 MB of 100.0 MB, 12.0 MB/s, 5 s left")
        assert "━" in bar
        await become(operation=Operation.NONE, op_started_at=None, phase=Phase.ARCHIVED)
        screen = await seen(shell, "^demo is ARCHIVED.")
    assert "✓ archived its files, 100.0 MB" in screen


async def test_who_no_longer_waits_stops_nothing(living_site: Site, shell: Terminal) -> None:
    with starts_held(living_site.instances):
        await asyncio.to_thread(shell.run, "codehub ws create demo --wait; echo code $?")
        await seen(shell, "starting")
        await asyncio.to_thread(shell.type, "C-c")
        assert "It goes on by itself." in await seen(shell, "code 130")


async def test_a_password_is_asked_for_and_not_shown(living_site: Site, tmp_path: Path) -> None:
    await living_site.user("ann")
    with terminal(environ_of(Command(tmp_path))) as shell:
        await asyncio.to_thread(shell.run, f"codehub login {living_site.address}")
        await seen(shell, "Username: ")
        await asyncio.to_thread(shell.type, living_site.prefix + "ann", "Enter")
        await seen(shell, "Password: ")
        await asyncio.to_thread(shell.tmux, "send-keys", "-l", PASSWORD)
        await asyncio.to_thread(shell.type, "Enter")
        screen = await seen(shell, "Signed in to")
        assert PASSWORD not in screen
        await asyncio.to_thread(shell.run, "codehub ws list")
        await seen(shell, "You have no workspaces yet")


async def test_what_can_not_be_undone_is_asked_for(shell: Terminal) -> None:
    await asyncio.to_thread(shell.run, "codehub ws create demo --no-start")
    await seen(shell, "/w/")
    await asyncio.to_thread(shell.run, "codehub ws delete demo --purge; echo code $?")
    await seen(shell, r"Purge demo\? Its files are gone for good \[y/N\]: ")
    await asyncio.to_thread(shell.type, "n", "Enter")
    await seen(shell, "code 1")
    await asyncio.to_thread(shell.run, "codehub ws list")
    await seen(shell, "^demo +PENDING")


async def test_the_shell_completes_names_from_the_server(living_site: Site, shell: Terminal) -> None:
    ann = await living_site.program("ann")
    await create(ann, "demonstration", desired_state="PENDING")
    await asyncio.to_thread(shell.run, 'eval "$(codehub --show-completion bash)"; echo set')
    await seen(shell, "^set")
    await seen(shell, "^> ?$")
    await asyncio.to_thread(shell.tmux, "send-keys", "-l", "codehub ws show demo")
    await asyncio.to_thread(shell.type, "Tab")
    await seen(shell, "show demonstration")
    await asyncio.to_thread(shell.type, "C-u")
    await asyncio.to_thread(shell.tmux, "send-keys", "-l", "codehub ws undel")
    await asyncio.to_thread(shell.type, "Tab")
    await seen(shell, "ws undelete")


async def test_completion_is_quiet_when_nobody_can_be_asked(command: Command) -> None:
    asked = {"_CODEHUB_COMPLETE": "complete_bash", "COMP_WORDS": "codehub ws show d", "COMP_CWORD": "3"}
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("codehub"),
        env=command.environment(url="http://127.0.0.1:1") | asked,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (out.strip(), err) == (b"", b"")


def test_the_first_screen_says_how_to_go_on(tmp_path: Path) -> None:
    settings = environment(data_dir=str(tmp_path / "data"), port="0")
    environ = {
        **settings,
        "PATH": f"{Path(sys.executable).parent}:{settings['PATH']}",
        "HOME": str(tmp_path),
    }
    with terminal(environ) as shell:
        shell.run("codehub up; echo code $?")
        shell.until("^codehub [123] of 3: ")
        screen = shell.until("^Only this machine reaches it.")
        assert " of 3: " not in screen, "what is done is gone from the screen"
        assert "password: " in screen
        assert "codehub ws create hello --wait" in screen
        assert "With Safari: start codehub with CODEHUB_WORKSPACE_HOST=none" in screen
        assert "weakened" not in screen, "a warning is for people, and said once"
        assert re.search("^address: http://127.0.0.1:\\d+$", screen, re.MULTILINE), "it fits on one screen"
        shell.type("C-c")
        screen = shell.until("code 0")
        assert "codehub: stopping. Workspaces are put to sleep" in screen
        assert re.search("^codehub: stopped$", screen, re.MULTILINE)
    with running(tmp_path / "data") as first:
        with terminal(environ) as shell:
            shell.run("codehub up; echo code $?")
            screen = shell.until("code 1").replace("\n", "")
            assert f"already (pid {first.process.pid}): open {first.address}" in screen
        first.stop(signal.SIGTERM)


async def test_one_long_name_leaves_every_state_to_be_read(living_site: Site, shell: Terminal) -> None:
    ann = await living_site.program("ann")
    for name in ("short", "long-" * 30):
        await create(ann, name, desired_state="PENDING")
    await asyncio.to_thread(shell.run, "codehub ws list")
    screen = await seen(shell, "^short +PENDING +jupyterlab +never")
    assert re.search("^(long-){4}.*…  PENDING  jupyterlab  never", screen, re.MULTILINE), screen


async def test_an_id_and_who_did_it_are_seen_in_80_columns(living_site: Site, shell: Terminal) -> None:
    ann = await living_site.program("ann")
    token = {"name": "a long name " * 9, "scope": "read", "expires_in_seconds": 86_400}
    made = (await ann.post("/api/v1/tokens", json=token)).json()
    await asyncio.to_thread(shell.run, "codehub token list")
    await seen(shell, f"^a long name .*…  read   never +{made['id']} *$")
    demo = await create(ann, "demo")
    await living_site.arrives(ann, demo["id"], "RUNNING")
    await asyncio.to_thread(shell.run, "codehub ws events demo")
    await seen(shell, "^20.{17}  NONE → PROVISIONING  c1 +One step up, ")


async def test_who_is_asked_for_a_password_and_interrupts_gets_the_code_of_it(tmp_path: Path) -> None:
    with terminal(environ_of(Command(tmp_path))) as shell:
        await asyncio.to_thread(shell.run, "codehub login http://127.0.0.1:1 -u ann; echo code $?")
        await seen(shell, "Password: ")
        await asyncio.to_thread(shell.type, "C-c")
        await seen(shell, "code 130")


async def test_who_is_asked_for_a_password_is_asked_beside_the_result(tmp_path: Path) -> None:
    result = tmp_path / "result"
    environ = environ_of(Command(tmp_path), data_dir=str(tmp_path / "none"))
    with terminal(environ) as shell:
        await asyncio.to_thread(shell.run, f"codehub user add eve --json > {result}; echo code $?")
        for question in ("^Password: ", "^Repeat for confirmation: "):
            await seen(shell, question)
            await asyncio.to_thread(shell.tmux, "send-keys", "-l", PASSWORD)
            await asyncio.to_thread(shell.type, "Enter")
        await seen(shell, "code 1")
    assert "there is no codehub in" in json.loads(result.read_text())["error"]["message"]
