"""`codehub ws` against a running codehub: what it does, what it prints for people and for programs."""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from tests.support.boots import starts_held
from tests.support.command import ENDS_S_MAX, Command
from tests.support.patience import until
from tests.support.site import Site, create

from codehub.core.access import Role
from codehub.ports.backends import BackendUnreachable


async def test_by_the_command_line_alone_a_workspace_goes_through_its_whole_life(
    living_site: Site, command: Command
) -> None:
    with starts_held(living_site.instances) as let_go:
        process = await command.started("ws", "create", "demo", "--wait", "--timeout", "110s")
        assert process.stderr is not None
        async with asyncio.timeout(ENDS_S_MAX):
            while b"demo: starting" not in (line := await process.stderr.readline()):
                assert line, "it ended and never said that it starts"
            let_go()
            out, err = await process.communicate()
    assert (process.returncode, out.splitlines()[0]) == (0, b"demo is RUNNING."), err
    for word, phase in (("stop", "STANDBY"), ("archive", "ARCHIVED"), ("start", "RUNNING")):
        output = await command("ws", word, "demo", "--wait")
        assert (output.code, output.out.splitlines()[0]) == (0, f"demo is {phase}."), output.err
    deleted = await command("ws", "delete", "demo", "--wait")
    assert (deleted.code, deleted.out) == (0, "demo is DELETED.\n")
    undo = deleted.err.strip().rpartition("codehub ")[2].split()
    assert undo[:2] == ["ws", "undelete"]
    assert "demo" in (await command("ws", "list", "--deleted")).out
    assert "It is in the trash" in (await command("ws", "show", "demo")).err
    undeletion = await command(*undo, "--wait")
    assert (undeletion.code, undeletion.out) == (0, "demo is ARCHIVED.\n")
    assert (await command("explain", "demo")).out.startswith("demo is ARCHIVED, as it should be.\n")
    purged = await command("ws", "delete", "demo", "--purge", "--yes", "--wait")
    assert purged.code == 0
    assert (await command("ws", "undelete", "demo")).code == 4


async def test_programs_get_the_api_s_own_objects(command: Command) -> None:
    output = await command(
        "ws", "create", "demo", "--wait", "--json", "--cpus", "1.5", "--sleep-after", "never"
    )
    states = output.lines
    assert (output.code, output.err) == (0, "")
    assert states[0]["phase"] == "PENDING"
    assert (states[-1]["phase"], states[-1]["operation"]) == ("RUNNING", "NONE")
    assert states[-1]["resources"]["cpus"] == 1.5
    assert states[-1]["standby_ttl_seconds"] is None
    listing = (await command("ws", "list", "--json")).json
    assert [item["name"] for item in listing] == ["demo"]
    assert (await command("ws", "show", "demo", "--json")).json["id"] == listing[0]["id"]
    assert (await command("ws", "open", "demo", "--json")).json["url"].endswith(f"/w/{listing[0]['id']}/")
    history = (await command("ws", "events", "demo", "--json", "--limit", "3")).lines
    assert len(history) == 3
    assert [event["seq"] for event in history] == sorted(event["seq"] for event in history)
    explained = (await command("explain", "demo", "--json")).json
    assert (explained["phase"], len(explained["decisions"])) == ("RUNNING", 5)
    stopped = (await command("ws", "stop", "demo", "--json")).json
    assert stopped["desired_state"] == "STANDBY"


async def test_people_get_columns_that_fit_whatever_the_script(command: Command) -> None:
    assert (await command("ws", "list")).err.startswith("You have no workspaces yet.")
    for name in ("개발 환경", "web"):
        assert (await command("ws", "create", name, "--no-start")).code == 0
    heading, first, second = (await command("ws", "list")).out.splitlines()
    assert heading.split() == ["NAME", "STATE", "IDE", "LAST", "USED", "SLEEPS", "ID"]
    assert first.startswith("web        PENDING")
    assert second.startswith("개발 환경  PENDING")
    assert (await command("ws", "list", "-q", "web")).out.count("\n") == 2
    assert (await command("ws", "list", "--phase", "running")).err == "There is no such workspace.\n"


