"""A Docker engine for tests, with the images they need: the
one that runs, or one of our own that ends with us.

As root: dockerd with its own socket and its data in the cache, so that
images are made once. CODEHUB_TEST_DOCKER=unix://… takes another. The base
image is made by debootstrap, since no registry may be in reach.
"""

import asyncio
import fcntl
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.groups import remove_groups
from tests.support.leftovers import PREFIX, RUN, end_leftovers, note
from tests.support.patience import block_until

BASE, LIGHT, CODE_SERVER = "codehub-test/base", "codehub-test/light", "codehub-test/code-server"
LIGHT_VARIANTS = {
    "another": "LIGHT_NAME=another",
    "slow": "LIGHT_AWAITS=/home/coder/listen",
    "crashes": "LIGHT_CRASH=1",
    "hangs": "LIGHT_HANG=1",
}
_IMAGES = Path(__file__).with_name("images")
_PACKAGES = "python3-minimal,tini,zstd,attr,git,ca-certificates"
_HASH = "codehub.test.hash"
_SYSTEM_SOCKET = Path("/var/run/docker.sock")
_PUSH_S_MAX = 300


def cache() -> Path:
    default = Path("/var/cache/codehub") if os.geteuid() == 0 else Path.home() / ".cache/codehub"
    return Path(os.environ.get("CODEHUB_CACHE") or default)


def _answers(socket: Path) -> bool:
    if not socket.exists():
        return False
    transport = httpx.HTTPTransport(uds=str(socket))
    try:
        with httpx.Client(transport=transport, base_url="http://docker", timeout=5) as client:
            return client.get("/_ping").status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def why_no_docker() -> str | None:
    """Say why there can be no engine here, if so."""
    if os.environ.get("CODEHUB_TEST_DOCKER") or _answers(_SYSTEM_SOCKET):
        return None
    if os.geteuid() != 0:
        return "no Docker engine runs, and only root may start one"
    missing = [name for name in ("dockerd", "iptables", "debootstrap") if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)} (scripts/engines)" if missing else None


NO_DOCKER = why_no_docker()
DOCKER = pytest.mark.skipif(NO_DOCKER is not None, reason=str(NO_DOCKER))
DOCKER_SUITE = (pytest.mark.docker, DOCKER)
"""For a parameter: its tests run with those on Docker."""


