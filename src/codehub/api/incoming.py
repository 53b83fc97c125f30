"""Requests as they come in: how large a body may be and how long it may take, and queries without their empty
values.

Empty query values mean the default, as the wire writes its calls (`?limit=50&cursor=&phase=`).
"""

import asyncio

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codehub.web.bounds import BODY_BYTES_MAX

_API = "/api/"
BODY_S_MAX = 30.0


class IncomingRequests:
    """In: any ASGI application; out: one that is safe to send to."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"].startswith(_API):
            # In place: what is outside finds the route in the same scope afterwards.
            scope["query_string"] = _drop_empty(scope["query_string"])
        content_length = Headers(scope=scope).get("content-length", "0")
        is_announced_too_large = content_length.isdigit() and int(content_length[:20]) > BODY_BYTES_MAX
        deadline = asyncio.get_running_loop().time() + BODY_S_MAX
        received_bytes, is_complete = 0, False

        async def receive_bounded() -> Message:
            nonlocal received_bytes, is_complete
            if is_announced_too_large:
                raise _too_large()
            if is_complete:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, "The body took too long to arrive.", headers={"Connection": "close"}
                ) from None
            if message["type"] == "http.request":
                received_bytes += len(message.get("body", b""))
                is_complete = not message.get("more_body", False)
                if received_bytes > BODY_BYTES_MAX:
                    raise _too_large()
            return message

        await self._app(scope, receive_bounded, send)


def _drop_empty(query: bytes) -> bytes:
    return b"&".join(part for part in query.split(b"&") if part.partition(b"=")[2])


def _too_large() -> HTTPException:
    return HTTPException(
        413, f"The body is larger than {BODY_BYTES_MAX} bytes.", headers={"Connection": "close"}
    )
