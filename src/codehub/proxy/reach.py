"""Reaching a target: where it should be goes in, a new connection to where it is comes out, or the answer that it can't be reached."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import structlog

from codehub.proxy.answers import bad_gateway, unavailable
from codehub.proxy.requests import RequestHead
from codehub.proxy.targets import Answer, Target
from codehub.proxy.upstream import UpstreamConnection

if TYPE_CHECKING:
    from codehub.proxy.edge import Edge

log = structlog.get_logger()


async def awaited(word: Awaitable[Target | Answer]) -> Target | Answer:
    """Return what the gate says in the end."""
    try:
        return await word
    except Exception:
        log.exception("gate_failed")
        return unavailable()


async def reached(
    edge: "Edge", head: RequestHead, target: Target
) -> tuple[Target, UpstreamConnection | Answer]:
    """Connect. What can't be reached is looked for once more, for it may have moved: then the target is another."""
    try:
        found, upstream = await _connected(edge, head, target)
    except Exception:
        log.exception("connect_failed")
        return target, bad_gateway("The workspace can't be reached.")
    if (
        isinstance(upstream, UpstreamConnection) and not found.alive
    ):  # it may no longer be reached, since just now
        upstream.close()
        return found, unavailable()
    return found, upstream


async def _connected(
    edge: "Edge", head: RequestHead, target: Target
) -> tuple[Target, UpstreamConnection | Answer]:
    try:
        return target, await edge.pool.connect(target.upstream)
    except OSError:
        found = await edge.gate.find_again(head, target)
    if isinstance(found, Answer):
        return target, found
    try:
        return found, await edge.pool.connect(found.upstream)
    except OSError:
        return found, bad_gateway("It is said to run, but nothing answers where it should.")
