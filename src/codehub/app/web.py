"""The web faces wired, the API and the dashboard: settings, stores and
a platform in, a web application out, served if wanted.
"""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from codehub.api.app import Web, create_web
from codehub.api.feed import LiveFeed
from codehub.app.access import first_admin, make_access
from codehub.app.control import make_limits, make_service
from codehub.app.database import ApiStores
from codehub.app.drain import Drain
from codehub.app.edge import own_origins
from codehub.app.marks import mark_checks
from codehub.app.platform import Platform
from codehub.app.server import WebServer, serving
from codehub.app.supervisor import supervise
from codehub.core.ceilings import clamp
from codehub.dashboard.app import add_dashboard
from codehub.engine.backends import Backends
from codehub.engine.system import System
from codehub.ports.instances import InstanceController
from codehub.ports.metrics import Metrics
from codehub.ports.storage import StorageProvider
from codehub.ports.store import ApiStore
from codehub.service.access import AccessService
from codehub.service.doors import DoorService
from codehub.service.ports import PortService
from codehub.settings import Settings, storages_for
from codehub.text import DEFAULT
from codehub.web.dependencies import Check, Defaults, Dependencies, NotReady
from codehub.web.domain_text import message_text


@dataclass(frozen=True, slots=True)
class Faces:
    """What is served, and the first admin's password if it was made here."""

    server: WebServer
    feed: LiveFeed
    password: str | None

    async def leave(self, drain: Drain) -> None:
        await self.server.leave(drain, self.feed.end_all)


@asynccontextmanager
async def serving_faces(
    settings: Settings,
    listener: socket.socket,
    stored: ApiStores,
    platform: Platform,
    system: System,
    metrics: Metrics,
    checks: dict[str, Check],
) -> AsyncIterator[Faces]:
    """Serve the API and the dashboard, and feed their streams."""
    access = make_access(stored, system, tokens_max=settings.limit_tokens_per_user)
    password = await first_admin(settings, access, system)
    web = make_web(settings, stored, platform, access, system, metrics, checks)
    feed = system.tasks.spawn(supervise("events", web.feed.run, system), name="events")
    try:
        async with serving(web.app, listener, system) as server:
            yield Faces(server, web.feed, password)
    finally:
        feed.cancel()


def make_web(
    settings: Settings,
    stored: ApiStores,
    platform: Platform,
    access: AccessService,
    system: System,
    metrics: Metrics,
    checks: dict[str, Check],
) -> Web:
    backends = platform.backends
    homes = {
        instance: [home for home in storages_for(instance) if home in backends.storage]
        for instance in backends.instances
    }
    workspaces = make_service(settings, stored)
    parts = Dependencies(
        store=stored.api,
        workspaces=workspaces,
        access=access,
        ports=PortService(
            workspaces,
            stored.ports,
            backends.accesses,
            origins=settings.workspace_origins,
            ceiling=settings.ports_ceiling,
            clock=system.clock,
            tasks=system.tasks,
        ),
        hints=stored.api_hints,
        people_hints=stored.people_hints,
        instances=backends.instances,
        homes=homes,
        defaults=Defaults(
            image_ref=settings.workspace_image,
            ide=platform.ide,
            instance_backend=settings.instance_backend,
            storage_backend=settings.homes,
            standby_ttl_seconds=settings.standby_ttl_seconds,
            archive_ttl_seconds=settings.archive_ttl_seconds,
            resources=clamp(settings.ceilings, settings.default_resources),
        ),
        ceilings=settings.ceilings,
        limits=make_limits(settings),
        base_url=settings.base_url,
        clock=system.clock,
        identity=system.identity,
        tasks=system.tasks,
        metrics=metrics,
        checks={**checks, **mark_checks(platform.home_stores, system.clock), "disk": _has_room(stored.api)},
        trusted_proxies=settings.proxies,
        metrics_token=None if settings.metrics_token is None else settings.metrics_token.get_secret_value(),
        sleep_warning_s=settings.sleep_warning_seconds,
        ides=platform.ides,
        own_origins=own_origins(settings, settings.port),
        backends=_looks(backends),
        workspace_origins=settings.workspace_origins,
        doors=_make_doors(settings, stored, system),
    )
    web = create_web(parts)
    add_dashboard(web.app, parts)
    return web


def _make_doors(settings: Settings, stored: ApiStores, system: System) -> DoorService | None:
    origins = settings.workspace_origins
    if origins is None:
        return None
    return DoorService(
        stored.doors,
        stored.api,
        stored.ports,
        origins,
        ceiling=settings.ports_ceiling,
        randomness=system.randomness,
    )


def _has_room(store: ApiStore) -> Check:
    async def look() -> None:
        if (room := await store.shortage()) is not None:
            raise NotReady(message_text(room.message, DEFAULT))

    return look


def _looks(backends: Backends) -> Mapping[str, Check]:
    """Return a look at each backend, for the page that says what answers."""

    def at_instances(backend: InstanceController) -> Check:
        async def look() -> None:
            await backend.list_all()

        return look

    def at_homes(backend: StorageProvider) -> Check:
        async def look() -> None:
            await backend.list_volumes()

        return look

    return {name: at_instances(adapter) for name, adapter in backends.instances.items()} | {
        name: at_homes(adapter) for name, adapter in backends.storage.items()
    }
