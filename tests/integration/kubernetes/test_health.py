"""Whose IDE falls ill is found out by its node, and then by us, with no look from here while it was well."""

from pathlib import Path

from tests.support.cluster.cluster import TestCluster
from tests.support.instances import new_spec
from tests.support.kubernetes import KUBERNETES
from tests.support.kubernetes_world import kubernetes_world
from tests.support.patience import until

from codehub.core.observation import Instance

pytestmark = KUBERNETES


async def test_an_ide_that_falls_ill_is_found_out_by_its_node(cluster: TestCluster, tmp_path: Path) -> None:
    async with kubernetes_world(cluster, tmp_path) as world:
        # By a probe that is as strict as ours; the light image answers as that IDE does.
        workspace_id = await world.run(new_spec(ide="code-server"))

        def is_ready() -> bool:
            conditions = world.pod(workspace_id)["status"]["conditions"]
            return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

        await until(is_ready)
        await world.fall_ill(workspace_id)
        await until(lambda: not is_ready())
        ill = Instance(running=True, healthy=False)

        async def is_seen() -> bool:
            return await world.instances.list_all() == {workspace_id: ill}

        await until(is_seen)
