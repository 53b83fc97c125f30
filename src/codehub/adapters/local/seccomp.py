"""A kind of processor goes in, the filter of system calls that a sandbox runs under comes out, as the kernel
reads it.

Docker's default profile is the model: what only a machine's owner needs is refused, and so is every way to a
new namespace: in one of users a program would hold all capabilities over its own mounts and networks, where
most security holes of kernels are found. ptrace is allowed, as there. A call that is newer than this list
does not exist.
"""

import platform
import struct
from collections.abc import Iterable

_X86_64, _AARCH64 = 0xC000003E, 0xC00000B7
_MACHINES = {"x86_64": (_X86_64, 0), "aarch64": (_AARCH64, 1)}
# The calls' numbers on x86-64 and on arm64; None is a call that only the one has.
# fmt: off
_REFUSED: dict[str, tuple[int, int | None]] = {
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "clock_adjtime": (305, 266),
    "clock_settime": (227, 112), "create_module": (174, None), "delete_module": (176, 106),
    "finit_module": (313, 273), "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430),
    "fspick": (433, 433), "get_kernel_syms": (177, None), "get_mempolicy": (239, 236),
    "init_module": (175, 105), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None), "kcmp": (312, 272),
    "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219), "listmount": (458, 458),
    "lookup_dcookie": (212, 18), "lsm_get_self_attr": (459, 459), "lsm_list_modules": (461, 461),
    "lsm_set_self_attr": (460, 460), "mbind": (237, 235), "migrate_pages": (256, 238), "mount": (165, 40),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239), "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438), "pivot_root": (155, 41), "process_madvise": (440, 440),
    "query_module": (178, None), "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142),
    "request_key": (249, 218), "set_mempolicy": (238, 237), "set_mempolicy_home_node": (450, 450),
    "setdomainname": (171, 162), "sethostname": (170, 161), "setns": (308, 268), "settimeofday": (164, 170),
    "statmount": (457, 457), "swapoff": (168, 225), "swapon": (167, 224), "sysctl": (156, None),
    "sysfs": (139, None), "syslog": (103, 116), "umount2": (166, 39), "unshare": (272, 97),
    "uselib": (134, None), "userfaultfd": (323, 282), "ustat": (136, None), "vhangup": (153, 58),
    "vserver": (236, None),
}
# fmt: on
_CLONE, _CLONE3, _SOCKET, _PERSONALITY = (56, 220), (435, 435), (41, 198), (135, 92)
_NEWEST = 462  # mseal
_NEW_NAMESPACE = 0x7E020000  # mount, cgroup, uts, ipc, user, pid, network
_VSOCK = 40  # which reaches the host of a virtual machine
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38


def sandbox_filter(machine: str = platform.machine()) -> bytes | None:
    """Return the program, or None for a machine whose calls are not known here."""
    if machine not in _MACHINES:
        return None
    audit, column = _MACHINES[machine]
    refused = sorted(number for pair in _REFUSED.values() if (number := pair[column]) is not None)
    lines = [
        _load(_MACHINE_AT),
        *_unless(_EQUAL, audit, _ERRNO | _ENOSYS),
        _load(_NUMBER_AT),
        # The 32-bit calls of x86-64 have numbers above all others, too.
        *_if(_GREATER, _NEWEST, [_answer(_ERRNO | _ENOSYS)]),
        *(line for number in refused for line in _if(_EQUAL, number, [_answer(_ERRNO | _EPERM)])),
        # Its flags are in memory, where no filter sees them: without it, libraries use clone.
        *_if(_EQUAL, _CLONE3[column], [_answer(_ERRNO | _ENOSYS)]),
        *_if(_EQUAL, _CLONE[column], _argument(_if(_ANY_BIT, _NEW_NAMESPACE, [_answer(_ERRNO | _EPERM)]))),
        *_if(_EQUAL, _SOCKET[column], _argument(_if(_EQUAL, _VSOCK, [_answer(_ERRNO | _EPERM)]))),
        *_if(_EQUAL, _PERSONALITY[column], _personality()),
        _answer(_ALLOW),
    ]
    return b"".join(lines)


def _personality() -> list[bytes]:
    allowed = [line for value in _PERSONALITIES for line in _if(_EQUAL, value, [_answer(_ALLOW)])]
    return [_load(_FIRST_ARGUMENT_AT), *allowed, _answer(_ERRNO | _EPERM)]


def _argument(lines: Iterable[bytes]) -> list[bytes]:
    """Check the first argument with these lines, and allow what remains."""
    return [_load(_FIRST_ARGUMENT_AT), *lines, _answer(_ALLOW)]


def _if(test: int, value: int, lines: list[bytes]) -> list[bytes]:
    return [_line(test, value, 0, len(lines)), *lines]


def _unless(test: int, value: int, answer: int) -> list[bytes]:
    return [_line(test, value, 1, 0), _answer(answer)]


def _load(offset: int) -> bytes:
    return _line(_LOAD, offset)


def _answer(value: int) -> bytes:
    return _line(_RETURN, value)


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
