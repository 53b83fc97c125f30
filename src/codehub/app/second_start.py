"""Finds another codehub in the same directory before anything is started, and names it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from codehub.adapters.postgres.embedded import owner_of
from codehub.app.errors import CannotStart
from codehub.app.language import say
from codehub.settings import Settings


def refuse_second(settings: Settings) -> None:
    """Raise CannotStart if a codehub runs in this directory.

    With an external database, several may share it.
    """
    if settings.database_url is not None:
        return
    pid = owner_of(settings.data_dir)
    if pid is None:
        return
    address = None
    with suppress(OSError):
        address = settings.address_note.read_text().strip()
    if address:
        raise CannotStart(say("second.address", directory=settings.data_dir, pid=pid, address=address))
    raise CannotStart(say("second", directory=settings.data_dir, pid=pid))


@contextmanager
def write_address_note(settings: Settings) -> Iterator[None]:
    """Write this codehub's address to a file, for a second start to show."""
    note = settings.address_note
    if settings.database_url is not None:
        yield
        return
    note.write_text(f"{settings.base_url}\n")
    try:
        yield
    finally:
        note.unlink(missing_ok=True)
