"""A Pod and a script go in, a shell in that very Pod runs it. Refuses every other Pod of its name.

What the API is asked has neither the script nor its variables in it: an audit log, or a proxy on the way,
would keep them. They go in as input, which is why a shell reads them first.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from codehub.adapters.command_script import REPORT_BYTES_MAX, Process, parse_stat
from codehub.adapters.kubernetes.answers import NotFound
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.exec import ExecSession, Stream, execute
from codehub.adapters.kubernetes.kinds import PODS
from codehub.adapters.kubernetes.pods import CONTAINER, POD_VARIABLE, Pod, parse_pod
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instance_access import NotRunning

# $1: the Pod's uid. A terminal is made to change nothing of what it is given, and `mode` is what it was.
# The input is read by `read` alone, which takes no byte beyond a line: the rest is the script's.
_ENTRY = f"""
[ "${POD_VARIABLE}" = "$1" ] || exit 1
if [ -t 0 ]; then mode=$(stty -g) && stty raw -echo || exit 1; fi
read -r stat < /proc/self/stat
echo "$stat"
read -r lines
script=
while [ "$lines" -gt 0 ]; do
    IFS= read -r line || exit 1
    script="$script$line
" lines=$((lines - 1))
done
eval "$script"
"""
RESTORE_TERMINAL = '[ -z "$mode" ] || stty "$mode"'
"""What a script on a terminal begins with."""


class Entry:
    """A shell in a Pod that waits for its script."""

    def __init__(self, client: KubernetesClient, pod: Pod, session: ExecSession) -> None:
        self._client = client
        self._pod = pod
        self.session = session

    async def ready(self) -> Process:
        """Wait for the shell, and return its process. Raises NotRunning if this Pod is not there any more."""
        line = await self.read_line()
        process = parse_stat(line)
        if process is not None:
            return process
        if line:
            raise ActionFailed(Message(Code.KUBERNETES_COMMAND, {"text": line}))
        raise NotRunning

    async def run(self, script: str) -> None:
        """Let the shell run a script, which then has the input and the output for itself."""
        lines = script.split("\n")
        text = f"{len(lines)}\n{script}\n"
        await self.session.write(text.encode(errors="surrogateescape"))

    async def read_line(self) -> str:
        """Return a line that comes alone; "" if there is none."""
        line = b""
        while not line.endswith(b"\n") and len(line) < REPORT_BYTES_MAX:
            output = await self.read()
            if not output:
                break
            line += output
        return line.decode(errors="replace").strip()

    async def read(self) -> bytes:
        """Return some of the output, b"" at its end. Raises NotRunning if it ended because the Pod did."""
        try:
            while (part := await self.session.read()) is not None:
                if part[0] is Stream.STDOUT:
                    return part[1]
        except (ActionFailed, BackendUnreachable):
            if await is_over(self._client, self._pod):
                raise NotRunning from None
            raise
        return b""


@asynccontextmanager
async def enter(client: KubernetesClient, pod: Pod, *, has_terminal: bool = False) -> AsyncIterator[Entry]:
    """Begin a shell in the Pod, and yield it at once: it may not be ready yet."""
    command = ("/bin/sh", "-c", _ENTRY, "codehub", pod.uid)
    async with AsyncExitStack() as stack:
        try:
            session = await stack.enter_async_context(
                execute(client, pod.name, CONTAINER, command, has_input=True, has_terminal=has_terminal)
            )
        except NotFound:
            raise NotRunning from None
        yield Entry(client, pod, session)


async def is_over(client: KubernetesClient, pod: Pod) -> bool:
    """Whether nothing runs in this very Pod any more, or soon will: asked, as no watch is there at once."""
    answer = await client.find(PODS, pod.name)
    current = None if answer is None else parse_pod(answer)
    return current is None or current.uid != pod.uid or not current.running
