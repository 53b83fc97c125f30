"""Answers of our own that are no pages: the one shape of an error (wire.md)."""

import json
from collections.abc import Mapping

from codehub.error_codes import error_of_status
from codehub.proxy.engine.targets import Answer
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


def unavailable(message: str = "codehub can't say who you are or where this is right now.") -> Answer:
    return error(503, message, headers={"Retry-After": str(RETRY_S)})


def redirect(status: int, location: str) -> Answer:
    return Answer(status, headers={"Location": location, "Cache-Control": "no-store"})


class EngineAnswers:
    """The answers to what the engine finds out by itself."""

    def unreadable_request(self, status: int, reason: str) -> Answer:
        return error(status, f"This can't be passed on: {reason}.", closes=True)

    def body_too_large(self) -> Answer:
        return error(413, f"The body is larger than {BODY_BYTES_MAX} bytes.", closes=True)

    def timed_out(self) -> Answer:
        return error(408, "The request did not come to its end in time.", closes=True)

    def undecided(self) -> Answer:
        return unavailable()

    def unreachable(self) -> Answer:
        return bad_gateway("The workspace can't be reached.")

    def not_listening(self) -> Answer:
        return bad_gateway("It is said to run, but nothing answers where it should.")

    def no_response(self) -> Answer:
        return bad_gateway("It closed the connection without an answer.")

    def unreadable_response(self, reason: str) -> Answer:
        return bad_gateway(f"What it answered can't be passed on: {reason}.")
