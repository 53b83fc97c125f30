"""Errors in one shape: what went wrong in, `{"error": {"code", "message", "details"}}` out.

The codes are fixed by wire.md.
"""

from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from codehub.core.messages import Message
from codehub.core.permissions import Denial
from codehub.core.requests import Refused
from codehub.error_codes import ErrorCode, error_of_status
from codehub.ports.access import KeyEnded
from codehub.ports.backends import BackendUnreachable
from codehub.ports.store import NameTaken, StoreUnavailable, UnknownWorkspace
from codehub.service.password_queue import PasswordQueueFull
from codehub.service.workspaces import NotAllowed
from codehub.validation_messages import problem_text
from codehub.web.cookies import SeveralSessions
from codehub.web.domain_text import message_text
from codehub.web.language import request_language

log = structlog.get_logger()

_NOT_ALLOWED = 405
_RETRY_AFTER_S = 2
_INPUT_LENGTH_MAX = 200


# What it says by itself, in our own words.
_MESSAGES: Mapping[int, str] = {
    400: "The body can't be read: it is no JSON in UTF-8, or no JSON that anybody would write.",
    404: "There is nothing at this address.",
    405: "There is no such method here. The header Allow names those that there are.",
}


class ApiError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        details: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.headers = headers


def refusal_error(refusal: Refused, language: str) -> ApiError:
    fields = [
        {"field": each.field, "problem": message_text(each.problem, language), **each.bound}
        for each in refusal.fields
    ]
    message = message_text(refusal.message, language)
    return ApiError(ErrorCode[refusal.code], message, fields or refusal.details)


def field_error(field: str, problem: str, **facts: object) -> ApiError:
    """Say which field is wrong, and why."""
    detail = {"field": field, "problem": problem, **facts}
    return ApiError(ErrorCode.INVALID_REQUEST, f"{field}: {problem}", [detail])


def error_body(code: str, message: str, details: object = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "details": details}}


def install_handlers(app: FastAPI) -> None:
    """Let every error leave in the one shape."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(UnknownWorkspace, _unknown_workspace)
    app.add_exception_handler(NotAllowed, _forbidden)
    app.add_exception_handler(NameTaken, _name_taken)
    app.add_exception_handler(SeveralSessions, _several_sessions)
    app.add_exception_handler(KeyEnded, _key_ended)
    app.add_exception_handler(PasswordQueueFull, _queue_full)
    app.add_exception_handler(StoreUnavailable, _unavailable)
    app.add_exception_handler(BackendUnreachable, _unavailable)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _internal_error)


def _answer(
    status: int, code: ErrorCode, message: str, details: object = None, headers: Any = None
) -> JSONResponse:
    return JSONResponse(error_body(code, message, details), status_code=status, headers=headers)


async def _api_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return _answer(error.code.status, error.code, error.message, error.details, error.headers)


async def _not_valid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = error.errors()
    if any(problem["type"] == "json_invalid" for problem in problems):
        return _answer(400, ErrorCode.INVALID_REQUEST, "The body is not JSON.", [_detail(problems[0])])
    details = [_detail(problem) for problem in problems]
    first = details[0]
    return _answer(422, ErrorCode.INVALID_REQUEST, f"{first['field']}: {first['problem']}", details)


def _detail(problem: Any) -> dict[str, str]:
    location = problem["loc"]
    if problem["type"] == "json_invalid":
        return {"field": "body", "problem": f"it is no JSON from character {location[1]} on"}
    # Not parsed: the Content-Type is not JSON.
    if location == ("body",) and isinstance(problem["input"], bytes):
        return {"field": "body", "problem": "it is not said to be JSON: send Content-Type: application/json"}
    field = ".".join(str(part) for part in location[1:]) or str(location[0])
    return {"field": _shorten(field), "problem": _shorten(problem_text(problem))}


def _shorten(text: str) -> str:
    """Limit a text that may quote what came from outside (security 17)."""
    return text.encode("utf-8", "replace").decode("utf-8")[:_INPUT_LENGTH_MAX]


async def _unknown_workspace(request: Request, _error: Exception) -> JSONResponse:
    return _answer(404, ErrorCode.WORKSPACE_NOT_FOUND, _denied(request, Denial.NOT_FOUND))


async def _forbidden(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, NotAllowed)
    return _answer(403, ErrorCode.FORBIDDEN, _denied(request, error.denial))


def _denied(request: Request, denial: Denial) -> str:
    language = request_language(request, request.app.state.context.parts.base_url)
    return message_text(Message(denial), language)


async def _name_taken(_request: Request, _error: Exception) -> JSONResponse:
    return _answer(409, ErrorCode.NAME_TAKEN, "You have a workspace of this name. Choose another.")


async def _several_sessions(_request: Request, error: Exception) -> JSONResponse:
    return _answer(400, ErrorCode.INVALID_REQUEST, str(error))


async def _queue_full(_request: Request, error: Exception) -> JSONResponse:
    wait_s = PasswordQueueFull.retry_after_s
    message = f"{error} Wait {wait_s} s, then try again."
    return _answer(503, ErrorCode.UNAVAILABLE, message, headers={"Retry-After": str(wait_s)})


async def _key_ended(_request: Request, _error: Exception) -> JSONResponse:
    return _answer(401, ErrorCode.UNAUTHORIZED, "What you came in by has just been ended. Sign in again.")


async def _unavailable(_request: Request, error: Exception) -> JSONResponse:
    log.warning("unavailable", reason=str(error))
    return _answer(
        503,
        ErrorCode.UNAVAILABLE,
        "Something this needs does not answer. Try again soon.",
        headers={"Retry-After": str(_RETRY_AFTER_S)},
    )


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == _NOT_ALLOWED:
        return _not_allowed(request, error)
    code = error_of_status(error.status_code)
    message = _MESSAGES.get(error.status_code, str(error.detail))
    return _answer(error.status_code, code, message, headers=error.headers)


def _not_allowed(request: Request, error: HTTPException) -> JSONResponse:
    """Name every method of the path: the framework names those of the first route that fits."""
    path = request.scope["path"]
    matching_routes = (
        route for route in request.app.state.routes if route.path_regex.match(path) is not None
    )
    methods = {method for route in matching_routes for method in route.methods}
    headers = {"Allow": ", ".join(sorted(methods))} if methods else error.headers
    return _answer(_NOT_ALLOWED, ErrorCode.INVALID_REQUEST, _MESSAGES[_NOT_ALLOWED], headers=headers)


async def _internal_error(request: Request, _error: Exception) -> JSONResponse:
    """What comes from outside of `Requests` has to bring the id itself."""
    return _answer(
        500,
        ErrorCode.INTERNAL_ERROR,
        "Something went wrong here. The log has it under this request's X-Request-Id.",
        headers={"X-Request-Id": request.state.request_id},
    )
