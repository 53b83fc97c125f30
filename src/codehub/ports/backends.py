"""What backends answer when they can't do as asked. An outage is not a
failure (contract 12), so they are different exceptions.
"""

from collections.abc import Mapping

from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message, verbatim


class BackendUnreachable(Exception):
    """The backend could not be asked, or did not answer. Nothing is known; nothing counts as failed."""

    def __init__(self, message: str | Message = "") -> None:
        super().__init__(message)
        self.message = verbatim(message) if isinstance(message, str) else message


class MarkMissing(BackendUnreachable):
    """It answers, but lacks this installation's mark, so that what it lists does
    not count. Only a person knows whether it is the right one.
    """

    def __init__(self, mark: Message) -> None:
        """Take the name of the mark."""
        super().__init__(Message(Code.MARK_TO_ADOPT, {"mark": mark}))
        self.mark = mark


class ActionFailed(Exception):
    """The backend was reached and refused or failed. The reason says whether trying again makes sense."""

    is_engines_own = False
    """Whether the engine itself failed, and not what was asked of it:
    it may be well again soon, however often it was asked.
    """

    def __init__(
        self,
        message: str | Message,
        *,
        reason: ErrorReason = ErrorReason.ACTION_FAILED,
        context: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = verbatim(message) if isinstance(message, str) else message
        self.reason = reason
        self.context = context or {}


class EngineFailed(ActionFailed):
    """The engine failed by itself, as its 5xx says. That is tried again until the operation's time is up."""

    is_engines_own = True
