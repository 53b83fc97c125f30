"""The language of a request: what somebody chose in this browser, else what the browser prefers."""

from starlette.requests import HTTPConnection

from codehub.text import LANGUAGES
from codehub.text.language import preferred_language
from codehub.web.cookies import sent_language


def request_language(request: HTTPConnection, base_url: str) -> str:
    chosen = sent_language(request, base_url)
    if chosen in LANGUAGES:
        return chosen
    return preferred_language(request.headers.get("accept-language", ""))
