"""The script on its way into a page, over raw sockets, and what it asks for."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.proxy.sockets import PRINT, QUIET, Uses, counts, frame, socket, socket_server, synced
from tests.support.edge import Handler, Talk, until
from tests.support.hub import BOBS, COOKIE, NAVIGATION, ORIGIN, READS, SESSION, Hub, hub

from codehub.adapters.memory.credentials import MemoryCredentials
from codehub.adapters.system.machine import SystemClock
from codehub.core.amendments import By
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.core.origins import WorkspaceOrigins
from codehub.core.workspace import Workspace
from codehub.proxy.policy.activity import Activity
from codehub.proxy.policy.database_time import DatabaseTime
from codehub.proxy.policy.tab import BODY, TabInserter, script_tag
from codehub.text import LANGUAGES

PAGE = b"<!doctype html><html><head><title>An IDE</title></head><body>" + b"x" * 100 + b"</body></html>"
HTML = "Content-Type: text/html; charset=utf-8"
SENT_BYTES_MAX = 6 * 1024
POST = (*QUIET, f"Origin: {ORIGIN}", "Accept: application/json")


def with_script(row: Workspace, page: bytes = PAGE) -> bytes:
    return page.replace(b"<head>", b"<head>" + script_tag(f"/w/{row.id}"), 1)


def sized(page: bytes, *lines: str, status: str = "200 OK") -> bytes:
    head = (f"HTTP/1.1 {status}", *lines, f"Content-Length: {len(page)}", "", "")
    return "\r\n".join(head).encode() + page


def chunked(page: bytes, *lines: str, size: int) -> bytes:
    head = ("HTTP/1.1 200 OK", *lines, "Transfer-Encoding: chunked", "", "")
    parts = (page[at : at + size] for at in range(0, len(page), size))
    return (
        "\r\n".join(head).encode()
        + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        + b"0\r\n\r\n"
    )


@asynccontextmanager
async def serving(
    *answers: bytes, pieces: int = 1 << 20, origins: WorkspaceOrigins | None = None
) -> AsyncIterator[tuple[Hub, Activity, Uses, list[str]]]:
    """A workspace's server that gives one answer after another, in pieces of so many bytes."""

    async def handler(talk: Talk) -> None:
        for answer in answers:
            await talk.head()
            for at in range(0, len(answer), pieces):
                await talk.send(answer[at : at + pieces])

    async with watched(handler, origins) as (made, activity, uses, outcomes):
        yield made, activity, uses, outcomes


@asynccontextmanager
async def watched(
    handler: Handler, origins: WorkspaceOrigins | None = None
) -> AsyncIterator[tuple[Hub, Activity, Uses, list[str]]]:
    outcomes: list[str] = []
    uses, time = Uses(), DatabaseTime()
    activity = Activity(uses, MemoryCredentials(), time, clock=SystemClock(), flush_s=0.0)
    async with hub(
        handler,
        monitor_of=activity.monitor,
        inserter_of=lambda row: TabInserter(row, outcomes.append),
        time=time,
        origins=origins,
    ) as made:
        yield made, activity, uses, outcomes


async def body_of(talk: Talk, head: bytes) -> bytes:
    if b"Transfer-Encoding: chunked" not in head:
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        return await talk.exactly(int(length.partition(b":")[2]))
    body = b""
    while size := int(await talk.until_text(b"\r\n"), 16):
        body += (await talk.exactly(size + 2))[:-2]
    assert await talk.exactly(2) == b"\r\n"
    return body


async def ask(made: Hub, path: str, *lines: str) -> tuple[bytes, bytes]:
    """Ask for a page twice on one connection, as a browser might; return the first head and body."""
    talk = await made.connect()
    raw = "\r\n".join((f"GET {path} HTTP/1.1", "Host: hub.test", COOKIE, *lines, "", "")).encode()
    await talk.send(raw)
    head = await talk.head()
    body = await body_of(talk, head)
    await talk.close()
    return head, body


