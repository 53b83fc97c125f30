"""Every error code, one row each: what HTTP answers with it, and what a command then exits with.

The codes are fixed by the wire: a new one is a line of docs/spec/wire.md too, and one that a route declares
needs an example in api/document.py.
"""

from enum import IntEnum, StrEnum


class Exit(IntEnum):
    """What a command of `codehub` exits with."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_ALLOWED = 3
    NOT_FOUND = 4
    CONFLICT = 5
    LIMIT = 6
    UNREACHABLE = 7
    WAITED_INTO_ERROR = 8
    TIMED_OUT = 9


class ErrorCode(StrEnum):
    """What the API and the proxy answer with: a code, its HTTP status and its exit code.

    The first row of a status is its general one: what the web framework refuses by itself is that."""

    status: int
    exit: Exit

    def __new__(cls, code: str, status: int, exit_code: Exit) -> "ErrorCode":
        member = str.__new__(cls, code)
        member._value_ = code
        member.status = status
        member.exit = exit_code
        return member

    INVALID_REQUEST = ("INVALID_REQUEST", 422, Exit.USAGE)
    UNAUTHORIZED = ("UNAUTHORIZED", 401, Exit.NOT_ALLOWED)
    FORBIDDEN = ("FORBIDDEN", 403, Exit.NOT_ALLOWED)
    NOT_FOUND = ("NOT_FOUND", 404, Exit.NOT_FOUND)
    WORKSPACE_NOT_FOUND = ("WORKSPACE_NOT_FOUND", 404, Exit.NOT_FOUND)
    INVALID_STATE = ("INVALID_STATE", 409, Exit.CONFLICT)
    OPERATION_IN_PROGRESS = ("OPERATION_IN_PROGRESS", 409, Exit.CONFLICT)
    RECOVERY_REQUIRED = ("RECOVERY_REQUIRED", 409, Exit.CONFLICT)
    NAME_TAKEN = ("NAME_TAKEN", 409, Exit.CONFLICT)
    PRECONDITION_FAILED = ("PRECONDITION_FAILED", 412, Exit.CONFLICT)
    PAYLOAD_TOO_LARGE = ("PAYLOAD_TOO_LARGE", 413, Exit.USAGE)
    TOO_MANY_REQUESTS = ("TOO_MANY_REQUESTS", 429, Exit.LIMIT)
    LIMIT_EXCEEDED = ("LIMIT_EXCEEDED", 429, Exit.LIMIT)
    INTERNAL_ERROR = ("INTERNAL_ERROR", 500, Exit.FAILED)
    UPSTREAM_UNAVAILABLE = ("UPSTREAM_UNAVAILABLE", 502, Exit.UNREACHABLE)
    UNAVAILABLE = ("UNAVAILABLE", 503, Exit.UNREACHABLE)


class CommandError(StrEnum):
    """What only the command line can say: a code and its exit code."""

    exit: Exit

    def __new__(cls, code: str, exit_code: Exit) -> "CommandError":
        member = str.__new__(cls, code)
        member._value_ = code
        member.exit = exit_code
        return member

    FAILED = ("FAILED", Exit.FAILED)
    USAGE = ("USAGE", Exit.USAGE)
    NOT_SIGNED_IN = ("NOT_SIGNED_IN", Exit.NOT_ALLOWED)
    AMBIGUOUS = ("AMBIGUOUS", Exit.USAGE)
    UNREACHABLE = ("UNREACHABLE", Exit.UNREACHABLE)
    OVERTAKEN = ("OVERTAKEN", Exit.CONFLICT)
    WAITED_INTO_ERROR = ("WAITED_INTO_ERROR", Exit.WAITED_INTO_ERROR)
    TIMED_OUT = ("TIMED_OUT", Exit.TIMED_OUT)


def error_of_status(status: int) -> ErrorCode:
    """Return the general code of an HTTP status. A status without one is the request's fault."""
    return next((code for code in ErrorCode if code.status == status), ErrorCode.INVALID_REQUEST)


def exit_of(code: str) -> Exit:
    """Return what a command exits with. A newer server may have codes that this client does not know."""
    for codes in (ErrorCode, CommandError):
        if code in codes.__members__:
            return codes[code].exit
    return Exit.FAILED
