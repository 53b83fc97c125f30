"""What a program in a sandbox may ask the kernel for: all that work needs,
no namespace, and nothing that only a machine's owner needs.
"""

import pytest
from tests.support.instances import LocalWorld

from codehub.adapters.local.seccomp import sandbox_filter

REFUSED, UNKNOWN = 1, 38
# The number of a call, its first argument, and what the kernel says.
CALLS = {
    "x86_64": [
        ("mount", 165, 0, REFUSED),
        ("unshare(CLONE_NEWUSER)", 272, 0x10000000, REFUSED),
        ("setns", 308, 0, REFUSED),
        ("clone(CLONE_NEWUSER)", 56, 0x10000000, REFUSED),
        ("clone(CLONE_NEWNET)", 56, 0x40000000, REFUSED),
        ("clone3", 435, 0, UNKNOWN),
        ("keyctl", 250, 0, REFUSED),
        ("bpf", 321, 0, REFUSED),
        ("perf_event_open", 298, 0, REFUSED),
        ("userfaultfd", 323, 0, REFUSED),
        ("io_uring_setup", 425, 1, REFUSED),
        ("open_by_handle_at", 304, 0, REFUSED),
        ("socket(AF_VSOCK)", 41, 40, REFUSED),
        ("personality(ADDR_NO_RANDOMIZE)", 135, 0x40000, REFUSED),
        ("a call of x32", 0x40000000 + 39, 0, UNKNOWN),
        ("a call of years to come", 600, 0, UNKNOWN),
    ]
}
CALL = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for number, argument in zip(sys.argv[1::2], sys.argv[2::2]):
    result = libc.syscall(ctypes.c_long(int(number)), ctypes.c_long(int(argument)), 0, 0, 0, 0, 0)
    print(ctypes.get_errno() if result == -1 else "done")
"""
WORK = """
import ctypes, os, socket, subprocess, threading
threads = [threading.Thread(target=lambda: None) for _ in range(8)]
[each.start() for each in threads]; [each.join() for each in threads]
subprocess.run(["true"], check=True)
socket.socketpair(); socket.create_server(("127.0.0.1", 0))
child = os.fork()
if child == 0:
    os._exit(0 if ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0 else 1)
assert os.waitpid(child, 0)[1] == 0, "ptrace"
print("works")
"""


async def test_what_only_a_machine_s_owner_needs_is_refused(sandboxed: LocalWorld) -> None:
    machine = (await sandboxed.inside(workspace_id := await sandboxed.run(), "uname -m")).strip()
    if machine not in CALLS:
        pytest.skip(f"no numbers of calls for {machine} here")
    arguments = " ".join(f"{number} {argument}" for _, number, argument, _ in CALLS[machine])
    results = (await sandboxed.inside(workspace_id, f"python3 -c '{CALL}' {arguments} 2>&1")).split()
    assert dict(zip([name for name, *_ in CALLS[machine]], results, strict=True)) == {
        name: str(error) for name, _, _, error in CALLS[machine]
    }


async def test_there_is_no_user_namespace_to_be_had(sandboxed: LocalWorld) -> None:
    workspace_id = await sandboxed.run()
    assert "not permitted" in await sandboxed.inside(workspace_id, "unshare --user --map-root-user id 2>&1")
    assert "Seccomp:\t2" in await sandboxed.inside(workspace_id, "cat /proc/self/status")


async def test_people_can_work_under_it(sandboxed: LocalWorld) -> None:
    workspace_id = await sandboxed.run()
    assert await sandboxed.inside(workspace_id, f"python3 -c '{WORK}' 2>&1") == "works\n"
    made = (
        "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git "
        "log --format=%s"
    )
    assert await sandboxed.inside(workspace_id, f"{made} 2>&1") == "x\n"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_filter_is_whole_lines_and_ends_with_an_answer(machine: str) -> None:
    program = sandbox_filter(machine)
    assert program is not None
    assert len(program) % 8 == 0
    assert len(program) // 8 < 4096
    assert program[-8:-6] == b"\x06\x00"


def test_a_machine_whose_calls_are_not_known_has_no_filter() -> None:
    assert sandbox_filter("m68k") is None
