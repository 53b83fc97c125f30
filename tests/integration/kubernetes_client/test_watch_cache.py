"""A cache beside a server that cuts, stalls, forgets and goes back:
what it says is current, or it says that it can't look.
"""

import asyncio
from itertools import count

import pytest
from tests.integration.kubernetes_client.conftest import ShortClock
from tests.integration.kubernetes_client.test_contents import LABELS, event, pod, version_of
from tests.integration.kubernetes_client.watch_server import (
    SILENCE_S,
    Server,
    bookmark,
    expired,
    objects_become,
)
from tests.support.kubernetes_api import Conversation
from tests.support.patience import until

from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.kinds import PODS
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.adapters.system.machine import SystemClock
from codehub.ports.backends import BackendUnreachable


async def test_a_cut_line_is_taken_up_where_it_was(server: Server, cache: WatchCache[int]) -> None:
    await cache.objects()
    server.open[0].send(event("ADDED", "c", 11), bookmark(40))
    await objects_become(cache, {"a": 3, "b": 5, "c": 11})
    server.version = 45
    server.open[0].cut()
    await until(lambda: len(server.open) == 2)
    server.open[1].send(event("DELETED", "c", 42))
    await objects_become(cache, {"a": 3, "b": 5})
    assert server.kinds() == ["stream", "look", "watch 40"]


async def test_what_was_missed_in_a_cut_is_there_before_anybody_reads(
    server: Server, client: KubernetesClient, clock: ShortClock
) -> None:
    cache = WatchCache(client, PODS, labels=LABELS, project=version_of, clock=clock, quiet_s=600)
    cache.open()
    try:
        assert await cache.objects() == {"a": 3, "b": 5}
        server.version = 45
        server.open[0].cut()
        await until(lambda: len(server.open) == 2)
        reading = asyncio.ensure_future(cache.objects())
        server.open[1].send(event("DELETED", "a", 44), event("ADDED", "c", 45))
        assert await reading == {"b": 5, "c": 45}
    finally:
        await cache.close()


async def test_a_write_that_does_not_fit_while_a_watch_is_taken_up_makes_it_list(
    server: Server, cache: WatchCache[int]
) -> None:
    await cache.objects()
    server.version = 45
    server.open[0].cut()
    await until(lambda: len(server.open) == 2)
    server.items = [pod("c", 6)]
    cache.learn(pod("c", 6))
    assert await cache.objects() == {"c": 6}
    assert server.kinds() == ["stream", "look", "watch 10", "stream"]


async def test_a_watch_that_the_server_ends_is_taken_up_where_it_was(
    server: Server, cache: WatchCache[int]
) -> None:
    await cache.objects()
    server.open[0].end_stream()
    await until(lambda: len(server.open) == 2)
    assert await cache.objects() == {"a": 3, "b": 5}
    assert server.kinds() == ["stream", "look", "watch 10"]


@pytest.mark.parametrize("how", ["event", "answer"])
async def test_a_history_that_is_no_longer_kept_is_listed_anew_and_what_was_missed_is_told(
    server: Server, cache: WatchCache[int], how: str
) -> None:
    await cache.objects()
    server.items, server.version = [pod("b", 5), pod("c", 90)], 100

    async def refuse(talk: Conversation) -> None:
        if "resourceVersion" in talk.request.query:
            server.before_answer = None
            talk.refuse(410, "Expired", "too old resource version")
        else:
            talk.answer({"metadata": {"resourceVersion": "100"}, "items": []})

    async with cache.changes() as changes:
        if how == "event":
            server.open[0].send(expired())
        else:
            server.before_answer = refuse
            server.open[0].cut()
        assert await anext(changes) == {"a", "c"}
    await objects_become(cache, {"b": 5, "c": 90})
    assert server.kinds()[-1] == "stream"


async def test_trouble_that_ends_a_watch_is_not_the_end_of_the_history(
    server: Server, cache: WatchCache[int]
) -> None:
    await cache.objects()
    server.open[0].send(expired(code=500))
    await until(lambda: len(server.open) == 2)
    assert server.kinds() == ["stream", "look", "watch 10"]


async def test_a_server_that_went_back_is_listed_anew(server: Server, cache: WatchCache[int]) -> None:
    """Its database was restored: a watch from where it was would say nothing until it is there again."""
    await cache.objects()
    server.open[0].send(event("ADDED", "c", 50))
    await objects_become(cache, {"a": 3, "b": 5, "c": 50})
    server.items, server.version = [pod("a", 3)], 7
    server.open[0].cut()
    await objects_become(cache, {"a": 3})
    assert server.kinds() == ["stream", "look", "stream"]


async def test_an_event_from_before_is_a_server_that_went_back(
    server: Server, cache: WatchCache[int]
) -> None:
    await cache.objects()
    server.items = [pod("a", 4)]
    server.open[0].send(event("MODIFIED", "a", 4))
    await objects_become(cache, {"a": 4})
    assert server.kinds() == ["stream", "stream"]


