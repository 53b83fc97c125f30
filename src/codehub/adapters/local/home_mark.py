"""Which directory holds this installation's homes: a mark there says whose
they are. Refuses every other, so that no home looks lost.

users/.codehub-installation in the root             the installation
users/.codehub-installation in the data directory   the installation and, where homes lie elsewhere, the root
                                                    by its path
"""

from pathlib import Path

from codehub.adapters.local.directories import lock_directory, report_outages, write_whole
from codehub.core.messages import Code, Message
from codehub.ports.backends import BackendUnreachable, MarkMissing

MARK = ".codehub-installation"


class HomeMark:
    """Every call blocks: for a thread."""

    def __init__(self, root: Path, data_dir: Path, *, installation: str) -> None:
        self._root = root
        self._data_dir = data_dir
        self._installation = installation
        self._is_elsewhere = root.resolve() != data_dir.resolve()

    def prepare(self) -> None:
        """Mark the root as this installation's. Only where it has no
        home yet: afterwards a missing mark is an outage.
        """
        if self._is_elsewhere:
            self._write(self._root, "")
        self._write(self._data_dir, self._place)
        self.check()

    def check(self) -> None:
        """Raise BackendUnreachable unless the root is there and ours:
        an empty mount point must not count as no homes.
        """
        path = f"users/{MARK}"
        place = self._read(self._root)
        if place is None:
            raise MarkMissing(
                Message(Code.MARK_OF_HOMES if self._is_elsewhere else Code.MARK_OF_DATA, {"path": path})
            )
        if self._is_elsewhere:
            # Of homes that were moved, mark and all, the data directory may know nothing.
            named = self._read(self._data_dir)
            is_named = named is None or named == self._place
        else:
            is_named = place == self._place
        if not is_named:
            raise MarkMissing(
                Message(Code.NAME_OF_HOMES if self._is_elsewhere else Code.NAME_OF_DATA, {"path": path})
            )

    @property
    def _place(self) -> str:
        """What the data directory says of the root. What lies inside moves with it."""
        if not self._is_elsewhere:
            return ""
        root, data_dir = self._root.resolve(), self._data_dir.resolve()
        return str(root.relative_to(data_dir) if root.is_relative_to(data_dir) else root)

    def _read(self, directory: Path) -> str | None:
        """Return which place the mark names, "" for its own directory, or None without a mark."""
        users = directory / "users"
        with report_outages(users):
            try:
                text = (users / MARK).read_text()
            except FileNotFoundError:
                return None
        installation, _, place = text.strip().partition("\n")
        if installation != self._installation:
            raise BackendUnreachable(
                Message(Code.OTHER_INSTALLATION, {"place": str(users), "mark": repr(text[:100])})
            )
        return place

    def _write(self, directory: Path, place: str) -> None:
        users = directory / "users"
        # Held: several processes may start for the first time at once.
        with report_outages(users), lock_directory(directory, users):
            if self._read(directory) != place:
                write_whole(users / MARK, "\n".join(filter(None, (self._installation, place))).encode())
