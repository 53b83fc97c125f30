"""Whether a workspace is there for whoever asks: a requester and a workspace in, a denial or nothing out."""

from enum import StrEnum
from typing import TypeAlias

from codehub.core.access import Person, may_enter, may_manage
from codehub.core.messages import Code
from codehub.core.visit import Visitor
from codehub.core.workspace import Workspace, is_deleted

Requester: TypeAlias = Person | Visitor | str
"""Somebody who is signed in, a visitor at the proxy, or, by its name, a part of codehub that asks for
itself.
"""


class Denial(StrEnum):
    """Why a workspace is not there for somebody; the value is the code of what they are told."""

    NOT_FOUND = Code.NO_SUCH_WORKSPACE
    FOREIGN = Code.FOREIGN_WORKSPACE
    ADMINS_ONLY = Code.ADMINS_ONLY
    OPENED_BY_OWNER = Code.OPENED_BY_OWNER


def deny(
    requester: Requester, workspace: Workspace, *, even_deleted: bool = False, admins_only: bool = False
) -> Denial | None:
    """Say why they may not see it, or ask something of it. What is deleted is gone before it is anybody's.

    `even_deleted`: what is asked is of a deleted one, too. A part of codehub is denied nothing.
    """
    if isinstance(requester, str):
        return None
    if is_deleted(workspace) and not even_deleted:
        return Denial.NOT_FOUND
    owner_id = workspace.spec.owner_user_id
    if isinstance(requester, Visitor):
        return (
            Denial.ADMINS_ONLY if admins_only else _foreign(is_allowed=may_enter(requester.user_id, owner_id))
        )
    if admins_only and not requester.is_admin:
        return Denial.ADMINS_ONLY
    return _foreign(is_allowed=may_manage(requester, owner_id))


def deny_opening(person: Person, workspace: Workspace) -> Denial | None:
    """Say why they may not let others into it. Who may not enter can't open it for themselves, either."""
    return None if may_enter(person.id, workspace.spec.owner_user_id) else Denial.OPENED_BY_OWNER


def _foreign(*, is_allowed: bool) -> Denial | None:
    return None if is_allowed else Denial.FOREIGN
