"""Starts an IDE that continues without codehub. Refuses to run it with rights that it must not have."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from codehub.adapters.local.accounts import USER, Accounts, write_names
from codehub.adapters.local.installed_ides import SOCKET, IdePaths, InstalledIde
from codehub.adapters.local.limits import Limits
from codehub.adapters.local.locks import hold_lock
from codehub.adapters.local.network import Gateway, name_servers, network_command
from codehub.adapters.local.output import shorten
from codehub.adapters.local.ownership import own_home
from codehub.adapters.local.processes import boot_id
from codehub.adapters.local.records import Paths, Record, fingerprint
from codehub.adapters.local.sandbox import (
    HOME,
    RUNTIME,
    Confinement,
    blocked_directory,
    launch_command,
    missing_tools,
    plain_launch_command,
    sandbox_command,
    unprivileged_command,
)
from codehub.adapters.local.seccomp import sandbox_filter
from codehub.adapters.processes import Process
from codehub.adapters.threads import in_thread
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed
from codehub.ports.instances import InstanceSpec

_RESOLV_CONF = Path("/etc/resolv.conf")
_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@dataclass(frozen=True, slots=True)
class Launcher:
    """How this machine runs instances."""

    install_id: str
    accounts: Accounts
    limits: Limits
    bwrap: Path | None
    """None: without a sandbox."""
    gateway: Gateway | None
    """Connects a sandbox's own network to the outside. None: it uses this machine's network."""
    hidden: tuple[Path, ...]
    refuses_users: bool = False
    """Whether bubblewrap itself forbids user namespaces; the filter does, too."""

    async def launch(
        self, spec: InstanceSpec, volume_id: str, home: Path, ide: InstalledIde, paths: Paths
    ) -> Process | None:
        """Start the IDE; return its first process, or None if that has ended already.

        The caller holds the workspace's lock, which none of the work in threads outlives.
        """
        uid = self.accounts.uid_of(spec.workspace_id)
        if uid is not None:
            await in_thread(own_home, home, uid)
            if self.bwrap is None:
                check_reach(uid, [home, *ide.visible])
        await in_thread(self._prepare, paths, uid)
        record = Record(fingerprint(spec), volume_id, ide.name, self.bwrap is not None, boot_id(), str(home))
        groups = self.limits.prepare(spec.workspace_id, spec.resources)
        # From here to the end nothing is awaited: after a kill either nothing was started, or the record and
        # the lock show it.
        paths.write(record)
        runtime = os.open(paths.runtime, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if self.bwrap is None:
                return self._plain(spec, home, ide, paths, uid, groups, runtime)
            return self._sandbox_command(self.bwrap, spec, home, ide, paths, uid, groups)
        finally:
            os.close(runtime)

    def marks(self, workspace_id: UUID) -> Mapping[str, str]:
        """Return the environment entries that identify the workspace of a process."""
        return {"CODEHUB_INSTALL": self.install_id, "CODEHUB_WORKSPACE": str(workspace_id)}

    def home_inside(self, record: Record) -> str:
        """Return where a running instance's processes find their home."""
        return HOME if record.sandboxed else record.home

    def environment(self, workspace_id: UUID, record: Record, ide: InstalledIde) -> dict[str, str]:
        """Return the environment of a running instance's IDE."""
        runtime = RUNTIME if record.sandboxed else None
        return self._environment(IdePaths(workspace_id, self.home_inside(record), "", runtime), ide)

    def _prepare(self, paths: Paths, uid: int | None) -> None:
        # Enterable, not readable: without a sandbox the workspace's user must reach its socket's directory,
        # and no more.
        paths.directory.mkdir(mode=0o711, exist_ok=True)
        paths.clear()
        paths.runtime.mkdir(mode=0o700)
        if uid is not None:
            os.chown(paths.runtime, uid, uid)
        shorten(paths.log)

    def _sandbox_command(
        self,
        bwrap: Path,
        spec: InstanceSpec,
        home: Path,
        ide: InstalledIde,
        paths: Paths,
        uid: int | None,
        groups: Sequence[Path],
    ) -> Process | None:
        place = IdePaths(spec.workspace_id, HOME, f"{RUNTIME}/{SOCKET}", RUNTIME)
        passwd, group = write_names(paths.directory, os.geteuid() if uid is None else uid)
        confinement = Confinement(
            home=home,
            runtime=paths.runtime,
            passwd=passwd,
            group=group,
            uid=uid,
            visible=ide.visible,
            hidden=(*self.hidden, *ide.hidden),
            tmp_mb=spec.resources.memory_mb,
            pids=spec.resources.pids,
            refuses_users=self.refuses_users,
            is_filtered=(filter_program := sandbox_filter()) is not None,
            resolver=self._write_resolver(paths),
            environment={**dict(spec.environment), **self._environment(place, ide)},
        )
        command = sandbox_command(bwrap, confinement, ide.argv(place))
        if self.gateway is not None:
            command = network_command(self.gateway, uid, paths.gateway, command)
        paths.calls.write_bytes(filter_program or b"")
        arguments = launch_command(paths.launcher, groups, command, info=paths.info, calls=paths.calls)
        return _spawn(arguments, {**self.marks(spec.workspace_id), "PATH": ":".join(_PATH)}, paths)

    def _write_resolver(self, paths: Paths) -> Path | None:
        try:
            content = _RESOLV_CONF.read_text()
        except OSError:
            content = ""
        if self.gateway is None or (servers := name_servers(self.gateway, content)) is None:
            return None
        resolver = paths.directory / "resolv.conf"
        resolver.write_text(servers)
        resolver.chmod(0o644)
        return resolver

    def _plain(
        self,
        spec: InstanceSpec,
        home: Path,
        ide: InstalledIde,
        paths: Paths,
        uid: int | None,
        groups: Sequence[Path],
        runtime: int,
    ) -> Process | None:
        # Its own descriptor of the directory: the path would be too long for a socket, and lead through what
        # it may not enter.
        place = IdePaths(spec.workspace_id, str(home), f"/proc/self/fd/{runtime}/{SOCKET}", None)
        command = unprivileged_command(uid, None if uid is None else spec.resources.pids, ide.argv(place))
        arguments = plain_launch_command(paths.launcher, groups, command, cwd=home)
        environment = {**dict(spec.environment), **self._environment(place, ide)}
        return _spawn(arguments, environment, paths, pass_fds=(runtime,))

    def _environment(self, place: IdePaths, ide: InstalledIde) -> dict[str, str]:
        """Return an IDE's whole environment: nothing of codehub's own is in it."""
        path = (f"{place.home}/.local/bin", *_PATH, *map(str, ide.bin))
        environment = {
            "HOME": place.home,
            "USER": USER,
            "LOGNAME": USER,
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "PATH": ":".join(path),
            **ide.environment,
            **self.marks(place.workspace_id),
        }
        if place.runtime is not None:
            # Sockets must not be in the home, which is archived.
            environment |= {"XDG_RUNTIME_DIR": place.runtime}
            for name, value in ide.profile.runtime_environment.items():
                environment[name] = value.format(runtime=place.runtime)
        return environment


