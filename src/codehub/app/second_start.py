"""Another codehub in the same directory: it is found before anything is started, and who it is gets told."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from codehub.adapters.postgres.embedded import owner_of
from codehub.app.errors import CannotStart
from codehub.settings import Settings


def refuse_second(settings: Settings) -> None:
    """Raise CannotStart if a codehub runs in this directory. Who has a database of their own may share it."""
    if settings.database_url is not None:
        return
    pid = owner_of(settings.data_dir)
    if pid is None:
        return
    address = None
    with suppress(OSError):
        address = settings.address_note.read_text().strip()
    raise CannotStart(
        f"one runs in {settings.data_dir} already (pid {pid})"
        + (f": open {address}" if address else "")
        + f". To start another, stop that one (kill {pid}), or set CODEHUB_DATA_DIR and CODEHUB_PORT"
    )


@contextmanager
def known_at(settings: Settings) -> Iterator[None]:
    """Leave a note where this codehub is, for whoever comes second."""
    note = settings.address_note
    if settings.database_url is not None:
        yield
        return
    note.write_text(f"{settings.base_url}\n")
    try:
        yield
    finally:
        note.unlink(missing_ok=True)
