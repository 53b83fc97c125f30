"""Instances as sandboxed processes of this machine.

They outlive codehub and are found again, never started twice.
"""

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
from codehub.adapters.local.accounts import Accounts, find_remaining
from codehub.adapters.local.ending import end
from codehub.adapters.local.installed_ides import InstalledIde
from codehub.adapters.local.launch import Launcher
from codehub.adapters.local.limits import find_limits
from codehub.adapters.local.locks import exclusive
from codehub.adapters.local.network import find_gateway
from codehub.adapters.local.output import lines, shorten
from codehub.adapters.local.records import Paths, Record, RunDirectory, fingerprint
from codehub.adapters.local.sandbox import find_bubblewrap, refuses_users, why_unusable
from codehub.adapters.local.supervision import EndWatcher
from codehub.adapters.local.trial import TRIAL_ID, try_ides
from codehub.adapters.threads import in_thread
from codehub.core.messages import Code, Message
from codehub.core.observation import Instance
from codehub.core.route import mount_of
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.disks import ResourceUse
from codehub.ports.instances import InstanceSpec, UnixUpstream, Upstream
from codehub.ports.storage import Report, ignore_progress
from codehub.ports.system import Clock

log = structlog.get_logger()

HomeOf = Callable[[InstanceSpec], Awaitable[tuple[Path, str | None]]]

_GRACE_S = 5.0
_BOOT_S_MAX = 120.0
_PROBES_AT_ONCE = 64
_SOCKET_PATH_MAX = 107