async def test_a_name_that_several_have_is_refused_with_their_ids(command: Command) -> None:
    ids = []
    for _ in range(2):
        ids.append((await command("ws", "create", "twin", "--no-start", "--json")).json["id"])
        assert (await command("ws", "delete", "twin", "--wait")).code == 0
    refusal = await command("ws", "undelete", "twin")
    assert refusal.code == 2
    assert all(workspace_id in refusal.err for workspace_id in ids)
    error = (await command("ws", "undelete", "twin", "--json")).json["error"]
    assert (error["code"], {item["id"] for item in error["details"]}) == ("AMBIGUOUS", set(ids))
    assert (await command("ws", "undelete", ids[0])).code == 0


async def test_an_admin_names_whose_workspace_is_meant(living_site: Site, command: Command) -> None:
    assert (await command("ws", "create", "secret", "--no-start")).code == 0
    boss = await living_site.program("boss", role=Role.ADMIN)
    token = boss.headers["Authorization"].removeprefix("Bearer ")
    assert (await command("ws", "show", "secret", token=token)).code == 4
    ann = living_site.prefix + "ann"
    answer = await command("ws", "show", "secret", "--owner", ann, "--json", token=token)
    assert answer.json["owner"]["username"] == ann
    started = await command("ws", "start", answer.json["id"], "--wait", token=token)
    assert (started.code, started.out.splitlines()[0]) == (0, "secret is RUNNING.")
    assert ann in (await command("ws", "list", "--owner", "all", token=token)).out


async def test_a_command_that_waits_lets_the_running_operation_finish_first(
    living_site: Site, command: Command
) -> None:
    ann = await living_site.program("ann")
    workspace = await create(ann, "busy")
    output = await command("ws", "archive", "busy", "--wait")
    assert (output.code, output.out) == (0, "busy is ARCHIVED.\n"), output.err
    assert (await living_site.arrives(ann, workspace["id"], "ARCHIVED"))["desired_state"] == "ARCHIVED"


