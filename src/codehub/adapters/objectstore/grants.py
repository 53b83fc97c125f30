"""What one Job may do with one archive: made by the controller, read
by the Job, as JSON. It opens nothing but that archive.

Refuses a file that is none.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from codehub.adapters.objectstore.meta import Content, content_of

_FORMAT = 1


class UnknownGrants(Exception):
    """The grants can't be read."""


@dataclass(frozen=True, slots=True)
class PartGrants:
    """The parts of one open upload, and its end."""

    url: str
    """Of every part, but for its number and its signature."""
    signatures: Sequence[str]
    """That of part 1 first."""
    part_bytes: int
    complete_url: str


@dataclass(frozen=True, slots=True)
class Grants:
    key: str
    place: str
    """Where the archive lies: a signed URL to read it, or a path below the directory that is mounted."""
    parts: PartGrants | None = None
    """To write it into a bucket."""
    content: Content | None = None
    """What it holds, to restore it."""

    @property
    def is_in_bucket(self) -> bool:
        return self.place.startswith(("http://", "https://"))

    def encode(self) -> str:
        return json.dumps({**asdict(self), "format": _FORMAT})


def decode(text: str) -> Grants:
    try:
        fields = json.loads(text)
        if fields["format"] != _FORMAT:
            raise UnknownGrants(f"the grants are of format {fields['format']!r}")
        return Grants(
            fields["key"],
            fields["place"],
            None if fields["parts"] is None else PartGrants(**fields["parts"]),
            None if fields["content"] is None else _content(fields["content"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UnknownGrants(f"the grants can't be read: {error!r}") from None


def _content(fields: Mapping[str, Any]) -> Content:
    content = content_of(fields)
    if content is None:
        raise UnknownGrants("the grants don't say what the archive holds")
    return content