@dataclass(frozen=True, slots=True)
class LocalInstance:
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
        homes_root: Path | None = None,
        sandbox: bool = True,
        boot_s_max: float = _BOOT_S_MAX,
        most: Totals | None = None,
    ) -> None:
        """`home_of` returns a home's path and volume_id; `hidden` is DATA_DIR, and homes lie in `homes_root`,
        unless that is the same. `sandbox` False is for tests.
        """
        self.run_directory = RunDirectory(run_dir, install_id)
        self._install_id = install_id
        self._home_of = home_of
        self.ides = ides
        """The IDEs that can be asked for, the default one first."""
        self._clock = clock
        self._hidden = hidden or run_dir
        self._homes_root = homes_root or self._hidden
        self._wants_sandbox = sandbox
        self._boot_s_max = boot_s_max
        self._most = most
        self._accounts = Accounts(
            self.run_directory.uids,
            install_id,
            find_remaining=lambda: find_remaining(self._hidden, self._homes_root),
        )
        self.launcher: Launcher | None = None
        self._watch = EndWatcher()
        self._directory_fd: int | None = None
        self.warnings: tuple[str, ...] = ()
        self.ide_problems: tuple[Message, ...] = ()
        """Why IDEs that are installed are not offered."""
        """What people must know before they trust this machine with workspaces."""

    async def open(self) -> None:
        """Find out what this machine can do, and warn of what it can't."""
        self.run_directory.open()
        self._directory_fd = os.open(self.run_directory.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        bwrap = find_bubblewrap() if self._wants_sandbox else None
        uid = self._accounts.uid_of(TRIAL_ID)
        sandbox_problem = await asyncio.to_thread(why_unusable, bwrap, uid)
        limits = find_limits(self._install_id, self._most)
        warnings = []
        if sandbox_problem is not None:
            warnings.append(f"WORKSPACES ARE NOT ISOLATED from this machine: {sandbox_problem}")
        unlimited = [
            name for name in limits.missing if name != "pids" or (sandbox_problem is not None and uid is None)
        ]
        if unlimited:
            warnings.append(
                f"no limit on {', '.join(unlimited)} of workspaces: no control groups to be had here"
            )
        gateway = find_gateway() if sandbox_problem is None else None
        if sandbox_problem is None:
            network_problem = await asyncio.to_thread(network.why_unusable, gateway, uid)
            if network_problem is not None:
                gateway = None
                warnings.append(
                    f"WORKSPACES SHARE THIS MACHINE'S NETWORK, its loopback too: {network_problem}"
                )
        self.warnings = tuple(warnings)
        self.launcher = Launcher(
            self._install_id,
            self._accounts,
            limits,
            None if sandbox_problem else bwrap,
            gateway,
            tuple({self._hidden, self._homes_root}),
            refuses_users=bwrap is not None and await asyncio.to_thread(refuses_users, bwrap),
        )

    async def try_out(self) -> None:
        """Try each IDE as a workspace would run it, before there is one, and offer only what runs.

        Raises ActionFailed if none does.
        """
        async with exclusive(self.run_directory.locks, TRIAL_ID, self._clock):
            result = await try_ides(
                self._open_launcher(), self.ides, self._homes_root / "trial", cache_directory(), self._clock
            )
        messages = [
            Message(Code.IDE_FAILS_HERE, {"ide": name, "problem": problem})
            for name, problem in result.failures.items()
        ]
        if messages and not result.ides:
            raise ActionFailed(Message(Code.SEVERAL, {"messages": messages}))
        self.ides = result.ides
        self.ide_problems = tuple(messages)

    async def close(self) -> None:
        """Stop watching the instances, which continue to run."""
        self._watch.close()
        if self.launcher is not None:
            self.launcher.limits.close()
        if self._directory_fd is not None:
            os.close(self._directory_fd)
            self._directory_fd = None

    async def stop_all(self, grace_s: float = _GRACE_S) -> None:
        """End every instance, all at once: for a clean stop of the machine's only codehub."""
        self.run_directory.check()
        entries = await asyncio.to_thread(list, self.run_directory.all())
        results = await asyncio.gather(
            *(self._delete(workspace_id, grace_s) for workspace_id, _, _ in entries), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def start(self, spec: InstanceSpec, volume_id: str, report: Report = ignore_progress) -> None:
        del report  # nothing is downloaded
        self.run_directory.check()
        ide = self._require_ide(spec.ide)
        async with exclusive(self.run_directory.locks, spec.workspace_id, self._clock):
            home, volume_found = await self._home_of(spec)
            if volume_found is None or volume_found != volume_id:
                raise ActionFailed(Message(Code.NO_SUCH_VOLUME, {"volume_id": volume_id}))
            instance = self._find(spec.workspace_id)
            if instance is not None:
                if await self._serves(instance, spec, volume_id):
                    self._watch_instance(instance)
                    return
                await self._end(instance, _GRACE_S)
            await self._launch(spec, volume_id, home, ide)

    async def delete(self, workspace_id: UUID) -> None:
        self.run_directory.check()
        await self._delete(workspace_id, _GRACE_S)

    async def status(self, workspace_id: UUID) -> Instance | None:
        self.run_directory.check()
        instance = self._find(workspace_id)
        return None if instance is None else await self._observe(instance)

    async def list_all(self) -> Mapping[UUID, Instance]:
        self.run_directory.check()
        instances = await asyncio.to_thread(self._find_all)
        self.run_directory.check()  # had it gone meanwhile, the list would not be complete
        gate = asyncio.Semaphore(_PROBES_AT_ONCE)

        async def observe(instance: LocalInstance) -> Instance:
            async with gate:
                return await self._observe(instance)

        observations = await asyncio.gather(*(observe(instance) for instance in instances))
        return {
            instance.workspace_id: observation
            for instance, observation in zip(instances, observations, strict=True)
        }

    async def resolve_upstream(self, workspace_id: UUID) -> Upstream | None:
        self.run_directory.check()
        instance = self._find(workspace_id)
        if instance is None or not instance.running or not instance.paths.publish():
            return None
        return UnixUpstream(self._short_path(instance.paths.socket))

    async def logs(
        self, workspace_id: UUID, *, tail: int = 200, follow: bool = False
    ) -> AsyncIterator[bytes]:
        self.run_directory.check()
        path = self.run_directory.of(workspace_id).log
        async for part in lines(path, tail=tail, follow=follow, clock=self._clock):
            yield part

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[UUID]]:
        return self._events()

    @asynccontextmanager
    async def _events(self) -> AsyncIterator[AsyncIterator[UUID]]:
        self.run_directory.check()
        async with self._watch.listen() as workspace_ids:
            for instance in await asyncio.to_thread(self._find_all):
                self._watch_instance(instance)
            yield workspace_ids

    async def spent(self, workspace_id: UUID) -> ResourceUse | None:
        return self._open_launcher().limits.spent(workspace_id)

    @property
    def shares_network(self) -> bool:
        """Whether workspaces reach what listens on this machine's loopback."""
        return self._open_launcher().gateway is None

    def uid_of(self, workspace_id: UUID) -> int | None:
        """Return the uid that a workspace's files have, or None where they have ours."""
        return self._accounts.uid_of(workspace_id)

    async def _launch(self, spec: InstanceSpec, volume_id: str, home: Path, ide: InstalledIde) -> None:
        paths = self.run_directory.of(spec.workspace_id)
        try:
            process = await self._open_launcher().launch(spec, volume_id, home, ide, paths)
        except OSError as error:
            raise ActionFailed(Message(Code.IDE_NOT_STARTED, {"text": str(error)})) from error
        log.info("instance_started", workspace_id=str(spec.workspace_id), ide=spec.ide)
        if process is not None:
            self._watch.watch(spec.workspace_id, process)
        self._watch.notify(spec.workspace_id)

    async def _delete(self, workspace_id: UUID, grace_s: float) -> None:
        async with exclusive(self.run_directory.locks, workspace_id, self._clock):
            instance = self._find(workspace_id)
            if instance is not None:
                await self._end(instance, grace_s)
            # Not cancelled before it has ended: it must not outlive the lock and remove the next start's
            # record.
            await in_thread(self.run_directory.of(workspace_id).remove)
            if instance is not None:
                log.info("instance_deleted", workspace_id=str(workspace_id))
                self._watch.notify(workspace_id)

    async def _end(self, instance: LocalInstance, grace_s: float) -> None:
        launcher = self._open_launcher()
        await end(
            instance.paths,
            instance.record,
            launcher.marks(instance.workspace_id),
            self._accounts.uid_of(instance.workspace_id),
            grace_s=grace_s,
            clock=self._clock,
        )
        self._watch.unwatch(instance.workspace_id)
        await launcher.limits.remove(instance.workspace_id, self._clock)

    async def _serves(self, instance: LocalInstance, spec: InstanceSpec, volume_id: str) -> bool:
        """Return whether the running instance is the wanted one.

        One that has never answered may be booting.
        """
        record = instance.record
        if not instance.running or record.fingerprint != fingerprint(spec) or record.volume_id != volume_id:
            return False
        # Twice: a server that is busy for a moment must not be replaced.
        if await self._is_healthy(instance) or await self._is_healthy(instance):
            return True
        main = instance.paths.main(record)
        is_booting = main is None or main.age_s() < self._boot_s_max
        return is_booting and not instance.paths.was_healthy.exists() and instance.paths.is_running(record)

    async def _observe(self, instance: LocalInstance) -> Instance:
        self._watch_instance(instance)
        shorten(instance.paths.log)
        if not instance.running:
            code = self._watch.exit_code(instance.workspace_id)
            return Instance(running=False, healthy=False, has_ended=True, exit_code=code)
        return Instance(running=True, healthy=await self._is_healthy(instance))

    async def _is_healthy(self, instance: LocalInstance) -> bool:
        ide = self.ides.get(instance.record.ide)
        if ide is None or not instance.paths.publish():
            return False
        target = ide.profile.health_path.format(mount=mount_of(instance.workspace_id))
        status = await answer_status(UnixUpstream(self._short_path(instance.paths.socket)), target)
        is_healthy = status is not None and status < ide.profile.healthy_below
        if is_healthy and instance.paths.record.exists():
            with suppress(OSError):  # a full disk does not make the IDE unhealthy
                instance.paths.was_healthy.touch()
        return is_healthy

    def _find(self, workspace_id: UUID) -> LocalInstance | None:
        paths = self.run_directory.of(workspace_id)
        record = paths.read()
        if record is None:
            return None
        return LocalInstance(workspace_id, paths, record, paths.is_running(record))

    def _find_all(self) -> list[LocalInstance]:
        return [
            LocalInstance(workspace_id, paths, record, paths.is_running(record))
            for workspace_id, paths, record in self.run_directory.all()
        ]

    def _watch_instance(self, instance: LocalInstance) -> None:
        """Watch an instance that another process started, too.

        If its launcher was killed, the IDE is watched instead.
        """
        if not instance.running or self._watch.watches(instance.workspace_id):
            return
        starter = instance.paths.starter(instance.record)
        process = starter if starter is not None and starter.alive() else instance.paths.main(instance.record)
        if process is not None:
            self._watch.watch(instance.workspace_id, process)

    def _short_path(self, socket: Path) -> Path:
        """Return a path of the socket that is short enough for a socket address."""
        if len(os.fsencode(socket)) <= _SOCKET_PATH_MAX:
            return socket
        return Path(f"/proc/{os.getpid()}/fd/{self._directory_fd}") / socket.relative_to(
            self.run_directory.path
        )

    def _require_ide(self, name: str) -> InstalledIde:
        ide = self.ides.get(name)
        if ide is None:
            raise ActionFailed(Message(Code.IDE_NOT_INSTALLED, {"ide": name, "installed": list(self.ides)}))
        return ide

    def _open_launcher(self) -> Launcher:
        if self.launcher is None:
            raise BackendUnreachable(Message(Code.NO_ANSWER))
        return self.launcher
