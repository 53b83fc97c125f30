"""A command goes in, the argv of the shell that becomes it
comes out, and what that shell reports first is read.

Any image with a shell has all that it needs.
"""

from dataclasses import dataclass

from codehub.core.messages import Code, Message
from codehub.ports.instance_access import Command, NoSuchCommand

REPORT_BYTES_MAX = 4096
_TERMINAL = "xterm-256color"
# Where a process's begin is in /proc/PID/stat, counted behind its name, which may hold anything.
_SINCE = 19
# $1: its directory. Then the command. The report goes to descriptor 3, which the command does not get.
_SCRIPT = """
cd -- "$1" 2>/dev/null || { echo directory >&3; exit 126; }
shift
is_there() {
    case $1 in */*) [ -f "$1" ] && [ -x "$1" ]; return; esac
    set -f; IFS=:
    for place in $PATH; do [ -f "$place/$1" ] && [ -x "$place/$1" ] && return; done
    return 1
}
is_there "$1" || { echo absent >&3; exit 127; }
read -r stat < /proc/self/stat
echo "$stat" >&3
exec "$@" 3>&-
"""
# Waits beside a command, for engines that can neither signal what they run nor end it when its caller goes.
# Lines tell it which process to keep ("PID SINCE", which it confirms), a number to signal its group with, or
# "end". The end of its input, which the end of codehub causes too, is the end of the command.
KEEPER = """
pid=0 since=never
is_there() {
    { read -r stat < "/proc/$pid/stat"; } 2>/dev/null || return
    set -- ${stat##*) }
    group=$3
    [ "${20}" = "$since" ]
}
while read -r word more; do
    [ "$word" = end ] && exit
    if [ -n "$more" ]; then pid=$word since=$more; echo kept; continue; fi
    is_there && kill "-$word" "-$group"
done
is_there && kill -1 "-$group" && sleep 1
is_there && kill -9 "-$group"
"""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of an instance: its number, and when it began, so that no other is taken for it."""

    pid: str
    since: str

    @property
    def line(self) -> bytes:
        """What the keeper is told of it."""
        return f"{self.pid} {self.since}\n".encode()


def shell_argv(command: Command, home: str, *, reports_to_output: bool) -> list[str]:
    """Return what to execute. It reports on descriptor 3, or as the first line of its output.

    An engine that gives it output and report together gives a terminal no size, either.
    """
    size = command.terminal
    stty = "" if size is None else f"stty rows {size.rows} cols {size.columns} 2>/dev/null\n"
    script = f"{stty}exec 3>&1{_SCRIPT}" if reports_to_output else _SCRIPT
    return ["/bin/sh", "-c", script, "codehub", command.directory or home, *command.argv]


def environment_of(command: Command) -> dict[str, str]:
    """Return what the command's environment has beyond the IDE's."""
    terminal = {} if command.terminal is None else {"TERM": _TERMINAL}
    return {**terminal, **command.environment}


def check_report(command: Command, report: bytes) -> Process | None:
    """Return the command's process, or None if there was no report. Raises NoSuchCommand."""
    line = report.decode(errors="replace").strip()
    if line == "directory":
        raise NoSuchCommand(Message(Code.NO_SUCH_DIRECTORY, {"directory": command.directory}))
    if line == "absent":
        raise NoSuchCommand(Message(Code.NO_SUCH_COMMAND, {"command": command.argv[0]}))
    return parse_stat(line)


def parse_stat(line: str) -> Process | None:
    """Return the process whose line of /proc/PID/stat this is."""
    pid, fields = line.partition(" ")[0], line.rpartition(")")[2].split()
    is_stat = pid.isdigit() and len(fields) > _SINCE
    return Process(pid, fields[_SINCE]) if is_stat else None