class TestEngine:
    """A running engine, asked by plain calls that wait: for what tests do behind an adapter's back."""

    __test__ = False  # not a test, whatever its name begins with

    def __init__(self, socket: Path, process: subprocess.Popen[bytes] | None = None) -> None:
        self.socket = socket
        self.url = f"unix://{socket}"
        self.process = process
        transport = httpx.HTTPTransport(uds=str(socket))
        self._client = httpx.Client(transport=transport, base_url="http://docker", timeout=120)

    def ask(self, method: str, path: str, *, body: Any = None, content: Any = None, **params: Any) -> Any:
        answer = self._client.request(method, f"/{path}", params=params, json=body, content=content)
        answer.raise_for_status()
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.json() if is_json and answer.content and path != "build" else answer.text

    def find(self, path: str) -> Any | None:
        answer = self._client.get(f"/{path}")
        return None if answer.status_code == httpx.codes.NOT_FOUND else answer.json()

    def close(self) -> None:
        self._client.close()

    def path_of(self, volume: str) -> Path:
        """Return where a volume's files are: the engine is of this machine."""
        return Path(self.ask("GET", f"volumes/{volume}")["Mountpoint"])

    def labelled(self, install: str) -> list[str]:
        """Return every container and volume that has this installation's label."""
        filters = json.dumps({"label": [f"codehub.install={install}"]})
        containers = self.ask("GET", "containers/json", all=1, filters=filters)
        volumes = self.ask("GET", "volumes", filters=filters)["Volumes"] or []
        return sorted(
            [each["Names"][0].lstrip("/") for each in containers] + [each["Name"] for each in volumes]
        )

    def remove_labelled(self, install: str) -> None:
        filters = json.dumps({"label": [f"codehub.install={install}"]})
        for each in self.ask("GET", "containers/json", all=1, filters=filters):
            self.ask("DELETE", f"containers/{each['Id']}", force=1, v=1)
        for each in self.ask("GET", "volumes", filters=filters)["Volumes"] or []:
            self.ask("DELETE", f"volumes/{each['Name']}")
        remove_groups(install)

    def build(self, image: str, dockerfile: str, files: Mapping[str, bytes], **options: str) -> None:
        """Build an image once, and again when what it is made of has changed."""
        digest = hashlib.sha256(repr((dockerfile, sorted(files.items()))).encode()).hexdigest()[:16]
        built = self.find(f"images/{image}/json")
        if built is not None and (built["Config"].get("Labels") or {}).get(_HASH) == digest:
            return
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as tar:
            for name, content in {"Dockerfile": dockerfile.encode(), **files}.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), 0o755
                tar.addfile(entry, io.BytesIO(content))
        labels = json.dumps({_HASH: digest})
        output = self.ask("POST", "build", content=context.getvalue(), t=image, labels=labels, **options)
        assert "errorDetail" not in output, output[-2000:]

    def push(self, image: str, auth: str = "e30=") -> None:
        """Put an image into its registry, and forget it here."""
        repository, _, tag = image.rpartition(":")
        answer = self._client.post(
            f"/images/{repository}/push",
            params={"tag": tag},
            headers={"X-Registry-Auth": auth},
            timeout=_PUSH_S_MAX,
        )
        assert '"error"' not in answer.text, answer.text[-500:]
        self.ask("DELETE", f"images/{image}", force=1)

    def save(self, images: Sequence[str], target: Path) -> None:
        """Write images into one archive."""
        with self._client.stream("GET", "/images/get", params={"names": list(images)}) as answer:
            answer.raise_for_status()
            with target.open("wb") as file:
                for part in answer.iter_bytes():
                    file.write(part)

    def forget_images(self, reference: str) -> None:
        """Remove the images of such a name, but for those that something runs from."""
        filters = json.dumps({"reference": [reference]})
        for each in self.ask("GET", "images/json", filters=filters):
            self._client.delete(f"/images/{each['Id']}", params={"force": 1})

    def build_code_server(self) -> None:
        """Build the image with a real IDE, from what
        scripts/code-server has made in the cache. Once: 400 MB go in.
        """
        with (cache() / "test-code-server.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.find(f"images/{CODE_SERVER}/json") is not None:
                return
            place = code_server().parents[1]
            dockerfile = _IMAGES / "code-server.Dockerfile"
            command = ("tar", "-c", "-C", dockerfile.parent, dockerfile.name)
            with _output((*command, "-C", place, "bin", "lib", "node_modules")) as packed:
                output = self.ask("POST", "build", content=packed, t=CODE_SERVER, dockerfile=dockerfile.name)
            assert "errorDetail" not in output, output


def code_server() -> Path:
    """Return code-server's program, built once in the cache, with a Node of its own."""
    script = Path(__file__).parents[2] / "scripts" / "code-server"
    done = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip())


def _why_no_code_server() -> str | None:
    missing = [name for name in ("g++", "make", "pkg-config", "rg") if shutil.which(name) is None]
    return f"code-server can't be built here: {', '.join(missing)} (scripts/engines)" if missing else None


WHY_NO_CODE_SERVER = _why_no_code_server()
NO_CODE_SERVER = pytest.mark.skipif(WHY_NO_CODE_SERVER is not None, reason=str(WHY_NO_CODE_SERVER))


# Lends the engine of this test process.
Docker = Callable[[], Awaitable[TestEngine]]


@asynccontextmanager
async def lent_engine() -> AsyncIterator[TestEngine]:
    """Lend an engine with the light images. One at a time on this
    machine: two would take each other's network rules.
    """
    given = os.environ.get("CODEHUB_TEST_DOCKER", "").removeprefix("unix://")
    socket = Path(given) if given else _SYSTEM_SOCKET
    if given or _answers(socket):
        engine = TestEngine(socket)
        try:
            await asyncio.to_thread(make_images, engine)
            yield engine
        finally:
            engine.close()
        return
    with alone():
        daemon = Dockerd()
        try:
            engine = await asyncio.to_thread(daemon.start_clean)
            await asyncio.to_thread(make_images, engine)
            yield engine
        finally:
            await asyncio.to_thread(daemon.stop)


