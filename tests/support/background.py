"""A site in a thread of its own, for clients that are not asynchronous."""

import asyncio
from threading import Event, Thread

from tests.support.patience import PATIENCE_S
from tests.support.site import BOUNDLESS, open_site
from tests.support.stores import memory_world

from codehub.core.access import Role


class Background:
    """The memory platform with a controller; `token` is an admin's."""

    def __init__(self) -> None:
        self.address = ""
        self.token = ""
        self._is_up, self._is_over = Event(), Event()
        self._thread = Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> "Background":
        self._thread.start()
        assert self._is_up.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)

    async def _run(self) -> None:
        async with open_site(memory_world(), controlled=True, ceilings=BOUNDLESS) as site:
            client = await site.program("root", Role.ADMIN)
            self.address, self.token = site.address, client.headers["Authorization"]
            self._is_up.set()
            await asyncio.to_thread(self._is_over.wait)
