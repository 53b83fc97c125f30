"""For whom a workspace is there: every relation, as a table."""

from uuid import UUID

import pytest
from tests.support.workspaces import NOW, OWNER_ID, workspace

from codehub.core.access import Person, Role, Scope, User
from codehub.core.operations import Phase
from codehub.core.permissions import Denial, Requester, deny
from codehub.core.visit import Visitor

STRANGER_ID = UUID(int=7)


def person(user_id: UUID, role: Role = Role.MEMBER) -> Person:
    user = User(user_id, "somebody", role, disabled=False, created_at=NOW)
    return Person(user, Scope.WRITE, is_token=False, key_sha256=b"", expires_at=None)


OWNER, STRANGER = person(OWNER_ID), person(STRANGER_ID)
ADMIN = person(STRANGER_ID, Role.ADMIN)
VISITING_OWNER, VISITING_STRANGER = Visitor(OWNER_ID, "ann"), Visitor(STRANGER_ID, "bob")


@pytest.mark.parametrize(
    ("requester", "there", "deleted", "admins_only"),
    [
        (OWNER, None, Denial.NOT_FOUND, Denial.ADMINS_ONLY),
        (ADMIN, None, Denial.NOT_FOUND, None),
        (STRANGER, Denial.FOREIGN, Denial.NOT_FOUND, Denial.ADMINS_ONLY),
        (VISITING_OWNER, None, Denial.NOT_FOUND, Denial.ADMINS_ONLY),
        (VISITING_STRANGER, Denial.FOREIGN, Denial.NOT_FOUND, Denial.ADMINS_ONLY),
        ("ttl", None, None, None),
    ],
)
def test_for_whom_a_workspace_is_there(
    requester: Requester, there: Denial | None, deleted: Denial | None, admins_only: Denial | None
) -> None:
    row = workspace(Phase.STANDBY)
    gone = workspace(Phase.DELETED, spec={"deleted_at": NOW, "purge_at": NOW})
    assert deny(requester, row) is there
    assert deny(requester, gone) is deleted
    assert deny(requester, row, admins_only=True) is admins_only


def test_a_deleted_workspace_is_its_owners_to_undelete_and_nobody_elses() -> None:
    gone = workspace(Phase.DELETED, spec={"deleted_at": NOW, "purge_at": NOW})
    assert deny(OWNER, gone, even_deleted=True) is None
    assert deny(STRANGER, gone, even_deleted=True) is Denial.FOREIGN