async def test_a_command_that_waits_gives_up_an_operation_that_is_held_up(
    living_site: Site, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(*_: object) -> None:
        raise BackendUnreachable("The registry does not answer.")

    monkeypatch.setattr(living_site.instances, "start", start)
    await command("ws", "create", "stuck")
    output = await command("ws", "archive", "stuck", "--wait")
    assert (output.code, output.out) == (0, "stuck is ARCHIVED.\n"), output.err


async def test_a_wait_that_ends_in_an_error_is_explained_and_recovered_from(
    living_site: Site, command: Command
) -> None:
    workspace = (await command("ws", "create", "lost", "--wait", "--json")).lines[-1]
    living_site.instances.vanish(UUID(workspace["id"]))
    living_site.storage.lose_volume(UUID(workspace["id"]))
    ann = await living_site.program("ann")
    await living_site.arrives(ann, workspace["id"], "ERROR")
    explained = await command("explain", "lost")
    assert "lost is ERROR. It should be RUNNING." in explained.out
    assert "DataLost, " in explained.out
    assert "while NONE" not in explained.out
    assert "codehub ws recover --accept-loss lost" in explained.out
    assert (await command("ws", "start", "lost")).code == 5
    in_vain = await command("ws", "recover", "lost", "--wait", "--timeout", "110s")
    assert in_vain.code == 8
    assert "lost is in ERROR: DataLost: " in in_vain.err
    refusal = await command("ws", "recover", "lost", "--accept-loss")
    assert (refusal.code, "add --yes" in refusal.err) == (2, True)
    recovered = await command("ws", "recover", "lost", "--accept-loss", "--yes", "--wait")
    assert (recovered.code, recovered.out) == (0, "lost is RUNNING.\n")


async def test_settings_are_changed_and_a_workspace_is_kept_awake(command: Command) -> None:
    assert (await command("ws", "create", "demo", "--wait")).code == 0
    change = await command(
        "ws", "change", "demo", "--name", "other", "--sleep-after", "2h", "--memory", "512"
    )
    assert change.out == "Changed name, resources, standby_ttl_seconds of other.\n"
    text = (await command("ws", "show", "other")).out
    assert "when unused for 2 h" in text
    assert "512 MB" in text
    assert (await command("ws", "awake", "other", "--for", "2h")).out.startswith("other stays awake until 20")
    assert (await command("ws", "change", "other")).code == 2


async def test_a_workspace_that_does_not_run_is_not_called_awake(command: Command) -> None:
    assert (await command("ws", "create", "demo", "--no-start")).code == 0
    output = await command("ws", "awake", "demo")
    assert output.out.startswith("demo is PENDING. Once started, it stays awake until 20")


async def test_logs_are_printed_and_followed(command: Command) -> None:
    assert (await command("ws", "create", "demo", "--wait")).code == 0
    assert (await command("ws", "logs", "demo", "--tail", "1")).out
    process = await command.started("ws", "logs", "demo", "--follow", "--json")
    assert process.stdout is not None
    async with asyncio.timeout(ENDS_S_MAX):
        line = await process.stdout.readline()
    if process.returncode is None:
        process.terminate()
    await process.communicate()
    assert json.loads(line).keys() == {"line"}


async def test_following_a_log_goes_on_when_the_server_has_cut_it_off(
    living_site: Site, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, tails = asyncio.Event(), list[int]()

    async def output(_workspace_id: UUID, *, tail: int, follow: bool) -> AsyncIterator[bytes]:
        tails.append(tail)
        yield b"answer %d\n" % len(tails)
        if follow and len(tails) == 1:
            cut.set()
            await asyncio.Event().wait()

    async def until_cut(_seconds: float) -> None:
        await cut.wait()
        cut.clear()

    assert (await command("ws", "create", "demo", "--wait")).code == 0
    monkeypatch.setattr(living_site.instances, "logs", output)
    monkeypatch.setattr(living_site.web.feed, "pause", until_cut)
    followed = await command("ws", "logs", "demo", "--follow")
    assert (followed.code, followed.out, tails) == (0, "answer 1\nanswer 2\n", [200, 0])
    assert "cut off" in followed.err


async def test_waiting_goes_on_when_the_stream_of_events_is_cut(living_site: Site, command: Command) -> None:
    workspace = (await command("ws", "create", "demo", "--no-start", "--json")).json
    with starts_held(living_site.instances) as let_go:
        process = await command.started("ws", "start", "demo", "--wait", "--json")
        async with asyncio.timeout(ENDS_S_MAX):
            await until(lambda: living_site.web.feed.held)
            for stream in living_site.web.feed.held:
                stream.is_ended.set()
            let_go()
            out, err = await process.communicate()
    assert (process.returncode, json.loads(out.splitlines()[-1])["phase"]) == (0, "RUNNING"), err
    assert workspace["phase"] == "PENDING"


async def test_an_admin_forgets_what_a_dead_backend_holds_up(
    command: Command, living_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await command("ws", "create", "demo", "--wait")
    root = await living_site.program("root", Role.ADMIN)
    token = root.headers["Authorization"].removeprefix("Bearer ")
    assert (await command("ws", "forget", "demo", "--yes")).code == 3
    forget = ("ws", "forget", "demo", "--owner", living_site.people["ann"].username)
    assert "add --yes" in (await command(*forget, token=token)).err
    assert (await command(*forget, "--yes", token=token)).code == 5

    async def away(*_: object) -> None:
        raise BackendUnreachable("the engine is away")

    monkeypatch.setattr(living_site.instances, "list_all", away)
    monkeypatch.setattr(living_site.instances, "status", away)
    await command("ws", "delete", "demo")
    explain = ("explain", "demo", "--owner", living_site.people["ann"].username)
    async with asyncio.timeout(ENDS_S_MAX):
        while "codehub ws forget demo" not in (output := await command(*explain, token=token)).out:
            assert output.code == 0, output.err
    forgotten = await command(*forget, "--yes", token=token)
    assert (forgotten.code, forgotten.out.splitlines()[0]) == (
        0,
        "demo is forgotten. `codehub gc` lists what is left of it.",
    )
    assert "this can be undone: codehub ws undelete" in forgotten.err


async def test_a_suggested_command_can_be_run_as_it_is_written(living_site: Site, command: Command) -> None:
    assert (await command("ws", "create", "my project", "--no-start")).code == 0
    boss = await living_site.program("boss", role=Role.ADMIN)
    token = boss.headers["Authorization"].removeprefix("Bearer ")
    ann = living_site.people["ann"].username
    explanation = (await command("explain", "my project", "--owner", ann, token=token)).out
    assert f"codehub ws delete 'my project' --owner {ann}" in explanation
    output = await command("ws", "open", "my project")
    assert "codehub ws start 'my project' --wait" in output.err
    deleted = await command("ws", "delete", "my project", "--owner", ann, "--wait", token=token)
    assert deleted.code == 0, deleted.err
    assert deleted.err.endswith(f" --owner {ann}\n")
    refusal = await command("ws", "show", "my project", "--owner", ann, token=token)
    assert f"codehub ws undelete 'my project' --owner {ann}" in refusal.err
    undo = shlex.split(deleted.err.strip().rpartition("codehub ")[2])
    undeletion = await command(*undo, token=token)
    assert (undeletion.code, undeletion.out.startswith("my project will be PENDING. ")) == (0, True), (
        undeletion.err
    )


async def test_a_workspace_is_pinned_and_unpinned_and_the_list_shows_it(command: Command) -> None:
    for name in ("older", "newer"):
        await command("ws", "create", name, "--no-start")
    assert "PINNED" not in (await command("ws", "list")).out
    assert (await command("ws", "pin", "older")).out == "older is pinned.\n"
    heading, first, second = (await command("ws", "list")).out.splitlines()
    assert heading.split()[:2] == ["NAME", "PINNED"]
    assert first.split()[:2] == ["older", "pinned"]
    assert second.split()[:2] == ["newer", "PENDING"]
    assert "pinned" in (await command("ws", "show", "older")).out
    unpinned = (await command("ws", "unpin", "older", "--json")).json
    assert (unpinned["name"], unpinned["pinned_at"]) == ("older", None)
    assert (await command("ws", "pin", "nothing")).code == 4


async def test_a_workspace_can_do_without_the_script_in_its_tab(command: Command) -> None:
    await command("ws", "create", "demo", "--no-start")
    assert "in the IDE" not in (await command("ws", "show", "demo")).out
    assert (await command("ws", "change", "demo", "--no-tab-script")).code == 0
    assert "nothing of codehub's" in (await command("ws", "show", "demo")).out
    changed = (await command("ws", "change", "demo", "--tab-script", "--json")).json
    assert changed["tab_script"] is True


async def test_its_ports_are_let_reach_one_another(command: Command) -> None:
    assert (await command("ws", "create", "demo", "--cross-port-access", "--wait")).code == 0
    assert "reach one another in a browser" in (await command("ws", "show", "demo")).out
    changed = (await command("ws", "change", "demo", "--no-cross-port-access", "--json")).json
    assert changed["cross_port_access"] is False
    assert "reach one another" not in (await command("ws", "show", "demo")).out


async def test_tables_and_explanations_are_in_the_language_of_the_environment(command: Command) -> None:
    assert (await command("ws", "create", "demo", "--wait")).code == 0
    assert (await command("ws", "list", lang="ko")).out.split()[:2] == ["이름", "상태"]
    assert "새로 만들도록 요청했습니다." in (await command("ws", "events", "demo", lang="ko")).out
    assert "IDE가 정상적으로 실행되고 있습니다." in (await command("ws", "show", "demo", lang="ko")).out
    explained = (await command("explain", "demo", lang="ko")).out
    assert explained.startswith("demo: RUNNING. 목표 상태입니다.")
    assert "목표 상태에 있습니다." in explained
    assert "재우기" in explained
