"""A registry that can't be reached: a start that is held up is shown, can be given up or tried at once."""

import asyncio
import html
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.support.patience import PATIENCE_S, ask_until
from tests.support.site import API, Site, create

from codehub.core.messages import Code, Message
from codehub.ports.backends import BackendUnreachable

AWAY = Message(Code.REGISTRY_UNREACHABLE, {"image": "debian:bookworm", "text": "dial tcp: i/o timeout"})


@pytest.fixture
def no_registry(living_site: Site, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """No start gets its image, until this is called."""

    async def start(*_: Any) -> None:
        raise BackendUnreachable(AWAY)

    monkeypatch.setattr(living_site.instances, "start", start)
    return monkeypatch.undo


@pytest.fixture
def full_disk(living_site: Site) -> Iterator[Callable[[], None]]:
    """Less is free than the floor, until this is called."""
    before, living_site.disk.free_mb = living_site.disk.free_mb, 100

    def make_room() -> None:
        living_site.disk.free_mb = before

    yield make_room
    make_room()


async def until_held_up(client: httpx.AsyncClient, workspace_id: str) -> dict[str, Any]:
    async def show() -> dict[str, Any]:
        workspace: dict[str, Any] = (await client.get(f"{API}/workspaces/{workspace_id}")).json()
        return workspace

    return await ask_until(show, lambda workspace: workspace["held_up"] is not None)


async def asked(ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """Ask, and again while a try is just being made: that one moves."""
    return await ask_until(ask, is_answered)


def is_answered(answer: httpx.Response) -> bool:
    is_refused = answer.status_code == 409
    assert not is_refused or answer.json()["error"]["code"] == "OPERATION_IN_PROGRESS"
    return not is_refused


@pytest.mark.usefixtures("no_registry")
async def test_the_reason_that_holds_a_start_up_is_shown(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    workspace = await create(ann)
    state = await until_held_up(ann, workspace["id"])
    assert (state["operation"], state["phase"]) == ("STARTING", "STANDBY")
    held_up = state["held_up"]
    assert (held_up["reason"], held_up["message"]) == (
        "Unreachable",
        "The registry of debian:bookworm can't be reached: dial tcp: i/o timeout",
    )
    assert workspace["created_at"] < held_up["since"] < held_up["next_try_at"]
    explanation = (await ann.get(f"{API}/workspaces/{workspace['id']}/explain")).json()
    assert {action["label"] for action in explanation["actions"]} >= {"Try now", "Stop", "Archive", "Delete"}
    page = (await ann.get(f"/workspaces/{workspace['id']}")).text
    assert all(word in page for word in ("Held up", "Try now", "Put to sleep"))
    listed = html.unescape((await ann.get("/")).text)
    assert held_up["message"] in listed


@pytest.mark.usefixtures("no_registry")
async def test_what_a_backend_answers_is_told_in_korean(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    workspace = await create(ann)
    await until_held_up(ann, workspace["id"])
    korean = {"Accept-Language": "ko"}
    path = f"/workspaces/{workspace['id']}"
    why = "이미지의 레지스트리에 연결할 수 없습니다: debian:bookworm (dial tcp: i/o timeout)"
    shown = (await ann.get(f"{API}{path}", headers=korean)).json()
    assert shown["held_up"]["message"] == why
    assert why in (await ann.get(f"{API}{path}/explain", headers=korean)).json()["waiting_for"]
    assert why in (await ann.get(path, headers=korean)).text


async def test_a_start_below_the_floor_is_held_up_and_goes_on_when_there_is_room(
    living_site: Site, full_disk: Callable[[], None]
) -> None:
    ann = await living_site.browser("ann")
    workspace = await create(ann)
    state = await until_held_up(ann, workspace["id"])
    why = "Only 100 MB are free where homes lie, and nothing starts below 1000 MB."
    assert (state["operation"], state["phase"], state["health_status"]) == ("PROVISIONING", "PENDING", "OK")
    assert state["held_up"]["reason"] == "Unreachable"
    assert state["held_up"]["message"].startswith(why)
    explanation = (await ann.get(f"{API}/workspaces/{workspace['id']}/explain")).json()
    assert why in explanation["waiting_for"]
    assert {action["label"] for action in explanation["actions"]} >= {"Try now", "Archive", "Delete"}
    page = (await ann.get(f"/workspaces/{workspace['id']}")).text
    assert all(word in page for word in ("Held up", "Try now", why))
    full_disk()
    await living_site.arrives(ann, workspace["id"], "RUNNING", held_up=None)


@pytest.mark.usefixtures("full_disk")
async def test_a_workspace_that_waits_for_disk_space_can_be_deleted(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    workspace = await create(ann)
    await until_held_up(ann, workspace["id"])
    answer = await asked(lambda: ann.delete(f"{API}/workspaces/{workspace['id']}"))
    assert answer.status_code == 202, answer.text
    await living_site.arrives(ann, workspace["id"], "DELETED")


@pytest.mark.usefixtures("no_registry")
@pytest.mark.parametrize(("word", "phase"), [("stop", "STANDBY"), ("archive", "ARCHIVED")])
async def test_a_start_that_is_held_up_can_be_given_up_and_frees_its_place(
    living_site: Site, word: str, phase: str
) -> None:
    ann = await living_site.browser("ann")
    workspace = await create(ann)
    await until_held_up(ann, workspace["id"])
    answer = await asked(lambda: ann.post(f"{API}/workspaces/{workspace['id']}:{word}"))
    assert answer.status_code == 200, answer.text
    state = await living_site.arrives(ann, workspace["id"], phase)
    assert (state["held_up"], state["error"]) == (None, None)
    assert (await ann.get(f"{API}/session")).json()["limits"]["running"]["used"] == 0


@pytest.mark.usefixtures("no_registry")
async def test_a_start_that_is_held_up_can_be_deleted(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    workspace = await create(ann)
    await until_held_up(ann, workspace["id"])
    answer = await asked(lambda: ann.delete(f"{API}/workspaces/{workspace['id']}"))
    assert answer.status_code == 202, answer.text
    await living_site.arrives(ann, workspace["id"], "DELETED")


async def test_the_same_wish_again_is_tried_at_once(
    living_site: Site, no_registry: Callable[[], None]
) -> None:
    ann = await living_site.browser("ann")
    workspace = await create(ann)
    await until_held_up(ann, workspace["id"])
    no_registry()
    answer = await asked(lambda: ann.post(f"{API}/workspaces/{workspace['id']}:start"))
    assert answer.status_code == 200, answer.text
    state = await living_site.arrives(ann, workspace["id"], "RUNNING")
    assert state["held_up"] is None


async def test_a_step_in_flight_is_not_preempted(living_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = await living_site.browser("ann")
    begun, may_go_on = asyncio.Event(), asyncio.Event()
    start = living_site.instances.start

    async def slow(*arguments: Any) -> None:
        begun.set()
        await may_go_on.wait()
        await start(*arguments)

    monkeypatch.setattr(living_site.instances, "start", slow)
    workspace = await create(ann)
    async with asyncio.timeout(PATIENCE_S):
        await begun.wait()
    answers = [
        await ann.post(f"{API}/workspaces/{workspace['id']}:stop"),
        await ann.delete(f"{API}/workspaces/{workspace['id']}"),
    ]
    may_go_on.set()
    assert [answer.status_code for answer in answers] == [409, 409]
    await living_site.arrives(ann, workspace["id"], "RUNNING")
