"""Chaos on the real thing: PostgreSQL, Docker, S3, Redis and codehub itself are
killed, stopped and restarted while workspaces go up and down.

After each round every workspace is where its wish is, with every byte that was ever written
to its home, one container at most, and nothing of anybody's left over.
CODEHUB_TEST_CHAOS_ROUNDS says how many rounds (5), CODEHUB_TEST_CHAOS_SEED which ones.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence, Set
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from tests.support.chaos import SEED, Chaos, Harm, rounds, surroundings
from tests.support.docker import BASE, DOCKER, LIGHT, Dockerd, TestEngine, alone, make_images
from tests.support.redis import REDIS, TestRedis, running_redis
from tests.support.s3 import S3

from codehub.adapters.docker.volumes import home_name
from codehub.core.workspace import InstanceBackend, StorageBackend

pytestmark = [DOCKER, S3, REDIS]

ROUNDS = rounds(5)
_CONTAINER, _VOLUME, _HOME = "/codehub-ws-", "ws-", "-home"


@dataclass(kw_only=True)
class OnDocker(Chaos):
    BACKENDS = (InstanceBackend.LOCAL_DOCKER, StorageBackend.DOCKER_VOLUME)
    IMAGE = LIGHT

    redis: TestRedis
    daemon: Dockerd

    @property
    def engine(self) -> TestEngine:
        assert self.daemon.engine is not None
        return self.daemon.engine

    async def harm_container(self) -> None:
        running = [each["Id"] for each in self.engine.ask("GET", "containers/json")]
        if running:
            with suppress(Exception):  # it may have gone by itself
                self.engine.ask("POST", f"containers/{self.around.dice.choice(running)}/kill")

    async def harm_docker(self) -> None:
        await asyncio.to_thread(self.daemon.halt)
        await asyncio.sleep(self.around.dice.random() * 2)
        await asyncio.to_thread(self.daemon.start)

    async def harm_redis(self) -> None:
        await self.redis.stop()
        await asyncio.sleep(self.around.dice.random())
        await self.redis.start()

    def instances(self) -> Sequence[UUID]:
        names = [each["Names"][0] for each in self.engine.ask("GET", "containers/json", all=1)]
        return [UUID(name.removeprefix(_CONTAINER)) for name in names if name.startswith(_CONTAINER)]

    def homes(self) -> Set[UUID]:
        names = [each["Name"] for each in self.engine.ask("GET", "volumes")["Volumes"]]
        return {
            UUID(name.removeprefix(_VOLUME).removesuffix(_HOME)) for name in names if name.endswith(_HOME)
        }

    def path_of(self, workspace_id: UUID) -> Path:
        return self.engine.path_of(home_name(workspace_id))

    def left(self) -> list[str]:
        containers = [each["Names"][0] for each in self.engine.ask("GET", "containers/json", all=1)]
        volumes = [each["Name"] for each in self.engine.ask("GET", "volumes")["Volumes"]]
        return containers + [name for name in volumes if name.startswith(_VOLUME)]


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[OnDocker]:
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(running_redis())
        stack.enter_context(alone())
        daemon = Dockerd()
        stack.callback(daemon.stop)
        engine = await asyncio.to_thread(daemon.start_clean)
        await asyncio.to_thread(make_images, engine)
        settings = {"redis_url": redis.url, "instance_backend": "local-docker", "helper_image": BASE}
        around = await stack.enter_async_context(surroundings(directory, **settings))
        around.environ["DOCKER_HOST"] = engine.url
        world = OnDocker(around, redis=redis, daemon=daemon)
        world.start_codehub()
        stack.callback(world.kill_codehub)
        yield world


async def test_nothing_is_lost_doubled_or_orphaned(tmp_path: Path) -> None:
    print(f"seed {SEED}, {ROUNDS} rounds")  # noqa: T201  # pytest shows it when it matters
    async with opened(tmp_path) as world:
        await world.create()
        harms: list[Harm] = [
            *(world.harm_codehub, world.harm_docker, world.harm_container, world.harm_s3),
            *(world.harm_postgres, world.harm_redis, world.harm_by_a_long_sleep, world.harm_codehub),
        ]
        for turn in range(ROUNDS):
            await world.play(turn, harms[turn % len(harms)])
        await world.purge_everything()
