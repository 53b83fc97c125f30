"""A refusal of the API goes in, as status and body; the exception
that it means comes out, with the API's own message.

What says nothing about the request (429, 5xx, 401) is an outage.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable

_MESSAGE_CHARS_MAX = 500
_QUOTA = ("exceeded quota", "insufficient quota", "failed quota", "status unknown for quota")
_ADMISSION = ("admission webhook", "ValidatingAdmissionPolicy", "violates PodSecurity")
# How RBAC and every other authorizer say it: User "x" cannot list resource "pods" …
_UNAUTHORIZED = (" cannot ", ' resource "')


class Refusal(ActionFailed):
    """The API has refused a request."""

    def __init__(self, status: int, api_reason: str, message: str, details: Mapping[str, Any]) -> None:
        facts = {"status": status, "text": message.strip()[:_MESSAGE_CHARS_MAX]}
        super().__init__(Message(Code.KUBERNETES_REFUSED, facts))
        self.status = status
        self.api_reason = api_reason
        self.details = details


class NotFound(Refusal):
    """There is no such object, or no such kind."""


class Conflict(Refusal):
    """The object is another one (uid), or has changed (resourceVersion), or is managed by somebody else."""


class AlreadyExists(Refusal):
    """The name is taken."""


class Gone(Refusal):
    """The history that was asked for is no longer kept: list anew."""


class Forbidden(Refusal):
    """The credentials don't allow it."""


class QuotaExceeded(Refusal):
    """A ResourceQuota of the namespace is used up."""


class AdmissionRefused(Refusal):
    """A policy of the cluster does not take the object: Pod Security, limits, a webhook."""


class Invalid(Refusal):
    """The object or the request is no valid one."""


def failure(server: str, status: int, body: bytes) -> Refusal | BackendUnreachable:
    """Return the exception to raise for an answer of this status."""
    answer = _parse(body)
    message, api_reason = str(answer.get("message") or ""), str(answer.get("reason") or "")
    details = answer.get("details")
    details = details if isinstance(details, dict) else {}
    if kind := _kind(status, api_reason, message):
        kind = Conflict if kind is Invalid and _is_another_uid(details) else kind
        return kind(status, api_reason, message, details)
    if status == HTTPStatus.UNAUTHORIZED:
        return BackendUnreachable(Message(Code.KUBERNETES_STRANGER, {"server": server}))
    text = f"({status}) {message.strip()[:_MESSAGE_CHARS_MAX]}"
    return BackendUnreachable(Message(Code.KUBERNETES_UNREACHABLE, {"server": server, "text": text}))


def is_quota_race(status: int, body: bytes) -> bool:
    """Say whether two requests have only met at the same quota: the same request again is then right."""
    details = _parse(body).get("details") if status == HTTPStatus.CONFLICT else None
    return isinstance(details, dict) and details.get("kind") == "resourcequotas"


def _kind(status: int, api_reason: str, message: str) -> type[Refusal] | None:
    is_outage = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in (
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.REQUEST_TIMEOUT,
    )
    if is_outage:
        return None
    if any(sign in message for sign in _ADMISSION):
        return AdmissionRefused
    match status:
        case HTTPStatus.NOT_FOUND:
            return NotFound
        case HTTPStatus.CONFLICT:
            return AlreadyExists if api_reason == "AlreadyExists" else Conflict
        case HTTPStatus.GONE:
            return Gone
        case HTTPStatus.FORBIDDEN:
            return _forbidden(message)
        case HTTPStatus.BAD_REQUEST | HTTPStatus.UNPROCESSABLE_ENTITY:
            return Invalid
        case _:
            return Refusal


def _is_another_uid(details: Mapping[str, Any]) -> bool:
    """A patch that names a uid is invalid for another object of the name: the precondition has failed."""
    return any(cause.get("field") == "metadata.uid" for cause in details.get("causes") or ())


def _forbidden(message: str) -> type[Refusal]:
    """The API has one reason for three things: only the message tells them apart."""
    if any(sign in message for sign in _QUOTA):
        return QuotaExceeded
    if all(sign in message for sign in _UNAUTHORIZED):
        return Forbidden
    return AdmissionRefused


def _parse(body: bytes) -> Mapping[str, Any]:
    """Return the Status that the API sends; a proxy before it may send plain text."""
    try:
        answer = json.loads(body)
    except ValueError:
        return {"message": body.decode(errors="replace")}
    return answer if isinstance(answer, dict) else {"message": str(answer)}