async def test_a_server_that_was_away_is_listed_anew_though_its_version_is_higher(
    server: Server, cache: WatchCache[int]
) -> None:
    """It may have been restored, and have gone on beyond where it was."""
    await cache.objects()

    async def be_away(talk: Conversation) -> None:
        talk.cut()

    server.before_answer = be_away
    server.open[0].cut()
    await until(lambda: len(server.api.requests) > 3)
    server.items, server.version = [pod("d", 60)], 70
    server.before_answer = None
    await objects_become(cache, {"d": 60})
    assert server.kinds()[-1] == "stream"


async def test_while_the_server_is_away_the_cache_says_that_it_can_t_look(
    server: Server, cache: WatchCache[int]
) -> None:
    await cache.objects()

    async def fail(talk: Conversation) -> None:
        talk.refuse(503, "ServiceUnavailable", "etcd is away")

    server.before_answer = fail
    server.open[0].cut()
    await until(lambda: len(server.api.requests) > 2)
    for look in (cache.objects, lambda: cache.find("a")):
        with pytest.raises(BackendUnreachable, match=r"KubernetesUnseen kind=pods .*etcd is away"):
            await look()


async def test_a_refusal_is_no_empty_list(server: Server, cache: WatchCache[int]) -> None:
    message = 'User "x" cannot watch resource "pods"'

    async def forbid(talk: Conversation) -> None:
        talk.refuse(403, "Forbidden", message)

    server.before_answer = forbid
    with pytest.raises(BackendUnreachable, match="cannot watch resource"):
        await cache.objects()


async def test_a_watch_that_is_silent_for_longer_than_bookmarks_allow_is_behind(
    server: Server, cache: WatchCache[int]
) -> None:
    await cache.objects()
    server.items, server.version = [pod("c", 30)], 31
    await objects_become(cache, {"c": 30})
    assert server.kinds() == ["stream", "stream"]


async def test_bookmarks_keep_a_quiet_watch_current(server: Server, cache: WatchCache[int]) -> None:
    await cache.objects()
    versions, clock = count(11), SystemClock()
    end = clock.monotonic() + 1.5 * SILENCE_S

    def has_been_long_enough() -> bool:
        server.open[0].send(bookmark(next(versions)))
        return clock.monotonic() > end

    await until(has_been_long_enough)
    assert await cache.objects() == {"a": 3, "b": 5}
    assert server.kinds() == ["stream"]


@pytest.mark.parametrize("line", [b"no json\n", b'{"type": "ADDED"}\n', b'{"type": "ADDED", "object": 7}\n'])
async def test_what_can_t_be_read_is_listed_anew_or_taken_up(
    server: Server, cache: WatchCache[int], line: bytes
) -> None:
    await cache.objects()
    server.items = [pod("z", 9)]
    server.version = 9
    server.open[0].writer.write(b"%x\r\n%s\r\n" % (len(line), line))
    await objects_become(cache, {"z": 9})


async def test_an_own_write_is_read_at_once(server: Server, cache: WatchCache[int]) -> None:
    await cache.objects()
    async with cache.changes() as changes:
        cache.learn(pod("c", 15))
        assert await anext(changes) == {"c"}
    assert await cache.objects() == {"a": 3, "b": 5, "c": 15}
    cache.learn_deletion({"kind": "Status", "details": {"name": "a", "uid": "a"}})
    assert await cache.objects() == {"b": 5, "c": 15}
    assert server.kinds() == ["stream"]


async def test_an_own_write_that_does_not_fit_the_watch_makes_it_list(
    server: Server, cache: WatchCache[int]
) -> None:
    await cache.objects()
    server.items, server.version = [pod("c", 6)], 7
    cache.learn(pod("c", 6))
    assert await cache.objects() == {"c": 6}
    assert server.kinds() == ["stream", "stream"]


async def test_what_is_not_in_it_as_something_else_tells_makes_it_list(
    server: Server, cache: WatchCache[int]
) -> None:
    await cache.objects()
    cache.doubt_unless("a", lambda it: it == 3)
    assert server.kinds() == ["stream"]
    server.items, server.version = [pod("a", 11), pod("c", 12)], 12
    cache.doubt_unless("a", lambda it: it == 11)
    assert await cache.objects() == {"a": 11, "c": 12}
    server.items, server.version = [pod("a", 11), pod("d", 13)], 13
    cache.doubt_unless("d", lambda it: it is not None)
    assert await cache.objects() == {"a": 11, "d": 13}
    assert server.kinds() == ["stream", "stream", "stream"]


async def test_a_cache_that_was_closed_leaves_nothing_behind(server: Server, cache: WatchCache[int]) -> None:
    await cache.objects()
    await cache.close()
    await until(server.open[0].reader.at_eof)
