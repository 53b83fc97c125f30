"""Connecting to a target: where it should be goes in, a connection or an answer comes out."""

from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from codehub.proxy.engine.context import Context
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.targets import Answer, Target
from codehub.proxy.engine.upstream import UpstreamConnection

if TYPE_CHECKING:
    from codehub.proxy.engine.runtime import Address

log = structlog.get_logger()


async def await_decision(context: Context, decision: Awaitable[Target | Answer]) -> Target | Answer:
    """Return what the gate decides in the end."""
    try:
        return await decision
    except Exception:
        log.exception("gate_failed")
        return context.answers.undecided()


async def connect(
    context: Context, head: RequestHead, target: Target
) -> tuple[Target, UpstreamConnection | Answer]:
    """Connect. What can't be reached is looked for again: if it has moved, the target is another.

    Where nothing listened twice nobody looks any more.
    """
    try:
        reached, upstream = await _connect_or_search(context, head, target)
    except Exception:
        log.exception("connect_failed")
        return target, context.answers.unreachable()
    if isinstance(upstream, UpstreamConnection) and not reached.alive:
        upstream.close()  # it may no longer be reached, since just now
        return reached, context.answers.undecided()
    return reached, upstream


async def _connect_or_search(
    context: Context, head: RequestHead, target: Target
) -> tuple[Target, UpstreamConnection | Answer]:
    silent: list[Address] = []
    while True:
        with suppress(OSError):
            return target, await context.pool.connect(target.address)
        if target.address in silent:
            return target, context.answers.not_listening(target)
        silent.append(target.address)
        moved = await context.gate.find_again(head, target)
        if isinstance(moved, Answer):
            return target, moved
        target = moved
