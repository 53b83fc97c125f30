"""The text at a terminal when codehub is ready: the next steps."""

import shutil
from ipaddress import ip_address
from pathlib import Path

from codehub.app.language import say
from codehub.settings import Settings


def next_steps(settings: Settings, program: str, *, is_new: bool) -> str:
    """Return the rest of the first screen. `is_new`: a password was made, and is above."""
    codehub = "codehub" if shutil.which("codehub") else _shorten(program)
    url = settings.base_url
    password = say("steps.password", codehub=codehub) if is_new else ""
    origins, access = settings.workspace_origins, _describe_access(settings)
    names = say("steps.names") if origins is not None and origins.is_local else ""
    return say("steps", url=url, codehub=codehub, password=password, names=names, access=access)


def _describe_access(settings: Settings) -> str:
    try:
        is_local = ip_address(settings.host).is_loopback
    except ValueError:
        is_local = settings.host == "localhost"
    if is_local:
        return say("access.local")
    return say("access.open", host=settings.host, port=settings.port)


def _shorten(program: str) -> str:
    path = Path(program)
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
