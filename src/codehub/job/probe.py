"""The two Pods of the probe of isolation: one takes connections at a port, the other says which of
`NAME=HOST:PORT` it can connect to.

`python -m codehub.job.probe listen PORT` and `visit NAME=HOST:PORT…`. What is refused late is refused: a new
Pod may be open for a moment.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path

_CONNECT_S_MAX = 2.0
_PAUSE_S = 0.5
# So long a Pod may reach what it must not, until that is refused for good.
_PATIENCE_S = 15.0
# So many looks in a row must have found everything closed.
_CLOSED_LOOKS = 2

Targets = Mapping[str, tuple[str, int]]


async def listen(port: int) -> None:
    """Take connections until somebody ends this."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), port=port)
    await server.serve_forever()


async def visit(targets: Targets) -> list[str]:
    """Return the names of those that take connections from here, and go on taking them."""
    ends_at = time.monotonic() + _PATIENCE_S
    closed_looks = 0
    while True:
        answers = await asyncio.gather(*(_connects(*target) for target in targets.values()))
        reached = [name for name, connects in zip(targets, answers, strict=True) if connects]
        closed_looks = 0 if reached else closed_looks + 1
        if closed_looks == _CLOSED_LOOKS or time.monotonic() > ends_at:
            return reached
        await asyncio.sleep(_PAUSE_S)


async def _connects(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_CONNECT_S_MAX):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _targets(arguments: list[str]) -> Targets:
    targets = {}
    for argument in arguments:
        name, _, place = argument.partition("=")
        host, _, port = place.rpartition(":")
        targets[name] = (host.strip("[]"), int(port))
    return targets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=("listen", "visit"))
    parser.add_argument("places", nargs="+")
    parser.add_argument("--result", type=Path, default=Path("/dev/termination-log"))
    options = parser.parse_args()
    if options.work == "listen":
        asyncio.run(listen(int(options.places[0])))
    else:
        options.result.write_text(json.dumps(asyncio.run(visit(_targets(options.places)))))


if __name__ == "__main__":
    main()
