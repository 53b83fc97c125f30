"""Empty query values mean the default, as wire.md writes its calls (`?limit=50&cursor=&phase=`): a request
in, one without them out.
"""

from starlette.types import ASGIApp, Receive, Scope, Send

_API = "/api/"


class FilledQueries:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(_API):
            # In place: what is outside finds the route in the same scope afterwards.
            scope["query_string"] = _drop_empty(scope["query_string"])
        await self._app(scope, receive, send)


def _drop_empty(query: bytes) -> bytes:
    return b"&".join(part for part in query.split(b"&") if part.partition(b"=")[2])
