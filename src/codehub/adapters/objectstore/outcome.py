"""What a Job did goes into one line, and comes out of it as that or as the
exception that it means. Refuses a line that says nothing.

The whole line fits into what Kubernetes keeps of an ended container.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from codehub.adapters.objectstore.meta import Content, content_of
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message, from_json, to_json
from codehub.ports.archives import LongerThanEstimated
from codehub.ports.backends import ActionFailed, BackendUnreachable, EngineFailed
from codehub.ports.storage import Amount

LINE_BYTES_MAX = 4096
# Each character takes six bytes of JSON at most, and of all facts one may be long.
_TEXT_LENGTH_MAX = 550


@dataclass(frozen=True, slots=True)
class Archived:
    """The object is there, was read back, and has this content."""

    content: Content
    version: str
    """What the store calls these very bytes: the object's ETag, or nothing for a file."""

    def line(self) -> str:
        return _line("archived", **asdict(self.content), version=self.version)


@dataclass(frozen=True, slots=True)
class Restored:
    """The home is whole, on the disk, and in its place."""

    def line(self) -> str:
        return _line("restored")


def failure_line(error: ActionFailed | BackendUnreachable) -> str:
    match error:
        case LongerThanEstimated():
            return _line("longer", size=error.size)
        case ActionFailed():
            return _line("failed", reason=error.reason.value, message=_message(error.message))
        case BackendUnreachable():
            return _line("unreachable", message=_message(error.message))


def progress_line(amount: Amount) -> str:
    return json.dumps(asdict(amount))


def progress_of(line: str) -> Amount | None:
    """Return the progress that a line of output tells, if it does."""
    match _fields(line):
        case {"stage": str(stage), "done": int(done), "total": int() | None as total}:
            return Amount(stage, done, total)
        case _:
            return None


def outcome_of(line: str) -> Archived | Restored:
    """Return what a Job did. Raises what kept it from that."""
    fields = _fields(line)
    match fields:
        case {"outcome": "archived", "version": str(version)} if (content := content_of(fields)) is not None:
            return Archived(content, version)
        case {"outcome": "restored"}:
            return Restored()
        case {"outcome": "longer", "size": int(size)}:
            raise LongerThanEstimated(size)
        case {
            "outcome": "failed",
            "reason": str(reason),
            "message": {"code": str(code), "facts": dict(facts)},
        }:
            raise ActionFailed(Message(code, from_json(facts)), reason=_reason(reason))
        case {"outcome": "unreachable", "message": {"code": str(code), "facts": dict(facts)}}:
            raise BackendUnreachable(Message(code, from_json(facts)))
        case _:
            raise EngineFailed(Message(Code.JOB_SILENT, {"text": repr(line[:_TEXT_LENGTH_MAX])}))


def _line(outcome: str, **fields: Any) -> str:
    return json.dumps({"outcome": outcome, **fields}, ensure_ascii=False)


def _message(message: Message) -> Mapping[str, Any]:
    """Return it as JSON. A long text loses its middle: a path's last name is the one that people look for."""
    facts = {name: _shorten(fact) for name, fact in to_json(message.facts).items()}
    return {"code": message.code, "facts": facts}


def _shorten(fact: Any) -> Any:
    if isinstance(fact, dict):
        return {name: _shorten(value) for name, value in fact.items()}
    if not isinstance(fact, str) or len(fact) <= _TEXT_LENGTH_MAX:
        return fact
    half = _TEXT_LENGTH_MAX // 2
    return f"{fact[:half]} ... {fact[-half:]}"


def _reason(text: str) -> ErrorReason:
    return ErrorReason(text) if text in {*ErrorReason} else ErrorReason.ACTION_FAILED


def _fields(line: str) -> Mapping[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
