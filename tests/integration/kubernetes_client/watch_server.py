"""A server of lists and watches that does as it is told, for a cache that follows it."""

from typing import Any

from tests.integration.kubernetes_client.test_contents import pod
from tests.support.kubernetes_api import Conversation, Handler, HostileApi
from tests.support.patience import until

from codehub.adapters.kubernetes.contents import INITIAL_EVENTS_END
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.ports.backends import BackendUnreachable

Json = Any
SILENCE_S = 2.0


def bookmark(version: int, **annotations: str) -> Json:
    return {
        "type": "BOOKMARK",
        "object": {"metadata": {"resourceVersion": str(version), "annotations": annotations}},
    }


def expired(code: int = 410) -> Json:
    status = {"kind": "Status", "code": code, "reason": "Expired", "message": "too old resource version"}
    return {"type": "ERROR", "object": status}


class Server:
    """What a test makes an API server say: each watch and each list is a queue of what to do next."""

    def __init__(self, api: HostileApi) -> None:
        self.api = api
        self.version = 10
        self.items: list[Json] = [pod("a", 3), pod("b", 5)]
        self.has_watch_list = True
        self.open: list[Conversation] = []
        self.before_answer: Handler | None = None
        api.handlers = [self.talk]

    async def talk(self, talk: Conversation) -> None:
        query = talk.request.query
        if self.before_answer is not None:
            await self.before_answer(talk)
        elif query.get("watch") != "true":
            talk.answer({"metadata": {"resourceVersion": str(self.version)}, "items": self.items})
        elif "sendInitialEvents" in query and not self.has_watch_list:
            talk.refuse(422, "Invalid", "sendInitialEvents is forbidden for watch")
        else:
            talk.begin_stream()
            if "sendInitialEvents" in query:
                talk.send(*({"type": "ADDED", "object": item} for item in self.items))
                talk.send(bookmark(self.version, **{INITIAL_EVENTS_END: "true"}))
            self.open.append(talk)
            await talk.reader.read()

    def kinds(self) -> list[str]:
        """Return what was asked: a list that streams, a watch
        from a version, a list, or a look at the version.
        """
        return [_kind(request.query) for request in self.api.requests]


def _kind(query: Json) -> str:
    if "sendInitialEvents" in query:
        return "stream"
    if "watch" in query:
        return f"watch {query['resourceVersion']}"
    return "look" if query["limit"] == "1" else "list"


async def objects_become(cache: WatchCache[int], expected: dict[str, int]) -> None:
    async def hold() -> bool:
        try:
            return await cache.objects() == expected
        except BackendUnreachable:
            return False

    await until(hold)
