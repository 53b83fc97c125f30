"""Any home comes back bit by bit, through claims and Jobs of a real cluster."""

import tempfile
from contextlib import chdir
from pathlib import Path

from hypothesis import given
from tests.support.kubernetes import KUBERNETES, Kubernetes
from tests.support.kubernetes_world import kubernetes_world
from tests.support.person import as_person
from tests.support.storages import new_home, there_and_back
from tests.support.trees import Node, homes, plant, trees_without_rights

from codehub.adapters.kubernetes.pods import UID

pytestmark = KUBERNETES

# What Jobs do is tried with many trees beside it, without a cluster (tests/integration/jobs).
EXAMPLES = 3


@homes(EXAMPLES)
@given(tree=trees_without_rights)
async def test_any_home_that_its_user_can_read_comes_back_as_it_was(
    tree: list[tuple[bytes, Node, int]], kubernetes: Kubernetes
) -> None:
    with tempfile.TemporaryDirectory(prefix="codehub-trees-") as directory:
        async with kubernetes_world(kubernetes(), Path(directory)) as world:
            home = new_home()
            volume_id = await world.provider.provision(home)
            # Its user may go into the home, and not to where the node has it.
            with chdir(world.path(home)), as_person(UID):
                plant(b".", tree)
            before, after = await there_and_back(world, home, volume_id)
            assert after == before
