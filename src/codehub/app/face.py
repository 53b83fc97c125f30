"""The API wired: settings and stores in, a web application out."""

from codehub.api.app import Web, create_web
from codehub.api.parts import Check, Defaults, Parts
from codehub.app.control import make_limits, make_service
from codehub.app.database import Stores
from codehub.engine.platforms import Platforms
from codehub.engine.system import System
from codehub.ports.meters import Meters
from codehub.service.access import AccessService
from codehub.settings import Settings, fitting_homes


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
) -> Web:
    homes = {
        instance: [home for home in fitting_homes(instance) if home in platforms.storage]
        for instance in platforms.instances
    }
    return create_web(
        Parts(
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
        )
    )
