"""One helper container per workspace: a script and a home go in, the script's streams come out. A new one removes the old first."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from codehub.adapters.docker.aside import discard
from codehub.adapters.docker.attach import Attached
from codehub.adapters.docker.engine import CONFLICT, NOT_FOUND, DockerError, Engine, refusal
from codehub.adapters.docker.images import pull
from codehub.adapters.docker.pipe import TARGET, Pipe, Piped, by_pipe
from codehub.adapters.docker.volumes import home_name
from codehub.adapters.threads import begin, ended, in_thread, settled
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import tell_nobody

log = structlog.get_logger()

HELPER = "helper"
PLACE = "/home"
_MEMORY = 1 << 30
_PIDS = 64
_TRIES_MAX = 4
# The image's names of users are nobody's: what a home is given, it is given by numbers.
_NAMELESS = [
    {"Type": "bind", "Source": "/dev/null", "Target": f"/etc/{names}", "ReadOnly": True}
    for names in ("passwd", "group")
]

# Refuses, if the helper must not run after all.
Check = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Task:
    """What a helper is to do: a script, and what it may."""

    script: str
    capabilities: Sequence[str]
    read_only: bool = False
    volume_name: Callable[[UUID], str] = home_name


@dataclass
class Job:
    """A running helper."""

    engine: Engine
    container_id: str
    streams: Attached
    output: Attached | Piped

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield its output, one part ahead of whoever takes it."""
        following = begin(self.output.read)
        part = b"?"
        try:
            while part := await asyncio.shield(following):
                following = begin(self.output.read)
                yield part
        except OSError as error:
            raise BackendUnreachable(f"Docker's stream broke off: {error}") from None
        finally:
            if part:
                self.streams.hang_up()  # so that the thread which waits for its output ends
            await settled(following)

    async def said(self) -> bytes:
        """Return all of its output, once it has ended. If the engine hangs up first, how it ended has still to be asked."""
        said = b""
        with suppress(OSError):
            while part := await ended(begin(self.streams.read), hurry=self.streams.hang_up):
                said += part
        return said

    async def write(self, part: memoryview) -> None:
        """Give it input. Raises OSError if it has ended."""
        await ended(begin(self.streams.write, part), hurry=self.streams.hang_up)

    async def exit_code(self) -> int:
        """Return how it ended. One that somebody has removed was taken over."""
        try:
            outcome = await self.engine.ask("POST", f"containers/{self.container_id}/wait", wait=True)
        except DockerError as error:
            if error.status == NOT_FOUND:
                raise ActionFailed("a newer job took this one's place") from None
            raise refusal(error) from None
        return int(outcome["StatusCode"])

    @property
    def told(self) -> bytes:
        return bytes(self.streams.told)


@asynccontextmanager
async def job(
    engine: Engine,
    image: str,
    workspace_id: UUID,
    task: Task,
    *,
    pipes: Path | None = None,
    check: Check | None = None,
) -> AsyncIterator[Job]:
    """Run a helper on this workspace's home. When the block is left it is gone, killed if need be.

    With `pipes`, a directory, its output comes by a pipe there if it can. `check` may refuse while nothing has run: the container that
    was made keeps the volume that it will see from being replaced.
    """
    with _opened(pipes, workspace_id) as pipe:
        container_id = await _created(engine, image, workspace_id, task, pipe)
        try:
            if check is not None:
                await check()
            streams = await in_thread(Attached, engine.url, container_id)
            try:
                try:
                    await engine.ask("POST", f"containers/{container_id}/start")
                except DockerError as error:
                    raise refusal(error) from None
                if pipe is not None:
                    pipe.unname()
                yield Job(engine, container_id, streams, streams if pipe is None else Piped(streams, pipe))
            finally:
                streams.hang_up()
                streams.close()
        finally:
            await settled(asyncio.ensure_future(discard(engine, container_id)))


@contextmanager
def _opened(directory: Path | None, workspace_id: UUID) -> Iterator[Pipe | None]:
    pipe = None
    if directory is not None:
        try:
            pipe = Pipe(directory, workspace_id)
        except OSError as error:
            log.warning("no_pipe_for_a_helper", error=str(error))  # it speaks by the engine
    try:
        yield pipe
    finally:
        if pipe is not None:
            pipe.close()


async def run_job(engine: Engine, image: str, workspace_id: UUID, task: Task, *, check: Check) -> None:
    """Run a helper to its end. Refuses to call done what it says has failed."""
    async with job(engine, image, workspace_id, task, check=check) as running:
        await running.said()
        if code := await running.exit_code():
            told = running.told.decode(errors="replace").strip()
            raise ActionFailed(f"the helper for the home ended with {code}: {told}")


async def end_job(engine: Engine, workspace_id: UUID) -> None:
    """Remove the workspace's helper, if there is one of ours."""
    name = job_name(workspace_id)
    said = await engine.find(f"containers/{name}/json")
    if said is not None:
        if not engine.owns(said["Config"].get("Labels"), HELPER):
            raise ActionFailed(f"the container {name} is not this installation's: it is not touched")
        await discard(engine, said["Id"])


def job_name(workspace_id: UUID) -> str:
    return f"codehub-job-{workspace_id}"


async def _created(
    engine: Engine, image: str, workspace_id: UUID, task: Task, pipe: Pipe | None = None
) -> str:
    config = _config(engine, image, workspace_id, task, pipe)
    mounts = config["HostConfig"]["Mounts"]
    for _ in range(_TRIES_MAX):
        await end_job(engine, workspace_id)
        try:
            made = await engine.ask("POST", "containers/create", body=config, name=job_name(workspace_id))
            return str(made["Id"])
        except DockerError as error:
            if error.status == NOT_FOUND and "No such image" in error.message:
                await pull(engine, image, tell_nobody)
            elif error.status == HTTPStatus.BAD_REQUEST and mounts[-1]["Target"] == TARGET:
                mounts.pop()  # the engine does not see this directory: codehub runs in a container itself
            elif error.status != CONFLICT:
                raise refusal(error) from None
    raise ActionFailed(f"somebody else keeps making the container {job_name(workspace_id)}")


def _config(engine: Engine, image: str, workspace_id: UUID, task: Task, pipe: Pipe | None) -> dict[str, Any]:
    """Return what Docker is to make. A pipe is its last mount."""
    mount: dict[str, Any] = {
        "Type": "volume",
        "Source": task.volume_name(workspace_id),
        "Target": PLACE,
        "ReadOnly": task.read_only,
        "VolumeOptions": {"NoCopy": True, "Labels": engine.labels(workspace_id, "home")},
    }
    mounts = [mount, *_NAMELESS]
    if pipe is not None:
        # Read-only as a mount, which keeps nobody from writing into a pipe.
        mounts.append({"Type": "bind", "Source": str(pipe.path), "Target": TARGET, "ReadOnly": True})
    return {
        "Image": image,
        "User": "0:0",
        "WorkingDir": PLACE,
        "Env": ["LC_ALL=C"],
        "Entrypoint": ["/bin/sh", "-c"],
        "Cmd": [task.script if pipe is None else by_pipe(task.script)],
        "Labels": engine.labels(workspace_id, HELPER),
        "OpenStdin": True,
        "StdinOnce": True,
        "HostConfig": {
            "Mounts": mounts,
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "Memory": _MEMORY,
            "PidsLimit": _PIDS,
            "CapDrop": ["ALL"],
            "CapAdd": list(task.capabilities),
            "SecurityOpt": ["no-new-privileges:true"],
            "LogConfig": {"Type": "none"},  # its output is the home
        },
    }
