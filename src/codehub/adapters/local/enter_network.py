"""A program of its own (`python -I -S`, no import of codehub's): makes a network for one workspace, starts
the gateway that connects it to the outside, and becomes the command that runs in it. Exits with 3 and a line
on stderr if this machine does not allow it.

`enter_network.py UID IDENTITY GATEWAY… -- COMMAND…`: UID is the owner of the network (- for ours), IDENTITY
the file where the gateway writes its own stat. `{pid}` in the gateway's arguments is the process whose
network it serves. The command `check` only waits for the gateway.
"""

import ctypes
import fcntl
import os
import select
import signal
import socket
import stat
import struct
import sys

# What the sandbox inherits from the launcher: the gateway, which outlives it, must not hold the lock.
_INHERITED = (3, 4, 5)
_NEWNS, _NEWUSER, _NEWNET = 0x20000, 0x10000000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_SIOCSIFFLAGS, _IFF_UP, _RTMGRP_LINK = 0x8914, 0x1, 0x1
_PR_SET_DUMPABLE = 4
_TUN = (10, 200)
_REFUSED, _NO_GATEWAY = 3, 4
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    owner, identity, *arguments = sys.argv[1:]
    separator = arguments.index("--")
    gateway, command = arguments[:separator], arguments[separator + 1 :]
    uid = os.geteuid() if owner == "-" else int(owner)
    (holder_read, holder_write), (ready_read, ready_write), (join_read, join_write) = (
        _pipe(),
        _pipe(),
        _pipe(),
    )
    gateway_pid = os.fork()
    if gateway_pid == 0:
        _close((*_INHERITED, holder_write, ready_read, ready_write, join_read, join_write))
        _run_gateway(uid, identity, gateway, holder_read)
    holder_pid = os.fork()
    if holder_pid == 0:
        _close((*_INHERITED, holder_read, holder_write, ready_read, join_write))
        _hold_network(uid, gateway_pid, ready_write, join_read)
    _close((holder_read, ready_write, join_read))
    if os.read(ready_read, 1) != b"!":
        os.kill(gateway_pid, signal.SIGKILL)
        sys.exit(_REFUSED)
    os.write(holder_write, str(holder_pid).encode())
    if command == ["check"]:
        os.close(join_write)
        _, status = os.waitpid(holder_pid, 0)
        os.kill(gateway_pid, signal.SIGKILL)
        sys.exit(os.waitstatus_to_exitcode(status))
    if os.geteuid() != 0:
        _join(holder_pid, "user", _NEWUSER)
    _join(holder_pid, "net", _NEWNET)
    # All three pipes close here, which ends the holder.
    os.execv(command[0], command)  # noqa: S606  # the command is codehub's


def _hold_network(uid: int, gateway_pid: int, ready_write: int, join_read: int) -> None:
    """Make the network, with its own loopback, and hold it until the command and the gateway have
    joined it.
    """
    with _exit_after("no network of its own"):
        gid = _become(uid)
        _check(_libc.unshare(_NEWUSER | _NEWNET))
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123  # pathlib takes as long as all of this
                file.write(text)
        with socket.socket() as handle:
            fcntl.ioctl(handle, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
        links = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        links.bind((0, _RTMGRP_LINK))
        gateway = os.pidfd_open(gateway_pid)
        os.write(ready_write, b"!")
        readable, _, _ = select.select([links.fileno(), gateway], [], [])
        os.read(join_read, 1)
        os._exit(0 if links.fileno() in readable else _NO_GATEWAY)


def _run_gateway(uid: int, identity: str, command: list[str], holder_read: int) -> None:
    """Become the gateway of the network that the holder keeps; its pid comes through the pipe."""
    with _exit_after("no gateway"):
        with open("/proc/self/stat") as own, open(identity, "w") as file:  # noqa: PTH123
            file.write(own.read())
        # Its output must not be mixed with the IDE's.
        log = os.open(f"{identity}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        holder_pid = os.read(holder_read, 32).decode()
        if not holder_pid:
            os._exit(0)
        if os.geteuid() == 0:
            # Its user may open the device here, whatever its mode is outside.
            _check(_libc.unshare(_NEWNS))
            _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
            _check(_libc.mount(b"tmpfs", b"/dev/net", b"tmpfs", 0, None))
            os.mknod("/dev/net/tun", stat.S_IFCHR | 0o666, os.makedev(*_TUN))
            os.chmod("/dev/net/tun", 0o666)  # noqa: S103, PTH101  # nobody but the gateway sees it
        _become(uid)
        os.setsid()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # pasta takes an ignored one for an error
        os.chdir("/")
        os.execv(command[0], [argument.replace("{pid}", holder_pid) for argument in command])  # noqa: S606


def _become(uid: int) -> int:
    """Change to this user, if we are root and it is another, and return our group then."""
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else the gateway, the same user, could not join us
    return os.getegid()


def _join(pid: int, name: str, kind: int) -> None:
    fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    _check(_libc.setns(fd, kind))
    os.close(fd)


def _pipe() -> tuple[int, int]:
    """Return a pipe whose descriptors differ from the inherited ones."""
    ends = os.pipe()
    read_end, write_end = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, max(_INHERITED) + 1) for end in ends)
    _close(ends)
    return read_end, write_end


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.closerange(fd, fd + 1)  # some may be closed already


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class _exit_after:  # noqa: N801  # contextlib takes as long to import as all of this
    """Ends this child process at the end of the block, whatever happens in it."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        os.write(2, f"{self._message}: {error}\n".encode())
        os._exit(_REFUSED)


if __name__ == "__main__":
    main()
