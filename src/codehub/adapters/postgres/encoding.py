"""JSON and arrays of a workspace, to PostgreSQL's text and back.

Written to be fast: a pass has up to 10,000.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from sys import intern  # what thousands of rows say alike is kept once
from typing import Any

from codehub.core.conditions import NAMES, Condition, Conditions, Truth
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.messages import Code, Message, bare_message, from_json, to_json, verbatim
from codehub.core.operations import Operation
from codehub.core.plan import Why
from codehub.core.workspace import HeldUp, HomeCtx, Resources

_VOLUME, _ARCHIVE, _CONTAINER, _HEALTHY = (NAMES[name] for name in Conditions.__slots__)
_BARE: Mapping[str, Message] = {
    code: bare_message(code) for code in (*Code, *Why) if code is not Code.VERBATIM
}
"""By their codes: messages that have no facts."""
_TRUTHS: Mapping[str, Truth] = {truth: truth for truth in Truth}  # faster than Truth(…)


def storable(text: str) -> str:
    """Return a text without what PostgreSQL can't hold: a stray byte in a log line must not stop a pass."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


@lru_cache(maxsize=1024)
def to_resources(text: str) -> Resources:
    return Resources(**json.loads(text))


def from_resources(resources: Resources) -> str:
    return json.dumps({name: getattr(resources, name) for name in Resources.__slots__})


def to_conditions(text: str) -> Conditions:
    stored = json.loads(text)
    return Conditions(
        _to_condition(stored[_VOLUME]),
        _to_condition(stored[_ARCHIVE]),
        _to_condition(stored[_CONTAINER]),
        _to_condition(stored[_HEALTHY]),
    )


def _to_condition(stored: Mapping[str, Any]) -> Condition:
    since = stored["last_transition_time"]
    return Condition(
        _TRUTHS[stored["status"]],
        intern(stored["reason"]),
        _to_message(stored),
        None if since is None else _to_time(since),
    )


def to_home(text: str) -> HomeCtx:
    stored = json.loads(text)
    given_up_at = stored.get("given_up_at")
    return HomeCtx(
        stored["volume_id"],
        stored["restore_marker"],
        stored["dirty"],
        None if given_up_at is None else _to_time(given_up_at),
        stored.get("replaces"),
    )


def to_error(text: str) -> ErrorInfo:
    stored = json.loads(text)
    return ErrorInfo(
        ErrorReason(stored["reason"]),
        _to_message(stored),
        Operation(stored["operation"]),
        stored["error_count"],
        _to_time(stored["occurred_at"]),
        stored["context"],
    )


def to_held_up(text: str) -> HeldUp:
    stored = json.loads(text)
    return HeldUp(
        ErrorReason(stored["reason"]), _to_message(stored), _to_time(stored["since"]), stored["is_trying"]
    )


def read_message(text: str, facts: str | None) -> Message:
    """Return a message: by its code, if it has facts or there is such a code. Else it is a text: of somebody
    else, or from before there were codes."""
    if facts is not None:
        return Message(text, from_json(json.loads(facts)))
    return _BARE.get(text) or verbatim(text)


def _to_message(stored: Mapping[str, Any]) -> Message:
    text, facts = stored["message"], stored.get("facts")
    if facts is not None:
        return Message(text, from_json(facts))
    return _BARE.get(text) or verbatim(text)


def _to_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def from_conditions(conditions: Conditions) -> str:
    return (
        f'{{"{_VOLUME}":{_from_condition(conditions.volume_ready)},'
        f'"{_ARCHIVE}":{_from_condition(conditions.archive_ready)},'
        f'"{_CONTAINER}":{_from_condition(conditions.container_ready)},'
        f'"{_HEALTHY}":{_from_condition(conditions.healthy)}}}'
    )


def _from_condition(condition: Condition) -> str:
    # Built by hand: json.dumps of a nested dict would cost as much as the database's share of a row.
    since = condition.last_transition_time
    message = condition.message
    head = (
        _condition_head(condition.status, condition.reason, _members(message))
        if message.facts
        else _bare_condition_head(condition.status, condition.reason, message.code)
    )
    return f"{head}null}}" if since is None else f"{head}{_from_time(since)}}}"


@lru_cache(maxsize=4096)
def _bare_condition_head(status: Truth, reason: str, code: str) -> str:
    """What thousands of workspaces have alike, because it has no facts."""
    return _condition_head(status, reason, _members(Message(code)))


def _condition_head(status: Truth, reason: str, members: str) -> str:
    """All of a condition but its time."""
    return f'{{"status":"{status}","reason":{quoted(reason)},{members},"last_transition_time":'


def _members(message: Message) -> str:
    """Return what a JSON object says of a message: its code and its facts, or a text alone."""
    text, facts = written_message(message)
    return f'"message":{quoted(text)}' if facts is None else f'"message":{quoted(text)},"facts":{facts}'


def written_message(message: Message) -> tuple[str, str | None]:
    """Return its code, and its facts if it has any. A text of somebody else
    is stored as it is, unless it would be taken for a code.
    """
    if not message.facts:
        return message.code, None
    if message.code == Code.VERBATIM and message.facts["text"] not in _BARE:
        return storable(message.facts["text"]), None
    return message.code, json.dumps(_storable(to_json(message.facts)))


def _storable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _storable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_storable(each) for each in value]
    return storable(value) if isinstance(value, str) else value


def from_home(home: HomeCtx) -> str:
    volume_id, marker, given_up_at = home.volume_id, home.restore_marker, home.given_up_at
    given_up = "" if given_up_at is None else f',"given_up_at":{_from_time(given_up_at)}'
    replaces = "" if home.replaces is None else f',"replaces":{quoted(home.replaces)}'
    return (
        f'{{"volume_id":{"null" if volume_id is None else quoted(volume_id)},'
        f'"restore_marker":{"null" if marker is None else quoted(marker)},'
        f'"dirty":{"true" if home.dirty else "false"}{given_up}{replaces}}}'
    )


def from_error(error: ErrorInfo) -> str:
    return (
        f'{{"reason":"{error.reason}",{_members(error.message)},'
        f'"is_terminal":{"true" if error.is_terminal else "false"},"operation":"{error.operation}",'
        f'"error_count":{error.error_count},"context":{json.dumps(dict(error.context))},'
        f'"occurred_at":{_from_time(error.occurred_at)}}}'
    )


def from_held_up(held_up: HeldUp) -> str:
    return (
        f'{{"reason":"{held_up.reason}",{_members(held_up.message)},'
        f'"since":{_from_time(held_up.since)},"is_trying":{"true" if held_up.is_trying else "false"}}}'
    )


def _from_time(at: datetime) -> str:
    """Return RFC 3339 in UTC, as the wire has it and `error_time` in the schema demands, in quotes."""
    if at.tzinfo is not UTC:
        at = at.astimezone(UTC)
    return f'"{at.isoformat()[:-6]}Z"'


def from_times(times: Sequence[datetime]) -> str:
    return "{" + ",".join(_from_time(at) for at in times) + "}" if times else "{}"
