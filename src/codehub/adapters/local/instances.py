"""Instances as processes of this machine: specs go in, sandboxed IDEs come out. They outlive us and are found again, never doubled."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import structlog

from codehub.adapters.cache import cache_directory
from codehub.adapters.groups import Totals
from codehub.adapters.health import answer_status
from codehub.adapters.local import network
from codehub.adapters.local.accounts import Accounts, used_in
from codehub.adapters.local.ending import end
from codehub.adapters.local.installed_ides import InstalledIde
from codehub.adapters.local.launch import Launcher
from codehub.adapters.local.limits import find_limits
from codehub.adapters.local.locks import exclusive
from codehub.adapters.local.network import find_gateway
from codehub.adapters.local.output import lines, shorten
from codehub.adapters.local.records import Paths, Record, RunDirectory, fingerprint
from codehub.adapters.local.sandbox import find_bubblewrap, refuses_users, why_unusable
from codehub.adapters.local.supervision import Watch
from codehub.adapters.local.trial import TRIAL_ID, tried
from codehub.adapters.threads import in_thread
from codehub.core.observation import Instance
from codehub.core.route import mount_of
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.disks import Spent
from codehub.ports.instances import InstanceSpec, UnixUpstream, Upstream
from codehub.ports.storage import Report, tell_nobody
from codehub.ports.system import Clock

log = structlog.get_logger()

HomeOf = Callable[[InstanceSpec], Awaitable[tuple[Path, str | None]]]

_GRACE_S = 5.0
_BOOT_S_MAX = 120.0
_PROBES_AT_ONCE = 64
_SOCKET_PATH_MAX = 107


@dataclass(frozen=True, slots=True)
class Found:
    """One instance as its files and /proc show it."""

    workspace_id: UUID
    paths: Paths
    record: Record
    running: bool


class LocalInstances:
    """The InstanceController of the local-process backend. Between `open` and `close`, on one event loop."""

    def __init__(
        self,
        run_dir: Path,
        install_id: str,
        home_of: HomeOf,
        ides: Mapping[str, InstalledIde],
        *,
        clock: Clock,
        hidden: Path | None = None,
        sandbox: bool = True,
        boot_s_max: float = _BOOT_S_MAX,
        most: Totals | None = None,
    ) -> None:
        """`home_of` says where a home is and which volume that is; `hidden` is DATA_DIR. `sandbox` False is for tests."""
        self.run_directory = RunDirectory(run_dir, install_id)
        self._install_id = install_id
        self._home_of = home_of
        self.ides = ides
        """The IDEs that can be asked for, the default one first."""
        self._clock = clock
        self._hidden = hidden or run_dir
        self._wants_sandbox = sandbox
        self._boot_s_max = boot_s_max
        self._most = most
        self._accounts = Accounts(self.run_directory.uids, install_id, used=lambda: used_in(self._hidden))
        self.launcher: Launcher | None = None
        self._watch = Watch()
        self._directory_fd: int | None = None
        self.warnings: tuple[str, ...] = ()
        """What people must be told before they trust this machine with workspaces."""

    async def open(self) -> None:
        """Find out what this machine can do, and say loudly what it can't."""
        self.run_directory.open()
        self._directory_fd = os.open(self.run_directory.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        bwrap = find_bubblewrap() if self._wants_sandbox else None
        uid = self._accounts.uid_of(TRIAL_ID)
        why_not = await asyncio.to_thread(why_unusable, bwrap, uid)
        limits = find_limits(self._install_id, self._most)
        warnings = []
        if why_not is not None:
            warnings.append(f"WORKSPACES ARE NOT ISOLATED from this machine: {why_not}")
        unlimited = [
            name for name in limits.missing if name != "pids" or (why_not is not None and uid is None)
        ]
        if unlimited:
            warnings.append(
                f"no limit on {', '.join(unlimited)} of workspaces: no control groups to be had here"
            )
        gateway = find_gateway() if why_not is None else None
        if why_not is None:
            why_shared = await asyncio.to_thread(network.why_unusable, gateway, uid)
            if why_shared is not None:
                gateway = None
                warnings.append(f"WORKSPACES SHARE THIS MACHINE'S NETWORK, its loopback too: {why_shared}")
        self.warnings = tuple(warnings)
        self.launcher = Launcher(
            self._install_id,
            self._accounts,
            limits,
            None if why_not else bwrap,
            gateway,
            self._hidden,
            refuses_users=bwrap is not None and await asyncio.to_thread(refuses_users, bwrap),
        )

    async def try_out(self) -> None:
        """Try each IDE as a workspace would run it, before there is one, and offer only what runs. Raises ActionFailed if none does."""
        async with exclusive(self.run_directory.locks, TRIAL_ID, self._clock):
            result = await tried(
                self._opened(), self.ides, self._hidden / "trial", cache_directory(), self._clock
            )
        told = [f"{name} can't be run here: {why}" for name, why in result.failures.items()]
        if told and not result.ides:
            raise ActionFailed("; ".join(told))
        self.ides = result.ides
        self.warnings += tuple(told)

    async def close(self) -> None:
        """Let go of the instances, which run on."""
        self._watch.close()
        if self.launcher is not None:
            self.launcher.limits.close()
        if self._directory_fd is not None:
            os.close(self._directory_fd)
            self._directory_fd = None

    async def stop_all(self, grace_s: float = _GRACE_S) -> None:
        """End every instance, all at once: for a clean stop of the machine's only codehub."""
        self.run_directory.check()
        found = await asyncio.to_thread(list, self.run_directory.all())
        results = await asyncio.gather(
            *(self._delete(workspace_id, grace_s) for workspace_id, _, _ in found), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def start(self, spec: InstanceSpec, volume_id: str, report: Report = tell_nobody) -> None:
        del report  # nothing is fetched from elsewhere
        self.run_directory.check()
        ide = self._installed(spec.ide)
        async with exclusive(self.run_directory.locks, spec.workspace_id, self._clock):
            home, present = await self._home_of(spec)
            if present is None or present != volume_id:
                raise ActionFailed(f"there is no volume {volume_id} to start on")
            found = self._look(spec.workspace_id)
            if found is not None:
                if await self._serves(found, spec, volume_id):
                    self._keep_watch(found)
                    return
                await self._end(found, _GRACE_S)
            await self._launch(spec, volume_id, home, ide)

    async def delete(self, workspace_id: UUID) -> None:
        self.run_directory.check()
        await self._delete(workspace_id, _GRACE_S)

    async def status(self, workspace_id: UUID) -> Instance | None:
        self.run_directory.check()
        found = self._look(workspace_id)
        return None if found is None else await self._seen(found)

    async def list_all(self) -> Mapping[UUID, Instance]:
        self.run_directory.check()
        all_found = await asyncio.to_thread(self._look_at_all)
        self.run_directory.check()  # had it gone meanwhile, what was found would not be all
        gate = asyncio.Semaphore(_PROBES_AT_ONCE)

        async def one(found: Found) -> Instance:
            async with gate:
                return await self._seen(found)

        observation = await asyncio.gather(*(one(found) for found in all_found))
        return {found.workspace_id: instance for found, instance in zip(all_found, observation, strict=True)}

    async def resolve_upstream(self, workspace_id: UUID) -> Upstream | None:
        self.run_directory.check()
        found = self._look(workspace_id)
        if found is None or not found.running or not found.paths.publish():
            return None
        return UnixUpstream(self._reachable(found.paths.socket))

    async def logs(
        self, workspace_id: UUID, *, tail: int = 200, follow: bool = False
    ) -> AsyncIterator[bytes]:
        self.run_directory.check()
        path = self.run_directory.of(workspace_id).log
        async for piece in lines(path, tail=tail, follow=follow, clock=self._clock):
            yield piece

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[UUID]]:
        return self._events()

    @asynccontextmanager
    async def _events(self) -> AsyncIterator[AsyncIterator[UUID]]:
        self.run_directory.check()
        async with self._watch.listen() as told:
            for found in await asyncio.to_thread(self._look_at_all):
                self._keep_watch(found)
            yield told

    async def spent(self, workspace_id: UUID) -> Spent | None:
        return self._opened().limits.spent(workspace_id)

    @property
    def shares_network(self) -> bool:
        """Whether workspaces reach what listens on this machine's loopback."""
        return self._opened().gateway is None

    def uid_of(self, workspace_id: UUID) -> int | None:
        """Return the uid that a workspace's files have, or None where they have ours."""
        return self._accounts.uid_of(workspace_id)

    async def _launch(self, spec: InstanceSpec, volume_id: str, home: Path, ide: InstalledIde) -> None:
        paths = self.run_directory.of(spec.workspace_id)
        try:
            process = await self._opened().launch(spec, volume_id, home, ide, paths)
        except OSError as error:
            raise ActionFailed(f"the IDE could not be started: {error}") from error
        log.info("instance_started", workspace_id=str(spec.workspace_id), ide=spec.ide)
        if process is not None:
            self._watch.on(spec.workspace_id, process)
        self._watch.tell(spec.workspace_id)

    async def _delete(self, workspace_id: UUID, grace_s: float) -> None:
        async with exclusive(self.run_directory.locks, workspace_id, self._clock):
            found = self._look(workspace_id)
            if found is not None:
                await self._end(found, grace_s)
            # Cancelled, it is waited for: it must not outlive the lock and meet the next start's record.
            await in_thread(self.run_directory.of(workspace_id).remove)
            if found is not None:
                log.info("instance_deleted", workspace_id=str(workspace_id))
                self._watch.tell(workspace_id)

    async def _end(self, found: Found, grace_s: float) -> None:
        machine = self._opened()
        await end(
            found.paths,
            found.record,
            machine.marks(found.workspace_id),
            self._accounts.uid_of(found.workspace_id),
            grace_s=grace_s,
            clock=self._clock,
        )
        self._watch.off(found.workspace_id)
        await machine.limits.remove(found.workspace_id, self._clock)

    async def _serves(self, found: Found, spec: InstanceSpec, volume_id: str) -> bool:
        """Say whether what is there is what is asked for. One that never answered may be booting; one that did is ill."""
        record = found.record
        if not found.running or record.fingerprint != fingerprint(spec) or record.volume_id != volume_id:
            return False
        # Twice: a server that is busy for a moment is not to be replaced.
        if await self._is_healthy(found) or await self._is_healthy(found):
            return True
        main = found.paths.main(record)
        is_booting = main is None or main.age_s() < self._boot_s_max
        return is_booting and not found.paths.was_healthy.exists() and found.paths.is_running(record)

    async def _seen(self, found: Found) -> Instance:
        self._keep_watch(found)
        shorten(found.paths.log)
        if not found.running:
            code = self._watch.exit_code(found.workspace_id)
            return Instance(running=False, healthy=False, has_ended=True, exit_code=code)
        return Instance(running=True, healthy=await self._is_healthy(found))

    async def _is_healthy(self, found: Found) -> bool:
        ide = self.ides.get(found.record.ide)
        if ide is None or not found.paths.publish():
            return False
        target = ide.profile.health_path.format(mount=mount_of(found.workspace_id))
        status = await answer_status(UnixUpstream(self._reachable(found.paths.socket)), target)
        is_healthy = status is not None and status < ide.profile.healthy_below
        if is_healthy and found.paths.record.exists():
            with suppress(OSError):  # a full disk is no illness
                found.paths.was_healthy.touch()
        return is_healthy

    def _look(self, workspace_id: UUID) -> Found | None:
        paths = self.run_directory.of(workspace_id)
        record = paths.read()
        if record is None:
            return None
        return Found(workspace_id, paths, record, paths.is_running(record))

    def _look_at_all(self) -> list[Found]:
        return [
            Found(key, paths, record, paths.is_running(record))
            for key, paths, record in self.run_directory.all()
        ]

    def _keep_watch(self, found: Found) -> None:
        """Watch an instance that somebody else started, too. If its launcher was killed, its IDE tells instead."""
        if not found.running or self._watch.watches(found.workspace_id):
            return
        starter = found.paths.starter(found.record)
        process = starter if starter is not None and starter.alive() else found.paths.main(found.record)
        if process is not None:
            self._watch.on(found.workspace_id, process)

    def _reachable(self, socket: Path) -> Path:
        """Return a name for it that fits into a socket's address."""
        if len(os.fsencode(socket)) <= _SOCKET_PATH_MAX:
            return socket
        return Path(f"/proc/{os.getpid()}/fd/{self._directory_fd}") / socket.relative_to(
            self.run_directory.path
        )

    def _installed(self, name: str) -> InstalledIde:
        ide = self.ides.get(name)
        if ide is None:
            there = ", ".join(self.ides) or "none"
            raise ActionFailed(
                f"{name} is not installed on this machine (there is: {there}): install it, or choose another"
            )
        return ide

    def _opened(self) -> Launcher:
        if self.launcher is None:
            raise BackendUnreachable("the local backend is not open")
        return self.launcher
