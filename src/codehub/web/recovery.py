"""A recovery as people ask for it, on whichever face: what was ticked in,
what the service is asked for and what the history says out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from codehub.core.messages import Code, Message
from codehub.core.workspace import RecoverChoice

_CHOSEN: Mapping[RecoverChoice | None, Code] = {
    None: Code.ASKED_TO_RECOVER,
    RecoverChoice.NEWEST: Code.ASKED_TO_TAKE_NEWEST,
    RecoverChoice.ADOPT: Code.ASKED_TO_ADOPT,
}


@dataclass(frozen=True, slots=True)
class Recovery:
    accept_loss: bool
    choice: RecoverChoice | None

    @property
    def reason(self) -> Message:
        return Message(Code.ASKED_TO_ACCEPT_LOSS if self.accept_loss else _CHOSEN[self.choice])


class SeveralWays(Exception):
    """More than one way to go on was asked for: they exclude each other."""

    problem = Message(Code.ONE_WAY_ON)


def recovery(*, accept_loss: bool, take: Literal["newest"] | None, adopt: bool) -> Recovery:
    """Return what is asked for. Raises SeveralWays if that is more than one thing: they exclude each
    other.
    """
    if accept_loss + (take is not None) + adopt > 1:
        raise SeveralWays
    choice = RecoverChoice.ADOPT if adopt else None
    return Recovery(accept_loss, choice if take is None else RecoverChoice(take))
