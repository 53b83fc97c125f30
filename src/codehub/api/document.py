"""What every operation says of itself in the OpenAPI document: which errors it answers with, and what they look like."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from codehub.api.errors import STATUS, Code, error_body
from codehub.api.shapes import ErrorShape
from codehub.web.cookies import session_name

EXAMPLE_MESSAGES: dict[Code, str] = {
    Code.INVALID_REQUEST: "name: it must have a length of at least 1",
    Code.UNAUTHORIZED: "Sign in first: POST /api/v1/login, or send a token as `Authorization: Bearer cht_…`.",
    Code.FORBIDDEN: "This is somebody else's workspace.",
    Code.WORKSPACE_NOT_FOUND: "There is no such workspace.",
    Code.NOT_FOUND: "There is nothing at this address.",
    Code.INVALID_STATE: "The workspace is being deleted. Undelete it first, or wait until it is gone.",
    Code.OPERATION_IN_PROGRESS: "STARTING is under way. Ask again when it is done.",
    Code.RECOVERY_REQUIRED: "The workspace is in ERROR. Recover it first; `explain` says what went wrong.",
    Code.NAME_TAKEN: "You have a workspace of this name. Choose another.",
    Code.PRECONDITION_FAILED: "Somebody changed it: it is at revision 3 by now. Read it again, then decide.",
    Code.PAYLOAD_TOO_LARGE: "The body is larger than 1048576 bytes.",
    Code.TOO_MANY_REQUESTS: "Too many failed tries. Wait 4 s, then try again.",
    Code.LIMIT_EXCEEDED: "2 of 2 workspaces run already: one, two. Stop one of them first.",
    Code.INTERNAL_ERROR: "Something went wrong here. The log has it under this request's X-Request-Id.",
    Code.UPSTREAM_UNAVAILABLE: "The workspace's IDE does not answer.",
    Code.UNAVAILABLE: "Something this needs does not answer. Try again soon.",
}
_DETAILS: dict[Code, Any] = {
    Code.INVALID_REQUEST: [{"field": "name", "problem": "it must have a length of at least 1"}],
    Code.PRECONDITION_FAILED: {"revision": 3},
    Code.LIMIT_EXCEEDED: {
        "limit": "per_user",
        "max": 2,
        "running": [{"id": "019a8b00-0000-7000-8000-000000000001", "name": "one"}],
    },
}
_ALWAYS = (Code.INVALID_REQUEST, Code.INTERNAL_ERROR, Code.UNAVAILABLE)
OF_PEOPLE = (Code.UNAUTHORIZED, Code.FORBIDDEN)
OF_WORKSPACE = (*OF_PEOPLE, Code.WORKSPACE_NOT_FOUND)
OF_BODY = (Code.PAYLOAD_TOO_LARGE,)


def answers(*codes: Code, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return the errors of an operation for its `responses`."""
    found: dict[int | str, dict[str, Any]] = {}
    for code in (*codes, *_ALWAYS, *(OF_BODY if body else ())):
        statuses = (400, 422) if code is Code.INVALID_REQUEST else (STATUS[code],)
        for status in statuses:
            entry = found.setdefault(
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
        if status in found and (status != STATUS[Code.LIMIT_EXCEEDED] or Code.TOO_MANY_REQUESTS in codes):
            found[status]["headers"] = {
                header: {"description": "Seconds to wait.", "schema": {"type": "integer"}}
            }
    return found


SIGNED_IN: dict[str, Any] = {"security": [{"session": []}, {"token": []}]}
_SCHEMES = {
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": session_name(secure=False),
        "description": f"Under https it is `{session_name(secure=True)}`. Two of the one that counts are 400.",
    },
    "token": {"type": "http", "scheme": "bearer", "description": "An API token, `cht_…`."},
}


def _allow_empty_values(made: dict[str, Any]) -> None:
    """Say of every query parameter that empty is as good as absent (`api/queries.py`)."""
    for methods in made["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query":
                    parameter["allowEmptyValue"] = True


def install(app: FastAPI) -> None:
    """Make the document once, when it is first asked for."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            made["components"]["securitySchemes"] = _SCHEMES
            _allow_empty_values(made)
            for name in ("HTTPValidationError", "ValidationError"):
                made["components"]["schemas"].pop(name, None)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
