"""A program of its own (`python -I -S`, no import of codehub's): makes a network for one workspace, leads it out by a gateway, and becomes
the command that runs in it. Refuses with exit code 3 and a line on stderr what this machine does not allow.

`enter_network.py UID IDENTITY GATEWAY… -- COMMAND…`: UID is whose the network is (- for ours), IDENTITY where the gateway writes who it
is, `{pid}` in the gateway's words the process whose network it leads out of. A command of `check` only waits for the gateway.
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

# What the launcher hands on to the sandbox: the gateway, which outlives it, must not hold the lock.
_INHERITED = (3, 4, 5)
_NEWNS, _NEWUSER, _NEWNET = 0x20000, 0x10000000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_SIOCSIFFLAGS, _IFF_UP, _RTMGRP_LINK = 0x8914, 0x1, 0x1
_PR_SET_DUMPABLE = 4
_TUN = (10, 200)
_REFUSED, _NO_GATEWAY = 3, 4
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    owner, identity, *words = sys.argv[1:]
    place = words.index("--")
    gateway, command = words[:place], words[place + 1 :]
    uid = os.geteuid() if owner == "-" else int(owner)
    (told, tell), (ready, is_ready), (joining, joined) = _pipe(), _pipe(), _pipe()
    led = os.fork()
    if led == 0:
        _close((*_INHERITED, tell, ready, is_ready, joining, joined))
        _lead_out(uid, identity, gateway, told)
    holder = os.fork()
    if holder == 0:
        _close((*_INHERITED, told, tell, ready, joined))
        _hold(uid, led, is_ready, joining)
    _close((told, is_ready, joining))
    if os.read(ready, 1) != b"!":
        os.kill(led, signal.SIGKILL)
        sys.exit(_REFUSED)
    os.write(tell, str(holder).encode())
    if command == ["check"]:
        os.close(joined)
        _, status = os.waitpid(holder, 0)
        os.kill(led, signal.SIGKILL)
        sys.exit(os.waitstatus_to_exitcode(status))
    if os.geteuid() != 0:
        _join(holder, "user", _NEWUSER)
    _join(holder, "net", _NEWNET)
    # All three pipes end here, which lets the holder go.
    os.execv(command[0], command)  # noqa: S606  # the command is codehub's


def _hold(uid: int, led: int, is_ready: int, joining: int) -> None:
    """Make the network, with a loopback of its own, and keep it until both are in it, the command and the gateway, or that has ended."""
    with _ending("no network of its own"):
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
        gateway = os.pidfd_open(led)
        os.write(is_ready, b"!")
        found, _, _ = select.select([links.fileno(), gateway], [], [])
        os.read(joining, 1)
        os._exit(0 if links.fileno() in found else _NO_GATEWAY)


def _lead_out(uid: int, identity: str, words: list[str], told: int) -> None:
    """Become the gateway of the network whose holder we are told of."""
    with _ending("no gateway"):
        with open("/proc/self/stat") as own, open(identity, "w") as file:  # noqa: PTH123
            file.write(own.read())
        # Its words are no part of the IDE's.
        log = os.open(f"{identity}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        holder = os.read(told, 32).decode()
        if not holder:
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
        os.execv(words[0], [word.replace("{pid}", holder) for word in words])  # noqa: S606


def _become(uid: int) -> int:
    """Become this user, if we are root and are to be another, and return the group that then is ours."""
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
    """Return one whose ends are not where the inherited descriptors are, or would be."""
    ends = os.pipe()
    reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, max(_INHERITED) + 1) for end in ends)
    _close(ends)
    return reading, writing


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.closerange(fd, fd + 1)  # which may be closed already


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class _ending:  # noqa: N801  # contextlib takes as long to import as all of this
    """A child of ours ends here, whatever happens in it."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        os.write(2, f"{self._words}: {error}\n".encode())
        os._exit(_REFUSED)


if __name__ == "__main__":
    main()
