"""Lists: one's own workspaces, everybody's, the trash; and single rows, for what changes while somebody
looks.
"""

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from starlette.responses import Response

from codehub.core.access import may_manage
from codehub.core.listing import BEFORE_ALL, ListPosition, list_cursor, read_cursor
from codehub.core.operations import Operation, Phase
from codehub.core.requests import in_trash
from codehub.core.workspace import Workspace, is_deleted
from codehub.dashboard.caller import Caller
from codehub.dashboard.rendering import Pages
from codehub.dashboard.view_model import WorkspaceView, make_view
from codehub.ports.store import PageQuery

PAGE = 50
_ROWS_MAX = 200
_SEARCH_LENGTH_MAX = 255
_MOVES_BYTES = frozenset({Operation.ARCHIVING, Operation.RESTORING, Operation.STARTING})
FILTERS = (Phase.RUNNING, Phase.STANDBY, Phase.ARCHIVED, Phase.PENDING, Phase.ERROR)


async def page(pages: Pages, caller: Caller) -> Response:
    return await _list(pages, caller, is_all=False)


async def everybody(pages: Pages, caller: Caller) -> Response:
    return await _list(pages, caller, is_all=True)


async def _list(pages: Pages, caller: Caller, *, is_all: bool) -> Response:
    query = _query(caller, is_all=is_all)
    end = await pages.parts.store.feed_end()
    rows = await pages.parts.store.page(query)
    is_more = len(rows) > PAGE
    views = await view_rows(pages, caller, rows[:PAGE])
    values: dict[str, Any] = {
        "rows": views,
        "is_all": is_all,
        "words": query.search_text or "",
        "phase": query.phase,
        "phases": FILTERS,
        "more": _address(caller, cursor=list_cursor(rows[PAGE - 1])) if is_more else None,
        "is_filtered": bool(query.search_text or query.phase),
    }
    if caller.is_partial and caller.target == "more":
        return pages.render(caller, "rows.html", **values)
    if caller.is_partial and caller.target == "list":
        answer = pages.render(caller, "list.html", **values)
        # It replaces the address: each letter of a search as a step back would be in the way.
        answer.headers["HX-Replace-Url"] = _address(caller)
        return answer
    return pages.render(caller, "home.html", seq=end.seq, usage=await usage(pages, caller), **values)


async def rows(pages: Pages, caller: Caller) -> Response:
    """Answer with the rows that are asked for, as they are now; one that is gone, or fits no more, is left
    out.
    """
    query_params = caller.request.query_params
    is_all = query_params.get("owner") == "all" and caller.person.is_admin
    query = _query(caller, is_all=is_all)
    rows_by_id, running = await asyncio.gather(
        pages.parts.store.several(_requested_ids(caller)), usage(pages, caller)
    )
    rows_shown = [
        row
        for row in rows_by_id.values()
        if may_manage(caller.person, row.spec.owner_user_id)
        and (is_all or row.spec.owner_user_id == caller.person.id)
        and not is_deleted(row)
        and _matches(row, query)
    ]
    return pages.render(
        caller,
        "rows.html",
        rows=await view_rows(pages, caller, rows_shown),
        is_all=is_all,
        more=None,
        is_fragment=True,
        usage=running,
    )


async def trash(pages: Pages, caller: Caller) -> Response:
    if caller.is_partial and caller.target == "rows":
        return await _trash_rows(pages, caller)
    query = PageQuery(_ROWS_MAX, owner_user_id=caller.person.id, deleted=True)
    end = await pages.parts.store.feed_end()
    views = await view_rows(pages, caller, await pages.parts.store.page(query))
    return pages.render(caller, "trash.html", rows=views, seq=end.seq, usage=await usage(pages, caller))


async def _trash_rows(pages: Pages, caller: Caller) -> Response:
    """Answer with those of the rows that are in the trash now."""
    rows_by_id, running = await asyncio.gather(
        pages.parts.store.several(_requested_ids(caller)), usage(pages, caller)
    )
    rows_in_trash = [
        row
        for row in rows_by_id.values()
        if row.spec.owner_user_id == caller.person.id and in_trash(row, caller.now)
    ]
    views = await view_rows(pages, caller, rows_in_trash)
    return pages.render(caller, "trash_rows.html", rows=views, is_fragment=True, usage=running)


async def view_rows(pages: Pages, caller: Caller, rows: Sequence[Workspace]) -> list[WorkspaceView]:
    """Return rows with what a page says of them: whose they are, and how far they are."""
    store = pages.parts.store
    other_ids = {row.spec.owner_user_id for row in rows} - {caller.person.id}
    names = await store.usernames(other_ids) if other_ids else {}
    moving_ids = [row.id for row in rows if row.status.operation in _MOVES_BYTES]
    progress = await store.progress(moving_ids) if moving_ids else {}
    return [
        make_view(
            row,
            caller.person,
            caller.now,
            caller.language,
            caller.say,
            entry=pages.parts.addresses.link_to(row),
            owner=names.get(row.spec.owner_user_id, caller.person.user.username),
            progress=progress.get(row.id),
            warning_s=pages.parts.sleep_warning_s,
        )
        for row in rows
    ]


async def usage(pages: Pages, caller: Caller) -> tuple[int, int]:
    return await pages.parts.store.count_running(caller.person.id), pages.parts.limits.per_user


def _query(caller: Caller, *, is_all: bool) -> PageQuery:
    query_params = caller.request.query_params
    search_text = query_params.get("q", "").replace("\0", "")[:_SEARCH_LENGTH_MAX].strip()
    phase = query_params.get("phase", "")
    return PageQuery(
        limit=PAGE + 1,
        owner_user_id=None if is_all else caller.person.id,
        after=_read_cursor(query_params.get("cursor", "")),
        search_text=search_text or None,
        phase=Phase(phase) if phase in FILTERS else None,
    )


def _matches(row: Workspace, query: PageQuery) -> bool:
    """Whether a row belongs into a list that is filtered like this; the store decides the same for whole
    pages.
    """
    if query.phase is not None and row.status.phase is not query.phase:
        return False
    text = f"{row.spec.name}\n{row.spec.description or ''}".lower()
    return query.search_text is None or query.search_text.lower() in text


def _address(caller: Caller, **more: str) -> str:
    """Return a list's address with what it is filtered by, and nothing that is empty."""
    query_params = caller.request.query_params
    parameters = {key: query_params[key] for key in ("q", "phase") if query_params.get(key)} | more
    return caller.request.url.path + (f"?{urlencode(parameters)}" if parameters else "")


def _requested_ids(caller: Caller) -> set[UUID]:
    texts = caller.request.query_params.getlist("id")[:_ROWS_MAX]
    return {workspace_id for text in texts if (workspace_id := _uuid(text)) is not None}


def _read_cursor(cursor: str) -> ListPosition:
    try:
        return read_cursor(cursor)
    except ValueError:
        return BEFORE_ALL


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None
