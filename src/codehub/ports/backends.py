"""What backends answer when they can't do as asked. An outage is not a failure (contract 12), so they are different exceptions."""

from collections.abc import Mapping

from codehub.core.errors import ErrorReason


class BackendUnreachable(Exception):
    """The backend could not be asked, or did not answer. Nothing is known; nothing counts as failed."""


class ActionFailed(Exception):
    """The backend was reached and refused or failed. The reason says whether trying again makes sense."""

    def __init__(
        self,
        message: str,
        *,
        reason: ErrorReason = ErrorReason.ACTION_FAILED,
        context: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.context = context or {}
