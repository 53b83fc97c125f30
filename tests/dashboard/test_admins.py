"""What an admin's buttons do: people, health, and what a dead backend holds up."""

import pytest
from tests.support.forms import answered_yes, post
from tests.support.patience import ask_until, until
from tests.support.site import API, PASSWORD, Site, create

from codehub.core.access import Role
from codehub.ports.backends import BackendUnreachable


async def test_admins_manage_people_and_never_lock_themselves_out(site: Site) -> None:
    root = await site.browser("root", Role.ADMIN)
    assert (
        await post(root, site, "/admin/users", username="bob", password=PASSWORD, role="member")
    ).status_code == 303
    assert (
        await post(root, site, "/admin/users", username="bob", password=PASSWORD, role="member")
    ).status_code == 409
    assert (
        await post(root, site, "/admin/users", username="b b", password="x", role="member")
    ).status_code == 422
    people = {user.username: user for user in await site.parts.access.users()}
    bob, me = f"/admin/users/{people['bob'].id}", f"/admin/users/{people['root'].id}"
    assert (await post(root, site, bob, role="admin")).status_code == 303
    assert (await post(root, site, bob, role="member", sure="yes")).status_code == 303
    assert (await post(root, site, bob, password="short")).status_code == 422
    assert (await post(root, site, bob, password="another horse")).status_code == 303
    assert (await post(root, site, bob, disabled="yes", sure="yes")).status_code == 303
    last = await post(root, site, me, role="member", sure="yes")
    assert (last.status_code, "This is the last admin" in last.text) == (409, True)
    assert (await post(root, site, "/admin/users/none", role="member")).status_code == 404
    page = (await root.get("/admin/users")).text
    assert "disabled" in page


async def test_disabling_or_demoting_a_person_asks_first_and_can_be_undone(site: Site) -> None:
    """Without scripts too: a question comes first, what was done is said, and one button undoes it."""
    root, bobs = await site.browser("root", Role.ADMIN), await site.browser("bob", Role.ADMIN)
    people = {user.username: user for user in await site.parts.access.users()}
    bob, me = (f"/admin/users/{people[name].id}" for name in ("bob", "root"))
    for slip, notice, undo in (
        ({"disabled": "yes"}, "bob is disabled", {"disabled": "no"}),
        ({"role": "member"}, "bob is a member now", {"role": "admin"}),
    ):
        question = await post(root, site, bob, **slip)
        assert "An admin can undo this with" in question.text
        assert (await bobs.get("/admin/users")).status_code == 200, "a question alone does nothing"
        answer = await post(root, site, bob, **answered_yes(question))
        page = (await root.get(answer.headers["location"])).text
        assert notice in page
        ((field, value),) = undo.items()
        assert f'action="{bob}"><input type="hidden" name="{field}" value="{value}">' in page
        await post(root, site, bob, **undo)
        assert notice not in (await root.get(answer.headers["location"])).text, (
            "it is said only while it is so"
        )
        bobs = await site.browser("bob")
        assert (await bobs.get("/admin/users")).status_code == 200
    oneself = await post(root, site, me, disabled="yes", sure="yes")
    assert (oneself.status_code, "You can&#39;t disable yourself" in oneself.text) == (409, True)
    users_page = (await root.get("/admin/users")).text
    assert users_page.count('name="disabled"') == 1, "there is no button for oneself"
    resigned = await post(root, site, me, role="member", sure="yes")
    assert (resigned.status_code, resigned.headers["location"]) == (303, "/")


async def test_an_admin_sees_and_ends_a_user_s_sessions_and_tokens(site: Site) -> None:
    admin, ann = await site.browser("root", Role.ADMIN), await site.browser("ann")
    creation = await ann.post(f"{API}/tokens", json={"name": "<b>ci</b>", "scope": "read"})
    user_id = (await site.user("ann")).id
    place = f"/admin/users/{user_id}/keys"
    assert place in (await admin.get("/admin/users")).text
    page = (await admin.get(place)).text
    assert "&lt;b&gt;ci&lt;/b&gt;" in page
    assert "Signed in, in a browser" in page
    assert creation.json()["token"] not in page
    assert (await ann.get(place)).status_code == 403
    question = await post(admin, site, place)
    assert "End every session and token of ann?" in question.text
    assert (await ann.get(f"{API}/session")).status_code == 200
    answer = await post(admin, site, place, sure="yes")
    assert (answer.status_code, answer.headers["location"]) == (303, place)
    assert (await ann.get(f"{API}/session")).status_code == 401
    assert "ann is signed in nowhere and has no tokens." in (await admin.get(place)).text
    for unknown in ("x", "00000000-0000-0000-0000-000000000000"):
        assert (await admin.get(f"/admin/users/{unknown}/keys")).status_code == 404
    own = f"/admin/users/{(await site.user('root')).id}/keys"
    assert (await post(admin, site, own, sure="yes")).headers["location"] == "/login"
    assert (await admin.get("/admin/users")).status_code == 303


async def test_health_says_what_does_not_answer(site: Site) -> None:
    async def away() -> None:
        raise ConnectionError("no route to the docker engine")

    async def fine() -> None:
        return None

    root = await site.browser("root", Role.ADMIN)
    await until(site.parts.store.members)
    assert "Everything answers" in (await root.get("/admin/health")).text
    object.__setattr__(site.parts, "backends", {"local-docker": away, "local-dir": fine})
    page = (await root.get("/admin/health")).text
    assert "Something does not answer" in page
    assert "no route to the docker engine" in page
    assert "codehub doctor" in page
    assert "Controllers" in page


async def test_an_admin_alone_is_offered_to_forget_what_a_dead_backend_holds_up(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, root = await site.browser("ann"), await site.browser("root", Role.ADMIN)
    workspace = await create(ann)
    await site.arrives(ann, workspace["id"], "RUNNING")
    page = f"/workspaces/{workspace['id']}"

    async def away(*_: object) -> None:
        raise BackendUnreachable("the engine is away")

    monkeypatch.setattr(site.instances, "list_all", away)
    monkeypatch.setattr(site.instances, "status", away)
    await post(ann, site, f"{page}/delete", back=page)
    await ask_until(lambda: root.get(page), lambda answer: f"{page}/forget" in answer.text)
    assert f"{page}/forget" not in (await ann.get(page)).text
    assert (await post(ann, site, f"{page}/forget")).status_code == 403
    assert "a look at its IDE: the backend does not answer" in (await root.get(page)).text
    question = await post(root, site, f"{page}/forget", back="/admin/workspaces")
    assert (await post(root, site, f"{page}/forget", **answered_yes(question))).status_code == 303
    await site.arrives(ann, workspace["id"], "DELETED")
    assert workspace["name"] in (await ann.get("/trash")).text
