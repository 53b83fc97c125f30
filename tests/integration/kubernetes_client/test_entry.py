"""A shell in a Pod, against a server that does as it is told: what the API is asked, and what goes in."""

import pytest
from tests.integration.kubernetes_client.test_exec import Shell
from tests.support.kubernetes_api import Conversation, HostileApi

from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.entry import enter
from codehub.adapters.kubernetes.labels import INSTANCE, labels_of
from codehub.adapters.kubernetes.pods import Pod, parse_pod
from codehub.adapters.system.machine import SystemIdentity
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instance_access import NotRunning

STAT = b"7 (sh) S 1 7 7 " + b"0 " * 15 + b"99 0 0\n"
WORKSPACE = SystemIdentity().new_id()


def answer(uid: str = "meant", phase: str = "Running") -> dict[str, object]:
    name = f"codehub-ws-{WORKSPACE}"
    container = {"name": "codehub", "state": {"running": {}}}
    metadata = {"uid": uid, "name": name, "labels": labels_of("install", WORKSPACE, INSTANCE)}
    return {"metadata": metadata, "status": {"phase": phase, "containerStatuses": [container]}}


@pytest.fixture
def pod() -> Pod:
    pod = parse_pod(answer())
    assert pod is not None
    return pod


async def test_a_script_is_no_part_of_what_the_api_is_asked(
    api: HostileApi, client: KubernetesClient, pod: Pod
) -> None:
    heard = b""

    async def run(talk: Conversation) -> None:
        nonlocal heard
        shell = Shell(talk)
        shell.accept()
        shell.say(1, STAT)
        while not heard.endswith(b"line 2\n"):
            _, payload = await shell.hear()
            heard += payload[1:]
        shell.say(1, b"done\n")
        shell.end({"status": "Success"})

    api.handlers = [run]
    async with enter(client, pod) as entry:
        process = await entry.ready()
        await entry.run("echo secret\nline 2")
        assert await entry.read_line() == "done"
        assert await entry.read() == b""
    assert (process.pid, process.since) == ("7", "99")
    assert heard == b"2\necho secret\nline 2\n"
    assert "secret" not in str(api.requests[0])
    assert api.requests[0].query["container"] == "codehub"


async def test_a_shell_that_says_nothing_is_in_another_pod(
    api: HostileApi, client: KubernetesClient, pod: Pod
) -> None:
    async def run(talk: Conversation) -> None:
        shell = Shell(talk)
        shell.accept()
        shell.end({"status": "Success"})

    api.handlers = [run]
    async with enter(client, pod) as entry:
        with pytest.raises(NotRunning):
            await entry.ready()


async def test_what_a_shell_says_instead_is_told(api: HostileApi, client: KubernetesClient, pod: Pod) -> None:
    async def run(talk: Conversation) -> None:
        shell = Shell(talk)
        shell.accept()
        shell.say(1, b"stty: not found\n")
        shell.end({"status": "Success"})

    api.handlers = [run]
    async with enter(client, pod, has_terminal=True) as entry:
        with pytest.raises(ActionFailed, match="stty: not found"):
            await entry.ready()


@pytest.mark.parametrize(
    ("uid", "phase", "error"),
    [
        ("meant", "Running", BackendUnreachable),
        ("meant", "Failed", NotRunning),
        ("later", "Running", NotRunning),
    ],
    ids=["it still runs", "it has ended", "it was replaced"],
)
async def test_a_cut_line_is_an_outage_only_while_the_pod_that_was_meant_runs(
    api: HostileApi, client: KubernetesClient, pod: Pod, uid: str, phase: str, error: type[Exception]
) -> None:
    async def cut(talk: Conversation) -> None:
        Shell(talk).accept()
        await talk.writer.drain()
        talk.writer.close()

    async def tell(talk: Conversation) -> None:
        talk.answer(answer(uid, phase))

    api.handlers = [cut, tell]
    async with enter(client, pod) as entry:
        with pytest.raises(error):
            await entry.ready()


async def test_a_pod_that_is_not_there_does_not_run(
    api: HostileApi, client: KubernetesClient, pod: Pod
) -> None:
    async def refuse(talk: Conversation) -> None:
        talk.refuse(404, "NotFound", "pods not found")

    api.handlers = [refuse]
    with pytest.raises(NotRunning):
        async with enter(client, pod):
            pass
