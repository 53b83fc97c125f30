"""The release before serves on beside this one, on one database that this one has migrated."""

import io
import subprocess
import tarfile
from pathlib import Path

import httpx
import pytest
from tests.conftest import Servers
from tests.support.fleet import PASSWORD, fleet
from tests.support.patience import PATIENCE_S, ask_until
from tests.support.program import codehub

ROOT = Path(__file__).parents[2]
API = "/api/v1"
PREVIOUS = "749ff4b081da"
"""The release before this one: its tag, or the last commit of it. Every release moves it."""


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The code of the release before, out of this clone's history."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", PREVIOUS, "src"], capture_output=True, check=False
    )
    if archive.returncode:
        why = f"this is no clone with {PREVIOUS} in its history (git fetch --unshallow)"
        pytest.skip(why)  # in CI too: what a clone holds is not for a test to say
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(tmp_path / "previous", filter="data")
    return tmp_path / "previous" / "src"


async def arrives(client: httpx.AsyncClient, workspace_id: str, phase: str) -> None:
    async def show() -> dict[str, str]:
        body: dict[str, str] = (await client.get(f"{API}/workspaces/{workspace_id}")).json()
        return body

    await ask_until(show, lambda row: (row["phase"], row["operation"]) == (phase, "NONE"))


async def test_the_release_before_goes_on_beside_this_one(
    servers: Servers, tmp_path: Path, previous: Path
) -> None:
    """Both as API and controller: each workspace is somebody's, and each API shows what the other made."""
    server = await servers("postgres-18")
    async with server.empty() as database:
        url = f"postgresql://admin@/{database}?host={server.directory}"
        with fleet(tmp_path, url) as made:
            await made.start("api", 0, source=previous)
            await made.start("controller", 0, source=previous)
            assert codehub("migrate", database_url=url).returncode == 0
            old, new = (
                httpx.AsyncClient(base_url=made.url("api", slot), timeout=PATIENCE_S) for slot in (0, 1)
            )
            async with old, new:
                await made.start("api", 1)
                await made.start("controller", 1)
                ids = []
                for number in range(4):
                    client = (old, new)[number % 2]
                    if not client.cookies:
                        body = {"username": "admin", "password": PASSWORD}
                        signed_in = await client.post(
                            f"{API}/login", json=body, headers={"Origin": made.address}
                        )
                        assert signed_in.status_code == 200, signed_in.text
                        client.headers["Origin"] = made.address
                    answer = await client.post(f"{API}/workspaces", json={"name": f"demo-{number}"})
                    assert answer.status_code == 201, answer.text
                    ids.append(answer.json()["id"])
                for workspace_id in ids:
                    await arrives(old, workspace_id, "RUNNING")
                    await arrives(new, workspace_id, "RUNNING")
                assert (await old.post(f"{API}/workspaces/{ids[1]}:stop")).status_code == 200
                assert (await new.post(f"{API}/workspaces/{ids[0]}:stop")).status_code == 200
                for workspace_id in ids[:2]:
                    await arrives(new, workspace_id, "STANDBY")
                    await arrives(old, workspace_id, "STANDBY")
