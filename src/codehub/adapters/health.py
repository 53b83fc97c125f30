"""An upstream and a path go in, the status of the answer comes out,
or None: no answer in time. The rest of it is not read.
"""

import asyncio

from codehub.adapters.http import ask_status
from codehub.ports.instances import Upstream

_PROBE_S = 2.0


async def answer_status(upstream: Upstream, target: str, within_s: float = _PROBE_S) -> int | None:
    """Ask a server for a path."""
    try:
        async with asyncio.timeout(within_s):
            return await ask_status(upstream, target, host="localhost")
    except (OSError, TimeoutError):
        return None
