"""A command in a Pod has exactly the rights of its IDE, ends with whoever
called it, and is never begun in a later Pod than the one that was meant.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.instances import become_healthy, new_spec
from tests.support.kubernetes import KUBERNETES
from tests.support.kubernetes_world import KubernetesWorld, kubernetes_world, prepare_namespace
from tests.support.patience import PATIENCE_S, until
from tests.support.programs import program

from codehub.adapters.kubernetes.command_session import command_session
from codehub.adapters.kubernetes.instance_access import KubernetesInstanceAccess
from codehub.adapters.kubernetes.labels import pod_name
from codehub.adapters.kubernetes.relay import relay
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instance_access import ByteSource, Command, CommandSession, NotRunning, TerminalSize
from codehub.ports.instances import InstanceSpec

pytestmark = KUBERNETES

_RIGHTS = (
    "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status;"
    " readlink /proc/self/ns/*; grep -E 'processes|files' /proc/self/limits; umask"
)
_STAY = ("sh", "-c", "echo $$; while :; do sleep 0.05; done")
_ANSWER_S = 20.0
# Another codehub, whose input says where: it begins a command and tells its pid.
_CALLER = """
import asyncio, json, sys
from pathlib import Path
from uuid import UUID
from codehub.adapters.kubernetes.access import from_kubeconfig
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.instance_access import KubernetesInstanceAccess
from codehub.adapters.kubernetes.kinds import PODS
from codehub.adapters.kubernetes.labels import INSTALL
from codehub.adapters.kubernetes.pods import parse_pod
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.adapters.system.machine import SystemClock
from codehub.ports.instance_access import Command

async def call(kubeconfig, namespace, install_id, workspace_id, argv):
    clock = SystemClock()
    client = KubernetesClient(from_kubeconfig(Path(kubeconfig), clock=clock), namespace=namespace, clock=clock)
    pods = WatchCache(client, PODS, labels={INSTALL: install_id}, project=parse_pod, clock=clock)
    pods.open()
    async with KubernetesInstanceAccess(client, pods).exec(UUID(workspace_id), Command(tuple(argv))) as session:
        print((await session.output.read()).decode(), end="", flush=True)
        await session.wait()

