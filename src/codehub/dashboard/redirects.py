"""Where a browser is sent next: a path of this site, or the sign-in page and back."""

from enum import Enum
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from codehub.core.access import SAFE_METHODS

_URL_CHARACTERS = "%/:?#[]@!$&'()*+,;=~"


class SessionEnd(Enum):
    """How somebody noticed that their session has ended.

    The value stands in the address of the sign-in page; codehub.js sends PAGE, too.
    """

    FORM = "1"
    """They sent a form, and nothing of it was saved."""
    PAGE = "page"
    """A page asked for news of itself."""


def local_path(text: str | None) -> str:
    """Return where to go next, if it is a path of this site; else the first page (security 7)."""
    if (
        not text
        or not text.startswith("/")
        or text.startswith("//")
        or "\\" in text
        or not text.isprintable()
    ):
        return "/"
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    return "/" if parts.scheme or parts.netloc else text


def see_other(path: str) -> Response:
    """Redirect to this path. A header is ASCII; what is escaped already stays as it is."""
    return Response(
        status_code=303, headers={"Location": quote(path, safe=_URL_CHARACTERS), "Cache-Control": "no-store"}
    )


def to_login(request: Request) -> Response:
    """Send them to sign in, and back afterwards.

    Whoever was on a page of ours is told that the session ended, and what became of the form.
    """
    is_change = request.method not in SAFE_METHODS
    end = SessionEnd.FORM if is_change else SessionEnd.PAGE
    if request.headers.get("hx-request") == "true":
        path = _login_path(_path_of(request.headers.get("hx-current-url", "/")), end)
        return Response(status_code=401, headers={"HX-Redirect": path})
    if request.url.path == "/logout":
        return see_other("/login")
    if is_change:
        return see_other(_login_path(_path_of(request.headers.get("referer", "/")), end))
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return see_other("/login" if target == "/" else f"/login?next={quote(target)}")


def _login_path(path: str, end: SessionEnd) -> str:
    return f"/login?next={quote(local_path(path))}&ended={end.value}"


def _path_of(url: str) -> str:
    """Return the path of a page's address, with its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "/"
    return parts.path + (f"?{parts.query}" if parts.query else "")
