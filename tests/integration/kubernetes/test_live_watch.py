"""A watch of a real API server that is killed, hangs, is restored, or has forgotten what was missed: what the
cache says is current, or it says that it can't look.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.live_watch import Watched, watching
from tests.support.kubernetes import KUBERNETES
from tests.support.kubernetes_world import NAMESPACE
from tests.support.patience import until

from codehub.adapters.kubernetes.kinds import CONFIG_MAPS

pytestmark = KUBERNETES


@pytest.fixture
async def watched(cluster: TestCluster) -> AsyncIterator[Watched]:
    async with watching(cluster) as watched:
        yield watched


async def test_an_api_server_that_is_away_is_told_and_what_was_made_since_is_seen(watched: Watched) -> None:
    with watched.cluster.without("apiserver"):
        await until(watched.is_blind)
    await asyncio.to_thread(watched.cluster.wait_until_ready)
    watched.make("since")
    await watched.become("first", "since")


async def test_an_api_server_that_hangs_is_told_and_is_seen_again(cluster: TestCluster) -> None:
    async with watching(cluster, silence_s_max=2.0) as watched:
        with cluster.frozen("apiserver"):
            await until(watched.is_blind)
        await asyncio.to_thread(cluster.wait_until_ready)
        watched.make("since")
        await watched.become("first", "since")


async def test_what_a_restored_cluster_never_had_goes(watched: Watched, tmp_path: Path) -> None:
    snapshot = watched.cluster.snapshot(tmp_path / "snapshot")
    watched.make("since")
    await watched.become("first", "since")
    await asyncio.to_thread(watched.cluster.restore, snapshot)
    await watched.become("first")


async def test_a_history_that_the_server_has_forgotten_is_listed_anew(watched: Watched) -> None:
    """It was held back while others wrote and etcd was compacted: its version is too old for a real 410."""
    cluster = watched.cluster
    watched.clock.go_on.clear()
    cluster.kill("apiserver")
    await until(lambda: watched.clock.is_waited_for)
    await asyncio.to_thread(cluster.wait_until_ready)
    watched.make("since")
    cluster.ask("DELETE", CONFIG_MAPS.path(NAMESPACE, f"{watched.label}-first"))
    status = json.loads(cluster.run("etcdctl", "endpoint", "status", "--write-out", "json"))
    cluster.run("etcdctl", "compact", str(status[0]["Status"]["header"]["revision"]))
    # What it still had in its own memory goes, too.
    cluster.kill("apiserver")
    await asyncio.to_thread(cluster.wait_until_ready)
    with capture_logs() as lines:
        watched.clock.go_on.set()
        await watched.become("since")
    assert [line for line in lines if "too old resource version" in line.get("reason", "")]


async def test_a_server_whose_watch_is_cut_says_what_was_missed(watched: Watched) -> None:
    watched.clock.go_on.clear()
    watched.cluster.kill("apiserver")
    await until(lambda: watched.clock.is_waited_for)
    await asyncio.to_thread(watched.cluster.wait_until_ready)
    watched.make("since")
    watched.clock.go_on.set()
    assert await watched.names() == {"first", "since"}
