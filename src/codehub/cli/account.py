"""Which server, and as whom: the environment, or what `codehub login` has stored (0600).

A token is sent to no other server.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from codehub.cli.failures import Failed
from codehub.cli.language import say

DEFAULT_URL = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Account:
    url: str
    token: str | None
    username: str | None = None
    token_id: str | None = None
    is_from_environment: bool = field(default=False, compare=False)
    """Whether CODEHUB_TOKEN gave the token: then no `codehub login` replaces it."""

    def __post_init__(self) -> None:
        """Refuse a token that can't be sent in a header.

        The error does not repeat it, because others may read the error.
        """
        if self.token is not None and not (self.token.isascii() and self.token.isprintable()):
            raise Failed("USAGE", say("account.no_token"), do=say("account.no_token.do"))


def login_file(environ: Mapping[str, str]) -> Path:
    try:
        base = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or "~").expanduser() / ".config"
    except RuntimeError:
        raise Failed("USAGE", say("account.no_home"), do=say("account.no_home.do")) from None
    return Path(base) / "codehub" / "login.json"


def find_account(environ: Mapping[str, str]) -> Account:
    """CODEHUB_URL and CODEHUB_TOKEN go first. The kept token counts only for the server that gave it."""
    url = normalise_url(environ["CODEHUB_URL"]) if environ.get("CODEHUB_URL") else None
    token = environ.get("CODEHUB_TOKEN") or None
    if url is not None and token is not None:
        return Account(url, token, is_from_environment=True)
    stored = read_account(login_file(environ))
    if stored is None or (url is not None and url != stored.url):
        return Account(url or DEFAULT_URL, token, is_from_environment=token is not None)
    if token is not None:
        return Account(stored.url, token, is_from_environment=True)
    return stored


def normalise_url(text: str) -> str:
    """Return the address without a slash at its end, or raise Failed."""
    from urllib.parse import urlsplit

    if "@" in text:  # checked first, so that no error repeats the password
        raise Failed("USAGE", say("account.password_in_address"))
    address = text if "://" in text else f"http://{text}"
    error = Failed("USAGE", say("account.no_address", text=text))
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in ("http", "https") and _is_host(parts.hostname) and parts.port != 0
    except ValueError:  # a label that is too long or empty is one, too
        raise error from None
    # Searched in the whole text: urlsplit drops some characters.
    if (
        not is_valid
        or any(character.isspace() or not character.isprintable() for character in text)
        or not parts.path.isascii()
    ):
        raise error
    return address.rstrip("/")


def _is_host(name: str | None) -> bool:
    """Whether a server may be called so. Raises ValueError if it can't be looked up."""
    return bool(name and name.encode("idna"))


def read_account(path: Path) -> Account | None:
    try:
        content = json.loads(path.read_text())
        return Account(
            normalise_url(content["url"]), content["token"], content.get("username"), content.get("token_id")
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, Failed) as error:
        raise Failed(
            "USAGE", say("account.unreadable", path=path, error=error), do=say("account.unreadable.do")
        ) from None


def write_account(path: Path, account: Account) -> None:
    """Write it for this user alone, in one piece, or raise Failed."""
    try:
        _write(path, account)
    except OSError as error:
        raise _not_writable(path, error) from None


def remove_account(path: Path) -> None:
    """Remove it, or raise Failed."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _not_writable(path, error) from None


def _not_writable(path: Path, error: OSError) -> Failed:
    return Failed("FAILED", say("account.unwritable", path=path, error=error.strerror))


def _write(path: Path, account: Account) -> None:
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
