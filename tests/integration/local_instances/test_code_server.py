"""A real code-server in the sandbox: it answers on its socket alone,
serves its page, and leaves nothing of itself in the home's way.
"""

import httpx
import pytest
from tests.support.docker import NO_CODE_SERVER, code_server
from tests.support.instances import become_healthy, local_world, new_spec
from tests.support.patience import PATIENCE_S

from codehub.adapters.local.installed_ides import installed_ides
from codehub.adapters.local.sandbox import find_bubblewrap
from codehub.core.workspace import Resources
from codehub.ports.instances import UnixUpstream

pytestmark = [
    NO_CODE_SERVER,
    pytest.mark.skipif(find_bubblewrap() is None, reason="bubblewrap is not installed"),
]


async def test_code_server_is_healthy_serves_its_page_and_ends_with_all_it_started() -> None:
    async with local_world(ides=installed_ides({"code-server": code_server()})) as world:
        spec = new_spec(ide="code-server", resources=Resources(memory_mb=2048, cpus=2.0, pids=512))
        await world.instances.start(spec, await world.make_volume(spec))
        await become_healthy(world.instances, spec.workspace_id)
        upstream = await world.instances.resolve_upstream(spec.workspace_id)
        assert isinstance(upstream, UnixUpstream)
        transport = httpx.AsyncHTTPTransport(uds=str(upstream.path))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://ide", follow_redirects=True, timeout=PATIENCE_S
        ) as client:
            page = await client.get("/")
            assert page.status_code == 200
            assert "code-server" in page.text
        await world.instances.delete(spec.workspace_id)
        assert await world.instances.status(spec.workspace_id) is None
        home = world.home(spec.workspace_id)
        assert not [path for path in home.rglob("*") if path.is_socket()]