@pytest.mark.parametrize("pieces", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    "answer",
    [
        lambda page: sized(page, HTML),
        lambda page: chunked(page, HTML, size=1 << 20),
        lambda page: chunked(page, HTML, size=5),
    ],
    ids=["sized", "one-chunk", "small-chunks"],
)
async def test_a_page_gets_it_however_it_comes(answer: Callable[[bytes], bytes], pieces: int) -> None:
    page = PAGE if pieces > 1 else b"<html><head></head>"
    async with serving(answer(page), answer(page), pieces=pieces) as (made, _, _, outcomes):
        row = await made.workspace()
        for _ in range(2):
            head, body = await ask(made, f"/w/{row.id}/", *NAVIGATION)
            assert body == with_script(row, page)
            assert b"Content-Length" not in head
        assert outcomes == ["inserted"] * 2


async def test_a_page_after_it_on_the_same_connection_is_whole() -> None:
    async with serving(sized(PAGE, HTML), sized(b"plain", "Content-Type: text/plain")) as (made, _, _, _):
        row = await made.workspace()
        talk = await made.connect()
        for path, wanted in (("/", with_script(row)), ("/x", b"plain")):
            lines = (f"GET /w/{row.id}{path} HTTP/1.1", "Host: hub.test", COOKIE, *NAVIGATION, "", "")
            await talk.send("\r\n".join(lines).encode())
            assert await body_of(talk, await talk.head()) == wanted
        await talk.close()


async def test_a_large_page_streams_on_behind_it() -> None:
    page = PAGE + b"y" * 3_000_000
    async with serving(sized(page, HTML)) as (made, _, _, _):
        row = await made.workspace()
        _, body = await ask(made, f"/w/{row.id}/", *NAVIGATION)
        assert body == with_script(row, page)


async def test_its_server_is_asked_for_the_whole_page_as_it_is() -> None:
    lines = ("Accept-Encoding: gzip, br", 'If-None-Match: "x"', "If-Modified-Since: x", "Range: bytes=0-9")
    async with serving(sized(PAGE, HTML), sized(PAGE, HTML)) as (made, _, _, _):
        row = await made.workspace()
        await ask(made, f"/w/{row.id}/", *NAVIGATION, *lines)
        asked = b"".join(made.ide.received).lower()
        assert b"accept-encoding: identity\r\n" in asked
        assert not any(name in asked for name in (b"gzip", b"if-none-match", b"if-modified-since", b"range:"))
        made.ide.received.clear()
        await ask(made, f"/w/{row.id}/", *QUIET, *lines)
        asked = b"".join(made.ide.received)
        assert all(line.encode() in asked for line in lines), "nothing else is asked otherwise"


async def test_what_was_true_of_the_bytes_as_they_came_is_not_said_of_others() -> None:
    headers = (
        "ETag: x",
        "Last-Modified: x",
        "Content-MD5: x",
        "Digest: x",
        "Content-Digest: x",
        "Repr-Digest: x",
    )
    async with serving(sized(PAGE, HTML, *headers, "Accept-Ranges: bytes", "X-Kept: yes")) as (made, _, _, _):
        row = await made.workspace()
        head, _ = await ask(made, f"/w/{row.id}/", *NAVIGATION)
        assert not any(
            line.partition(":")[0].encode() + b":" in head for line in (*headers, "Accept-Ranges:")
        )
        assert b"X-Kept: yes\r\n" in head
        assert head.count(b"Transfer-Encoding: chunked\r\n") == 1


