"""Who handles which workspace, by rendezvous hashing."""

from collections import Counter
from dataclasses import replace
from uuid import UUID

from tests.support.workspaces import SPEC, workspace

from codehub.core.membership import Member, handler_of, machine_of
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace

HERE = frozenset({"local-process", "local-dir"})
MEMBERS = {UUID(int=number): Member(UUID(int=number), f"host-{number}", HERE) for number in range(1, 5)}


def rows(count: int = 400) -> list[Workspace]:
    return [replace(workspace(), id=UUID(int=1000 + number), spec=SPEC) for number in range(count)]


def test_everybody_has_a_fair_share() -> None:
    shares = Counter(handler_of(row, MEMBERS) for row in rows())
    assert set(shares) == set(MEMBERS)
    assert min(shares.values()) > 400 / len(MEMBERS) / 2


def test_when_a_member_goes_only_what_it_handled_changes_hands() -> None:
    gone = UUID(int=2)
    left = {member_id: member for member_id, member in MEMBERS.items() if member_id != gone}
    for row in rows():
        before, after = handler_of(row, MEMBERS), handler_of(row, left)
        assert before in (after, gone)


def test_a_workspace_is_handled_by_somebody_who_reaches_its_backends() -> None:
    docker = Member(UUID(int=9), "far", frozenset({"local-docker", "docker-volume"}))
    members = {**MEMBERS, docker.id: docker}
    row = rows(1)[0]
    far = replace(
        SPEC, instance_backend=InstanceBackend.LOCAL_DOCKER, storage_backend=StorageBackend.DOCKER_VOLUME
    )
    assert handler_of(replace(row, spec=far), members) == docker.id
    assert handler_of(replace(row, spec=far), MEMBERS) is None
    assert all(handler_of(each, members) != docker.id for each in rows())


def test_local_processes_belong_to_one_machine() -> None:
    others = list(MEMBERS.values())[:1]
    local, docker = InstanceBackend.LOCAL_PROCESS, InstanceBackend.LOCAL_DOCKER
    assert machine_of(local, others, host="host-1") is None
    assert machine_of(local, others, host="elsewhere") == "host-1"
    assert machine_of(docker, others, host="elsewhere") is None
