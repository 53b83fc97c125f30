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

from codehub.core.messages import Code, Message, verbatim
from codehub.core.permissions import Denial
from codehub.core.requests import Refused
from codehub.error_codes import ErrorCode, error_of_status
from codehub.ports.access import KeyEnded
from codehub.ports.backends import BackendUnreachable
from codehub.ports.store import NameTaken, StoreUnavailable, UnknownWorkspace
from codehub.service.password_queue import PasswordQueueFull
from codehub.service.workspaces import NotAllowed
from codehub.text import text
from codehub.validation_messages import problem_text
from codehub.web.cookies import SeveralSessions
from codehub.web.domain_text import message_text
from codehub.web.language import request_language

log = structlog.get_logger()

_NOT_ALLOWED = 405
_RETRY_AFTER_S = 2
_INPUT_LENGTH_MAX = 200


# What the framework finds by itself, in our own words.
_MESSAGES: Mapping[int, Message] = {
    400: Message(Code.BODY_UNREADABLE),
    404: Message(Code.NOTHING_HERE),
    405: Message(Code.NO_SUCH_METHOD),
}


class ApiError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        code: ErrorCode,
        message: Message,
        details: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.headers = headers


def refusal_error(refusal: Refused) -> ApiError:
    fields = [{"field": each.field, "problem": each.problem, **each.bound} for each in refusal.fields]
    return ApiError(ErrorCode[refusal.code], refusal.message, fields or refusal.details)


def field_error(field: str, problem: Message, **facts: object) -> ApiError:
    """Say which field is wrong, and why."""
    detail = {"field": field, "problem": problem, **facts}
    return ApiError(
        ErrorCode.INVALID_REQUEST, Message(Code.OF_FIELD, {"field": field, "problem": problem}), [detail]
    )


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
    request: Request,
    status: int,
    code: ErrorCode,
    message: Message,
    details: object = None,
    headers: Any = None,
) -> JSONResponse:
    language = _language(request)
    body = error_body(code, message_text(message, language), _details_text(details, language))
    return JSONResponse(body, status_code=status, headers=headers)


def _language(request: Request) -> str:
    return request_language(request, request.app.state.context.parts.base_url)


def _details_text(details: object, language: str) -> object:
    """Return details with the text of each message in them."""
    if isinstance(details, list):
        return [_details_text(each, language) for each in details]
    if isinstance(details, Mapping):
        return {name: _details_text(value, language) for name, value in details.items()}
    return message_text(details, language) if isinstance(details, Message) else details


async def _api_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return _answer(request, error.code.status, error.code, error.message, error.details, error.headers)


async def _not_valid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = error.errors()
    language = _language(request)
    if any(problem["type"] == "json_invalid" for problem in problems):
        details = [_detail(problems[0], language)]
        return _answer(request, 400, ErrorCode.INVALID_REQUEST, Message(Code.BODY_NO_JSON), details)
    details = [_detail(problem, language) for problem in problems]
    first = details[0]
    return _answer(request, 422, ErrorCode.INVALID_REQUEST, Message(Code.OF_FIELD, first), details)


def _detail(problem: Any, language: str) -> dict[str, str]:
    location = problem["loc"]
    if problem["type"] == "json_invalid":
        return {"field": "body", "problem": text(language, "problem.no_json", position=location[1])}
    # Not parsed: the Content-Type is not JSON.
    if location == ("body",) and isinstance(problem["input"], bytes):
        return {"field": "body", "problem": text(language, "problem.not_said_json")}
    field = ".".join(str(part) for part in location[1:]) or str(location[0])
    return {"field": _shorten(field), "problem": _shorten(problem_text(problem, language))}


def _shorten(value: str) -> str:
    """Limit a text that may quote what came from outside (security 17)."""
    return value.encode("utf-8", "replace").decode("utf-8")[:_INPUT_LENGTH_MAX]


async def _unknown_workspace(request: Request, _error: Exception) -> JSONResponse:
    return _answer(request, 404, ErrorCode.WORKSPACE_NOT_FOUND, Message(Denial.NOT_FOUND))


async def _forbidden(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, NotAllowed)
    return _answer(request, 403, ErrorCode.FORBIDDEN, Message(error.denial))


async def _name_taken(request: Request, _error: Exception) -> JSONResponse:
    return _answer(request, 409, ErrorCode.NAME_TAKEN, Message(Code.NAME_TAKEN))


async def _several_sessions(request: Request, _error: Exception) -> JSONResponse:
    return _answer(request, 400, ErrorCode.INVALID_REQUEST, Message(Code.SEVERAL_SESSIONS))


async def _queue_full(request: Request, _error: Exception) -> JSONResponse:
    wait_s = PasswordQueueFull.retry_after_s
    message = Message(Code.SIGN_IN_CROWDED, {"seconds": wait_s})
    return _answer(request, 503, ErrorCode.UNAVAILABLE, message, headers={"Retry-After": str(wait_s)})


async def _key_ended(request: Request, _error: Exception) -> JSONResponse:
    return _answer(request, 401, ErrorCode.UNAUTHORIZED, Message(Code.KEY_ENDED))


async def _unavailable(request: Request, error: Exception) -> JSONResponse:
    log.warning("unavailable", reason=str(error))
    return _answer(
        request,
        503,
        ErrorCode.UNAVAILABLE,
        Message(Code.NOT_AVAILABLE),
        headers={"Retry-After": str(_RETRY_AFTER_S)},
    )


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == _NOT_ALLOWED:
        return _not_allowed(request, error)
    code = error_of_status(error.status_code)
    message = _MESSAGES.get(error.status_code) or verbatim(str(error.detail))
    return _answer(request, error.status_code, code, message, headers=error.headers)


def _not_allowed(request: Request, error: HTTPException) -> JSONResponse:
    """Name every method of the path: the framework names those of the first route that fits."""
    path = request.scope["path"]
    matching_routes = (
        route for route in request.app.state.routes if route.path_regex.match(path) is not None
    )
    methods = {method for route in matching_routes for method in route.methods}
    headers = {"Allow": ", ".join(sorted(methods))} if methods else error.headers
    return _answer(request, _NOT_ALLOWED, ErrorCode.INVALID_REQUEST, _MESSAGES[_NOT_ALLOWED], headers=headers)


async def _internal_error(request: Request, _error: Exception) -> JSONResponse:
    """What comes from outside of `Requests` has to bring the id itself."""
    return _answer(
        request,
        500,
        ErrorCode.INTERNAL_ERROR,
        Message(Code.OUR_MISTAKE),
        headers={"X-Request-Id": request.state.request_id},
    )
