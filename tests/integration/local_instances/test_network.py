"""A sandbox has a network of its own: this machine's loopback and
abstract sockets are out of reach, and the way out is open.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from tests.support.instances import LocalWorld, local_world
from tests.support.patience import until

from codehub.adapters.local import network
from codehub.adapters.local.network import Gateway, find_gateway, name_servers
from codehub.adapters.processes import Process, read_proc_file

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes networks beside this machine's")
_FOUND = {name: shutil.which(name) for name in ("pasta", "slirp4netns")}
# Whoever answers says its name; nobody's answer within this time is no answer.
_TRY = """
import json, socket, sys, threading
reached = []
def connect(address, port):
    try:
        with socket.create_connection((address, port), 2) as connection:
            connection.settimeout(2)
            reached.append([address, connection.recv(99).decode()])
    except OSError:
        pass
tries = [threading.Thread(target=connect, args=pair) for pair in json.loads(sys.argv[1])]
[each.start() for each in tries]
[each.join() for each in tries]
print(json.dumps(sorted(reached)))
"""


@pytest.fixture(params=["pasta", "slirp4netns"])
async def apart(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalWorld]:
    """A world whose sandboxes have networks of their own, by the one or the other gateway."""
    chosen = _FOUND[request.param]
    if chosen is None:
        pytest.skip(f"no {request.param} (scripts/engines)")
    which = shutil.which
    hidden = next(name for name in _FOUND if name != request.param)
    monkeypatch.setattr(shutil, "which", lambda name, **kw: None if name == hidden else which(name, **kw))
    async with local_world() as world:
        assert world.instances.warnings == ()
        yield world


@contextmanager
def listening(*addresses: str) -> Iterator[list[tuple[str, int]]]:
    """Listen there, and tell everybody who comes that it is us."""
    with ExitStack() as stack:
        places = []
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with suppress(OSError):  # no IPv6 here
                server = stack.enter_context(socket.create_server((address, 0), family=family, backlog=64))
                asyncio.get_running_loop().add_reader(server, _greet, server)
                stack.callback(asyncio.get_running_loop().remove_reader, server)
                places.append((address, server.getsockname()[1]))
        yield places


def _greet(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"the machine")


def own_addresses() -> set[str]:
    addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()
    routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    gateways = {socket.inet_ntoa(bytes.fromhex(row[2])[::-1]) for row in routes if row[2] != "00000000"}
    mapped = {
        "127.0.0.1",
        "::1",
        "0.0.0.0",
        "::",
        "::ffff:127.0.0.1",
        "10.0.2.2",
        "10.0.2.3",
        "169.254.1.1",
        "fd00::2",
    }
    return {*addresses, *gateways, *mapped}


async def reached(world: LocalWorld, pairs: list[tuple[str, int]]) -> list[list[str]]:
    workspace_id = await world.run()
    output = await world.inside(workspace_id, f"python3 -c '{_TRY}' '{json.dumps(pairs)}' 2>&1")
    answers: list[list[str]] = json.loads(output)
    return answers


async def test_what_listens_on_this_machine_s_loopback_is_reached_by_no_address(apart: LocalWorld) -> None:
    with listening("127.0.0.1", "::1") as places:
        everywhere = [(address, port) for _, port in places for address in own_addresses()]
        outside = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _TRY, json.dumps(places), stdout=asyncio.subprocess.PIPE
        )
        output, _ = await outside.communicate()
        assert json.loads(output) == sorted([address, "the machine"] for address, _ in places)
        assert await reached(apart, everywhere) == []


async def test_loopback_is_the_workspace_s_own(apart: LocalWorld) -> None:
    workspace_id, other = await apart.run(), await apart.run()
    serve = (
        'import socket,time; s=socket.create_server(("127.0.0.1", 7777)); open("ready","w"); s.accept(); '
        "time.sleep(600)"
    )
    await apart.inside(workspace_id, f"(setsid python3 -c '{serve}' >/dev/null 2>&1 &)")

    async def is_listening() -> bool:
        return (apart.home(workspace_id) / "ready").exists()

    await until(is_listening)
    dial = 'import socket; socket.create_connection(("127.0.0.1", 7777), 5); print("reached")'
    assert "refused" in await apart.inside(other, f"python3 -c '{dial}' 2>&1")
    assert await apart.inside(workspace_id, f"python3 -c '{dial}' 2>&1") == "reached\n"


async def test_abstract_sockets_of_this_machine_are_out_of_reach(apart: LocalWorld) -> None:
    workspace_id = await apart.run()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0codehub-test-{os.getpid()}")
        server.listen()
        dial = f'import socket; socket.socket(socket.AF_UNIX).connect("\\0codehub-test-{os.getpid()}")'
        assert "refused" in await apart.inside(workspace_id, f"python3 -c '{dial}' 2>&1")


@AS_ROOT
async def test_what_this_machine_reaches_a_workspace_reaches(apart: LocalWorld) -> None:
    if not network.has_default_route():
        pytest.skip("this machine has no way out")
    with elsewhere() as address:
        workspace_id = await apart.run()
        dial = f'import socket; print(socket.create_connection(("{address}", 7777), 60).recv(9).decode())'

        async def is_reached() -> bool:
            return await apart.inside(workspace_id, f"python3 -c '{dial}' 2>/dev/null") == "elsewhere\n"

        await until(is_reached)


async def test_without_a_way_out_of_this_machine_a_workspace_still_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network, "has_default_route", lambda: False)
    lost = Gateway(("/usr/bin/false", "{pid}"), "169.254.1.1")
    monkeypatch.setattr("codehub.adapters.local.instances.find_gateway", lambda: lost)
    async with local_world() as world:
        assert world.instances.warnings == ()
        workspace_id = await world.run()
        serve = (
            'import socket; s=socket.create_server(("127.0.0.1", 0)); '
            'socket.create_connection(s.getsockname()); print("up")'
        )
        assert await world.inside(workspace_id, f"python3 -c '{serve}' 2>&1") == "up\n"


async def test_a_gateway_that_fails_on_a_machine_with_a_way_out_is_as_none_and_its_words_are_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network, "has_default_route", lambda: True)
    broken = Gateway(("/bin/sh", "-c", "echo no tun for {pid}; exit 1"), "169.254.1.1")
    monkeypatch.setattr("codehub.adapters.local.instances.find_gateway", lambda: broken)
    async with local_world() as world:
        (warning,) = world.instances.warnings
        assert warning.startswith(
            "WORKSPACES SHARE THIS MACHINE'S NETWORK, its loopback too: /bin/sh can't run here: no tun"
        )
        await world.run()


async def test_the_gateway_ends_with_its_instance_and_keeps_it_from_nothing(apart: LocalWorld) -> None:
    workspace_id = await apart.run()
    gateway = gateway_of(apart, workspace_id)
    assert gateway.alive()
    assert not [path for path in open_files(gateway) if path.endswith(("/alive", "/info"))]
    await apart.instances.delete(workspace_id)
    assert not gateway.alive()


async def test_a_gateway_whose_sandbox_died_ends_with_the_next_start(apart: LocalWorld) -> None:
    workspace_id = await apart.run()
    gateway = gateway_of(apart, workspace_id)
    await apart.die(workspace_id)

    async def is_gone() -> bool:
        seen = await apart.instances.status(workspace_id)
        return seen is not None and not seen.running

    await until(is_gone)
    await apart.instances.delete(workspace_id)
    assert not gateway.alive()


@AS_ROOT
async def test_the_gateway_runs_as_the_workspace_s_own_user(apart: LocalWorld) -> None:
    workspace_id = await apart.run()
    status = read_proc_file(gateway_of(apart, workspace_id).pid, "status") or ""
    assert f"Uid:\t{apart.instances.uid_of(workspace_id)}\t" in status


def test_a_name_server_on_loopback_is_asked_through_the_gateway_and_others_directly() -> None:
    gateway = Gateway((), "169.254.1.1")
    assert name_servers(gateway, "nameserver 192.0.2.53\nsearch example.org\n") is None
    assert (
        name_servers(gateway, "# systemd\nnameserver 127.0.0.53\nsearch example.org\noptions edns0\n")
        == "nameserver 169.254.1.1\nsearch example.org\noptions edns0\n"
    )
    assert name_servers(gateway, "") == "nameserver 169.254.1.1\n"


def test_pasta_is_preferred_and_maps_no_address_to_this_machine() -> None:
    gateway = find_gateway()
    if gateway is None or not gateway.command[0].endswith("pasta"):
        pytest.skip("no pasta (scripts/engines)")
    assert "--no-map-gw" in gateway.command


def gateway_of(world: LocalWorld, workspace_id: object) -> Process:
    line = world.instances.run_directory.of(workspace_id).gateway.read_text()  # type: ignore[arg-type]
    process = Process.from_stat(line)
    assert process is not None
    return process


def open_files(process: Process) -> set[str]:
    return {str(entry.readlink()) for entry in Path(f"/proc/{process.pid}/fd").iterdir()}


@contextmanager
def elsewhere() -> Iterator[str]:
    """Another machine, whose port 7777 says so: a network of its own beside this machine's, and a cable."""
    number = os.getpid() % 16_000
    net = f"198.18.{number // 64}.{number % 64 * 4}"
    near, far = (f"{net.rpartition('.')[0]}.{number % 64 * 4 + place}" for place in (1, 2))
    name, cable = f"codehub-{number}", f"chub{number}"
    serve = (
        "import socket\ns=socket.create_server(('',7777))\nprint('up',flush=True)\nwhile True: "
        "s.accept()[0].sendall(b'elsewhere')"
    )
    _ip("netns", "add", name)
    try:
        _ip("link", "add", cable, "type", "veth", "peer", "name", "far", "netns", name)
        _ip("addr", "add", f"{near}/30", "dev", cable)
        _ip("link", "set", cable, "up")
        _ip("-n", name, "addr", "add", f"{far}/30", "dev", "far")
        _ip("-n", name, "link", "set", "far", "up")
        command = ["ip", "netns", "exec", name, "/usr/bin/python3", "-c", serve]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"up\n"
            try:
                yield far
            finally:
                server.kill()
    finally:
        _ip("netns", "del", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
