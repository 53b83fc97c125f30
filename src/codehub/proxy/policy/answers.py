"""Answers of our own that are no pages: the one shape of an error (wire.md)."""

import json
from collections.abc import Mapping

from codehub.error_codes import error_of_status
from codehub.proxy.engine.targets import Answer, Target
from codehub.text import DEFAULT, text
from codehub.web.bounds import BODY_BYTES_MAX

RETRY_S = 5


def error(
    status: int,
    message: str,
    *,
    code: str | None = None,
    details: object = None,
    closes: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    content = {"code": code or error_of_status(status), "message": message, "details": details}
    body = json.dumps({"error": content}, ensure_ascii=False).encode()
    return Answer(status, body, headers=headers or {}, closes=closes)


def bad_gateway(message: str) -> Answer:
    return error(502, message)


def unavailable(message: str) -> Answer:
    return error(503, message, headers={"Retry-After": str(RETRY_S)})


def not_ready(why: str) -> Answer:
    """Return what `/readyz` says of a process that is about to end."""
    body = json.dumps({"ready": False, "checks": {"process": why}}).encode()
    return Answer(503, body, closes=True)


def redirect(status: int, location: str) -> Answer:
    return Answer(status, headers={"Location": location, "Cache-Control": "no-store"})


class EngineAnswers:
    """The answers to what the engine finds out by itself. It knows no language: they are in the default
    one.
    """

    def unreadable_request(self, status: int, reason: str) -> Answer:
        return error(status, text(DEFAULT, "program.unreadable_request", reason=reason), closes=True)

    def body_too_large(self) -> Answer:
        return error(413, text(DEFAULT, "program.body_too_large", max=BODY_BYTES_MAX), closes=True)

    def timed_out(self) -> Answer:
        return error(408, text(DEFAULT, "program.late_request"), closes=True)

    def undecided(self) -> Answer:
        return unavailable(text(DEFAULT, "program.undecided"))

    def unreachable(self) -> Answer:
        return bad_gateway(text(DEFAULT, "program.unreachable"))

    def not_listening(self, target: Target) -> Answer:
        if target.has_twin:  # as APIs have that are several
            return unavailable(text(DEFAULT, "program.api_silent"))
        return bad_gateway(text(DEFAULT, "program.not_listening"))

    def no_response(self) -> Answer:
        return bad_gateway(text(DEFAULT, "program.no_response"))

    def unreadable_response(self, reason: str) -> Answer:
        return bad_gateway(text(DEFAULT, "program.unreadable_response", reason=reason))
