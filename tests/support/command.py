"""The command line as people run it, against a site: a process of its own, with a home of its own."""

import asyncio
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.program import environment

ENDS_S_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Output:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Command:
    """`await command("ws", "list")`. What it is not told in `settings` it does not know."""

    home: Path
    settings: dict[str, str] = field(default_factory=dict)

    async def __call__(self, *arguments: str, stdin: str = "", **settings: str) -> Output:
        process = await self.started(*arguments, **settings)
        async with asyncio.timeout(ENDS_S_MAX):
            out, err = await process.communicate(stdin.encode())
        assert process.returncode is not None
        return Output(process.returncode, out.decode(), err.decode())

    async def started(self, *arguments: str, **settings: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "codehub", *arguments),
            env=self.environment(**settings),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        )

    def environment(self, **settings: str) -> dict[str, str]:
        ours = dict(environment(**{**self.settings, **settings}))
        for name in ("XDG_CONFIG_HOME", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
            ours.pop(name, None)
        return ours | {"HOME": str(self.home), "TZ": "UTC"}
