"""The script in the tab of an IDE at its own origin: where it stands, who is heard by it, and where there
is none.
"""

import json

import pytest
from tests.proxy.sockets import counts
from tests.proxy.test_tab import HTML, PAGE, serving, sized
from tests.support.edge import until
from tests.support.hub import ORIGIN, WRITES
from tests.support.origins import ORIGINS, SAME_ORIGIN, Browser, host_of

from codehub.core.amendments import By
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.proxy.policy.tab import BODY, script_tag

PORT = 3000
IDES = pytest.mark.parametrize(
    ("ide", "path"),
    [("code-server", "/"), ("jupyterlab", "/w/{id}/lab")],
    ids=["code-server", "jupyterlab"],
)
ASKED = [("GET", "tab.js"), ("GET", "state"), ("POST", "use")]


@IDES
async def test_a_page_at_an_origin_gets_it_with_its_address_there(ide: str, path: str) -> None:
    async with serving(sized(PAGE, HTML), origins=ORIGINS) as (made, _, _, outcomes):
        row, browser = await made.workspace(ide=ide), Browser(made)
        await browser.enter(row)
        page = await browser.go(host_of(row), path.format(id=row.id))
        tag = script_tag("").decode()
        assert PAGE.decode().replace("<head>", f"<head>{tag}") in page.body
        assert outcomes == ["inserted"]
        address = tag.partition('src="')[2].partition('"')[0]
        assert address.startswith("/_codehub/tab.js?v=")
        script = await browser.ask(host_of(row), address, *SAME_ORIGIN)
        assert (script.status, script.body.encode()) == (200, BODY)
        assert script.values("Cache-Control") == ["private, max-age=31536000, immutable"]


async def test_an_ide_that_keeps_its_prefix_gets_it_in_no_page_beside_its_mount() -> None:
    async with serving(sized(PAGE, HTML), origins=ORIGINS) as (made, _, _, outcomes):
        row, browser = await made.workspace(ide="jupyterlab"), Browser(made)
        await browser.enter(row)
        assert (await browser.go(host_of(row), f"/w/{row.id}/api")).body == PAGE.decode()
        assert not outcomes


@IDES
async def test_who_has_a_door_is_told_and_heard_there(ide: str, path: str) -> None:
    async with serving(sized(PAGE, HTML), origins=ORIGINS) as (made, activity, uses, _):
        row, browser = await made.workspace(ide=ide), Browser(made)
        await browser.enter(row)
        await browser.go(host_of(row), path.format(id=row.id))
        assert await counts(activity, uses), "a navigation is a use"
        own = (*SAME_ORIGIN, f"Origin: {ORIGINS.origin_of(row.label)}")
        answer = await browser.ask(host_of(row), "/_codehub/state?for=25", *own)
        assert (answer.status, json.loads(answer.body)["state"]) == (200, "open")
        assert len(activity.monitor(row)._heard) == 1, "the door is whose script is heard"
        assert not await counts(activity, uses)
        assert (await browser.ask(host_of(row), "/_codehub/use", *own, method="POST")).status == 200
        assert await counts(activity, uses)


async def test_a_note_wakes_nothing_at_an_origin_and_a_press_does() -> None:
    async with serving(origins=ORIGINS) as (made, activity, uses, _):
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row)
        await made.service.set_wish(row.id, DesiredState.STANDBY, By("test", verbatim("test")))
        await made.arrives(row.id, Phase.STANDBY)
        own = (*SAME_ORIGIN, f"Origin: {ORIGINS.origin_of(row.label)}", "Accept: application/json")
        cached = await made.route_cache.workspace(row.id)
        assert cached is not None
        await until(lambda: cached.workspace.status.phase is Phase.STANDBY)
        note = await browser.ask(host_of(row), "/_codehub/use", *own, method="POST")
        assert (note.status, json.loads(note.body)["state"]) == (200, "asleep")
        assert not await counts(activity, uses)
        assert (await made.store.get(row.id)).spec.desired_state is DesiredState.STANDBY
        pressed = await browser.ask(host_of(row), "/_codehub/start", *own, method="POST")
        assert (pressed.status, pressed.location) == (303, "/")
        await made.arrives(row.id, Phase.RUNNING)


@pytest.mark.parametrize(("method", "what"), ASKED)
async def test_nobody_else_is_answered_at_an_origin(method: str, what: str) -> None:
    async with serving(origins=ORIGINS) as (made, activity, uses, _):
        row, other = await made.workspace(), await made.workspace(name="other")
        browser, path = Browser(made), f"/_codehub/{what}"
        assert (await browser.ask(host_of(row), path, *SAME_ORIGIN, method=method)).status == 401
        await browser.enter(row)
        foreign = (ORIGIN, ORIGINS.origin_of(other.label), ORIGINS.origin_of(row.label, PORT), "null")
        for origin in foreign:
            reply = await browser.ask(host_of(row), path, f"Origin: {origin}", method=method)
            assert reply.status == 403, origin
        browser.jar[host_of(other)] = dict(browser.jar[host_of(row)])
        assert (await browser.ask(host_of(other), path, *SAME_ORIGIN, method=method)).status == 401
        assert not await counts(activity, uses)


@pytest.mark.parametrize(("method", "what"), ASKED)
async def test_a_port_has_no_script_and_answers_none(method: str, what: str) -> None:
    async with serving(sized(PAGE, HTML), origins=ORIGINS) as (made, activity, _, outcomes):
        made.instance_access.served_by[PORT] = made.ide.upstream.port  # type: ignore[union-attr]
        row, browser = await made.workspace(), Browser(made)
        await browser.enter(row, port=PORT)
        page = await browser.go(host_of(row, PORT), "/")
        assert (page.status, page.body) == (200, PAGE.decode())
        assert not outcomes
        for credential in (SAME_ORIGIN, (f"X-Codehub-Token: {WRITES.secret.decode()}",)):
            reply = await browser.ask(host_of(row, PORT), f"/_codehub/{what}", *credential, method=method)
            assert reply.status == 404
        assert not activity.monitor(row)._heard
