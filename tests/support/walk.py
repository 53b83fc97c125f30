"""The walk: `POST :start` is sent to a real site, and what runs until the event
of RUNNING arrives is traced. In: a PostgreSQL; out: the walk.

**What is counted.** The walk is what a reader must open to follow the request: every function that is on the
call stack while one of these happens, and the file that it is in:

- a statement is sent to the database, or bytes are sent to whoever asked or listens;
- a platform is called (the memory platform stands in for it: the method of the port counts, which is where a
  reader stops);
- a task is started or woken, or something is put into a queue or taken out of one: here the walk goes on
  elsewhere;
- something is decided (`DECISIONS`): whether they may, what is ruled, what it is, what comes next, what is
  recorded.

What only computes a value for these is not counted: properties, constructors, predicates, validators,
codecs, rows, lines of the history, JSON. Nor is a lambda or a comprehension, which stands in a
function that is. `raw` counts those too: every function of codehub that ran at all.

The edge, which passes the request on, is a process of its own and has no part in this. Nor has the
wiring (`app/`), which starts the loops and starts them again; nor what runs by the clock, which
stands still here: every step of the walk is the consequence of the one before.
"""

import asyncio
import functools
import re
import sys
import textwrap
import tomllib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, NamedTuple

import httpx
from tests.support.postgres import TestServer, running_server
from tests.support.site import API, Site, create, open_site
from tests.support.stores import PostgresWorld
from tests.support.streams import reading

from codehub.engine.system import Cadence

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
_SOURCES = f"{ROOT / 'src' / 'codehub'}/"
_BEGIN, _END = "<!-- the walk, made by `make docs` -->", "<!-- the end of the walk -->"

DECISIONS: Mapping[str, frozenset[str]] = {
    "core/decide.py": frozenset({"decide"}),
    "core/judge.py": frozenset({"calculate_phase", "check_invariants", "judge"}),
    "core/limits.py": frozenset({"refuse_one_more"}),
    "core/observation.py": frozenset({"observed_conditions"}),
    "core/permissions.py": frozenset({"deny"}),
    "core/plan.py": frozenset({"choose_next_operation", "plan"}),
    "core/requests.py": frozenset({"rule_wish"}),
    "core/transitions.py": frozenset({"apply_plan"}),
}
_PLATFORM: Mapping[str, str] = {
    "adapters/memory/disk.py": "ports/disks.py",
    "adapters/memory/instances.py": "ports/instances.py",
    "adapters/memory/storage.py": "ports/storage.py",
}
_PORTS = {"MemoryDisk": "Disk", "MemoryInstances": "InstanceController", "MemoryStorage": "StorageProvider"}
# What wakes the walk's functions by the clock too, which the server's own ticks may do meanwhile.
_BY_THE_CLOCK = frozenset({("api/feed.py", "LiveFeed._tick")})
# What runs beside the walk, by the event loop's own time.
_BESIDE = frozenset({("engine/membership.py", "Membership.run")})
_STATEMENTS = frozenset({"execute", "fetch", "fetchrow", "fetchval"})
_HANDOVERS: Mapping[str, frozenset[str]] = {
    "asyncio/locks.py": frozenset({"Event.set"}),
    "asyncio/queues.py": frozenset({"Queue.get", "Queue.put_nowait"}),
    "asyncio/tasks.py": frozenset({"create_task", "gather"}),
}
_WIDTH_MAX = 108
_PAUSE_S_MAX = 0.05
_INNER = re.compile(r"\.<locals>\.<(?:lambda|genexpr|listcomp|setcomp|dictcomp)>.*$")


class Function(NamedTuple):
    """A function of codehub, by its file and its name in it."""

    file: str
    name: str


class Call(NamedTuple):
    """One function on a stack, and the line in it from which the next is called."""

    function: Function
    line: int


@dataclass
class Walk:
    """What was traced."""

    stacks: set[tuple[Call, ...]] = field(default_factory=set)
    """The call stacks of what happened, the outermost function first."""
    raw: set[Function] = field(default_factory=set)
    calls: set[tuple[Function, Function]] = field(default_factory=set)
    """Who called whom, whatever of Python's or a framework's lies between."""
    handed_down: set[tuple[Function, Function]] = field(default_factory=set)
    """A function that was given a callable, and that callable."""

    @property
    def functions(self) -> set[Function]:
        return {call.function for stack in self.stacks for call in stack}

    @property
    def files(self) -> set[str]:
        return {function.file for function in self.functions}


