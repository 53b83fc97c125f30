"""One helper container per workspace: a script and a home go in, the script's streams come out.

A new helper removes the old one first.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from codehub.adapters.docker.attach import AttachedStreams
from codehub.adapters.docker.engine import CONFLICT, NOT_FOUND, DockerError, Engine, refusal
from codehub.adapters.docker.images import pull
from codehub.adapters.docker.pipe import TARGET, Pipe, PipedOutput, by_pipe
from codehub.adapters.docker.unremovable import discard
from codehub.adapters.docker.volumes import home_name
from codehub.adapters.threads import begin, in_thread, wait_for, wait_until_done
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import ignore_progress

log = structlog.get_logger()

HELPER = "helper"
PLACE = "/home"
_MEMORY = 1 << 30
_PIDS = 64
_TRIES_MAX = 4
# No user names of the image: a home's owners are numbers.
_NAMELESS = [
    {"Type": "bind", "Source": "/dev/null", "Target": f"/etc/{names}", "ReadOnly": True}
    for names in ("passwd", "group")
]

# Raises an error if the helper must not run after all.
Check = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Task:
    """A helper's script, and the capabilities it runs with."""

    script: str
    capabilities: Sequence[str]
    read_only: bool = False
    volume_name: Callable[[UUID], str] = home_name


@dataclass
class Job:
    """A running helper."""

    engine: Engine
    container_id: str
    streams: AttachedStreams
    output: AttachedStreams | PipedOutput

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield its output, reading one part ahead."""
        next_part = begin(self.output.read)
        part = b"?"
        try:
            while part := await asyncio.shield(next_part):
                next_part = begin(self.output.read)
                yield part
        except OSError as error:
            raise BackendUnreachable(Message(Code.DOCKER_CUT_OFF, {"text": str(error)})) from None
        finally:
            if part:
                self.streams.disconnect()  # so that the thread which waits for its output ends
            await wait_until_done(next_part)

    async def read_output(self) -> bytes:
        """Return all of its output, once it has ended.

        After a lost connection the exit code is still to be asked.
        """
        output = b""
        with suppress(OSError):
            while part := await wait_for(begin(self.streams.read), hurry=self.streams.disconnect):
                output += part
        return output

    async def write(self, part: memoryview) -> None:
        """Write to its input. Raises OSError if it has ended."""
        await wait_for(begin(self.streams.write, part), hurry=self.streams.disconnect)

    async def exit_code(self) -> int:
        """Return its exit code. A helper that was removed has been replaced by a newer one."""
        try:
            outcome = await self.engine.ask("POST", f"containers/{self.container_id}/wait", wait=True)
        except DockerError as error:
            if error.status == NOT_FOUND:
                raise ActionFailed(Message(Code.NEWER_JOB)) from None
            raise refusal(error) from None
        return int(outcome["StatusCode"])

    @property
    def error_output(self) -> bytes:
        return bytes(self.streams.error_output)


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
    """Run a helper on this workspace's home. At the end of the block it is gone, killed if need be.

    With `pipes`, a directory, its output comes through a pipe there if possible. `check` may refuse before
    the script runs: the container exists by then, and keeps its volume from being replaced.
    """
    with _open_pipe(pipes, workspace_id) as pipe:
        container_id = await create_container(engine, image, workspace_id, task, pipe)
        try:
            if check is not None:
                await check()
            streams = await in_thread(AttachedStreams, engine.url, container_id)
            try:
                try:
                    await engine.ask("POST", f"containers/{container_id}/start")
                except DockerError as error:
                    raise refusal(error) from None
                if pipe is not None:
                    pipe.remove_name()
                yield Job(
                    engine, container_id, streams, streams if pipe is None else PipedOutput(streams, pipe)
                )
            finally:
                streams.disconnect()
                streams.close()
        finally:
            await wait_until_done(asyncio.ensure_future(discard(engine, container_id)))


@contextmanager
def _open_pipe(directory: Path | None, workspace_id: UUID) -> Iterator[Pipe | None]:
    pipe = None
    if directory is not None:
        try:
            pipe = Pipe(directory, workspace_id)
        except OSError as error:
            log.warning("no_pipe_for_a_helper", error=str(error))  # its output comes through the engine
    try:
        yield pipe
    finally:
        if pipe is not None:
            pipe.close()


async def run_job(engine: Engine, image: str, workspace_id: UUID, task: Task, *, check: Check) -> None:
    """Run a helper to its end. Raises ActionFailed if its script fails."""
    async with job(engine, image, workspace_id, task, check=check) as running:
        await running.read_output()
        if code := await running.exit_code():
            error_output = running.error_output.decode(errors="replace").strip()
            raise ActionFailed(Message(Code.HELPER_FAILED, {"exit_code": code, "text": error_output}))


async def end_job(engine: Engine, workspace_id: UUID) -> None:
    """Remove the workspace's helper, if there is one of ours."""
    name = job_name(workspace_id)
    inspection = await engine.find(f"containers/{name}/json")
    if inspection is not None:
        if not engine.owns(inspection["Config"].get("Labels"), HELPER):
            raise ActionFailed(Message(Code.DOCKER_NOT_OURS, {"name": name}))
        await discard(engine, inspection["Id"])


def job_name(workspace_id: UUID) -> str:
    return f"codehub-job-{workspace_id}"


async def create_container(
    engine: Engine, image: str, workspace_id: UUID, task: Task, pipe: Pipe | None = None
) -> str:
    config = _config(engine, image, workspace_id, task, pipe)
    mounts = config["HostConfig"]["Mounts"]
    for _ in range(_TRIES_MAX):
        await end_job(engine, workspace_id)
        try:
            answer = await engine.ask("POST", "containers/create", body=config, name=job_name(workspace_id))
            return str(answer["Id"])
        except DockerError as error:
            if error.status == NOT_FOUND and "No such image" in error.message:
                await pull(engine, image, ignore_progress)
            elif error.status == HTTPStatus.BAD_REQUEST and mounts[-1]["Target"] == TARGET:
                mounts.pop()  # the engine does not see this directory: codehub runs in a container itself
            elif error.status != CONFLICT:
                raise refusal(error) from None
    raise ActionFailed(Message(Code.CONTAINER_CHANGES, {"name": job_name(workspace_id)}))


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
