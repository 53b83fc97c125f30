"""Which server, and as whom: the environment, or what `codehub login` has kept (0600). A token is sent to no other server."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from codehub.cli.failures import Failed

DEFAULT_URL = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Account:
    url: str
    token: str | None
    username: str | None = None
    token_id: str | None = None


def login_file(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    return Path(base) / "codehub" / "login.json"


def find_account(environ: Mapping[str, str]) -> Account:
    """CODEHUB_URL and CODEHUB_TOKEN go first. The kept token counts only for the server that gave it."""
    kept = read_kept(login_file(environ))
    url = normal_url(environ["CODEHUB_URL"]) if environ.get("CODEHUB_URL") else None
    token = environ.get("CODEHUB_TOKEN") or None
    if kept is None or (url is not None and url != kept.url):
        return Account(url or DEFAULT_URL, token)
    if token is not None:
        return Account(kept.url, token)
    return kept


def normal_url(text: str) -> str:
    """Return the address without a slash at its end, or raise Failed."""
    from urllib.parse import urlsplit

    if "@" in text:  # said before anything else, so that no error repeats it
        raise Failed(
            "USAGE", "an address holds no name and no password: use `codehub login` or CODEHUB_TOKEN"
        )
    given = text if "://" in text else f"http://{text}"
    wrong = Failed("USAGE", f"{text!r} is no address: it must be http://host:port or https://host")
    try:
        parts = urlsplit(given)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise wrong from None
    if not is_right:
        raise wrong
    return given.rstrip("/")


def read_kept(path: Path) -> Account | None:
    try:
        kept = json.loads(path.read_text())
        return Account(kept["url"], kept["token"], kept.get("username"), kept.get("token_id"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failed(
            "USAGE", f"{path} can't be read ({error})", do="Remove it, and `codehub login` again."
        ) from None


def keep(path: Path, account: Account) -> None:
    """Write it for this user alone, in one piece."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            json.dump(
                {
                    "url": account.url,
                    "token": account.token,
                    "username": account.username,
                    "token_id": account.token_id,
                },
                file,
            )
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
