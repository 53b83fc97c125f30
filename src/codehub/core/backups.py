"""Back-ups: what one holds, and what it does not."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CopiedHome:
    """A home that no archive had, and the archive that the back-up has of it."""

    workspace_id: str
    name: str
    volume_id: str | None
    archive_key: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a back-up holds, and what it does not."""

    installation: str
    taken_at: str
    dump_sha256: str
    dump_size: int
    archives: tuple[str, ...]
    archives_size: int
    homes: tuple[CopiedHome, ...]
    missing: tuple[tuple[str, str], ...]
    """Workspaces of which something is not in it, each with why."""

    @property
    def is_whole(self) -> bool:
        return not self.missing