asyncio.run(call(*json.load(sys.stdin)))
"""


@pytest.fixture
async def world(cluster: TestCluster, tmp_path: Path) -> AsyncIterator[KubernetesWorld]:
    async with kubernetes_world(cluster, tmp_path) as world:
        yield world


def way_into(world: KubernetesWorld) -> KubernetesInstanceAccess:
    return KubernetesInstanceAccess(world.client, world.pods)


async def output_of(
    world: KubernetesWorld, workspace_id: UUID, *argv: str, terminal: TerminalSize | None = None
) -> str:
    async with way_into(world).exec(workspace_id, Command(argv, terminal=terminal)) as session:
        return await everything(session)


async def everything(session: CommandSession) -> str:
    await session.input.close()
    output, _ = await asyncio.gather(_text(session.output), _text(session.error_output))
    return output


async def _text(source: ByteSource) -> str:
    data = b""
    while part := await source.read():
        data += part
    return data.decode()


async def is_gone(world: KubernetesWorld, workspace_id: UUID, pid: str) -> bool:
    return await output_of(world, workspace_id, *program("state", pid)) == "gone\n"


@pytest.mark.parametrize("terminal", [None, TerminalSize()], ids=["pipes", "a terminal"])
async def test_a_command_has_the_rights_of_the_ide(
    world: KubernetesWorld, terminal: TerminalSize | None
) -> None:
    workspace_id = await world.run()
    by_command = await output_of(world, workspace_id, "sh", "-c", _RIGHTS, terminal=terminal)
    assert by_command.split() == (await world.inside(workspace_id, _RIGHTS)).split()


async def test_nothing_of_codehub_is_in_its_environment(
    world: KubernetesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEHUB_DATABASE_URL", "postgres://secret")
    workspace_id = await world.run()
    everything_there = "env; cat /proc/[0-9]*/environ 2>&1"
    assert "secret" not in await output_of(world, workspace_id, "sh", "-c", everything_there)


async def test_a_killed_shell_beside_a_command_is_no_end_that_is_missed(world: KubernetesWorld) -> None:
    workspace_id = await world.run()
    kill_parent = "kill -9 $PPID; exit 0"
    async with way_into(world).exec(workspace_id, Command(("sh", "-c", kill_parent))) as session:
        async with asyncio.timeout(PATIENCE_S):
            await everything(session)
            assert (await session.wait()).signal == signal.SIGKILL


async def test_a_job_of_an_interactive_shell_is_signalled_in_the_shell_s_own_group(
    world: KubernetesWorld,
) -> None:
    workspace_id = await world.run()
    own_group = "trap 'echo heard; exit 4' TERM; echo ready; while :; do sleep 0.05; done"
    command = Command(("bash", "-i", "-c", own_group), terminal=TerminalSize())
    async with asyncio.timeout(PATIENCE_S), way_into(world).exec(workspace_id, command) as session:
        assert "ready" in (await session.output.read()).decode()
        await session.send_signal(signal.SIGTERM)
        assert "heard" in await _text(session.output)
        assert (await session.wait()).code == 4


@pytest.mark.parametrize("component", ["apiserver", "kubelet", "containerd"])
async def test_a_command_ends_with_what_led_to_it_and_its_end_is_not_made_up(
    world: KubernetesWorld, component: str
) -> None:
    workspace_id = await world.run()
    async with way_into(world).exec(workspace_id, Command(_STAY)) as session:
        pid = (await session.output.read()).decode().strip()
        world.cluster.kill(component)
        with pytest.raises(BackendUnreachable):
            async with asyncio.timeout(PATIENCE_S):
                await session.wait()
    world.cluster.wait_until_ready()
    if component != "containerd":  # a node's shims hold open what it had opened (docs/limits.md)
        await until(lambda: is_gone_once_seen(world, workspace_id, pid))


async def is_gone_once_seen(world: KubernetesWorld, workspace_id: UUID, pid: str) -> bool:
    try:
        async with asyncio.timeout(_ANSWER_S):
            return await is_gone(world, workspace_id, pid)
    except (ActionFailed, BackendUnreachable, TimeoutError):  # it has only just come back
        return False


async def test_a_command_ends_with_a_codehub_that_is_killed(world: KubernetesWorld) -> None:
    workspace_id = await world.run()
    caller = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _CALLER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert caller.stdin is not None
    assert caller.stdout is not None
    kubeconfig = str(prepare_namespace(world.cluster, world.namespace))
    where = [kubeconfig, world.namespace, world.install_id, str(workspace_id), _STAY]
    caller.stdin.write(json.dumps(where).encode())
    caller.stdin.close()
    async with asyncio.timeout(PATIENCE_S):
        pid = (await caller.stdout.readline()).decode().strip()
    assert pid
    assert not await is_gone(world, workspace_id, pid)
    caller.kill()
    await caller.wait()
    await until(lambda: is_gone(world, workspace_id, pid))


async def test_a_later_pod_of_the_name_is_never_entered(world: KubernetesWorld) -> None:
    spec = new_spec()
    workspace_id = await world.run(spec)
    meant = await world.pods.find(pod_name(workspace_id))
    assert meant is not None
    await replace(world, spec)
    command = Command(("touch", "/tmp/entered"))
    with pytest.raises(NotRunning):
        async with command_session(world.client, meant, command):
            pass
    with pytest.raises(NotRunning):
        async with relay(world.client, meant, 8080):
            pass
    assert "entered" not in await world.inside(workspace_id, "ls /tmp")


async def replace(world: KubernetesWorld, spec: InstanceSpec) -> None:
    claim = await world.claims.inspect(spec.workspace_id)
    assert claim is not None
    assert claim.volume_id is not None
    await world.instances.delete(spec.workspace_id)
    await world.instances.start(spec, claim.volume_id)
    await become_healthy(world.instances, spec.workspace_id)
