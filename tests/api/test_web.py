"""What the web application answers, whoever asks."""

from collections.abc import AsyncIterator

import pytest
from httpx import AsyncClient
from tests.support.site import WATCHES, open_site
from tests.support.stores import memory_world

from codehub.core.access import Role
from codehub.web.dependencies import NotReady


async def fine() -> None:
    return None


async def broken() -> None:
    raise ConnectionError(_WHY)


async def marked() -> None:
    raise NotReady("the mark is missing")


_WHY = "password authentication failed for user codehub at db.internal"
STRANGER = "it does not answer: the log says why, and admins are told"
CHECKS = {"database": fine, "store": broken, "docker": marked}


@pytest.fixture
async def client() -> AsyncIterator[AsyncClient]:
    async with open_site(memory_world(), checks=CHECKS) as site:

        async def explode() -> None:
            raise RuntimeError("a secret detail")

        site.web.app.add_api_route("/explode", explode)
        async with site.anybody() as opened:
            yield opened


async def test_readyz_names_what_is_not_ready_and_tells_admins_alone_what_others_programs_said() -> None:
    async with open_site(memory_world(), checks=CHECKS) as site:
        admin, ann = await site.browser("root", Role.ADMIN), await site.browser("ann")
        async with site.anybody() as stranger:
            for asking, why, headers in (
                (stranger, STRANGER, {}),
                (ann, STRANGER, {}),
                (admin, _WHY, {}),
                (stranger, _WHY, WATCHES),
            ):
                answer = await asking.get("/readyz", headers=headers)
                assert answer.status_code == 503
                checks = {"database": "ok", "store": why, "docker": "the mark is missing"}
                assert answer.json() == {"ready": False, "checks": checks}
        await site.clients.aclose()


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "NOT_FOUND"),
        ("POST", "/healthz", 405, "INVALID_REQUEST"),
        ("GET", "/explode", 500, "INTERNAL_ERROR"),
        ("POST", "/api/v1/workspaces/x:dance", 404, "NOT_FOUND"),
        ("GET", "/api/v1/workspaces/x:dance", 404, "NOT_FOUND"),
        ("PUT", "/api/v1/workspaces/x:start", 405, "INVALID_REQUEST"),
    ],
)
async def test_errors_have_one_shape(
    client: AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    assert set(answer.json()["error"]) == {"code", "message", "details"}
    assert answer.json()["error"]["message"].endswith("."), "a sentence of ours, not the framework's"
    assert "secret detail" not in answer.text


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/api/v1/workspaces", "GET, POST"),
        ("/api/v1/workspaces/x", "DELETE, GET, PATCH"),
        ("/api/v1/workspaces/x:start", "POST"),
        ("/healthz", "GET, HEAD"),
    ],
)
async def test_the_methods_that_a_path_allows_are_named_completely(
    client: AsyncClient, path: str, methods: str
) -> None:
    for method in {"GET", "PUT", "PATCH", "DELETE"} - {*methods.split(", ")}:
        answer = await client.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, methods), method


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/readyz", 503)])
async def test_a_probe_may_ask_for_the_head_alone(client: AsyncClient, path: str, status: int) -> None:
    answer = await client.head(path)
    assert (answer.status_code, answer.content) == (status, b"")


@pytest.mark.parametrize("path", ["/healthz/", "/api/v1/session/", "/api/v1/workspaces/"])
async def test_a_path_with_an_extra_slash_is_404(client: AsyncClient, path: str) -> None:
    answer = await client.get(path, headers={"Host": "evil.example"})
    assert (answer.status_code, "location" in answer.headers) == (404, False)


async def test_every_answer_has_a_request_id(client: AsyncClient) -> None:
    ids = [
        (await client.get(path)).headers["x-request-id"]
        for path in ("/", "/healthz", "/nothing", "/readyz", "/explode")
    ]
    assert len(set(ids)) == 5


@pytest.mark.parametrize(
    ("request_id", "is_kept"),
    [("abc-123.X_y", True), ("x" * 65, False), ("a b", False), ("a\tb", False), ("", False)],
)
async def test_a_plain_request_id_is_kept_and_any_other_replaced(
    client: AsyncClient, request_id: str, is_kept: bool
) -> None:
    answer = await client.get("/healthz", headers={"X-Request-Id": request_id})
    assert (answer.headers["x-request-id"] == request_id) is is_kept
