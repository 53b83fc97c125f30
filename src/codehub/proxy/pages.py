"""The proxy's own pages: a workspace that can't be entered yet goes in, a page that says why, and what can be done, comes out.

They work without scripts: buttons are forms, and the waking page comes back by itself. With scripts it follows live.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from uuid import UUID

from codehub.core.errors import REMEDY
from codehub.core.language import preferred_language
from codehub.core.progress import Progress
from codehub.core.visit import Page
from codehub.core.wishes import Refused
from codehub.core.workspace import Workspace
from codehub.proxy.targets import Answer
from codehub.proxy.words import WORDS

ACTIONS = "_codehub"
_REFRESH_S = 2
_STATUS: Mapping[Page, int] = {
    Page.WAKING: 202,
    Page.ARCHIVED: 502,
    Page.PENDING: 502,
    Page.ERROR: 502,
    Page.LIMIT: 429,
}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.6 system-ui, sans-serif; max-width: 34rem; margin: 18vh auto 0; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; line-height: 1.3; margin: 0 0 .5rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; overflow-wrap: anywhere; }
form { display: inline-block; margin: 1rem .75rem 0 0; }
button { font: inherit; padding: .5rem 1.1rem; border-radius: .5rem; border: 1px solid currentColor; cursor: pointer; }
button:focus-visible, a:focus-visible { outline: 3px solid Highlight; outline-offset: 2px; }
progress { width: 100%; height: .75rem; margin-top: 1rem; }
nav { margin-top: 2rem; }
"""
# Enters when it is ready, and asks again where something else came first; but only once somebody looks at the page.
_SCRIPT = """
const main = document.querySelector("main"), now = document.querySelector("#now"), bar = document.querySelector("progress");
const seen = () => document.visibilityState === "visible" ? Promise.resolve()
  : new Promise(done => document.addEventListener("visibilitychange", done, { once: true }));
async function follow(version) {
  for (;;) {
    try {
      const answer = await fetch(`${main.dataset.follow}?seen=${version}`, { headers: { Accept: "application/json" } });
      if (answer.status === 200) {
        const told = await answer.json();
        version = told.version;
        if (told.moves === false) { await seen(); location.reload(); return; }
        now.textContent = told.words;
        if (told.total) { bar.max = told.total; bar.value = told.done; } else { bar.removeAttribute("value"); }
        continue;
      }
      if (answer.status < 500) { location.reload(); return; }
    } catch (_) { /* codehub is away: it comes back */ }
    await new Promise(done => setTimeout(done, 1000));
  }
}
follow(main.dataset.version);
"""


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_sha256(_STYLE)}'; script-src 'sha256-{_sha256(_SCRIPT)}'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Vary": "Accept-Language",
}


def waking_page(workspace: Workspace, progress: Progress | None, language: str) -> Answer:
    """Say what is under way. It comes back every two seconds without scripts, and follows live with them."""
    words = _words(language)
    bar = "<progress></progress>"
    if progress is not None and progress.total_bytes:
        bar = f'<progress max="{progress.total_bytes}" value="{progress.done_bytes}"></progress>'
    body = f"""<p id="now" role="status" aria-live="polite">{escape(words[workspace.status.operation])}</p>
{bar}
<p>{escape(words["waking_why"])}</p>"""
    follow = f' data-follow="/w/{workspace.id}/{ACTIONS}/progress" data-version="{workspace.status.version}"'
    return _page(Page.WAKING, workspace, language, body, main=follow, script=_SCRIPT)


def told_progress(
    workspace: Workspace, progress: Progress | None, language: str, *, moves: bool
) -> dict[str, Any]:
    """Return what the waking page asks for: where it is now, and whether that still changes by itself."""
    return {
        "version": workspace.status.version,
        "moves": moves,
        "phase": workspace.status.phase,
        "operation": workspace.status.operation,
        "words": _words(language)[workspace.status.operation],
        "done": progress.done_bytes if progress is not None else None,
        "total": progress.total_bytes if progress is not None else None,
    }


def resting_page(page: Page, workspace: Workspace, language: str) -> Answer:
    """Say why it can't be entered, with the button that goes on from there."""
    words = _words(language)
    action, label = {
        Page.ARCHIVED: ("start", "restore"),
        Page.PENDING: ("start", "start"),
        Page.ERROR: ("recover", "recover"),
    }[page]
    why = words[f"{page}_why"]
    extra = ""
    if page is Page.ERROR and (error := workspace.status.error_info) is not None:
        why = why.format(reason=error.reason, message=error.message)
        extra = f"<p>{escape(REMEDY[error.reason])}</p>"
    elif page is Page.ERROR:
        why = ""
    body = f"<p>{escape(why)}</p>{extra}{_button(workspace.id, action, words[label])}"
    return _page(page, workspace, language, body)


def limit_page(workspace: Workspace, refused: Refused, language: str) -> Answer:
    """List what runs, each with a button that stops it and comes back."""
    words = _words(language)
    details = refused.details or {}
    running = details.get("running")
    most = details.get("max")
    listed: Sequence[Mapping[str, str]] = running if isinstance(running, Sequence) else ()
    if details.get("limit") == "per_user":
        why = words["limit_why"].format(running=len(listed), max=most)
    else:
        why = words["limit_total"].format(max=most)
    buttons = "".join(
        _button(UUID(one["id"]), f"stop?then={workspace.id}", words["stop"].format(name=one["name"]))
        for one in listed
    )
    again = f'<nav><a href="/w/{workspace.id}/">{escape(words["again"])}</a></nav>'
    return _page(Page.LIMIT, workspace, language, f"<p>{escape(why)}</p>{buttons}{again}")


def language_of(accept_language: bytes) -> str:
    return preferred_language(accept_language.decode("latin-1"))


def _words(language: str) -> Mapping[str, str]:
    return WORDS[language]


def _button(workspace_id: UUID, action: str, label: str) -> str:
    return (
        f'<form method="post" action="/w/{workspace_id}/{ACTIONS}/{action}">'
        f"<button>{escape(label)}</button></form>"
    )


def _page(
    page: Page, workspace: Workspace, language: str, body: str, *, main: str = "", script: str = ""
) -> Answer:
    words = _words(language)
    title = escape(words[page].format(name=workspace.spec.name))
    scripted = f"<script>{script}</script>" if script else ""
    refresh = f'<noscript><meta http-equiv="refresh" content="{_REFRESH_S}"></noscript>' if script else ""
    html = f"""<!doctype html>
<html lang="{language}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · codehub</title>
{refresh}
<style>{_STYLE}</style>
<main{main}>
<h1>{title}</h1>
{body}
<nav><a href="/">{escape(words["dashboard"])}</a></nav>
</main>
{scripted}
</html>
"""
    headers = {**_HEADERS, "X-Codehub-Page": page.value, "Content-Language": language}
    return Answer(_STATUS[page], html.encode(), "text/html; charset=utf-8", headers)
