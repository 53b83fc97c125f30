"""What a `.meta` says of its archive, to and from JSON. Refuses a format that it does not know."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from codehub.core.messages import Code, Message

FORMAT = 1
# The numbers, and their defaults; None: there is none.
_NUMBERS: Mapping[str, Any] = {"size": None, "files": None, "uncompressed_size": None, "outward_links": 0}


class UnknownMeta(Exception):
    """The `.meta` can't be read: it is damaged, or of a later format."""

    def __init__(self, problem: str | Message) -> None:
        super().__init__(problem)
        self.message = (
            problem if isinstance(problem, Message) else Message(Code.STREAM_REFUSED, {"text": problem})
        )


class LaterMeta(UnknownMeta):
    """The `.meta` is whole, and of a format that a later codehub knows."""


@dataclass(frozen=True, slots=True)
class Content:
    """What an archive holds. It bounds what a restore takes from the object."""

    sha256: str
    size: int
    files: int
    uncompressed_size: int
    outward_links: int = 0
    """Symlinks that lead out of the home.

    A home may have some (a virtual environment does); any more are not from the home.
    """


@dataclass(frozen=True, slots=True)
class Meta(Content):
    """Written last, so it is also what makes an archive count."""

    workspace_id: str | None = None
    key: str | None = None
    committed_at: datetime | None = None
    """The database's time of its commit. An older codehub wrote none of these three."""
    format: int = FORMAT

    @property
    def content(self) -> Content:
        return Content(self.sha256, self.size, self.files, self.uncompressed_size, self.outward_links)

    def encode(self) -> bytes:
        return json.dumps(asdict(self), indent=1, sort_keys=True, default=datetime.isoformat).encode() + b"\n"

    def is_of(self, key: str) -> bool:
        """Whether it was written for this place: one that was moved there would bring somebody
        else's home.
        """
        identity = (self.workspace_id, self.key)
        return identity == (None, None) or identity == (key.split("/", maxsplit=1)[0], key)


def decode(text: bytes) -> Meta:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnknownMeta(f"the .meta can't be read ({error})") from None
    if not isinstance(content, dict):
        raise UnknownMeta("the .meta does not say what it should")
    if (version := content.get("format", FORMAT)) != FORMAT:
        raise LaterMeta(Message(Code.META_LATER, {"format": repr(version), "known": FORMAT}))
    texts = [content.get(name) for name in ("workspace_id", "key", "committed_at")]
    described = content_of(content)
    if described is None or not all(text is None or isinstance(text, str) for text in texts):
        raise UnknownMeta("the .meta does not say what it should")
    workspace_id, key, committed_at = texts
    return Meta(**asdict(described), workspace_id=workspace_id, key=key, committed_at=_time(committed_at))


def content_of(fields: Mapping[str, Any]) -> Content | None:
    """Return the content that these fields describe, or None if they don't."""
    sha256 = fields.get("sha256")
    numbers = {name: fields.get(name, default) for name, default in _NUMBERS.items()}
    if not isinstance(sha256, str) or not all(
        type(number) is int and number >= 0 for number in numbers.values()
    ):
        return None
    return Content(sha256, **numbers)


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UnknownMeta("the .meta does not say when it was written") from None
    if at.tzinfo is None:
        raise UnknownMeta("the .meta does not say when it was written")
    return at
