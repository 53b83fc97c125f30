"""A program of its own (`python -I -S`, no import of codehub's): enters a running instance and runs a
command there, or hands out sockets of its network. Says on the report's descriptor why it can't.

`enter_instance.py CONTROL REQUEST`: two descriptors. Codehub has opened what may be entered, and passes
descriptors of it, so no pid is trusted; the request is a file without a name, since all can see arguments.
The program stays outside, the command's parent and out of its sight; it ends the command when codehub goes
or the instance ends.
"""

import array
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import termios

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_FILTER_LINE_BYTES = 8
_HANG_UP_MS_MAX = 1000
_REPORT = 3
_FAILED = 126
_libc = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    with open(int(sys.argv[2])) as file:  # noqa: PTH123  # a descriptor
        request = json.load(file)
    try:
        if request["namespaces"]:
            _check(_libc.setns(request["instance"], request["namespaces"]))
        if request["argv"] is None:
            families = (socket.AF_INET, socket.AF_INET6)
            _hand_over(control, [socket.socket(family).detach() for family in families])
        else:
            _run(control, request)
    except OSError as error:
        _report(request["report"], error)
        sys.exit(_FAILED)


def _run(control: socket.socket, request: dict) -> None:  # type: ignore[type-arg]  # what JSON gives
    terminal = None
    if request["size"] is not None:
        ours, terminal = os.openpty()
        if os.geteuid() == 0 and request["uid"] is not None:
            os.fchown(terminal, request["uid"], -1)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *request["size"], 0, 0))
        _hand_over(control, [ours])
        os.close(ours)
    pid = os.fork()
    if pid == 0:
        try:
            _become_command(request, terminal)
        except BaseException as error:  # noqa: BLE001  # this process must end here
            _report(_REPORT, error)
        os._exit(_FAILED)
    os.closerange(0, 3)
    os.close(request["report"])
    if terminal is not None:
        os.close(terminal)
    _watch(control, pid, request["instance"])


def _watch(control: socket.socket, pid: int, instance: int) -> None:
    """Pass signals on until the command has ended; say how."""
    command = os.pidfd_open(pid)
    poll = select.poll()
    for fd in (control.fileno(), command, instance):
        poll.register(fd, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if command in ready:
            break
        if instance in ready:
            _signal(pid, signal.SIGKILL)
            break
        number = control.recv(1)
        if not number:  # codehub has gone, or wants it gone
            _signal(pid, signal.SIGHUP)
            ending = select.poll()
            ending.register(command, select.POLLIN)
            ending.poll(_HANG_UP_MS_MAX)
            _signal(pid, signal.SIGKILL)
            break
        _signal(pid, number[0])
    result = os.waitid(os.P_PIDFD, command, os.WEXITED)
    assert result is not None
    by_itself = result.si_code == os.CLD_EXITED
    try:
        control.sendall(bytes([by_itself, result.si_status]))
    except OSError:
        sys.exit(0)  # nobody asks


def _signal(pid: int, number: int) -> None:
    """Signal its process group. It was not waited for yet, so the number is still its own."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # nobody is left in there


def _become_command(request: dict, terminal: int | None) -> None:  # type: ignore[type-arg]
    """Give up all that the instance's IDE does not have, and become the command."""
    for group in request["groups"]:
        os.write(group, b"0")
    os.setsid()
    if terminal is not None:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        for fd in (0, 1, 2):
            os.dup2(terminal, fd)
    filter_lines = bytes.fromhex(request["calls"])
    # The highest first: the report's own number may be one of the others'.
    report = fcntl.fcntl(request["report"], fcntl.F_DUPFD, 64)
    os.dup2(report, _REPORT)
    os.closerange(_REPORT + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    _give_up_rights(request)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    os.chdir("/")
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if filter_lines:
        program = _Filter(len(filter_lines) // _FILTER_LINE_BYTES, filter_lines)
        _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0))
    os.execve(request["argv"][0], request["argv"], request["environment"])  # noqa: S606  # the command is a shell that codehub names


def _give_up_rights(request: dict) -> None:  # type: ignore[type-arg]
    if request["gives_up"]:
        for capability in range(_last_capability() + 1):
            _check(_libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0))
    if request["uid"] is not None:
        os.setgroups([])
        os.setresgid(request["uid"], request["uid"], request["uid"])
        os.setresuid(request["uid"], request["uid"], request["uid"])
    if request["gives_up"]:
        header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
        _check(_libc.capset(header, bytes(24)))
    if request["processes"] is not None:
        resource.setrlimit(resource.RLIMIT_NPROC, tuple(request["processes"]))


def _last_capability() -> int:
    with open("/proc/sys/kernel/cap_last_cap") as file:  # noqa: PTH123  # pathlib takes as long as all of this
        return int(file.read())


def _hand_over(control: socket.socket, fds: list[int]) -> None:
    control.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def _report(fd: int, error: BaseException) -> None:
    os.write(fd, f"!{error}\n".encode())


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