async def walk(server: TestServer) -> Walk:
    """Run it: a workspace in STANDBY, somebody who listens, and one request."""
    async with _standby(server) as (site, client, workspace_id), reading(client) as reader:
        traced = Walk()
        with _tracing(traced):
            answer = await client.post(f"{API}/workspaces/{workspace_id}:start", json={})
            assert answer.status_code == 200, answer.text
            await reader.until(lambda message: message.data.get("operation") == "STARTING")
            site.instances.finish_boots()
            await reader.until(lambda message: _is_resting(message.data, "RUNNING"))
        return traced


@asynccontextmanager
async def _standby(server: TestServer) -> AsyncIterator[tuple[Site, httpx.AsyncClient, str]]:
    """Yield a site with a workspace in STANDBY. What is started there boots until somebody lets it be
    ready.
    """
    rarely = Cadence(idle_s=3600.0, active_s=3600.0, probe_s_max=_PAUSE_S_MAX)
    async with (
        PostgresWorld.opened(server) as world,
        open_site(world, controlled=True, clock=_StandingClock(), cadence=rarely) as site,
    ):
        client = await site.program()
        workspace_id = (await create(client, desired_state="STANDBY"))["id"]
        await site.arrives(client, workspace_id, "STANDBY")
        site.instances.sends_events = False  # as Docker
        site.instances.boot_s = 1.0
        yield site, client, workspace_id


def _is_resting(shown: Mapping[str, Any], phase: str) -> bool:
    return shown.get("phase") == phase and shown["operation"] == "NONE"


class _StandingClock:
    """Time stands still, so that nothing happens by the clock. A pause between two tries of the same is
    made.
    """

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await (asyncio.sleep(seconds) if seconds <= _PAUSE_S_MAX else asyncio.Event().wait())


@contextmanager
def _tracing(traced: Walk) -> Iterator[None]:
    def trace(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            _take_in(traced, frame)

    sys.setprofile(trace)
    try:
        yield
    finally:
        sys.setprofile(None)


def _take_in(traced: Walk, frame: FrameType) -> None:
    function = _function(frame.f_code)
    is_handover = function is None and _is_handover(frame)
    if function is None and not is_handover and not _is_effect(frame.f_code):
        return
    stack = _stack(frame)
    if any(call.function in _BESIDE for call in stack):
        return
    if function is not None:
        traced.raw.add(function)
        if len(stack) > 1:
            caller = stack[-2].function
            traced.calls.add((caller, function))
            traced.handed_down.update((function, handed) for handed in _callables(frame))
    readable = _readable(stack)  # empty where only the clock asked for it, as on a busy machine
    is_platform_call = function is not None and function.file in _PLATFORM and len(readable) > 1
    if readable and (function is None or _is_decision(function) or is_platform_call):
        traced.stacks.add(readable)


def _is_effect(code: CodeType) -> bool:
    if "/asyncpg/" in code.co_filename:
        return code.co_name in _STATEMENTS
    return "/uvicorn/" in code.co_filename and code.co_qualname.endswith(".send")


def _is_handover(frame: FrameType) -> bool:
    """Whether codehub itself hands over to another task: what a library does for itself is its own
    business.
    """
    code, caller = frame.f_code, frame.f_back
    kinds = (names for file, names in _HANDOVERS.items() if code.co_filename.endswith(file))
    return (
        any(code.co_qualname in names for names in kinds) and caller is not None and _is_ours(caller.f_code)
    )


def _is_decision(function: Function) -> bool:
    return function.name in DECISIONS.get(function.file, ())


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_SOURCES)


def _function(code: CodeType) -> Function | None:
    if not _is_ours(code):
        return None
    return Function(code.co_filename.removeprefix(_SOURCES), code.co_qualname)


def _stack(frame: FrameType) -> Sequence[Call]:
    calls = []
    each: FrameType | None = frame
    while each is not None:
        if (function := _function(each.f_code)) is not None:
            calls.append(Call(function, each.f_lineno))
        each = each.f_back
    return calls[::-1]


