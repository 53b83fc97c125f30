"""The first list of a cache: it streams in where the server can do so, and half a list is no list."""

from tests.integration.kubernetes_client.test_contents import event, pod
from tests.integration.kubernetes_client.watch_server import Server, expired
from tests.support.kubernetes_api import Conversation
from tests.support.patience import until

from codehub.adapters.kubernetes.watch_cache import WatchCache


async def test_a_list_streams_in_and_events_follow(server: Server, cache: WatchCache[int]) -> None:
    assert await cache.objects() == {"a": 3, "b": 5}
    async with cache.changes() as changes:
        server.open[0].send(event("ADDED", "c", 11), event("DELETED", "a", 12))
        names: set[str] = set()
        while names != {"a", "c"}:
            names |= await anext(changes)
    assert await cache.objects() == {"b": 5, "c": 11}
    assert await cache.find("c") == 11
    assert await cache.find("a") is None
    assert server.kinds() == ["stream"]
    assert server.api.requests[0].query["labelSelector"] == "app=a"


async def test_a_server_without_streamed_lists_is_listed_and_watched(
    server: Server, cache: WatchCache[int]
) -> None:
    server.has_watch_list = False
    assert await cache.objects() == {"a": 3, "b": 5}
    assert server.kinds() == ["stream", "list", "watch 10"]


async def test_a_server_that_never_completes_a_streamed_list_is_listed(
    server: Server, cache: WatchCache[int]
) -> None:
    async def ignore_it(talk: Conversation) -> None:
        if "sendInitialEvents" not in talk.request.query:
            server.before_answer = None
            await server.talk(talk)
            return
        talk.begin_stream()
        talk.send({"type": "ADDED", "object": pod("a", 3)})
        await talk.reader.read()

    server.before_answer = ignore_it
    assert await cache.objects() == {"a": 3, "b": 5}
    assert server.kinds() == ["stream", "list", "watch 10"]


async def test_a_streamed_list_that_did_not_complete_once_is_asked_for_again(
    server: Server, cache: WatchCache[int]
) -> None:
    async def stall(talk: Conversation) -> None:
        server.before_answer = None
        talk.begin_stream()
        await talk.reader.read()

    server.before_answer = stall
    assert await cache.objects() == {"a": 3, "b": 5}
    assert server.kinds() == ["stream", "list", "watch 10"]
    server.open[0].send(expired())
    await until(lambda: len(server.open) == 2)
    assert await cache.objects() == {"a": 3, "b": 5}
    assert server.kinds()[3:] == ["stream"]


async def test_a_doubt_while_the_first_list_streams_in_is_no_word_against_streams(
    server: Server, cache: WatchCache[int]
) -> None:
    async def stall(talk: Conversation) -> None:
        server.before_answer = None
        talk.begin_stream()
        server.open.append(talk)
        await talk.reader.read()

    server.before_answer = stall
    await until(lambda: server.open)
    cache.learn(pod("c", 0))  # older than anything that a watch has told
    assert await cache.objects() == {"a": 3, "b": 5}
    assert server.kinds() == ["stream", "stream"]


async def test_half_a_list_is_no_list(server: Server, cache: WatchCache[int]) -> None:
    async def cut_halfway(talk: Conversation) -> None:
        talk.begin_stream()
        talk.send({"type": "ADDED", "object": pod("a", 3)})
        await talk.writer.drain()
        server.before_answer = None
        talk.cut()

    server.before_answer = cut_halfway
    assert await cache.objects() == {"a": 3, "b": 5}
    assert server.kinds() == ["stream", "stream"]
