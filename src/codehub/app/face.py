"""The web faces wired, the API and the dashboard: settings and stores in, a web application out."""

from collections.abc import Mapping, Sequence

from codehub.api.app import Web, create_web
from codehub.app.control import make_limits, make_service
from codehub.app.database import Stores
from codehub.dashboard.app import add_dashboard
from codehub.engine.platforms import Platforms
from codehub.engine.system import System
from codehub.ports.instances import InstanceController
from codehub.ports.meters import Meters
from codehub.ports.storage import StorageProvider
from codehub.service.access import AccessService
from codehub.settings import Settings, fitting_homes
from codehub.web.parts import Check, Defaults, Parts


def make_web(
    settings: Settings,
    stored: Stores,
    platforms: Platforms,
    access: AccessService,
    system: System,
    meters: Meters,
    *,
    ide: str,
    checks: dict[str, Check],
    ides: Sequence[str] = (),
) -> Web:
    homes = {
        instance: [home for home in fitting_homes(instance) if home in platforms.storage]
        for instance in platforms.instances
    }
    parts = Parts(
        store=stored.api,
        workspaces=make_service(settings, stored),
        access=access,
        hints=stored.api_hints,
        people_hints=stored.people_hints,
        instances=platforms.instances,
        homes=homes,
        defaults=Defaults(
            image_ref=settings.workspace_image,
            ide=ide,
            instance_backend=settings.instance_backend,
            storage_backend=settings.homes,
            standby_ttl_seconds=settings.standby_ttl_seconds,
            archive_ttl_seconds=settings.archive_ttl_seconds,
        ),
        limits=make_limits(settings),
        base_url=settings.base_url,
        clock=system.clock,
        identity=system.identity,
        tasks=system.tasks,
        meters=meters,
        checks=checks,
        trusted_proxies=settings.proxies,
        sleep_warning_s=settings.sleep_warning_seconds,
        ides=ides,
        backends=_looks(platforms),
    )
    web = create_web(parts)
    add_dashboard(web.app, parts)
    return web


def _looks(platforms: Platforms) -> Mapping[str, Check]:
    """Return a look at each backend, for the page that says what answers."""

    def at_instances(backend: InstanceController) -> Check:
        async def look() -> None:
            await backend.list_all()

        return look

    def at_homes(backend: StorageProvider) -> Check:
        async def look() -> None:
            await backend.list_volumes()

        return look

    return {name: at_instances(one) for name, one in platforms.instances.items()} | {
        name: at_homes(one) for name, one in platforms.storage.items()
    }
