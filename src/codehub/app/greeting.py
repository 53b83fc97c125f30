"""The text at a terminal when codehub is ready: the next steps."""

import shutil
from ipaddress import ip_address
from pathlib import Path

from codehub.settings import Settings


def next_steps(settings: Settings, program: str, *, is_new: bool) -> str:
    """Return the rest of the first screen. `is_new`: a password was made, and is above."""
    codehub = "codehub" if shutil.which("codehub") else _shorten(program)
    url = settings.base_url
    password_note = (
        f"  Keep the password, it is shown this once. This sets another:\n  {codehub} user passwd admin\n"
        if is_new
        else ""
    )
    return f"""
In a browser
  Open {url}, sign in as admin, and make a workspace.
{password_note}
Or in another terminal
  {codehub} login {url} --username admin
  {codehub} ws create hello --wait
  {codehub} ws open hello

{_describe_access(settings)} Ctrl-C stops it.
The next start finds everything as it was."""


def _describe_access(settings: Settings) -> str:
    try:
        is_local = ip_address(settings.host).is_loopback
    except ValueError:
        is_local = settings.host == "localhost"
    if is_local:
        return "Only this machine reaches it."
    return f"WHOEVER REACHES {settings.host}:{settings.port} CAN TRY TO SIGN IN; without https they can listen, too."


def _shorten(program: str) -> str:
    path = Path(program)
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
