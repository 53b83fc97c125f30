"""Pages: a template and its values in, an answer with its headers out."""

import gzip
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from codehub.core.access import SAFE_METHODS
from codehub.dashboard import assets
from codehub.dashboard.caller import Caller
from codehub.text import section, speaker
from codehub.web.dependencies import Dependencies
from codehub.web.language import request_language
from codehub.web.measures import left, relative, span

_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with that a browser sends `Origin: null` with a form, which is nobody's own.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Accept-Language, Accept-Encoding",
    # A page of another origin holds no window of ours, whichever opened the other, and loads no page of ours.
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_POLICY = (
    "default-src 'none'; script-src {0}; style-src {0}; img-src {0}; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
# What a policy can name: no address in IPv6, for one.
_NAMED_HOST = re.compile(r"[a-z0-9.-]+(:[0-9]{1,5})?")
HAS_MESSAGE: Mapping[str, str] = {"X-Codehub-Said": "yes"}
"""Marks an answer that has a message for the reader, whatever its status is: codehub.js shows it."""
_TOAST_KEYS: Mapping[str, str] = {"error.404.workspace": "no.WORKSPACE_NOT_FOUND"}
_ROW_PREFIXES = ("ws-", "trash-")
_COMPRESSED_FROM, _COMPRESSION = 1000, 4

_TEMPLATES = Environment(
    loader=PackageLoader("codehub.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals["asset"] = assets.address


class Pages:
    """Renders every page; `parts` is what the pages are about."""

    def __init__(self, parts: Dependencies) -> None:
        self.parts = parts

    def render(self, caller: Caller, template: str, *, status: int = 200, **values: Any) -> Response:
        """Render a page, or a part of one.

        Compressed, but for the page that may show a secret beside what others influence (BREACH).
        """
        body, headers = (
            self.render_text(caller, template, **values).encode(),
            self._headers(caller.request, caller.language),
        )
        accepted = caller.request.headers.get("accept-encoding", "")
        if template != "account.html" and "gzip" in accepted and len(body) > _COMPRESSED_FROM:
            body = gzip.compress(body, _COMPRESSION, mtime=0)
            headers["Content-Encoding"] = "gzip"
        return Response(body, status, headers, "text/html")

    def render_text(self, caller: Caller, template: str, **values: Any) -> str:
        language, now = caller.language, caller.now
        return _TEMPLATES.get_template(template).render(
            say=caller.say,
            language=language,
            me=caller.known,
            now=now,
            stamp=_stamp,
            exact=_exact,
            relative=lambda at: relative(at, now, language),
            span=lambda seconds: span(seconds, language),
            left=lambda at: left(at, now, language),
            units=json.dumps(dict(section(language, "measure")), ensure_ascii=False),
            path=caller.request.url.path,
            shortage=caller.shortage,
            **values,
        )

    def refusal(self, caller: Caller, status: int, key: str, **facts: object) -> Response:
        if caller.is_partial:
            return self.toast(caller.request, caller.language, _TOAST_KEYS.get(key, key), status, **facts)
        return self.render(
            caller, "refusal.html", status=status, message=caller.say(key, **facts), usage=None
        )

    def toast(self, request: Request, language: str, key: str, status: int, **facts: object) -> Response:
        """Answer a button of something that is not theirs, or not there, with a message.

        The row that it was in goes.
        """
        say = speaker(language)
        message = {"message": say(key, **facts), "is_bad": True, "undo": None}
        text = _TEMPLATES.get_template("toast.html").render(say=say, toast=message)
        headers = {**self._headers(request, language), **HAS_MESSAGE}
        if not request.headers.get("hx-target", "").startswith(_ROW_PREFIXES):
            headers["HX-Reswap"] = "none"
        return Response(text, status, headers, "text/html")

    def confirm(
        self, caller: Caller, question: str, *, answer: str, fields: Mapping[str, str], back: str
    ) -> Response:
        """Ask before it is done, where no script has asked: whoever agrees posts the same fields again."""
        form_fields = {name: value for name, value in fields.items() if name != "sure"}
        return self.render(
            caller, "sure.html", question=question, answer=answer, fields=form_fields, back=back, usage=None
        )

    def error(self, request: Request, status: int) -> Response:
        """Return a page for an address that does not exist, and for an unexpected failure."""
        language = request_language(request, self.parts.base_url)
        return self.plain(request, language, f"error.{status}", status, request_id=request.state.request_id)

    def plain(self, request: Request, language: str, key: str, status: int, **facts: object) -> Response:
        """Return a page that needs nothing from the database."""
        say = speaker(language)
        # What leads nowhere, and what was posted, is not asked for again.
        is_again = status != 404 and request.method in SAFE_METHODS  # noqa: PLR2004
        page = _TEMPLATES.get_template("plain.html").render(
            say=say,
            language=language,
            message=say(key, **facts),
            again=request.url.path if is_again else None,
        )
        headers = self._headers(request, language) | ({"Retry-After": "2"} if status in (429, 503) else {})
        headers["X-Request-Id"] = request.state.request_id
        return Response(page, status, headers, "text/html")

    def _headers(self, request: Request, language: str) -> dict[str, str]:
        policy = _POLICY.format(self._own_files(request))
        return {**_HEADERS, "Content-Security-Policy": policy, "Content-Language": language}

    def _own_files(self, request: Request) -> str:
        """Return where a page may load from: our files alone, for in path form workspaces answer under this
        origin, too.
        """
        candidates = (urlsplit(self.parts.base_url).netloc, request.headers.get("host", ""))
        hosts = {host.lower() for host in candidates if host}
        if not all(_NAMED_HOST.fullmatch(host) for host in hosts):
            return "'self'"
        return " ".join(f"{host}{assets.PREFIX}/" for host in sorted(hosts))


def _exact(at: datetime) -> str:
    """Return a time for whoever wants to know it exactly. Scripts tell it by the clock of whoever looks."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _stamp(at: datetime) -> str:
    """Return a time as `<time datetime>` wants it."""
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
