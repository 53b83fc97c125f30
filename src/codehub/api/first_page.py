"""The first page: says that codehub runs, in English or Korean. It has no scripts and loads nothing."""

from collections.abc import Mapping
from html import escape

from codehub.core.language import preferred_language

PAGE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Language",
}

_WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "running": "codehub is running.",
        "next": "Workspaces, the dashboard and the API are built on this ground next.",
        "health": "Does it answer?",
        "ready": "Is everything it needs there?",
    },
    "ko": {
        "running": "codehub가 실행 중입니다.",
        "next": "워크스페이스, 대시보드, API는 이 기반 위에 차례로 만들어집니다.",
        "health": "응답하고 있습니까?",
        "ready": "필요한 것이 모두 준비되었습니까?",
    },
}


def first_page(accept_language: str) -> str:
    language = preferred_language(accept_language)
    words = {key: escape(text) for key, text in _WORDS[language].items()}
    return f"""<!doctype html>
<html lang="{language}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>codehub</title>
<style>
body {{ font: 1rem/1.6 system-ui, sans-serif; max-width: 34rem; margin: 18vh auto 0; padding: 0 1.5rem; }}
h1 {{ font-size: 1.6rem; margin: 0 0 .5rem; }}
dl {{ display: grid; grid-template-columns: auto 1fr; gap: .25rem 1.25rem; margin-top: 1.5rem; }}
dd {{ margin: 0; }}
</style>
<main>
<h1>{words["running"]}</h1>
<p>{words["next"]}</p>
<dl>
<dt><a href="/healthz">/healthz</a></dt><dd>{words["health"]}</dd>
<dt><a href="/readyz">/readyz</a></dt><dd>{words["ready"]}</dd>
</dl>
</main>
</html>
"""
