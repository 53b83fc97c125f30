"""Opens the archive store of the settings, and marks a new one. A store that refuses us is an error, one that
does not answer an outage.
"""

import os
from dataclasses import dataclass

import structlog

from codehub.adapters.objectstore.refusals import WrongStore
from codehub.adapters.objectstore.store import Objects
from codehub.app.database import ApiStores
from codehub.app.errors import CannotStart
from codehub.app.language import say
from codehub.core.workspace import StorageBackend, Workspace
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.store import PlacesInUse
from codehub.setting_urls import is_web_address
from codehub.settings import Settings
from codehub.text.terminal import terminal_language
from codehub.web.domain_text import failure_text

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class UnmarkedStores:
    """The stores that hold nothing of any workspace yet.

    In any other a missing mark means a disk that is not mounted.
    """

    archives: bool
    homes: frozenset[StorageBackend]


def find_unmarked(in_use: PlacesInUse) -> UnmarkedStores:
    """Return the stores that may be marked, by what the workspaces use."""
    return UnmarkedStores(archives=not in_use.has_archives, homes=frozenset(StorageBackend) - in_use.homes)


def holds_home(row: Workspace) -> bool:
    """Whether a home of it may lie somewhere."""
    return row.status.home_ctx.volume_id is not None or row.status.home_ctx.dirty


async def archive_store(settings: Settings, stores: ApiStores, *, is_new: bool) -> Objects:
    """Return the store.

    `is_new`: no archive lies there yet, so it is marked as ours; later a missing mark is an outage.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if endpoint and settings.archives.startswith("s3://") and not is_web_address(endpoint):
        raise CannotStart(say("wrong_endpoint", endpoint=endpoint))
    objects = Objects(settings.archives, installation=stores.installation)
    try:
        if is_new:
            await objects.prepare()
        else:
            await objects.check()
        await objects.restrict_access()
    except (WrongStore, ActionFailed) as error:
        raise CannotStart(failure_text(error, terminal_language())) from None
    except BackendUnreachable as error:
        if is_new:
            name = "CODEHUB_DATA_DIR" if settings.archive_url is None else "CODEHUB_ARCHIVE_URL"
            reason = failure_text(error, terminal_language())
            raise CannotStart(say("no_archives", reason=reason, setting=name)) from None
        log.warning("archives_unreachable", reason=str(error))
    return objects