class Dockerd:
    """A dockerd of our own. It can be stopped and started again, as an engine's update would do."""

    def __init__(self) -> None:
        # Short: a socket's address has room for 107 bytes.
        self._run = Path(tempfile.mkdtemp(prefix=PREFIX, dir=RUN))
        self.engine: TestEngine | None = None

    def start_clean(self) -> TestEngine:
        """Start with nothing but images, whatever an earlier run has left in
        the cache: what it can't be rid of goes with all of it.
        """
        end_leftovers(_data())
        engine = self.start()
        try:
            clear(engine)
        except httpx.HTTPStatusError:
            self.halt()
            end_leftovers(_data())
            subprocess.run(["chattr", "-R", "-i", _data()], stderr=subprocess.DEVNULL, check=False)
            shutil.rmtree(_data(), ignore_errors=True)  # it may be a mount point itself
            engine = self.start()
        return engine

    def start(self) -> TestEngine:
        data = _data()
        data.mkdir(parents=True, exist_ok=True)
        self._run.mkdir(exist_ok=True)
        note(self._run, data)
        # Not --pdeathsig: it would be sent when the thread that started it ends.
        command = (
            *(
                "dockerd",
                "--data-root",
                data,
                "--exec-root",
                self._run / "exec",
                "--pidfile",
                self._run / "pid",
            ),
            *("--host", f"unix://{self._run}/sock", "--bridge", "none", "--log-level", "warn"),
        )
        with (self._run / "log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.engine = TestEngine(self._run / "sock", process)
        block_until(lambda: _answers(self._run / "sock") or process.poll() is not None)
        if process.poll() is not None:
            raise RuntimeError(f"dockerd ended: {(self._run / 'log').read_text()[-2000:]}")
        return self.engine

    def halt(self, number: int = signal.SIGTERM) -> None:
        """Stop the daemon, and keep what it holds."""
        assert self.engine is not None
        assert self.engine.process is not None
        self.engine.process.send_signal(number)
        self.engine.process.wait(90)
        self.engine.close()

    def stop(self) -> None:
        """End it whatever happens, with all that it runs and has mounted."""
        try:
            if (
                self.engine is not None
                and self.engine.process is not None
                and self.engine.process.poll() is None
            ):
                try:
                    clear(self.engine)
                finally:
                    self.halt()
        finally:
            end_leftovers(_data())
            shutil.rmtree(self._run, ignore_errors=True)


def _data() -> Path:
    return cache() / "test-docker"


@contextmanager
def alone() -> Iterator[None]:
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "test-docker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def clear(engine: TestEngine) -> None:
    """Remove what a run that was killed has left: this engine's containers and volumes are all tests'."""
    for each in engine.ask("GET", "containers/json", all=1):
        engine.ask("DELETE", f"containers/{each['Id']}", force=1, v=1)
    for each in engine.ask("GET", "volumes")["Volumes"] or []:
        engine.ask("DELETE", f"volumes/{each['Name']}", force=1)


def make_images(engine: TestEngine) -> None:
    if engine.find(f"images/{BASE}/json") is None:
        _import_base(engine)
    dockerfile, files = _light()
    engine.build(LIGHT, dockerfile, files)
    for variant, environment in LIGHT_VARIANTS.items():
        engine.build(
            f"{LIGHT}:{variant}", f"FROM {LIGHT}\nENV {environment}", {**files, "base": dockerfile.encode()}
        )


def light_hash() -> str:
    """What all light images are made of."""
    return hashlib.sha256(repr((_PACKAGES, *_light(), LIGHT_VARIANTS)).encode()).hexdigest()[:16]


def _light() -> tuple[str, Mapping[str, bytes]]:
    dockerfile = "\n".join(
        (
            f"FROM {BASE}",
            "RUN useradd --uid 1000 --create-home --home-dir /home/coder --shell /bin/bash coder",
            "COPY light.py /opt/light.py",
            "USER 1000:1000",
            'ENTRYPOINT ["/usr/bin/tini", "-s", "--", "/usr/bin/python3", "-I", "-S", "/opt/light.py"]',
        )
    )
    return dockerfile, {"light.py": (_IMAGES / "light.py").read_bytes()}


def _import_base(engine: TestEngine) -> None:
    """Make the base image. It takes the better part of a minute, once."""
    with tempfile.TemporaryDirectory(prefix="base-", dir=cache()) as place:
        command = ("debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", place)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
        shutil.rmtree(Path(place) / "var/cache/apt/archives", ignore_errors=True)
        with _output(("tar", "--numeric-owner", "-c", "-C", place, ".")) as packed:
            engine.ask("POST", "images/create", content=packed, fromSrc="-", repo=BASE, tag="latest")


@contextmanager
def _output(command: Sequence[str | Path]) -> Iterator[Iterator[bytes]]:
    """Yield what a program says, in parts."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        read = program.stdout.read
        yield iter(lambda: read(1 << 20), b"")


async def _beside_an_engine(command: Sequence[str]) -> int:
    async with lent_engine() as engine:
        environment = {**os.environ, "CODEHUB_TEST_DOCKER": engine.url}
        process = await asyncio.create_subprocess_exec(*command, env=environment)
        # Who is told to end ends the command, and then the engine: else that would be left behind.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, process.terminate)
        return await process.wait()


if __name__ == "__main__":
    # One engine for all of a command's processes: `python -m tests.support.docker pytest -n 2 …`.
    if NO_DOCKER is not None:
        sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)
    sys.exit(asyncio.run(_beside_an_engine(sys.argv[1:])))