@pytest.mark.parametrize(
    ("answer", "outcomes"),
    [
        (sized(PAGE, "Content-Type: text/plain"), []),
        (sized(PAGE, HTML, status="404 Not Found"), []),
        (sized(PAGE, HTML, "Content-Range: bytes 0-9/10", status="206 Partial Content"), []),
        (sized(PAGE, HTML, "Content-Encoding: gzip"), ["encoded"]),
        (sized(PAGE, HTML, "Content-Security-Policy: default-src 'none'"), ["policy"]),
        (
            sized(
                PAGE, HTML, "Content-Security-Policy: script-src 'self'", "content-security-policy: sandbox"
            ),
            ["policy"],
        ),
        (sized(b"<p>nothing</p>", HTML), ["no_head"]),
        (sized(b"", HTML), ["no_head"]),
        (
            sized(b"<head><meta http-equiv=content-security-policy content='script-src x'></head>", HTML),
            ["policy"],
        ),
    ],
)
async def test_what_is_no_page_for_it_is_left_alone(answer: bytes, outcomes: list[str]) -> None:
    async with serving(answer) as (made, _, _, seen):
        row = await made.workspace()
        _, body = await ask(made, f"/w/{row.id}/", *NAVIGATION)
        assert body == answer.partition(b"\r\n\r\n")[2]
        assert seen == outcomes


async def test_a_page_that_has_not_changed_is_not_made_one() -> None:
    async with serving(b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n") as (made, _, _, _):
        row = await made.workspace()
        status, head, body = await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION)
        assert (status, body) == (304, "")
        assert "ETag: x" in head


async def test_a_page_that_ends_with_its_connection_is_left_alone() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\n" + HTML.encode() + b"\r\nConnection: close\r\n\r\n" + PAGE) as (
        made,
        *_,
    ):
        row = await made.workspace()
        talk = await made.connect()
        lines = (f"GET /w/{row.id}/ HTTP/1.1", "Host: hub.test", COOKIE, *NAVIGATION, "", "")
        await talk.send("\r\n".join(lines).encode())
        assert (await talk.rest()).endswith(b"\r\n\r\n" + PAGE)
        await talk.close()


@pytest.mark.parametrize("path", ["/other", "/static/page.html"])
async def test_no_other_page_of_the_workspace_gets_it(path: str) -> None:
    async with serving(sized(PAGE, HTML, "ETag: x")) as (made, _, _, outcomes):
        row = await made.workspace()
        head, body = await ask(made, f"/w/{row.id}{path}", *NAVIGATION)
        assert body == PAGE
        assert b"ETag: x" in head
        assert outcomes == []


async def test_a_workspace_that_is_set_to_do_without_gets_none() -> None:
    async with serving(sized(PAGE, HTML)) as (made, _, _, outcomes):
        row = await made.workspace()
        await made.service.change(
            row.id, lambda _spec: {"tab_script": False}, None, By("test", verbatim("test"))
        )
        _, body = await ask(made, f"/w/{row.id}/", *NAVIGATION)
        assert body == PAGE
        assert outcomes == []


async def test_the_script_is_small_and_kept_for_ever() -> None:
    assert len(BODY) <= SENT_BYTES_MAX
    async with serving() as (made, *_):
        row = await made.workspace()
        tag = script_tag(f"/w/{row.id}").decode()
        path = tag.partition('src="')[2].partition('"')[0]
        status, head, body = await made.ask(path, COOKIE, *QUIET)
        assert (status, body.encode()) == (200, BODY)
        assert "Cache-Control: private, max-age=31536000, immutable" in head
        assert "Content-Type: text/javascript" in head
        _, head, _ = await made.ask(path + "0", COOKIE, *QUIET)
        assert "Cache-Control: no-store" in head


@pytest.mark.parametrize("what", ["tab.js", "state", "use"])
async def test_only_who_may_enter_is_answered(what: str) -> None:
    async with serving() as (made, *_):
        row = await made.workspace()
        method, lines = ("POST", POST) if what == "use" else ("GET", QUIET)
        path = f"/w/{row.id}/_codehub/{what}"
        for shown, status in (
            ("X: y", 401),
            (f"Cookie: codehub_session={BOBS.secret.decode()}", 403),
            (f"Authorization: Bearer {READS.secret.decode()}", 403),
            (COOKIE, 200),
        ):
            assert (await made.ask(path, shown, *lines, method=method))[0] == status, shown


async def state(made: Hub, row: Workspace, query: str = "") -> dict[str, object]:
    _, _, body = await made.ask(f"/w/{row.id}/_codehub/state{query}", COOKIE, *QUIET)
    content: dict[str, object] = json.loads(body)
    return content


