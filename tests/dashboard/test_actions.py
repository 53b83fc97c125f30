"""What buttons and forms do: the wish is recorded by the same
service as the API's, and the answer says what became of it.
"""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from tests.support.forms import answered_yes, post
from tests.support.patience import PATIENCE_S
from tests.support.site import API, PASSWORD, Site, create

from codehub.core.errors import ErrorReason
from codehub.core.workspace import InstanceBackend, StorageBackend
from codehub.dashboard import detail
from codehub.web.domain_text import remedy_text

PARTIAL = {"HX-Request": "true"}


async def made_by_form(client: httpx.AsyncClient, site: Site, **fields: str) -> dict[str, Any]:
    answer = await post(client, site, "/new", **fields)
    assert answer.status_code == 303, answer.text
    response = await client.get(f"{API}{answer.headers['location']}")
    shown: dict[str, Any] = response.json()
    return shown


async def test_a_form_makes_a_workspace_as_it_says(site: Site) -> None:
    ann = await site.browser("ann")
    made = await made_by_form(
        ann,
        site,
        name=" demo ",
        description="",
        ide="code-server",
        memory_mb="4096",
        cpus="1.5",
        pids="",
        standby_ttl_seconds="never",
        archive_ttl_seconds="0",
    )
    assert (made["name"], made["description"], made["ide"]) == ("demo", None, "code-server")
    assert made["resources"] == {"memory_mb": 4096, "cpus": 1.5, "pids": 1024, "disk_mb": 20_480}
    assert (made["standby_ttl_seconds"], made["archive_ttl_seconds"]) == (None, 0)
    assert made["desired_state"] == "RUNNING"


async def test_an_image_can_be_chosen_only_where_something_runs_images(site: Site) -> None:
    ann = await site.browser("ann")
    assert 'name="image_ref"' not in (await ann.get("/new")).text
    docker = {InstanceBackend.LOCAL_DOCKER: [StorageBackend.DOCKER_VOLUME], **site.parts.homes}
    object.__setattr__(site.parts, "homes", docker)
    object.__setattr__(site.parts, "ides", ("code-server", "http"))
    form = (await ann.get("/new")).text
    assert 'name="image_ref" value="codercom/code-server"' in form
    assert re.findall(r'name="ide" value="([^"]+)"', form) == ["code-server", "http", "jupyterlab"]
    wrong = await post(ann, site, "/new", name="demo", image_ref="no image")
    assert (wrong.status_code, 'id="wrong-image_ref"' in wrong.text) == (422, True)
    made = await made_by_form(ann, site, name="demo", image_ref="debian:bookworm", ide="http")
    assert (made["image_ref"], made["ide"]) == ("debian:bookworm", "http")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": "x", "memory_mb": "lots"}, "memory_mb"),
        ({"name": "x", "memory_mb": "1"}, "memory_mb"),
        ({"name": "x", "cpus": "nan"}, "cpus"),
        ({"name": "x", "ide": "vim"}, "ide"),
        ({"name": "x", "standby_ttl_seconds": "5"}, "standby_ttl_seconds"),
        ({"name": "x", "description": "y" * 10_001}, "description"),
    ],
)
async def test_a_wrong_field_is_named_beside_it_and_nothing_typed_is_lost(
    site: Site, fields: dict[str, str], field: str
) -> None:
    ann = await site.browser("ann")
    answer = await post(ann, site, "/new", **{"description": "kept words", **fields})
    assert answer.status_code == 422
    assert f'id="wrong-{field}"' in answer.text
    assert "kept words" in answer.text or field == "description"
    assert (await ann.get(f"{API}/workspaces")).json()["items"] == []


async def test_a_taken_name_and_a_full_house_are_said_on_the_form(site: Site) -> None:
    ann = await site.browser("ann")
    await made_by_form(ann, site, name="one")
    taken = await post(ann, site, "/new", name="one")
    assert (taken.status_code, "You have a workspace of this name" in taken.text) == (409, True)
    await made_by_form(ann, site, name="two")
    full = await post(ann, site, "/new", name="three")
    assert full.status_code == 429
    assert re.search(r"You can run 2 at a time. Running now: (one, two|two, one)\.", full.text)


