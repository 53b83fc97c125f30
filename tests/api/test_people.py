"""People from outside: tokens, users that admins manage, whose workspace it is (security 4, 8, 25)."""

from typing import Any
from uuid import UUID

import pytest
from tests.support.site import API, PASSWORD, Site, create, login

from codehub.core.access import Role, Scope

# Tokens


async def test_a_token_is_shown_once_and_opens_the_api(site: Site) -> None:
    browser = await site.browser("ann")
    creation = await browser.post(
        f"{API}/tokens", json={"name": "ci", "scope": "write", "expires_in_seconds": 3600}
    )
    assert creation.status_code == 201
    assert set(creation.json()) == {"id", "name", "scope", "expires_at", "token"}
    assert creation.json()["token"].startswith("cht_")
    assert creation.json()["expires_at"].endswith("Z")
    (token,) = (await browser.get(f"{API}/tokens")).json()["items"]
    assert "token" not in token
    async with site.anybody(headers={"Authorization": f"Bearer {creation.json()['token']}"}) as program:
        assert (await program.get(f"{API}/session")).json()["user"]["username"] == "ann"
        assert (await browser.delete(f"{API}/tokens/{token['id']}")).status_code == 204
        assert (await program.get(f"{API}/session")).status_code == 401
    assert (await browser.delete(f"{API}/tokens/{token['id']}")).status_code == 404


async def test_a_read_token_changes_nothing(site: Site) -> None:
    reader = await site.program("ann", scope=Scope.READ)
    assert (await reader.get(f"{API}/workspaces")).status_code == 200
    for method, path, body in (
        ("POST", "/workspaces", {"name": "x"}),
        ("POST", "/tokens", {"name": "x", "scope": "write"}),
        ("PUT", "/session/password", {"old": PASSWORD, "new": "a new password"}),
    ):
        answer = await reader.request(method, API + path, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN"), path


@pytest.mark.parametrize(
    "header", ["Bearer cht_wrong", "Bearer", "Basic YW5uOnB3", "Bearer cht_" + "x" * 5000]
)
async def test_a_wrong_authorization_header_is_refused_despite_a_valid_cookie(
    site: Site, header: str
) -> None:
    browser = await site.browser("ann")
    answer = await browser.get(f"{API}/session", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_token_in_a_url_opens_nothing(site: Site) -> None:
    program = await site.program("ann")
    token = program.headers["Authorization"].removeprefix("Bearer ")
    async with site.anybody() as client:
        for name in ("token", "access_token", "codehub_session"):
            assert (await client.get(f"{API}/session", params={name: token})).status_code == 401


# Users


async def test_only_admins_manage_users(site: Site) -> None:
    admin, ann = await site.browser("root", Role.ADMIN), await site.browser("ann")
    assert (await ann.get(f"{API}/users")).status_code == 403
    creation = await admin.post(f"{API}/users", json={"username": "bob", "password": PASSWORD})
    assert (creation.status_code, creation.json()["role"]) == (201, "member")
    taken = await admin.post(f"{API}/users", json={"username": "BOB", "password": PASSWORD})
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "NAME_TAKEN")
    names = [user["username"] for user in (await admin.get(f"{API}/users")).json()["items"]]
    assert {"ann", "bob", "root"} <= set(names)


async def test_a_disabled_user_is_out_at_once_and_can_be_let_in_again(site: Site) -> None:
    admin, ann, program = (
        await site.browser("root", Role.ADMIN),
        await site.browser("ann"),
        await site.program("ann"),
    )
    path = f"{API}/users/{(await site.user('ann')).id}"
    assert (await admin.patch(path, json={"disabled": True})).json()["disabled"] is True
    assert (await ann.get(f"{API}/session")).status_code == 401
    assert (await program.get(f"{API}/session")).status_code == 401
    async with site.anybody() as client:
        assert (await login(client, "ann")).status_code == 401
        await admin.patch(path, json={"disabled": False, "password": "another password"})
        assert (await login(client, "ann", "another password")).status_code == 200


@pytest.mark.parametrize("change", [{"password": "another password"}, {"disabled": True}], ids=str)
async def test_sessions_and_tokens_end_with_a_password_reset_and_with_a_disabled_user(
    site: Site, change: dict[str, Any]
) -> None:
    admin, ann, program = (
        await site.browser("root", Role.ADMIN),
        await site.browser("ann"),
        await site.program("ann"),
    )
    path = f"{API}/users/{(await site.user('ann')).id}"
    keys = (await admin.get(f"{path}/keys")).json()["items"]
    assert [(key["kind"], key["name"], key["scope"]) for key in keys] == [
        ("session", None, "write"),
        ("session", None, "write"),
        ("token", "test", "write"),
    ]
    assert (await admin.patch(path, json=change)).status_code == 200
    await admin.patch(path, json={"disabled": False})
    for client in (ann, program):
        assert (await client.get(f"{API}/session")).status_code == 401
    assert (await admin.get(f"{path}/keys")).json()["items"] == []


async def test_an_admin_ends_anybody_s_keys_and_nobody_else_does(site: Site) -> None:
    admin, ann, program, bob = (
        await site.browser("root", Role.ADMIN),
        await site.browser("ann"),
        await site.program("ann"),
        await site.browser("bob"),
    )
    path = f"{API}/users/{(await site.user('ann')).id}/keys"
    for method in ("GET", "DELETE"):
        for client in (ann, bob):
            assert (await client.request(method, path)).status_code == 403
        unknown = f"{API}/users/00000000-0000-0000-0000-000000000000/keys"
        assert (await admin.request(method, unknown)).status_code == 404
    foreign = {"Origin": "https://evil.example"}
    assert (await admin.delete(path, headers=foreign)).status_code == 403
    assert (await admin.delete(path)).status_code == 204
    assert [(await client.get(f"{API}/session")).status_code for client in (ann, program, bob)] == [
        401,
        401,
        200,
    ]
    async with site.anybody() as client:
        assert (await login(client, "ann")).status_code == 200, "the password is still good"


async def test_a_new_password_ends_the_user_s_tokens_except_the_one_that_changed_it(site: Site) -> None:
    here, program = await site.browser("ann"), await site.program("ann")
    path, new = f"{API}/session/password", "a new password"
    assert (await here.put(path, json={"old": PASSWORD, "new": new})).status_code == 204
    assert (await program.get(f"{API}/session")).status_code == 401
    token = (await here.post(f"{API}/tokens", json={"name": "ci", "scope": "write"})).json()
    async with site.anybody(headers={"Authorization": f"Bearer {token['token']}"}) as client:
        assert (await client.put(path, json={"old": new, "new": PASSWORD})).status_code == 204
        assert (await client.get(f"{API}/session")).status_code == 200
    assert (await here.get(f"{API}/session")).status_code == 401


async def test_the_last_admin_can_not_be_demoted_or_disabled(site: Site) -> None:
    admin = await site.browser("root", Role.ADMIN)
    path = f"{API}/users/{(await site.user('root')).id}"
    for change in ({"role": "member"}, {"disabled": True}):
        answer = await admin.patch(path, json=change)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "INVALID_STATE")
    unknown = await admin.patch(f"{API}/users/00000000-0000-0000-0000-000000000000", json={"role": "member"})
    assert unknown.status_code == 404


