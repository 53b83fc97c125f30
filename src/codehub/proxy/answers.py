"""Answers of our own that are no pages: the one shape of an error (wire.md)."""

import json
from collections.abc import Mapping

from codehub.error_codes import error_of_status
from codehub.proxy.http_body import Malformed, TooLarge
from codehub.proxy.targets import Answer
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
    told = {"code": code or error_of_status(status), "message": message, "details": details}
    body = json.dumps({"error": told}, ensure_ascii=False).encode()
    return Answer(status, body, headers=headers or {}, closes=closes)


def malformed(status: int, why: str) -> Answer:
    return error(status, f"This can't be passed on: {why}.", closes=True)


def refused_body(wrong: Malformed) -> Answer:
    if isinstance(wrong, TooLarge):
        return error(413, f"The body is larger than {BODY_BYTES_MAX} bytes.", closes=True)
    return malformed(400, str(wrong))


def timed_out() -> Answer:
    return error(408, "The request did not come to its end in time.", closes=True)


def bad_gateway(why: str) -> Answer:
    return error(502, why)


def unavailable(why: str = "codehub can't say who you are or where this is right now.") -> Answer:
    return error(503, why, headers={"Retry-After": str(RETRY_S)})


def redirect(status: int, location: str) -> Answer:
    return Answer(status, headers={"Location": location, "Cache-Control": "no-store"})
