"""The archive store that the settings name. Refuses to start with one that will not take us; one that is away is an outage."""

import structlog

from codehub.adapters.objectstore.store import Objects, WrongStore
from codehub.app.database import Stores
from codehub.app.errors import CannotStart
from codehub.ports.backends import BackendUnreachable
from codehub.settings import Settings

log = structlog.get_logger()


async def archive_store(settings: Settings, stores: Stores, *, is_new: bool) -> Objects:
    """Return the store. `is_new`: only while there is no workspace is it marked as ours; later a missing mark is an outage."""
    objects = Objects(settings.archives, installation=stores.installation)
    try:
        if is_new:
            await objects.prepare()
        else:
            await objects.check()
    except WrongStore as error:
        raise CannotStart(str(error)) from None
    except BackendUnreachable as error:
        if is_new:
            raise
        log.warning("archives_unreachable", reason=str(error))
    return objects
