"""Which role of the database each process needs: shown by logins that may take no other."""

import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
from tests.support.stores import PASSWORD_HASH, PostgresWorld

from codehub.adapters.postgres.connect import Role
from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks
from codehub.app.database import api_stores, stores
from codehub.app.edge import edge
from codehub.app.server import make_listener
from codehub.core.operations import DesiredState
from codehub.core.origins import NONE
from codehub.engine.backends import Backends
from codehub.engine.system import System
from codehub.ports.instances import TcpUpstream
from codehub.settings import load_settings

SECRET = "a secret of a session, long enough for one"


@pytest.fixture
async def api_login(postgres: PostgresWorld) -> AsyncIterator[dict[str, Any]]:
    """How to connect as somebody who may be the API's role, and not the controller's."""
    name = f"login_{uuid4().hex}"
    await postgres.admin.execute(f"CREATE ROLE {name} LOGIN IN ROLE {Role.API}")
    yield {**postgres.connect_args, "user": name}
    await postgres.admin.execute(f"DROP ROLE {name}")


def make_system() -> System:
    return System(SystemClock(), SystemRandomness(), SystemIdentity(), SystemTasks())


async def test_the_proxy_serves_as_the_api_s_role_alone(
    postgres: PostgresWorld, api_login: dict[str, Any]
) -> None:
    row = await postgres.create(desired_state=DesiredState.PENDING)
    await postgres.access.open_session(
        hashlib.sha256(SECRET.encode()).digest(),
        postgres.user_id,
        password_hash=PASSWORD_HASH,
        lasts=timedelta(days=1),
    )
    listener = make_listener("127.0.0.1", 0)
    address = "http://{}:{}".format(*listener.getsockname())
    nobody = TcpUpstream("127.0.0.1", 1)
    async with (
        api_stores(api_login, make_system()) as stored,
        edge(load_settings(workspace_host=NONE), listener, [nobody], stored, Backends({}, {}), make_system()),
        httpx.AsyncClient(base_url=address, cookies={"codehub_session": SECRET}) as ann,
    ):
        unknown = await ann.get(f"/w/{uuid4()}/")
        pending = await ann.get(f"/w/{row.id}/")
        connections = await postgres.admin.fetch(
            "SELECT DISTINCT application_name FROM pg_stat_activity WHERE usename = $1", api_login["user"]
        )
    assert (unknown.status_code, pending.status_code) == (404, 502), pending.text
    assert [connection["application_name"] for connection in connections] == ["codehub-api"]


async def test_what_serves_both_writers_needs_the_controller_s_role_too(api_login: dict[str, Any]) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match=Role.CONTROLLER):
        async with stores(api_login, make_system()):
            pass
