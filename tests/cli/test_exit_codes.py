"""The exit codes of wire.md, each with its words for people and its object for programs."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests.support.boots import starts_held
from tests.support.command import ENDS_S_MAX, Command
from tests.support.site import Site, create

from codehub.cli.failures import Failed
from codehub.core.access import Scope
from codehub.core.requests import Refusal
from codehub.error_codes import ErrorCode, Exit, error_of_status, exit_of


def test_every_error_of_the_api_has_an_exit_code() -> None:
    assert {exit_of(code) for code in ErrorCode} == {
        Exit.USAGE,
        Exit.NOT_ALLOWED,
        Exit.NOT_FOUND,
        Exit.CONFLICT,
        Exit.LIMIT,
        Exit.FAILED,
        Exit.UNREACHABLE,
    }
    assert Failed("SOMETHING_NEW", "").exit is Exit.FAILED


def test_whatever_the_core_refuses_is_an_error_of_the_wire() -> None:
    assert {refusal.value for refusal in Refusal} <= {code.value for code in ErrorCode}


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (404, "NOT_FOUND"),
        (405, "INVALID_REQUEST"),
        (422, "INVALID_REQUEST"),
        (429, "TOO_MANY_REQUESTS"),
        (502, "UPSTREAM_UNAVAILABLE"),
    ],
)
def test_a_status_alone_has_its_general_code(status: int, code: str) -> None:
    assert error_of_status(status) == code


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (("ws", "show", "nothing"), 4, "WORKSPACE_NOT_FOUND"),
        (("explain", "01890000-0000-7000-8000-000000000000"), 4, "WORKSPACE_NOT_FOUND"),
        (("token", "delete", "nothing"), 4, "NOT_FOUND"),
        (("ws", "create", "taken", "--no-start"), 5, "NAME_TAKEN"),
        (("ws", "create", "x", "--sleep-after", "soon"), 2, "USAGE"),
        (("ws", "create", "x", "--memory", "1"), 2, "INVALID_REQUEST"),
        (("ws", "create", "x", "--ide", "emacs"), 2, "INVALID_REQUEST"),
        (("ws", "delete", "taken", "--purge"), 2, "USAGE"),
        (("ws", "start", "taken", "--timeout", "5s"), 2, "USAGE"),
        (("ws", "recover", "taken", "--take-newest", "--adopt"), 2, "USAGE"),
        (("ws", "list", "--owner", "all"), 3, "FORBIDDEN"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_what_goes_wrong_has_a_code_of_its_own(
    living_site: Site, command: Command, arguments: tuple[str, ...], code: int, name: str
) -> None:
    await create(await living_site.program("ann"), "taken", desired_state="PENDING")
    for_people, for_programs = await asyncio.gather(command(*arguments), command(*arguments, "--json"))
    assert (for_people.code, for_people.out) == (code, ""), for_people.err
    assert for_people.err.startswith("codehub: ")
    assert (for_programs.code, for_programs.err) == (code, "")
    assert for_programs.json["error"]["code"] == name
    assert for_programs.json["error"].keys() == {"code", "message", "details"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("ws", "show", "x" * 300), 4),
        (("ws", "show", "\udcff\udcfe"), 2),
        (("ws", "list", "--owner", "\udcff"), 2),
        (("token", "delete", "\udcff"), 4),
    ],
    ids=ascii,
)
async def test_a_name_that_is_not_allowed_has_a_code_and_no_traceback(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:strict")  # as it is in most languages but C's
    for_people, for_programs = await asyncio.gather(command(*arguments), command(*arguments, "--json"))
    assert (for_people.code, for_programs.code) == (code, code), for_people.err
    assert for_programs.json["error"].keys() == {"code", "message", "details"}
    assert for_people.err.startswith("codehub: ")


@pytest.mark.parametrize("wrong", [("--timeout", "5s"), ("--wait", "--timeout", "soon")], ids=" ".join)
async def test_wrong_usage_makes_no_workspace(command: Command, wrong: tuple[str, ...]) -> None:
    assert (await command("ws", "create", "demo", "--no-start", *wrong)).code == 2
    assert (await command("ws", "list", "--json")).json == []


async def test_who_is_not_signed_in_is_told_how_to(command: Command) -> None:
    nobody = await command("ws", "list", token="")
    assert nobody.code == 3
    assert "codehub login http://127.0.0.1:" in nobody.err
    assert (await command("ws", "list", token="cht_wrong")).code == 3


async def test_a_token_that_may_only_read_changes_nothing(living_site: Site, command: Command) -> None:
    reader = await living_site.program("ann", scope=Scope.READ)
    token = reader.headers["Authorization"].removeprefix("Bearer ")
    assert (await command("ws", "list", "--json", token=token)).json == []
    assert (await command("ws", "create", "x", token=token)).code == 3


async def test_at_the_limit_the_running_workspaces_are_named(living_site: Site, command: Command) -> None:
    ann = await living_site.program("ann")
    for name in ("one", "two"):
        await create(ann, name)
    refusal = await command("ws", "create", "three")
    assert refusal.code == 6
    message, *remedies = refusal.err.splitlines()
    assert "two, one" in message or "one, two" in message
    assert sorted(remedies) == ["  → codehub ws stop one", "  → codehub ws stop two"]
    assert (await command("ws", "stop", "one")).code == 0


async def test_an_operation_under_way_is_named_with_how_to_wait_for_it(
    living_site: Site, command: Command
) -> None:
    workspace = await create(await living_site.program("ann"), "busy", desired_state="PENDING")
    with starts_held(living_site.instances) as let_go:
        started = await command.started("ws", "start", workspace["id"], "--wait")
        assert started.stderr is not None
        async with asyncio.timeout(ENDS_S_MAX):
            while b"busy: starting" not in (line := await started.stderr.readline()):
                assert line, "it ended and never said that it starts"
        refusal = await command("ws", "archive", "busy")
        let_go()
        await started.communicate()
    assert (refusal.code, "With --wait" in refusal.err) == (5, True), refusal.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ws", "awake", "taken", "--for", "13h"), "--for: it must be at most 12 h"),
        (("ws", "change", "taken", "--sleep-after", "3"), "--sleep-after: it must be at least 10 s"),
        (("ws", "change", "taken", "--memory", "1"), "--memory: it must be at least 64"),
        (("ws", "list", "--phase", "asleep"), "--phase: it must be "),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_problem_is_reported_for_the_option_that_was_typed(
    living_site: Site, command: Command, arguments: tuple[str, ...], message: str
) -> None:
    await create(await living_site.program("ann"), "taken", desired_state="PENDING")
    output = await command(*arguments)
    assert (output.code, output.err.startswith(f"codehub: {message}")) == (2, True), output.err


@pytest.mark.parametrize("arguments", [("ws", "list", "--json"), ("ws", "list"), ("--help",)], ids=" ".join)
async def test_an_output_that_can_not_be_written_is_reported_in_one_line(
    living_site: Site, command: Command, arguments: tuple[str, ...]
) -> None:
    await create(await living_site.program("ann"), "demo", desired_state="PENDING")
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'exec "$@" > /dev/full', "sh", sys.executable, "-m", "codehub", *arguments),
        env=command.environment(),
        stderr=asyncio.subprocess.PIPE,
    )
    _out, err = await process.communicate()
    assert err == b"codehub: the output can't be written: No space left on device\n"
    assert process.returncode == 1


async def test_a_server_without_https_is_told_apart_from_one_out_of_reach(tmp_path: Path) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        output = await Command(tmp_path)("ws", "list", url=f"https://{place}", token="cht_x")
    assert output.code == 7
    assert output.err.splitlines() == [
        f"codehub: https://{place} can't be reached: it does not speak https there",
        f"  → Try http://{place}",
    ]


async def test_usage_writes_required_arguments_without_braces(tmp_path: Path) -> None:
    output = await Command(tmp_path)("ws", "show", "--help")
    assert output.out.splitlines()[0] == "Usage: codehub ws show [OPTIONS] NAME"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://nowhere.invalid"])
async def test_a_server_out_of_reach_is_named(tmp_path: Path, url: str) -> None:
    output = await Command(tmp_path)("ws", "list", url=url, token="cht_x")
    assert output.code == 7
    assert url in output.err
    assert "Is codehub running there?" in output.err


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 301 Moved\r\nLocation: https://there.invalid/\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
    ],
)
async def test_a_server_that_is_no_codehub_is_named(tmp_path: Path, answer: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        output = await Command(tmp_path)("ws", "list", url=url, token="cht_x")
    assert (output.code, output.out) == (7, "")
    assert url in output.err
    assert "Traceback" not in output.err


async def test_a_wait_that_times_out_has_its_own_code_and_the_operation_goes_on(
    living_site: Site, command: Command
) -> None:
    ann = await living_site.program("ann")
    workspace = await create(ann, "slow", desired_state="PENDING")
    with starts_held(living_site.instances):
        output = await command("ws", "start", "slow", "--wait", "--timeout", "1s")
    assert output.code == 9
    assert "It goes on by itself." in output.err
    await living_site.arrives(ann, workspace["id"], "RUNNING")


@pytest.mark.parametrize("arguments", [("ws", "fly"), ("ws", "show"), ("ws", "list", "--wings")])
async def test_wrong_usage_exits_with_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    output = await Command(tmp_path)(*arguments)
    assert (output.code, output.out) == (2, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ws", "fly", "--json"), "fly"),
        (("ws", "show", "--json"), "NAME"),
        (("ws", "list", "--json", "--wings"), "--wings"),
        (("ws", "events", "demo", "--limit", "0", "--json"), "--limit"),
    ],
)
async def test_wrong_usage_is_reported_to_programs_as_json(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    output = await Command(tmp_path)(*arguments)
    assert (output.code, output.json["error"]["code"]) == (2, "USAGE")
    assert message in output.json["error"]["message"]


async def test_a_good_command_ends_the_same_with_json_as_without(command: Command) -> None:
    assert (await command("ws", "list", "--json")).code == 0
    missing = await command("ws", "show", "nobody", "--json")
    assert (missing.code, list(missing.json)) == (4, ["error"])
