"""The language of a request: what somebody chose in this browser, else what the browser prefers."""

from typing import TYPE_CHECKING

from codehub.text import LANGUAGES
from codehub.text.language import preferred_language
from codehub.web.cookies import is_secure, language_among

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


def request_language(request: "HTTPConnection", base_url: str) -> str:
    cookies = "; ".join(request.headers.getlist("cookie"))
    accept_language = request.headers.get("accept-language", "")
    return language_of(cookies, accept_language, secure=is_secure(base_url))


def language_of(cookies: str, accept_language: str, *, secure: bool) -> str:
    """Return the language by what two headers say. Under https another cookie counts than under http."""
    chosen = language_among(cookies, secure=secure)
    return chosen if chosen in LANGUAGES else preferred_language(accept_language)