def _spawn(
    arguments: Sequence[str], environment: Mapping[str, str], paths: Paths, pass_fds: Sequence[int] = ()
) -> Process | None:
    """Start a process in its own session that inherits the lock, and close our copies."""
    lock, output = -1, -1
    try:
        lock = hold_lock(paths.alive)
        output = os.open(paths.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        child = subprocess.Popen(  # noqa: S603  # the command is ours
            arguments,
            cwd="/",
            stdin=lock,
            stdout=output,
            stderr=output,
            env=dict(environment),
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
    except OSError as error:
        raise ActionFailed(Message(Code.IDE_NOT_STARTED, {"text": str(error)})) from error
    finally:
        for fd in (lock, output):
            if fd >= 0:
                os.close(fd)
    process = Process.of(child.pid)
    if process is None:
        child.wait()  # it has ended already, and nothing will watch it
    # It outlives this object, which would warn about that. The watch on its pidfd takes its exit status.
    child.returncode = 0
    return process


def check_reach(uid: int, needed: Sequence[Path]) -> None:
    """Raise ActionFailed where a workspace's user, outside a sandbox, can't reach what it needs."""
    if missing := missing_tools():
        raise ActionFailed(Message(Code.TOOLS_MISSING, {"text": missing}))
    for path in needed:
        with suppress(FileNotFoundError):
            if (blocked := blocked_directory(path.resolve(), uid)) is not None:
                raise ActionFailed(Message(Code.HOME_BARRED, {"path": str(blocked)}))
