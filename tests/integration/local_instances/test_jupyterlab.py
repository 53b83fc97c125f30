"""A real JupyterLab: it answers under its base URL, on its
socket alone, and what is written in it is in the home.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.instances import LocalWorld, become_healthy, local_world, new_spec, server_profile

from codehub.adapters.local.installed_ides import InstalledIde, installed_ides
from codehub.adapters.local.sandbox import find_bubblewrap
from codehub.core.workspace import Resources
from codehub.ports.instances import UnixUpstream


@pytest.fixture(scope="module")
def profiles() -> Mapping[str, InstalledIde]:
    ides = installed_ides()
    if "jupyterlab" not in ides or find_bubblewrap() is None:
        pytest.skip("JupyterLab or bubblewrap is not installed")
    return ides


async def ask(
    socket: Path, method: str, target: str, body: object = None, headers: str = ""
) -> tuple[int, str, bytes]:
    reader, writer = await asyncio.open_unix_connection(socket)
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {target} HTTP/1.0\r\nHost: localhost\r\n{headers}Content-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    answer = await reader.read()
    writer.close()
    top, _, rest = answer.partition(b"\r\n\r\n")
    return int(top.split()[1]), top.decode(), rest


async def test_jupyterlab_answers_under_its_base_url_and_writes_into_the_home(
    profiles: Mapping[str, InstalledIde],
) -> None:
    async with local_world(ides=profiles) as world:
        spec = new_spec(ide="jupyterlab", resources=Resources(memory_mb=1024, cpus=2.0, pids=256))
        await world.instances.start(spec, await world.make_volume(spec))
        await become_healthy(world.instances, spec.workspace_id)
        socket = await socket_of(world, spec.workspace_id)
        base = f"/w/{spec.workspace_id}/"

        status, head, page = await ask(socket, "GET", f"{base}lab")
        assert status == 200
        assert b"<title>JupyterLab</title>" in page
        assert (await ask(socket, "GET", "/lab"))[0] == 404
        place = f"{base}lab/api/settings/@jupyterlab/apputils-extension:notification"
        asked = json.loads((await ask(socket, "GET", place))[2])["schema"]["properties"]
        assert (asked["fetchNews"]["default"], asked["checkForUpdates"]["default"]) == ("false", False), (
            "it asks nobody about news"
        )

        target, content = (
            f"{base}api/contents/note.txt",
            {"type": "file", "format": "text", "content": "hello"},
        )
        assert (await ask(socket, "PUT", target, content))[0] == 403, (
            "its protection from forged requests is on"
        )
        cookie = head.partition("_xsrf=")[2].partition(";")[0]
        proof = f"Cookie: _xsrf={cookie}\r\nX-XSRFToken: {cookie}\r\n"
        assert (await ask(socket, "PUT", target, content, proof))[0] == 201
        assert (world.home(spec.workspace_id) / "note.txt").read_text() == "hello"

        status, _, answer = await ask(socket, "POST", f"{base}api/kernels", {"name": "python3"}, proof)
        assert status == 201, answer
        assert listening_ports_of(world, spec.workspace_id) == set(), (
            "nothing of it can be reached over the network"
        )
        await world.instances.delete(spec.workspace_id)
        assert not any(path.is_socket() for path in world.home(spec.workspace_id).rglob("*"))


async def test_a_kernel_finds_no_debugger_that_others_could_reach(
    profiles: Mapping[str, InstalledIde], tmp_path: Path
) -> None:
    """debugpy listens on the loopback, which all workspaces share, and runs what anybody there tells it."""
    place = tmp_path / "ide"
    server, lab = server_profile(place), profiles["jupyterlab"]
    seen = replace(server, visible=(*server.visible, *lab.visible), hidden=lab.hidden)
    python = Path(sys.executable)
    async with local_world(ides={"http": seen}) as world:
        workspace_id = await world.run()
        asked = "import ipykernel.debugger as it; print(it._is_debugpy_available)"
        assert (await world.inside(workspace_id, f"{python} -c '{asked}' 2>&1")).splitlines() == ["False"]
        assert (
            await world.inside(workspace_id, f"{python} -c 'import ipykernel.kernelapp; print(1)'") == "1\n"
        )


async def socket_of(world: LocalWorld, workspace_id: UUID) -> Path:
    upstream = await world.instances.resolve_upstream(workspace_id)
    assert isinstance(upstream, UnixUpstream)
    return upstream.path


def listening_ports_of(world: LocalWorld, workspace_id: UUID) -> set[str]:
    """Return the TCP sockets that this workspace's user listens on."""
    uid = str(world.instances.uid_of(workspace_id))
    rows = [
        row.split()
        for name in ("tcp", "tcp6")
        for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return {row[1] for row in rows if row[3] == "0A" and row[7] == uid}
