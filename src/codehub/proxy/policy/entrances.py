"""What is known of one workspace: where it is entered, and by whom. Nothing is looked up here."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from codehub.core.route import mount_of
from codehub.core.visit import Visitor
from codehub.core.workspace import Workspace
from codehub.ports.proxy_lookups import Credential
from codehub.proxy.engine.insertions import Inserter
from codehub.proxy.engine.runtime import Address
from codehub.proxy.engine.targets import Monitor, Target

if TYPE_CHECKING:
    from codehub.core.visibility import SharedPort
    from codehub.ports.instances import Upstream

FOLLOW_S_MAX = 20.0


class UseMonitor(Monitor, Protocol):
    """What is also told by the script in a tab."""

    used_at: float

    def note_use(self, *credentials: Credential | None) -> None: ...

    def note_script(self, credential: Credential, for_s: float) -> None: ...


MonitorOf = Callable[[Workspace], UseMonitor | None]
InserterOf = Callable[[Callable[[], Workspace]], Inserter | None]
"""Takes what returns a workspace as it was seen last."""


class Grant(Target):
    """One person's way into one workspace by one entrance, as long as all three are as they were."""

    __slots__ = ("credential", "entrance", "idle_rounds", "keeps_prefix", "person")

    def __init__(
        self,
        credential: Credential | None,
        person: Visitor | None,
        entrance: "Entrance",
        address: Address,
        *,
        monitor: Monitor | None,
        keeps_prefix: bool,
    ) -> None:
        super().__init__(
            address,
            mount=entrance.mount.encode(),
            strips=bool(entrance.mount) and not keeps_prefix,
            monitor=monitor,
            inserter=entrance.cached.inserter if entrance.port is None else None,
        )
        self.keeps_prefix = keeps_prefix
        """Whether the server lives below the workspace's mount, wherever it is entered."""
        self.credential = credential
        """None: of nobody. All who come so have one way in together."""
        self.entrance = entrance
        self.person = person
        self.idle_rounds = 0

    def leads_to(self, upstream: "Upstream | None") -> bool:
        """Whether it leads to where the workspace is open now: its IDE there, a port wherever that is."""
        return upstream is not None and (self.entrance.port is not None or self.address == upstream)


class Entrance:
    """Where a workspace is entered: below its mount on the hub's host, at its own origin, or at a port's."""

    __slots__ = ("address", "cached", "grants", "mount", "name", "port")

    def __init__(
        self, cached: "CachedWorkspace", name: str, port: int | None = None, address: Address | None = None
    ) -> None:
        self.cached = cached
        self.port = port
        self.address = address
        """What leads to the port; the IDE's address is the workspace's upstream."""
        self.name = name
        """The first part of the origin's host name; empty on the hub's host."""
        self.mount = "" if name else mount_of(cached.workspace.id)
        self.grants: dict[Credential | None, Grant] = {}

    @property
    def key(self) -> str:
        """What a route says that leads here."""
        return self.name or self.mount


class CachedWorkspace:
    """A workspace as it was seen last, and the ways that lead into it."""

    __slots__ = (
        "_changed",
        "entrances",
        "idle_rounds",
        "inserter",
        "monitor",
        "shares",
        "upstream",
        "workspace",
    )

    def __init__(
        self,
        workspace: Workspace,
        monitor: UseMonitor | None = None,
        inserter_of: InserterOf = lambda _row: None,
    ) -> None:
        self.workspace = workspace
        self.inserter = inserter_of(lambda: self.workspace)
        """What is put into the pages of its IDE; never into those at its ports."""
        self.upstream: Upstream | None = None
        self.monitor = monitor
        self.entrances: list[Entrance] = []
        self.idle_rounds = 0
        self.shares: Mapping[int, SharedPort] | None = None
        """The ports that more than its owner may enter. None: nobody has asked for one."""
        self._changed = asyncio.Event()

    @property
    def grants(self) -> list[Grant]:
        """Every way in, by whichever entrance."""
        return [grant for entrance in self.entrances for grant in entrance.grants.values()]

    def end(self, grants: Collection[Grant]) -> None:
        for grant in grants:
            grant.alive = False
            grant.entrance.grants.pop(grant.credential, None)

    def end_at_ports(self) -> None:
        """End what is open at ports: a page at another one may have asked for it."""
        self.end([grant for grant in self.grants if grant.entrance.port is not None])

    def notify(self) -> None:
        """Wake whoever waits for a change."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_for_change(self, s_max: float = FOLLOW_S_MAX) -> None:
        """Wait until it changes, at most for so long, and never for longer than anybody follows it."""
        self.idle_rounds = 0
        try:
            async with asyncio.timeout(min(s_max, FOLLOW_S_MAX)):
                await self._changed.wait()
        except TimeoutError:
            return
