"""What every operation says of itself in the OpenAPI document: which errors it answers with, and what they
look like.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from codehub.api.errors import error_body
from codehub.api.shapes import ErrorShape
from codehub.error_codes import ErrorCode
from codehub.web.cookies import session_name

EXAMPLE_MESSAGES: dict[ErrorCode, str] = {
    ErrorCode.INVALID_REQUEST: "name: it must have a length of at least 1",
    ErrorCode.UNAUTHORIZED: (
        "Sign in first: POST /api/v1/login, or send a token as `Authorization: Bearer cht_…`."
    ),
    ErrorCode.FORBIDDEN: "This is somebody else's workspace.",
    ErrorCode.WORKSPACE_NOT_FOUND: "There is no such workspace.",
    ErrorCode.NOT_FOUND: "There is nothing at this address.",
    ErrorCode.INVALID_STATE: "The workspace is being deleted. Undelete it first, or wait until it is gone.",
    ErrorCode.OPERATION_IN_PROGRESS: "STARTING is under way. Ask again when it is done.",
    ErrorCode.RECOVERY_REQUIRED: (
        "The workspace is in ERROR. Recover it first; `explain` says what went wrong."
    ),
    ErrorCode.NAME_TAKEN: "You have a workspace of this name. Choose another.",
    ErrorCode.PRECONDITION_FAILED: (
        "Somebody changed it: it is at revision 3 by now. Read it again, then decide."
    ),
    ErrorCode.PAYLOAD_TOO_LARGE: "The body is larger than 1048576 bytes.",
    ErrorCode.TOO_MANY_REQUESTS: "Too many failed tries. Wait 4 s, then try again.",
    ErrorCode.LIMIT_EXCEEDED: "2 of 2 workspaces run already: one, two. Stop one of them first.",
    ErrorCode.INTERNAL_ERROR: "Something went wrong here. The log has it under this request's X-Request-Id.",
    ErrorCode.UPSTREAM_UNAVAILABLE: "The workspace's IDE does not answer.",
    ErrorCode.UNAVAILABLE: "Something this needs does not answer. Try again soon.",
}
_DETAILS: dict[ErrorCode, Any] = {
    ErrorCode.INVALID_REQUEST: [{"field": "name", "problem": "it must have a length of at least 1"}],
    ErrorCode.PRECONDITION_FAILED: {"revision": 3},
    ErrorCode.LIMIT_EXCEEDED: {
        "limit": "per_user",
        "max": 2,
        "running": [{"id": "019a8b00-0000-7000-8000-000000000001", "name": "one"}],
    },
}
_ALWAYS = (ErrorCode.INVALID_REQUEST, ErrorCode.INTERNAL_ERROR, ErrorCode.UNAVAILABLE)
OF_PEOPLE = (ErrorCode.UNAUTHORIZED, ErrorCode.FORBIDDEN)
OF_WORKSPACE = (*OF_PEOPLE, ErrorCode.WORKSPACE_NOT_FOUND)
OF_BODY = (ErrorCode.PAYLOAD_TOO_LARGE,)


def answers(*codes: ErrorCode, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return the errors of an operation for its `responses`."""
    responses: dict[int | str, dict[str, Any]] = {}
    for code in (*codes, *_ALWAYS, *(OF_BODY if body else ())):
        statuses = (400, 422) if code is ErrorCode.INVALID_REQUEST else (code.status,)
        for status in statuses:
            entry = responses.setdefault(
                status,
                {
                    "model": ErrorShape,
                    "description": "",
                    "content": {"application/json": {"examples": {}}},
                },
            )
            entry["description"] = " or ".join(filter(None, (entry["description"], code.value)))
            example = {"value": error_body(code, EXAMPLE_MESSAGES[code], _DETAILS.get(code))}
            entry["content"]["application/json"]["examples"][code.value] = example
    for status, header in ((429, "Retry-After"), (503, "Retry-After")):
        if status in responses and (
            status != ErrorCode.LIMIT_EXCEEDED.status or ErrorCode.TOO_MANY_REQUESTS in codes
        ):
            responses[status]["headers"] = {
                header: {"description": "Seconds to wait.", "schema": {"type": "integer"}}
            }
    return responses


SIGNED_IN: dict[str, Any] = {"security": [{"session": []}, {"token": []}]}
_SCHEMES = {
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": session_name(secure=False),
        "description": (
            f"Under https it is `{session_name(secure=True)}`. Two of the one that counts are 400."
        ),
    },
    "token": {"type": "http", "scheme": "bearer", "description": "An API token, `cht_…`."},
}


def _allow_empty_values(schema: dict[str, Any]) -> None:
    """Say of every query parameter that empty is as good as absent (`api/incoming.py`)."""
    for methods in schema["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query":
                    parameter["allowEmptyValue"] = True


def install(app: FastAPI) -> None:
    """Make the document once, when it is first asked for."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            schema["components"]["securitySchemes"] = _SCHEMES
            _allow_empty_values(schema)
            for name in ("HTTPValidationError", "ValidationError"):
                schema["components"]["schemas"].pop(name, None)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
