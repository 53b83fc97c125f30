"""What can go wrong for a client: the API's error codes in, the exit codes of wire.md out."""

from collections.abc import Mapping
from enum import IntEnum


class Exit(IntEnum):
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


OF_CODE: Mapping[str, Exit] = {
    "INVALID_REQUEST": Exit.USAGE,
    "PAYLOAD_TOO_LARGE": Exit.USAGE,
    "UNAUTHORIZED": Exit.NOT_ALLOWED,
    "FORBIDDEN": Exit.NOT_ALLOWED,
    "WORKSPACE_NOT_FOUND": Exit.NOT_FOUND,
    "NOT_FOUND": Exit.NOT_FOUND,
    "INVALID_STATE": Exit.CONFLICT,
    "OPERATION_IN_PROGRESS": Exit.CONFLICT,
    "RECOVERY_REQUIRED": Exit.CONFLICT,
    "NAME_TAKEN": Exit.CONFLICT,
    "PRECONDITION_FAILED": Exit.CONFLICT,
    "TOO_MANY_REQUESTS": Exit.LIMIT,
    "LIMIT_EXCEEDED": Exit.LIMIT,
    "INTERNAL_ERROR": Exit.FAILED,
    "UPSTREAM_UNAVAILABLE": Exit.UNREACHABLE,
    "UNAVAILABLE": Exit.UNREACHABLE,
    # What only the command line can say.
    "FAILED": Exit.FAILED,
    "USAGE": Exit.USAGE,
    "NOT_SIGNED_IN": Exit.NOT_ALLOWED,
    "AMBIGUOUS": Exit.USAGE,
    "UNREACHABLE": Exit.UNREACHABLE,
    "OVERTAKEN": Exit.CONFLICT,
    "WAITED_INTO_ERROR": Exit.WAITED_INTO_ERROR,
    "TIMED_OUT": Exit.TIMED_OUT,
}


class Failed(Exception):
    """An error in the API's own shape, with what a person can do about it."""

    def __init__(
        self,
        code: str,
        message: str,
        details: object = None,
        *,
        do: str | None = None,
        words: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.do = do
        self.words = words or message
        """What people are told, where that is not what programs are."""

    @property
    def exit(self) -> Exit:
        return OF_CODE.get(self.code, Exit.FAILED)

    def shape(self) -> dict[str, object]:
        return {"error": {"code": self.code, "message": self.message, "details": self.details}}
