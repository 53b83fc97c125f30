"""What storage in memory holds: volumes with their files, and archives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

Files = Mapping[str, bytes]


@dataclass(slots=True)
class Disk:
    """A volume: complete only when it has its id."""

    volume_id: str | None
    files: dict[str, bytes] = field(default_factory=dict)
    as_made: Files = field(default_factory=dict)
    written_at: datetime | None = None
    former_id: str | None = None
    """The id of a volume whose identity was lost."""
    made_from: str | None = None
    is_ending: bool = False
    """It was deleted, and is held: it goes once it is released, whoever uses it then."""

    @property
    def name(self) -> str | None:
        return self.volume_id or self.former_id


@dataclass(frozen=True, slots=True)
class Object:
    """An archive: the files, whether its `.meta` was written, and whether that can be read."""

    files: Files
    modified_at: datetime
    has_meta: bool = False
    committed_at: datetime | None = None
    is_damaged: bool = False

    @property
    def committed(self) -> bool:
        return self.has_meta and not self.is_damaged
