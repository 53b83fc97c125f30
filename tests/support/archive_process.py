"""A process that archives or restores until somebody kills it:
`archive_process.py archive|restore DIR WORKSPACE KEY VOLUME OP`.
"""

import asyncio
import sys
from pathlib import Path
from uuid import UUID

from tests.support.storages import OnThisMachine, granted

from codehub.ports.storage import Amount, Home


def print_progress(amount: Amount) -> None:
    """Say how far it is, so that whoever kills knows where."""
    print(amount.stage, amount.done, flush=True)  # noqa: T201


async def main(
    what: str, directory: str, workspace: str, place: str, key: str, volume_id: str, op_id: str
) -> None:
    machine = OnThisMachine(Path(directory))
    home = Home(UUID(workspace), place)
    print("began", 0, flush=True)  # noqa: T201
    if what == "archive":
        await machine.provider.archive(home, volume_id, UUID(op_id), print_progress, granted)
    else:
        await machine.provider.restore(home, key, print_progress)
    print("done", 0, flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