def _readable(stack: Sequence[Call]) -> tuple[Call, ...]:
    """Return the stack as a reader sees it: up to the platform's port,
    and what stands inside of a function as that function.
    """
    calls = []
    for call in stack:
        function = call.function
        if function.file.startswith("app/") or (function.file, function.name) in _BY_THE_CLOCK:
            continue
        if function.file in _PLATFORM:
            owner, _, method = function.name.partition(".")
            calls.append(Call(Function(_PLATFORM[function.file], f"{_PORTS[owner]}.{method}"), 0))
            break
        calls.append(call._replace(function=function._replace(name=_INNER.sub("", function.name))))
    return tuple(calls)


def _callables(frame: FrameType) -> Iterator[Function]:
    """Yield the functions of codehub that this call is given as arguments."""
    code = frame.f_code
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        if name != "self":
            yield from _within(frame.f_locals.get(name))


def _within(value: object) -> Iterator[Function]:
    match value:
        case functools.partial():
            for part in (value.func, *value.args, *value.keywords.values()):
                yield from _within(part)
        case MethodType():
            yield from _within(value.__func__)
        case FunctionType():
            if (function := _function(value.__code__)) is not None:
                yield function
        case type():
            pass
        case _ if callable(value):
            yield from _within(vars(type(value)).get("__call__"))


# Layers, as import-linter knows them.


def layers() -> Mapping[str, int]:
    """Return how high each package stands. Adapters are called through ports, and stand right above them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    names = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    everything = next(each for each in names if "ports" in each and "adapters" not in each)
    assert any(each[each.index("adapters") + 1] == "ports" for each in names if "adapters" in each)
    at = everything.index("ports")
    ordered = [*everything[:at], "adapters", *everything[at:]]
    return {name.strip(): -rank for rank, row in enumerate(ordered) for name in row.split("|")}


def height(function: Function) -> int:
    """Return how high a function's layer is. A module beside the packages (settings.py) knows the core
    alone.
    """
    ranks = layers()
    return ranks.get(function.file.partition("/")[0], ranks["ports"])


# The page.


def page(traced: Walk) -> str:
    """Return the architecture's page with this walk in it."""
    before, rest = PAGE.read_text().split(_BEGIN)
    after = rest.split(_END)[1]
    return f"{before}{_BEGIN}\n\n{_listed(traced)}\n{_END}{after}"


def _listed(traced: Walk) -> str:
    """Return every function once, where somebody meets it first who reads from the top."""
    lines: list[str] = []
    listed: set[Function] = set()
    for number, (title, stacks) in enumerate(_stages(traced.stacks).items(), start=1):
        names: dict[str, list[str]] = {}
        for function in _in_reading_order(stacks):
            if function not in listed:
                listed.add(function)
                names.setdefault(function.file, []).append(f"`{function.name.replace('.<locals>', '')}`")
        lines += [f"{number}. {title}:"]
        for file, functions in names.items():
            line = f"- [{file}](../src/codehub/{file}): {', '.join(functions)}"
            lines.append(
                textwrap.fill(
                    line,
                    _WIDTH_MAX,
                    initial_indent="   ",
                    subsequent_indent="     ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
    return "\n".join([f"**{len(traced.files)} files, {len(traced.functions)} functions.**", "", *lines, ""])


def _stages(stacks: Iterable[tuple[Call, ...]]) -> Mapping[str, list[tuple[Call, ...]]]:
    stages: dict[str, list[tuple[Call, ...]]] = {
        "The wish is recorded": [],
        "The controller makes it true": [],
        "The event is sent": [],
    }
    wish, controller, event = stages.values()
    for stack in stacks:
        first = stack[0].function.file
        if first == "api/request_id.py":
            wish.append(stack)
        else:
            (event if first.startswith("api/") else controller).append(stack)
    return stages


def _in_reading_order(stacks: Sequence[tuple[Call, ...]]) -> Iterator[Function]:
    """Yield the functions as somebody meets them who follows each call where it is made."""
    for stack in sorted(stacks, key=lambda stack: [(call.function, call.line) for call in stack]):
        yield from (call.function for call in stack)


async def _main() -> None:
    async with running_server("postgres-18") as server:
        traced = await walk(server)
    PAGE.write_text(page(traced))
    raw_files = {function.file for function in traced.raw}
    sys.stdout.write(
        f"wrote docs/{PAGE.name}: {len(traced.files)} files and {len(traced.functions)} functions;"
        f" all that ran: {len(raw_files)} files and {len(traced.raw)} functions\n"
    )


if __name__ == "__main__":
    asyncio.run(_main())