async def test_buttons_go_round_the_circle_without_scripts(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo")
    place = f"/workspaces/{made['id']}"
    await site.arrives(ann, made["id"], "RUNNING")
    for word, phase in (("stop", "STANDBY"), ("archive", "ARCHIVED"), ("start", "RUNNING")):
        answer = await post(ann, site, f"{place}/{word}", back=place)
        assert (answer.status_code, answer.headers["location"]) == (303, place)
        await site.arrives(ann, made["id"], phase)
        mentions = [
            text in (await ann.get(path)).text
            for text, path in (("archived in", "/"), ("Archived in", place))
        ]
        assert mentions == [phase == "STANDBY"] * 2
    assert (await post(ann, site, f"{place}/keep_awake")).headers["location"] == "/"
    assert (await ann.get(f"{API}{place}")).json()["awake_until"] is not None
    await post(ann, site, f"{place}/delete")
    await site.arrives(ann, made["id"], "DELETED")
    assert "demo" in (await ann.get("/trash")).text
    assert (await ann.get(place)).status_code == 404
    back = await post(ann, site, f"{place}/undelete", PARTIAL)
    assert (back.status_code, "The deletion of “demo” is undone" in back.text) == (200, True)
    await site.arrives(ann, made["id"], "ARCHIVED")
    page = (await ann.get(place)).text
    assert re.search("<dt>It should be</dt><dd>Archived</dd>", page)
    assert ("ann undid its deletion" in page, "ann asked for: At rest" in page) == (True, False)
    asked = await post(ann, site, f"{place}/purge", back="/trash")
    assert "Delete “demo” for good?" in asked.text
    assert (await ann.get(place)).status_code == 200, "a question alone does nothing"
    done = await post(ann, site, f"{place}/purge", **answered_yes(asked))
    assert (done.status_code, done.headers["location"]) == (303, "/trash")
    await site.arrives(ann, made["id"], "DELETED")
    assert "demo" not in (await ann.get("/trash")).text


async def test_a_button_with_scripts_gets_its_row_and_a_word(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo")
    await site.arrives(ann, made["id"], "RUNNING")
    headers = {**PARTIAL, "HX-Target": f"ws-{made['id']}"}
    answer = await post(ann, site, f"/workspaces/{made['id']}/stop", headers)
    assert answer.status_code == 200
    assert f'<li class="row" role="row" id="ws-{made["id"]}"' in answer.text
    assert "“demo” goes to sleep" in answer.text
    assert "<html" not in answer.text
    headers = {**PARTIAL, "HX-Target": "ws"}
    await site.arrives(ann, made["id"], "STANDBY")
    answer = await post(ann, site, f"/workspaces/{made['id']}/archive", headers)
    assert '<div id="ws"' in answer.text
    await site.arrives(ann, made["id"], "ARCHIVED")
    answer = await post(
        ann, site, f"/workspaces/{made['id']}/delete", {**PARTIAL, "HX-Target": f"ws-{made['id']}"}
    )
    assert f'hx-post="/workspaces/{made["id"]}/undelete"' in answer.text


async def test_the_button_that_keeps_it_awake_names_the_time_after_which_it_then_sleeps(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo", standby_ttl_seconds=3000)
    await site.arrives(ann, made["id"], "RUNNING")
    place = f"/workspaces/{made['id']}"
    for page in ("/", place):
        assert "Keep awake 1 h 50 min" in (await ann.get(page)).text
    asked_at = datetime.now(UTC)
    await post(ann, site, f"{place}/keep_awake")
    answered_at = datetime.now(UTC)
    sleeps_at = datetime.fromisoformat((await ann.get(f"{API}{place}")).json()["sleeps_at"])
    assert asked_at <= sleeps_at - timedelta(hours=1, minutes=50) <= answered_at
    again = await post(ann, site, f"{place}/keep_awake", PARTIAL)
    assert "Keep awake 1 h 50 min" in again.text, "the button is still there"
    await ann.post(f"{API}{place}:keep_awake", json={"seconds": 43_200})
    for page in ("/", place):  # to keep it awake for less would change nothing
        assert "Keep awake" not in (await ann.get(page)).text


async def test_a_refusal_says_why_and_shows_what_is_true(site: Site) -> None:
    ann = await site.browser("ann")
    first, second = await create(ann, "one"), await create(ann, "two")
    resting = await create(ann, "resting", desired_state="STANDBY")
    for made in (first, second):
        await site.arrives(ann, made["id"], "RUNNING")
    await site.arrives(ann, resting["id"], "STANDBY")
    headers = {**PARTIAL, "HX-Target": f"ws-{resting['id']}"}
    answer = await post(ann, site, f"/workspaces/{resting['id']}/start", headers)
    assert answer.status_code == 429
    assert "You can run 2 at a time" in answer.text
    assert "Asleep" in answer.text
    plain = await post(ann, site, f"/workspaces/{resting['id']}/start")
    assert (plain.status_code, "You can run 2 at a time" in plain.text) == (429, True)


async def test_at_the_limit_what_has_a_problem_is_named_as_such(site: Site) -> None:
    ann = await site.browser("ann")
    first, second = [await create(ann, name) for name in ("fine", "crashy")]
    resting = await create(ann, "resting", desired_state="STANDBY")
    for made in (first, second):
        await site.arrives(ann, made["id"], "RUNNING")
    await site.arrives(ann, resting["id"], "STANDBY")
    start = f"/workspaces/{resting['id']}/start"
    site.storage.lose_volume(UUID(second["id"]))  # its IDE is still there, so it still counts
    await site.arrives(ann, second["id"], "ERROR")
    text = (await post(ann, site, start, PARTIAL)).text
    assert "Running now: fine. Put one to sleep first" in text
    assert "“crashy” takes a place and has a problem: recover or delete it." in text
    site.storage.lose_volume(UUID(first["id"]))
    await site.arrives(ann, first["id"], "ERROR")
    text = (await post(ann, site, start, PARTIAL)).text
    assert "You can run 2 at a time. “" in text
    assert "Put one to sleep" not in text


async def test_lost_files_are_explained_and_a_loss_takes_a_tick(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo")
    place = f"/workspaces/{made['id']}"
    await site.arrives(ann, made["id"], "RUNNING")
    await post(ann, site, f"{place}/stop")
    await site.arrives(ann, made["id"], "STANDBY")
    site.storage.lose_volume(UUID(made["id"]))
    broken = await site.arrives(ann, made["id"], "ERROR")
    page = (await ann.get(place)).text
    assert "Files are missing" in page
    assert "I understand that these files are then gone for good" in page
    assert "What happened?" in (await ann.get("/")).text
    korean = (await ann.get(place, headers={"Accept-Language": "ko"})).text
    assert "파일이 없어졌습니다" in korean
    await post(ann, site, f"{place}/recover")
    again = broken
    async with asyncio.timeout(PATIENCE_S):
        while again["error"]["occurred_at"] <= broken["error"]["occurred_at"]:
            again = await site.arrives(ann, made["id"], "ERROR")
    await post(ann, site, f"{place}/recover", accept_loss="yes")
    await site.arrives(ann, made["id"], "STANDBY")


async def test_a_newer_archive_than_the_database_names_is_offered_and_taken(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo", desired_state="ARCHIVED")
    place, workspace_id = f"/workspaces/{made['id']}", UUID(made["id"])
    await site.arrives(ann, made["id"], "ARCHIVED")
    (archive,) = await site.storage.list_archives()
    newer = archive.modified_at + timedelta(seconds=1)
    site.storage.put_archive(f"{workspace_id}/{uuid4()}/home.tar.zst", {"notes": b"mine"}, newer)
    await post(ann, site, f"{place}/start")
    await site.arrives(ann, made["id"], "ERROR")
    assert "A newer archive is there" in (await ann.get(place)).text
    korean = (await ann.get(place, headers={"Accept-Language": "ko"})).text
    assert "더 새로운 보관본이 있습니다" in korean
    assert "데이터베이스가 가리키는 것보다 새로운 보관본" in korean
    await post(ann, site, f"{place}/recover", choice="newest")
    await site.arrives(ann, made["id"], "RUNNING")
    assert site.storage.files(workspace_id) == {"notes": b"mine"}


async def test_rows_are_answered_as_they_are_now_and_what_fits_no_more_is_left_out(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo", desired_state="PENDING")
    asked = f"/rows?id={made['id']}&id=nonsense"
    assert f'id="ws-{made["id"]}"' in (await ann.get(asked)).text
    assert f'id="ws-{made["id"]}"' in (await ann.get(asked + "&q=DEM&phase=PENDING")).text
    assert "ws-" not in (await ann.get(asked + "&q=else")).text
    assert "ws-" not in (await ann.get(asked + "&phase=RUNNING")).text


async def test_a_button_of_what_is_gone_says_so_and_its_row_goes(site: Site) -> None:
    ann, bob = await site.browser("ann"), await site.browser("bob")
    made = await create(ann, "demo", desired_state="PENDING")
    place = f"/workspaces/{made['id']}"
    others = await post(bob, site, f"{place}/start", {**PARTIAL, "HX-Target": f"ws-{made['id']}"})
    assert (others.status_code, "This belongs to somebody else." in others.text) == (403, True)
    await post(ann, site, f"{place}/delete")
    await site.arrives(ann, made["id"], "DELETED")
    in_trash = {**PARTIAL, "HX-Target": f"trash-{made['id']}"}
    there = (await ann.get(f"/trash?id={made['id']}&id=x", headers={**PARTIAL, "HX-Target": "rows"})).text
    assert ('id="trash-' in there, "<html" in there) == (True, False)
    assert (
        "trash-"
        not in (await bob.get(f"/trash?id={made['id']}", headers={**PARTIAL, "HX-Target": "rows"})).text
    )
    await ann.delete(f"{API}{place}?purge=true")
    for path, headers in ((place, in_trash), ("/workspaces/none", in_trash), (place, PARTIAL)):
        gone = await post(ann, site, f"{path}/undelete", headers)
        assert (gone.status_code, "This workspace is gone." in gone.text) == (404, True), path
        assert gone.headers["x-codehub-said"] == "yes"
        assert ("<li" in gone.text, "<html" in gone.text) == (False, False)
    assert (
        "trash-"
        not in (await ann.get(f"/trash?id={made['id']}", headers={**PARTIAL, "HX-Target": "rows"})).text
    )
    logs = await ann.get(f"{place}/logs", headers={**PARTIAL, "HX-Target": "logs"})
    assert (logs.status_code, logs.headers["hx-reswap"]) == (404, "none")


async def test_the_output_of_what_sleeps_is_not_waited_for_and_a_remedy_leads_to_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo")
    place = f"/workspaces/{made['id']}"
    await site.arrives(ann, made["id"], "RUNNING")
    assert "started" in (await ann.get(f"{place}/logs")).text
    await post(ann, site, f"{place}/stop")
    await site.arrives(ann, made["id"], "STANDBY")
    assert ">There is output only while it runs.<" in (await ann.get(f"{place}/logs")).text
    site.storage.lose_volume(UUID(made["id"]))
    await site.arrives(ann, made["id"], "ERROR")
    assert "#logs-title" not in (await ann.get(place)).text
    for reason in (ErrorReason.CRASH_LOOP, ErrorReason.TIMEOUT):
        monkeypatch.setattr(detail, "remedy_text", lambda _, language, why=reason: remedy_text(why, language))
        for language, label in (("en", "IDE&#39;s output"), ("ko", "IDE 출력")):
            page = (await ann.get(place, headers={"Accept-Language": language})).text
            assert f'<a href="#logs-title">{label}</a>' in page


async def test_a_long_list_comes_in_pages(site: Site) -> None:
    ann = await site.browser("ann")
    for number in range(55):
        await create(ann, f"ws-{number:02}", desired_state="PENDING")
    first = (await ann.get("/")).text
    assert len(re.findall('<li class="row"', first)) == 50
    more = re.findall(r'hx-get="(/\?cursor=[^"]+)"', first)[0]
    rest = (await ann.get(more, headers={**PARTIAL, "HX-Target": "more"})).text
    assert len(re.findall('<li class="row"', rest)) == 5
    assert "<html" not in rest
    answer = await ann.get("/?q=ws-07&phase=", headers={**PARTIAL, "HX-Target": "list"})
    assert len(re.findall('<li class="row"', answer.text)) == 1
    assert answer.headers["hx-replace-url"] == "/?q=ws-07"


async def test_a_token_is_shown_once_and_the_password_can_be_changed(site: Site) -> None:
    ann = await site.browser("ann")
    made = await post(ann, site, "/account/tokens", name="ci", scope="read", expires_in_seconds="604800")
    assert made.status_code == 201
    word = re.findall(r"cht_[\w-]+", made.text)[0]
    again = (await ann.get("/account")).text
    assert word not in again
    assert (await ann.get(f"{API}/session", headers={"Authorization": f"Bearer {word}"})).status_code == 200
    token_id = re.findall(r"/account/tokens/([\w-]+)/delete", again)[0]
    assert "Never expires" not in again
    asked = await post(ann, site, f"/account/tokens/{token_id}/delete")
    assert "Delete the token “ci”?" in asked.text
    yes = answered_yes(asked)
    assert (await post(ann, site, f"/account/tokens/{token_id}/delete", **yes)).status_code == 303
    assert (await post(ann, site, f"/account/tokens/{token_id}/delete", **yes)).status_code == 404
    assert (await post(ann, site, "/account/tokens", name=" ", scope="read")).status_code == 422
    for old, new, again, status in (
        ("wrong", "another horse", "another horse", 403),
        (PASSWORD, "short", "short", 422),
        (PASSWORD, "another horse", "another house", 422),
    ):
        refused = await post(ann, site, "/account/password", old=old, new=new, again=again)
        assert (refused.status_code, "The two are not the same." in refused.text) == (status, new != again)
    changed = await post(
        ann, site, "/account/password", old=PASSWORD, new="another horse", again="another horse"
    )
    assert "Your password is changed" in changed.text


async def test_a_pin_is_set_and_taken_from_the_menu_of_a_row_and_shown(site: Site) -> None:
    ann = await site.browser("ann")
    older, newer = [await create(ann, name, desired_state="PENDING") for name in ("older", "newer")]
    place = f"/workspaces/{older['id']}"

    async def listed() -> list[str]:
        return re.findall(r'id="n-([^"]+)"', (await ann.get("/")).text)

    assert await listed() == [newer["id"], older["id"]]
    row = {**PARTIAL, "HX-Target": f"ws-{older['id']}"}
    pinned = await post(ann, site, f"{place}/pin", row)
    assert "stays at the top of the list" in pinned.text
    assert f'formaction="{place}/unpin"' in pinned.text
    assert 'class="pinned" title="Pinned"' in pinned.text
    assert await listed() == [older["id"], newer["id"]]
    (event, *_) = (await ann.get(f"{API}/workspaces/{older['id']}/events")).json()["items"]
    assert (event["kind"], event["reason"], event["message"]) == ("wish", "AskedToPin", "Asked to pin it.")
    unpinned = await post(ann, site, f"{place}/unpin", row)
    assert 'class="pinned"' not in unpinned.text
    assert await listed() == [newer["id"], older["id"]]
    assert (await post(ann, site, f"{place}/pin")).status_code == 303, "without scripts, too"
    assert await listed() == [older["id"], newer["id"]]
