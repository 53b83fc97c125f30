"""The corpus against codehub and against nginx: nothing that
nginx refuses is forwarded, and nothing is smuggled.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.proxy.corpus import CASES, PASS, Case
from tests.support.edge import Server, Talk, server, until, world
from tests.support.nginx import NGINX
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port

from codehub.ports.instances import TcpUpstream
from codehub.proxy.engine.context import DEFAULT_LIMITS

QUIET_S = 10
"""So long both wait for the rest of a request: no case needs it, however slow the machine is."""
CONF = """
daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; client_header_timeout {quiet_s}; client_body_timeout {quiet_s};
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u;
  scgi_temp_path {dir}/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://127.0.0.1:{upstream}; proxy_http_version 1.1; proxy_set_header Host $http_host; }}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What one case led to: the first line of the answer, and all that reached the server behind."""

    answer: bytes
    forwarded: bytes

    @property
    def was_refused(self) -> bool:
        return not self.forwarded


async def take_anything(talk: Talk) -> None:
    """A server that answers whatever has a head, and reads on."""
    while await talk.head():
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


async def ask(address: tuple[str, int], raw: bytes, behind: Server) -> Result:
    behind.received.clear()
    talk = Talk(*await asyncio.open_connection(*address))
    try:
        async with asyncio.timeout(PATIENCE_S):
            await talk.send(raw)
            answer = await talk.reader.read(1 << 16)
            while not answer.partition(b"\r\n")[2]:
                more = await talk.reader.read(1 << 16)
                if not more:
                    break
                answer += more
    except (TimeoutError, ConnectionError):
        answer = b""
    talk.reset()
    await asyncio.sleep(0)
    return Result(answer.partition(b"\r\n")[0], b"".join(behind.received))


@asynccontextmanager
async def nginx(directory: Path) -> AsyncIterator[tuple[tuple[str, int], Server]]:
    assert NGINX is not None
    async with server(take_anything) as behind:
        assert isinstance(behind.upstream, TcpUpstream)
        port = free_port()
        conf = directory / "nginx.conf"
        conf.write_text(CONF.format(dir=directory, port=port, upstream=behind.upstream.port, quiet_s=QUIET_S))
        process = await asyncio.create_subprocess_exec(
            NGINX, "-p", str(directory), "-c", str(conf), stderr=asyncio.subprocess.DEVNULL
        )
        try:
            await until(
                lambda: (directory / "pid").exists() and bool((directory / "pid").read_text().strip())
            )
            yield ("127.0.0.1", port), behind
        finally:
            process.terminate()
            await process.wait()


@pytest.fixture(scope="module")
async def of_codehub() -> dict[str, Result]:
    limits = replace(DEFAULT_LIMITS, head_s_max=QUIET_S, body_silence_s_max=QUIET_S)
    async with world(take_anything, limits=limits) as made:
        return {case.name: await ask(made.address, case.raw, made.workspace) for case in CASES}


@pytest.fixture(scope="module")
async def of_nginx(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    if NGINX is None:
        pytest.skip("nginx is not installed")
    directory = tmp_path_factory.mktemp("nginx")
    directory.chmod(0o755)
    async with nginx(directory) as (address, behind):
        return {case.name: await ask(address, case.raw, behind) for case in CASES}


def test_the_corpus_is_large_enough() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert sum(case.word != PASS for case in CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_nginx_refuses_is_not_forwarded(
    case: Case, of_codehub: dict[str, Result], of_nginx: dict[str, Result]
) -> None:
    ours, theirs = of_codehub[case.name], of_nginx[case.name]
    assert ours.was_refused or not theirs.was_refused, f"nginx: {theirs}, codehub: {ours}"
    if case.word == PASS:
        assert theirs.answer.startswith(b"HTTP/1.1 200 "), theirs


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_each_request_of_the_corpus_is_refused_or_passed_as_it_says(
    case: Case, of_codehub: dict[str, Result]
) -> None:
    result = of_codehub[case.name]
    assert b"smuggled" not in result.forwarded
    assert b"cht_" not in result.forwarded
    if case.word == PASS:
        assert result.answer.startswith(b"HTTP/1.1 200 "), result
    else:
        assert result.was_refused, result
        assert result.answer[9:10] in (b"4", b"5"), result


async def test_nothing_is_smuggled_when_the_corpus_comes_in_drops() -> None:
    limits = replace(DEFAULT_LIMITS, head_s_max=QUIET_S, body_silence_s_max=QUIET_S)
    async with world(take_anything, limits=limits) as made:
        for case in CASES:
            if case.word == PASS or len(case.raw) > 1000:
                continue
            made.workspace.received.clear()
            talk = await made.connect()
            for at in range(0, len(case.raw), 3):
                talk.writer.write(case.raw[at : at + 3])
                await asyncio.sleep(0)
            async with asyncio.timeout(PATIENCE_S):
                with suppress(ConnectionError):
                    await talk.send(b"")
                    await talk.reader.read(1 << 16)
            talk.reset()
            assert b"smuggled" not in b"".join(made.workspace.received), case.name