@pytest.mark.parametrize(
    "unknown", ["x", "00000000", f"{UUID(int=1).hex}", f"{{{UUID(int=1)}}}", str(UUID(int=1))]
)
async def test_an_id_that_is_nobody_s_is_404(site: Site, unknown: str) -> None:
    admin = await site.browser("root", Role.ADMIN)
    for answer in (
        await admin.patch(f"{API}/users/{unknown}", json={"role": "member"}),
        await admin.delete(f"{API}/tokens/{unknown}"),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("name", ["", "me", "ALL", "a b", "-x", "x" * 65, "ann\n", "ü", "a/b"])
async def test_a_name_that_is_not_allowed_is_refused_with_its_field(site: Site, name: str) -> None:
    admin = await site.browser("root", Role.ADMIN)
    answer = await admin.post(f"{API}/users", json={"username": name, "password": PASSWORD})
    assert answer.status_code == 422
    assert answer.json()["error"]["details"][0]["field"] == "username"


# Whose workspace it is (security 4)


async def test_a_foreign_workspace_is_403_an_unknown_one_404_and_an_admin_may_manage_it(site: Site) -> None:
    ann, bob, admin = (
        await site.browser("ann"),
        await site.browser("bob"),
        await site.browser("root", Role.ADMIN),
    )
    workspace = await create(ann, desired_state="PENDING")
    path = f"{API}/workspaces/{workspace['id']}"
    calls = [
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("GET", "/events"),
        ("GET", "/logs"),
        ("GET", "/explain"),
    ]
    calls += [
        ("POST", f":{word}") for word in ("start", "stop", "archive", "recover", "undelete", "keep_awake")
    ]
    for method, rest in calls:
        body: dict[str, Any] = {"json": {}} if method == "PATCH" else {}
        spoofed = {"X-Forwarded-User": "ann", "X-User-Id": workspace["owner"]["id"]}
        answer = await bob.request(method, path + rest, headers=spoofed, **body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN"), (method, rest)
        for unknown in ("00000000-0000-0000-0000-000000000000", "not-an-id", "%00", "é"):
            missing = await bob.request(method, f"{API}/workspaces/{unknown}{rest}", **body)
            assert missing.status_code == 404, (method, rest, unknown)
            assert missing.json()["error"]["code"] == "WORKSPACE_NOT_FOUND"
    assert (await admin.get(path)).json()["owner"]["username"] == "ann"
    assert (await admin.patch(path, json={"memo": "by admin"})).status_code == 200


async def test_only_admins_list_others_workspaces(site: Site) -> None:
    ann, bob, admin = (
        await site.browser("ann"),
        await site.browser("bob"),
        await site.browser("root", Role.ADMIN),
    )
    await create(ann, "hers", desired_state="PENDING")
    assert (await bob.get(f"{API}/workspaces")).json()["items"] == []
    for owner in ("ann", "ANN", "Me"):
        (item,) = (await ann.get(f"{API}/workspaces", params={"owner": owner})).json()["items"]
        assert item["name"] == "hers"
    for owner in ("all", "ann", "nobody"):
        assert (await bob.get(f"{API}/workspaces", params={"owner": owner})).status_code == 403
    for owner in ("all", "ANN"):
        (item,) = (await admin.get(f"{API}/workspaces", params={"owner": owner})).json()["items"]
        assert item["name"] == "hers"
    assert (await admin.get(f"{API}/workspaces", params={"owner": "nobody"})).status_code == 404