async def test_asking_is_no_use_and_wakes_nothing_and_a_note_is_a_use_that_wakes_nothing() -> None:
    async with serving() as (made, activity, uses, _):
        row = await made.workspace()
        assert (await state(made, row, "?for=25"))["state"] == "open"
        assert not await counts(activity, uses)
        status, _, body = await made.ask(f"/w/{row.id}/_codehub/use?for=25", COOKIE, *POST, method="POST")
        assert (status, json.loads(body)["state"]) == (200, "open")
        assert await counts(activity, uses)
        await made.service.set_wish(row.id, DesiredState.STANDBY, By("test", verbatim("test")))
        await made.arrives(row.id, Phase.STANDBY)
        await until(lambda: made.route_cache._workspaces[row.id].workspace.status.phase is Phase.STANDBY)
        status, _, body = await made.ask(f"/w/{row.id}/_codehub/use", COOKIE, *POST, method="POST")
        assert (status, json.loads(body)["state"]) == (200, "asleep")
        assert not await counts(activity, uses)
        assert (await made.store.get(row.id)).spec.desired_state is DesiredState.STANDBY


async def test_a_note_for_another_sites_page_is_refused() -> None:
    async with serving() as (made, activity, uses, _):
        row = await made.workspace()
        path, foreign = f"/w/{row.id}/_codehub/use", "Origin: http://elsewhere.test"
        assert (await made.ask(path, COOKIE, foreign, method="POST"))[0] == 403
        assert not await counts(activity, uses)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_it_is_told_its_texts_once_in_the_language_of_whoever_asks(language: str) -> None:
    async with serving() as (made, *_):
        row = await made.workspace()
        assert "texts" not in await state(made, row)
        path = f"/w/{row.id}/_codehub/state?texts=1"
        _, _, body = await made.ask(path, COOKIE, *QUIET, f"Accept-Language: {language}")
        texts = json.loads(body)["texts"]
        assert texts.pop("lang") == language
        script = BODY.decode()
        assert all(len(shown) == 3 for shown in texts.values())
        shown_by_script = {"signed_out", "gone", "away", "again", "warning", "limit"}
        assert shown_by_script <= set(texts)
        assert all(f'"{name}"' in script for name in shown_by_script)


PRINTED = frame(b'\x01{"id":1,"event":"a line"}')
terminal = socket_server(PRINTED)


async def types(talk: Talk) -> None:
    for _ in range(60):
        await talk.send(frame(b"x" * 60, masked=True))
    await synced(talk)


async def prints(talk: Talk) -> None:
    for _ in range(20):
        await talk.send(PRINT)
        await talk.exactly(len(PRINTED))


@pytest.mark.parametrize("ide", ["code-server", "jupyterlab"])
async def test_where_the_script_runs_what_goes_up_is_no_use(ide: str) -> None:
    async with watched(terminal) as (made, activity, uses, _):
        row = await made.workspace(ide=ide)
        talk = await socket(made, row)
        await state(made, row, "?for=25")
        await types(talk)
        assert not await counts(activity, uses)
        activity.monitor(row)._heard[SESSION] = 0.0  # as if the script had been silent for long
        await counts(activity, uses)
        await types(talk)
        assert await counts(activity, uses)
        await talk.close()


async def test_where_the_script_runs_output_is_a_use() -> None:
    async with watched(terminal) as (made, activity, uses, _):
        row = await made.workspace()
        talk = await socket(made, row)
        await state(made, row, "?for=120")
        await prints(talk)
        assert await counts(activity, uses)
        await talk.close()


async def test_a_tab_without_the_script_beside_one_with_it_is_heard_by_its_bytes() -> None:
    async with watched(terminal) as (made, activity, uses, _):
        row = await made.workspace()
        talk = await socket(made, row)
        monitor = activity.monitor(row)
        monitor.note_script(BOBS, 25)
        await types(talk)
        assert await counts(activity, uses)
        await talk.close()
