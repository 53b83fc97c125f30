"""The form that changes a workspace: what somebody changed on it is
saved, and nothing else, whoever else changes it meanwhile.
"""

import re
from typing import Any
from uuid import UUID

import pytest
from tests.support.forms import drawn_fields, post
from tests.support.site import API, Site, create

from codehub.core.access import Role
from codehub.core.messages import Code, Message
from codehub.ports.store import Ruled


async def test_settings_are_saved_and_a_wrong_or_taken_field_is_named(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo", desired_state="PENDING")
    place = f"/workspaces/{made['id']}/settings"
    fields = drawn_fields((await ann.get(place)).text)
    changed = {"name": "renamed", "standby_ttl_seconds": "900", "archive_ttl_seconds": "never"}
    assert (await post(ann, site, place, **{**fields, **changed})).status_code == 303
    shown = (await ann.get(f"{API}/workspaces/{made['id']}")).json()
    assert (shown["name"], shown["standby_ttl_seconds"], shown["archive_ttl_seconds"]) == (
        "renamed",
        900,
        None,
    )
    fields = drawn_fields((await ann.get(place)).text)
    wrong = await post(ann, site, place, **{**fields, "name": " ", "description": "kept"})
    assert (wrong.status_code, 'id="wrong-name"' in wrong.text) == (422, True)
    assert drawn_fields(wrong.text) == {**fields, "name": " ", "description": "kept"}
    await create(ann, "other", desired_state="PENDING")
    taken = await post(ann, site, place, **{**fields, "name": "other"})
    assert (taken.status_code, 'name="name" value="other"' in taken.text) == (409, True)


async def test_what_is_switched_off_and_on_is_told_by_the_api(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo", desired_state="PENDING")
    place, api = f"/workspaces/{made['id']}/settings", f"{API}/workspaces/{made['id']}"
    for name, at_first in (("tab_script", "yes"), ("cross_port_access", "no")):
        assert drawn_fields((await ann.get("/new")).text)[name] == at_first
        for chosen, shown in (("no", False), ("yes", True)):
            fields = drawn_fields((await ann.get(place)).text)
            assert (await post(ann, site, place, **{**fields, name: chosen})).status_code == 303
            assert (await ann.get(api)).json()[name] is shown
        fields = drawn_fields((await ann.get(place)).text)
        wrong = await post(ann, site, place, **{**fields, name: "perhaps"})
        assert (wrong.status_code, f'id="wrong-{name}"' in wrong.text) == (422, True)


async def test_two_who_change_other_settings_at_once_both_have_theirs(site: Site) -> None:
    ann, root = await site.browser("ann"), await site.browser("root", Role.ADMIN)
    made = await create(ann, "demo", desired_state="PENDING", description="two\nlines")
    place = f"/workspaces/{made['id']}/settings"
    hers, theirs = [drawn_fields((await client.get(place)).text) for client in (ann, root)]
    # A field of one line has no line break in a browser, and each that is hidden is sent with two characters.
    hers |= {"description": "twolines", "was.description": "two\r\nlines"}
    for changed in ({"memory_mb": "4096"}, {"ide": "http", "standby_ttl_seconds": "never"}):
        assert (await post(root, site, place, **{**theirs, **changed})).status_code == 303
    await ann.post(
        f"{API}/workspaces/{made['id']}:archive"
    )  # a wish is nothing that the form could overwrite
    assert (await post(ann, site, place, **{**hers, "pids": "99", "name": "hers"})).status_code == 303
    shown = (await ann.get(f"{API}/workspaces/{made['id']}")).json()
    assert (shown["name"], shown["ide"], shown["description"]) == ("hers", "http", "two\nlines")
    assert shown["resources"] == {"memory_mb": 4096, "cpus": 2.0, "pids": 99, "disk_mb": 20_480}
    assert (shown["standby_ttl_seconds"], shown["archive_ttl_seconds"]) == (None, 86_400)


async def test_whoever_changes_what_somebody_else_changed_too_is_asked_and_loses_nothing_typed(
    site: Site,
) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo", desired_state="PENDING")
    place, api = f"/workspaces/{made['id']}/settings", f"{API}/workspaces/{made['id']}"
    drawn = drawn_fields((await ann.get(place)).text)
    await ann.patch(api, json={"description": "theirs", "ide": "http", "standby_ttl_seconds": 900})
    mine = {"description": "mine", "ide": "http", "pids": "99"}
    asked = await post(ann, site, place, **{**drawn, **mine})
    assert (asked.status_code, "Somebody changed it meanwhile" in asked.text) == (409, True)
    assert re.findall(r"Stored now: ([^<]+)", asked.text) == ["theirs"]
    again = drawn_fields(asked.text)
    assert {name: again[name] for name in mine} == mine, "what was typed is kept"
    assert again["standby_ttl_seconds"] == "900", "what was not touched is as it is stored"
    assert (await ann.get(api)).json()["resources"]["pids"] == 1024, "nothing is saved yet"
    assert (await post(ann, site, place, **again)).status_code == 303
    shown = (await ann.get(api)).json()
    assert (shown["description"], shown["resources"]["pids"], shown["standby_ttl_seconds"]) == (
        "mine",
        99,
        900,
    )


async def test_whoever_saves_in_the_moment_in_which_somebody_else_does_is_asked(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo", desired_state="PENDING")
    place, api = f"/workspaces/{made['id']}/settings", f"{API}/workspaces/{made['id']}"
    drawn = drawn_fields((await ann.get(place)).text)
    change = site.parts.workspaces.change

    async def late(*args: Any, **options: Any) -> Ruled:
        monkeypatch.undo()
        await ann.patch(api, json={"description": "theirs"})
        return await change(*args, **options)

    monkeypatch.setattr(site.parts.workspaces, "change", late)
    asked = await post(ann, site, place, **{**drawn, "description": "mine"})
    assert (asked.status_code, re.findall(r"Stored now: ([^<]+)", asked.text)) == (409, ["theirs"])
    assert (await ann.get(api)).json()["description"] == "theirs"
    assert drawn_fields(asked.text)["description"] == "mine"


async def test_saving_says_so_and_the_history_names_what_was_changed_and_nothing_else(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo", desired_state="PENDING")
    place = f"/workspaces/{made['id']}"
    fields = drawn_fields((await ann.get(f"{place}/settings")).text)
    changed = {"standby_ttl_seconds": "900", "description": "new words"}
    saved = await post(ann, site, f"{place}/settings", **{**fields, **changed})
    page = (await ann.get(saved.headers["location"])).text
    assert '<p class="said" role="status">Saved.</p>' in page
    assert "Changed: Description, Sleep after<" in page
    assert "Saved." not in (await ann.get(place)).text
    korean = (await ann.get(place, headers={"Accept-Language": "ko"})).text
    assert "변경한 항목: 설명, 잠들기까지<" in korean
    (recorded,) = await site.parts.store.history(UUID(made["id"]), limit=1)
    asked = Message(Code.ASKED_TO_CHANGE, {"fields": ["description", "standby_ttl_seconds"]})
    assert recorded.event.reason == asked


async def test_the_form_says_the_bounds_and_what_is_above_one_is_told_with_it(site: Site) -> None:
    ann = await site.browser("ann")
    form = (await ann.get("/new")).text
    assert "At most 16384 here." in form
    assert 'name="disk_mb"' in form
    refused = await post(ann, site, "/new", name="greedy", memory_mb="1048576")
    assert refused.status_code == 422
    assert "One workspace can have at most 16384 MB of memory here." in refused.text
    assert 'value="1048576"' in refused.text


async def test_notes_are_written_on_the_form_and_read_on_the_page(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo", desired_state="PENDING")
    place = f"/workspaces/{made['id']}/settings"
    fields = drawn_fields((await ann.get(place)).text)
    assert fields["memo"] == ""
    # A browser sends the line breaks of a text as two characters.
    await post(ann, site, place, **{**fields, "memo": "first <line>\r\n\r\nsecond"})
    shown = (await ann.get(f"{API}/workspaces/{made['id']}")).json()
    assert (shown["memo"], shown["revision"]) == ("first <line>\n\nsecond", 2)
    assert "first &lt;line&gt;\n\nsecond" in (await ann.get(f"/workspaces/{made['id']}")).text
    fields = drawn_fields((await ann.get(place)).text)
    untouched = {**fields, "memo": fields["memo"].replace("\n", "\r\n")}
    await post(ann, site, place, **untouched)
    assert (await ann.get(f"{API}/workspaces/{made['id']}")).json()["revision"] == 2
    await post(ann, site, place, **{**fields, "memo": " "})
    assert (await ann.get(f"{API}/workspaces/{made['id']}")).json()["memo"] is None


async def test_a_language_is_chosen_for_the_browser_and_given_back_to_it(site: Site) -> None:
    ann = await site.browser("ann")
    in_english, in_korean = {"Accept-Language": "en"}, {"Accept-Language": "ko"}
    page = (await ann.get("/account", headers=in_english)).text
    assert '<option value="ko" lang="ko">한국어</option>' in page
    chosen = await post(ann, site, "/account/language", language="ko")
    assert (chosen.status_code, chosen.headers["location"]) == (303, "/account")
    assert "HttpOnly" in chosen.headers["set-cookie"]
    page = (await ann.get("/account", headers=in_english)).text
    assert '<html lang="ko"' in page
    assert '<option value="ko" lang="ko" selected>한국어</option>' in page
    await post(ann, site, "/account/language", language="en")
    assert '<html lang="en"' in (await ann.get("/", headers=in_korean)).text
    await post(ann, site, "/account/language", language="")
    assert '<html lang="ko"' in (await ann.get("/", headers=in_korean)).text


async def test_a_language_that_codehub_does_not_speak_is_as_if_none_were_chosen(site: Site) -> None:
    ann = await site.browser("ann")
    ann.cookies.set("codehub_language", "xx")
    assert '<html lang="ko"' in (await ann.get("/", headers={"Accept-Language": "ko"})).text
    await post(ann, site, "/account/language", language="../../etc")
    assert '<html lang="en"' in (await ann.get("/", headers={"Accept-Language": "en"})).text
