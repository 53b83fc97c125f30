"""The hub lets a browser into a workspace's own origin: by a code, if they may enter, and to nowhere else."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import UUID

import httpx
import pytest
from structlog.testing import capture_logs
from tests.support.forms import post
from tests.support.site import API, PASSWORD, Site, create, open_site
from tests.support.stores import memory_world

from codehub.core.access import Role, Scope
from codehub.core.ceilings import Ceilings
from codehub.core.origins import Door, WorkspaceOrigins
from codehub.core.visit import Visitor
from codehub.ports.proxy_lookups import Credential

ORIGINS = WorkspaceOrigins("http", "localhost", 8000)
KEPT = "what the browser keeps for the origin"
CHALLENGE = hashlib.sha256(KEPT.encode())
DOOR = Credential("door", b"door")
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "cross-site"}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """Workspaces have origins of their own."""
    async with open_site(memory_world(), controlled=True, workspace_origins=ORIGINS) as opened:
        yield opened
        await opened.clients.aclose()


@pytest.fixture
async def local_site() -> AsyncIterator[Site]:
    """It is opened by more than one name of its machine."""
    names = frozenset(f"http://{host}:8000" for host in ("127.0.0.1", "localhost"))
    world, base_url = memory_world(), "http://127.0.0.1:8000"
    async with open_site(world, workspace_origins=ORIGINS, base_url=base_url, own_origins=names) as opened:
        yield opened
        await opened.clients.aclose()


def label_of(workspace: Mapping[str, object]) -> str:
    match = re.fullmatch(r"http://([0-9a-f]{20})\.localhost:8000/", str(workspace["url"]))
    assert match is not None
    return match[1]


async def ask(
    client: httpx.AsyncClient,
    name: str,
    *,
    headers: Mapping[str, str] = NAVIGATION,
    method: str = "GET",
    **parameters: str,
) -> httpx.Response:
    query = urlencode({"c": CHALLENGE.hexdigest(), "next": "/", **parameters})
    return await client.request(method, f"/enter/{name}?{query}", headers=headers)


async def opened_by(site: Site, answer: httpx.Response, door: Door) -> str | None:
    """Use the code of an answer as the origin does, and return the path to go on to."""
    assert answer.status_code == 303
    (code,) = parse_qs(urlsplit(answer.headers["location"]).query)["code"]
    return await site.world.doors.open_door(
        hashlib.sha256(code.encode()).digest(),
        hashlib.sha256(DOOR.secret).digest(),
        door,
        challenge=CHALLENGE.digest(),
    )


@pytest.mark.parametrize(("port", "prefix"), [(None, ""), (3000, "3000-")])
async def test_whoever_may_enter_goes_back_with_a_code_that_opens_this_place(
    site: Site, port: int | None, prefix: str
) -> None:
    ann = await site.browser("ann")
    workspace = await create(ann)
    name, door = prefix + label_of(workspace), Door(UUID(workspace["id"]), port)
    answer = await ask(ann, name, next="/lab?x=1&y=%2F")
    assert answer.headers["location"].startswith(f"http://{name}.localhost:8000/_codehub/enter?code=")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in answer.headers
    assert await opened_by(site, answer, door) == "/lab?x=1&y=%2F"
    ann_herself = site.people["ann"]
    assert await site.world.credentials.people([DOOR]) == {
        DOOR: Visitor(ann_herself.id, ann_herself.username, door=door)
    }


async def test_a_visit_wakes_nothing_and_each_has_a_code_of_its_own(site: Site) -> None:
    ann = await site.browser("ann")
    workspace = await create(ann, desired_state="PENDING")
    answers = [await ask(ann, label_of(workspace)) for _ in range(2)]
    assert len({answer.headers["location"] for answer in answers}) == 2
    after = (await ann.get(f"{API}/workspaces/{workspace['id']}")).json()
    assert (after["desired_state"], after["last_access_at"]) == ("PENDING", None)


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example/",
        "/\\evil.example",
        "https://evil.example/",
        "/\t/evil.example",
        "javascript:alert(1)",
        "",
    ],
)
async def test_no_code_leads_out_of_the_origin(site: Site, path: str) -> None:
    ann = await site.browser("ann")
    workspace = await create(ann)
    answer = await ask(ann, label_of(workspace), next=path)
    assert urlsplit(answer.headers["location"]).hostname == f"{label_of(workspace)}.localhost"
    assert await opened_by(site, answer, Door(UUID(workspace["id"]), None)) == "/"


async def test_the_host_comes_from_the_row_whatever_the_request_says(site: Site) -> None:
    ann = await site.browser("ann")
    label = label_of(await create(ann))
    lies = {
        "Host": f"{label}.evil.example",
        "X-Forwarded-Host": "evil.example",
        "Forwarded": "host=evil.example",
    }
    answer = await ask(ann, label, headers={**NAVIGATION, **lies})
    assert urlsplit(answer.headers["location"]).netloc == f"{label}.localhost:8000"
    for name in (f"{label}.evil.example", f"{label}@evil.example", f"evil.example%23{label}", f"{label}%00"):
        assert (await ask(ann, name)).status_code == 404, name


async def test_nobody_signs_in_first_and_then_goes_on(site: Site) -> None:
    ann = await site.browser("ann")
    workspace = await create(ann)
    name = label_of(workspace)
    async with site.anybody() as client:
        answer = await ask(client, name, next="/lab?x=1")
        assert answer.status_code == 303
        address = urlsplit(answer.headers["location"])
        assert (address.netloc, address.path) == ("", "/login")
        (path,) = parse_qs(address.query)["next"]
        page = await post(client, site, "/login", username="ann", password=PASSWORD, next=path)
        # A redirect of a form's would end here: our policy lets forms be sent to codehub alone.
        assert page.status_code == 200
        assert "form-action 'self'" in page.headers["content-security-policy"]
        onward = re.search(r'<meta http-equiv="refresh" content="0;url=([^"]+)">', page.text)
        assert onward is not None
        answer = await client.get(onward[1].replace("&amp;", "&"), headers=NAVIGATION)
    assert await opened_by(site, answer, Door(UUID(workspace["id"]), None)) == "/lab?x=1"


async def test_whoever_signs_in_for_a_path_that_leads_to_an_origin_is_led_on_by_a_page(site: Site) -> None:
    workspace = await create(await site.browser("ann"))
    async with site.anybody() as client:
        mount = f"/w/{workspace['id']}/lab"
        page = await post(client, site, "/login", username="ann", password=PASSWORD, next=mount)
        assert (page.status_code, f'content="0;url={mount}"' in page.text) == (200, True)
        other = await post(client, site, "/login", username="ann", password=PASSWORD, next="/account")
        assert (other.status_code, other.headers["location"]) == (303, "/account")


async def test_whoever_opens_it_by_another_of_its_names_signs_in_where_origins_lead_to(
    local_site: Site,
) -> None:
    async with local_site.anybody(headers={"Host": "localhost:8000"}) as client:
        asked = await client.get("/login?next=/new%3Fa%3Db")
        assert asked.status_code == 303
        assert asked.headers["location"] == "http://127.0.0.1:8000/login?next=/new%3Fa%3Db"
        again = await client.get("/login?next=/new%3Fa%3Db", headers={"Host": "127.0.0.1:8000"})
        assert (again.status_code, 'value="/new?a=b"' in again.text) == (200, True)


@pytest.mark.parametrize("host", ["evil.example", "localhost:8001", "localhost:8000@evil.example", ""])
async def test_a_host_that_is_none_of_its_names_leads_nowhere(local_site: Site, host: str) -> None:
    async with local_site.anybody(headers={"Host": host}) as client:
        answer = await client.get("/login")
        assert (answer.status_code, "location" in answer.headers) == (200, False)


@pytest.mark.parametrize("role", Role)
async def test_whoever_may_not_enter_gets_no_code_admins_neither(site: Site, role: Role) -> None:
    workspace = await create(await site.browser("ann"))
    answer = await ask(await site.browser("root", role), label_of(workspace))
    assert answer.status_code == 403
    assert "Only its owner can open it." in answer.text
    assert "location" not in answer.headers


async def test_what_is_not_there_or_deleted_is_404(site: Site) -> None:
    ann = await site.browser("ann")
    workspace = await create(ann, desired_state="PENDING")
    label = label_of(workspace)
    for name in ("0" * 20, "evil", f"65536-{label}"):
        assert (await ask(ann, name)).status_code == 404
    await ann.delete(f"{API}/workspaces/{workspace['id']}")
    in_trash = await ask(ann, label)
    assert (in_trash.status_code, "location" in in_trash.headers) == (404, False)
    await ann.delete(f"{API}/workspaces/{workspace['id']}?purge=true")
    await site.arrives(ann, workspace["id"], "DELETED")
    assert (await ask(ann, label)).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "embed"},
        {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {**NAVIGATION, "Sec-Purpose": "prefetch"},
        {"Sec-Purpose": "prefetch;prerender"},
        {"Purpose": "prefetch"},
    ],
)
async def test_a_frame_a_script_or_a_prefetch_gets_no_code(site: Site, headers: dict[str, str]) -> None:
    ann = await site.browser("ann")
    answer = await ask(ann, label_of(await create(ann)), headers=headers)
    assert (answer.status_code, "location" in answer.headers) == (403, False)


async def test_asking_for_the_head_alone_gives_no_code(site: Site) -> None:
    ann = await site.browser("ann")
    label = label_of(await create(ann))
    for headers in (NAVIGATION, {}):
        answer = await ask(ann, label, headers=headers, method="HEAD")
        assert (answer.status_code, "location" in answer.headers) == (403, False)


async def test_a_browser_that_says_nothing_of_itself_is_let_in(site: Site) -> None:
    ann = await site.browser("ann")
    assert (await ask(ann, label_of(await create(ann)), headers={})).status_code == 303


@pytest.mark.parametrize("challenge", ["", "0f", "0F" * 32, "x" * 64, "0f" * 32 + "0"])
async def test_without_a_challenge_there_is_no_code(site: Site, challenge: str) -> None:
    ann = await site.browser("ann")
    answer = await ask(ann, label_of(await create(ann)), c=challenge)
    assert (answer.status_code, "location" in answer.headers) == (400, False)


async def test_a_token_is_no_session_and_gets_no_code(site: Site) -> None:
    ann = await site.browser("ann")
    name = label_of(await create(ann))
    for scope in Scope:
        answer = await ask(await site.program("ann", scope=scope), name, headers={})
        assert urlsplit(answer.headers["location"]).path == "/login"


@pytest.mark.parametrize("end", ["logout", "disabled", "password", "keys"])
async def test_a_code_and_a_door_end_with_the_session(site: Site, end: str) -> None:
    root, ann = await site.browser("root", Role.ADMIN), await site.browser("ann")
    workspace = await create(ann)
    door = Door(UUID(workspace["id"]), None)
    opened, unused = [await ask(ann, label_of(workspace)) for _ in range(2)]
    assert await opened_by(site, opened, door) == "/"
    assert DOOR in await site.world.credentials.people([DOOR])
    user = f"{API}/users/{site.people['ann'].id}"
    match end:
        case "logout":
            ended = await ann.post(f"{API}/logout")
        case "disabled":
            ended = await root.patch(user, json={"disabled": True})
        case "password":
            ended = await root.patch(user, json={"password": "another horse"})
        case _:
            ended = await root.delete(f"{user}/keys")
    assert ended.is_success
    assert await site.world.credentials.people([DOOR]) == {}
    assert await opened_by(site, unused, door) is None


async def test_who_asks_too_often_waits_as_everywhere() -> None:
    ceilings = Ceilings(requests_per_minute=20)
    async with (
        open_site(memory_world(), workspace_origins=ORIGINS, ceilings=ceilings) as site,
        site.clients,
    ):
        ann = await site.browser("ann")
        label = label_of(await create(ann))
        answers = await asyncio.gather(*(ask(ann, label) for _ in range(40)))
    assert {answer.status_code for answer in answers} == {303, 429}


async def test_a_code_is_never_in_the_log(site: Site) -> None:
    ann = await site.browser("ann")
    label = label_of(await create(ann))
    with capture_logs() as lines:
        answer = await ask(ann, label)
    (code,) = parse_qs(urlsplit(answer.headers["location"]).query)["code"]
    assert [line["path"] for line in lines if line["event"] == "request"] == [f"/enter/{label}"]
    assert code not in repr(lines)
    assert CHALLENGE.hexdigest() not in repr(lines)


async def test_pages_lead_to_the_origin_and_so_does_the_api(site: Site) -> None:
    ann = await site.browser("ann")
    workspace = await create(ann)
    await site.arrives(ann, workspace["id"], "RUNNING")
    url = f"http://{label_of(workspace)}.localhost:8000/"
    assert workspace["url"] == url
    assert workspace["path_url"] == f"{site.parts.base_url}/w/{workspace['id']}/"
    for page in ("/", f"/workspaces/{workspace['id']}", f"/rows?id={workspace['id']}"):
        text = (await ann.get(page)).text
        assert f'href="{url}" target="_blank" rel="noopener"' in text, page
        assert "/w/" not in text, page


async def test_without_origins_there_is_nothing_to_enter_by() -> None:
    async with open_site(memory_world()) as site, site.clients:
        ann = await site.browser("ann")
        workspace = await create(ann)
        assert workspace["url"] == workspace["path_url"] == f"{site.parts.base_url}/w/{workspace['id']}/"
        for client in (ann, await site.clients.enter_async_context(site.anybody())):
            answer = await ask(client, "0" * 20, headers={"Accept": "text/html"})
            assert answer.status_code == 404
        mount = f"/w/{workspace['id']}/"
        page = await post(ann, site, "/login", username="ann", password=PASSWORD, next=mount)
        assert (page.status_code, page.headers["location"]) == (303, mount)
