"""The proxy's own pages: a workspace that can't be entered yet goes in, a page that says why comes out.

They work without scripts: buttons are forms, and the waking page comes back by itself. With scripts it
follows live.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from codehub.core.conditions import lost_host
from codehub.core.messages import Message
from codehub.core.progress import Progress
from codehub.core.requests import Refused
from codehub.core.route import mount_of
from codehub.core.visit import Page
from codehub.core.workspace import Workspace
from codehub.proxy.engine.targets import Answer
from codehub.text import section
from codehub.web.domain_text import message_text, remedy_text, trouble_text, under_way_text
from codehub.web.measures import progress_text
from codehub.web.theme import TOKENS

ACTIONS = "_codehub"
PAGE_HEADER = "X-Codehub-Page"
SILENT = "silent"
SIGN_IN = "sign-in"
_REFRESH_S = 2
_STATUS: Mapping[Page, int] = {
    Page.WAKING: 202,
    Page.ARCHIVED: 502,
    Page.PENDING: 502,
    Page.ERROR: 502,
    Page.LIMIT: 429,
}
_REFUSED: Mapping[str, int] = {
    "sessions": 400,
    "foreign": 403,
    "door": 403,
    "frame": 401,
    "missing": 404,
    "port": 404,
    "asleep": 503,
}
_STYLE = f"""
{TOKENS}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--bg); color: var(--ink); font: 15px/1.55 var(--sans); overflow-wrap: anywhere; }}
:lang(ko) {{ word-break: keep-all; }}
main {{ max-width: 27rem; margin: 14vh auto 2rem; padding: 2rem; background: var(--surface); border: 1px solid var(--line); border-radius: 14px; box-shadow: var(--shadow); }}
svg {{ display: block; width: 36px; height: 36px; margin-bottom: 1.125rem; }}
h1 {{ font-size: 1.25rem; line-height: 1.3; letter-spacing: -.015em; font-weight: 650; margin: 0 0 .5rem; }}
p {{ margin: .375rem 0; color: var(--soft); }}
#now {{ color: var(--ink); font-weight: 550; margin-top: 1rem; }}
#far {{ font-size: .8125rem; font-variant-numeric: tabular-nums; min-height: 1.3em; }}
.message {{ color: var(--bad); }}
.hint {{ font-size: .8125rem; margin-top: .5rem; }}
form {{ display: inline-block; margin: 1rem .5rem 0 0; }}
button, .way {{ font: inherit; font-size: .875rem; font-weight: 550; min-height: 2.375rem; padding: .375rem 1rem; border-radius: 8px; border: 1px solid transparent; cursor: pointer; background: var(--accent); color: var(--accent-ink); }}
a {{ color: var(--accent); text-underline-offset: .15em; }}
button:focus-visible, a:focus-visible {{ outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 6px; }}
progress {{ appearance: none; width: 100%; height: 6px; margin: .5rem 0 0; border: 0; border-radius: 6px; overflow: hidden; background: var(--quiet-wash); }}
progress::-webkit-progress-bar {{ background: var(--quiet-wash); }}
progress::-webkit-progress-value {{ background: var(--accent); transition: width .4s; }}
progress::-moz-progress-bar {{ background: var(--accent); }}
progress:indeterminate {{ background: linear-gradient(90deg, var(--quiet-wash) 30%, var(--accent) 50%, var(--quiet-wash) 70%) 0 0 / 250% 100%; animation: slide 1.6s linear infinite; }}
progress:indeterminate::-webkit-progress-bar {{ background: transparent; }}
progress:indeterminate::-moz-progress-bar {{ background: transparent; }}
@keyframes slide {{ from {{ background-position: 125% 0; }} to {{ background-position: -125% 0; }} }}
a.way {{ display: inline-flex; align-items: center; margin: 1rem .5rem 0 0; text-decoration: none; color: var(--ink); background: var(--surface); border-color: var(--line-strong); }}
nav {{ margin-top: 1.5rem; font-size: .875rem; }}
nav a + a {{ margin-left: 1rem; }}
@media (max-width: 40rem) {{ main {{ margin: 0; min-height: 100vh; border: 0; border-radius: 0; box-shadow: none; padding-top: 16vh; }} }}
@media (prefers-reduced-motion: reduce) {{ progress:indeterminate {{ animation-duration: 4s; }} }}
"""
_MARK = (
    '<svg viewBox="0 0 32 32" aria-hidden="true"><defs><linearGradient id="g" x1="0" y1="0" x2="1" y2="1"><stop stop-color="#6d66ff"/>'
    '<stop offset="1" stop-color="#3b31c9"/></linearGradient></defs><rect width="32" height="32" rx="8" fill="url(#g)"/>'
    '<path d="M12.5 10 7 16l5.5 6M19.5 10 25 16l-5.5 6" fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round" '
    'stroke-linejoin="round"/></svg>'
)
_ICON = (
    "data:image/svg+xml;base64,"
    + base64.b64encode(_MARK.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ').encode()).decode()
)
# Enters when it is ready, and asks again where something else
# came first; but only once somebody looks at the page.
_SCRIPT = """
const main = document.querySelector("main"), now = document.querySelector("#now"), bar = document.querySelector("progress"), far = document.querySelector("#far");
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
        far.textContent = told.far;
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

# Looks whether something listens by now. An answer of the server's leads in; one of ours alone never does, or
# a page that is forgotten would wake the workspace.
_LISTEN = """
const seen = () => document.visibilityState === "visible" ? Promise.resolve()
  : new Promise(done => document.addEventListener("visibilitychange", done, { once: true }));
async function listen() {
  for (;;) {
    await new Promise(done => setTimeout(done, 2000));
    await seen();
    try {
      const answer = await fetch(location.href, { method: "HEAD", cache: "no-store", redirect: "manual" });
      if (answer.status < 500 && !answer.headers.has("X-Codehub-Page")) { location.reload(); return; }
    } catch (_) { /* codehub is away: it comes back */ }
  }
}
listen();
"""


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


NO_FRAMES = "frame-ancestors 'none'"
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_sha256(_STYLE)}'; script-src 'sha256-{_sha256(_SCRIPT)}' "
    f"'sha256-{_sha256(_LISTEN)}'; "
    f"img-src data:; connect-src 'self'; {NO_FRAMES}; base-uri 'none'; form-action 'self'"
)
_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with that a browser sends `Origin: null` with a button's form, which is nobody's own.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Accept-Language, Cookie",
}


@dataclass(frozen=True, slots=True)
class Site:
    """Where a workspace's pages stand: below its mount on the hub's own host, or at an origin of its own."""

    mount: str = ""
    hub: str = ""
    """What addresses of the hub begin with: nothing on its own host."""

    @property
    def entry(self) -> str:
        """The path of the workspace's first page."""
        return f"{self.mount}/"

    @property
    def actions(self) -> str:
        return f"{self.mount}/{ACTIONS}"


def waking_page(workspace: Workspace, progress: Progress | None, language: str, site: Site) -> Answer:
    """Say what is under way. It comes back every two seconds without scripts, and follows live with them."""
    texts = _texts(language)
    bar = '<progress aria-labelledby="now"></progress>'
    if progress is not None and progress.total_bytes:
        bar = f'<progress aria-labelledby="now" max="{progress.total_bytes}" value="{progress.done_bytes}"></progress>'
    body = f"""<p>{escape(texts["waking_why"])}</p>
<p id="now" role="status" aria-live="polite">{escape(_now(workspace, language))}</p>
{bar}
<p id="far">{escape(_far(workspace, progress, language))}</p>"""
    follow = f' data-follow="{site.actions}/progress" data-version="{workspace.status.version}"'
    link = (f"{site.hub}/workspaces/{workspace.id}", texts["happening"])
    return _page(Page.WAKING, workspace, language, body, site, main=follow, script=_SCRIPT, link=link)


def progress_content(
    workspace: Workspace, progress: Progress | None, language: str, *, moves: bool
) -> dict[str, Any]:
    """Return what the waking page asks for: where it is now, and whether that still changes by itself."""
    return {
        "version": workspace.status.version,
        "moves": moves,
        "phase": workspace.status.phase,
        "operation": workspace.status.operation,
        "words": _now(workspace, language),
        "far": _far(workspace, progress, language),
        "done": progress.done_bytes if progress is not None else None,
        "total": progress.total_bytes if progress is not None else None,
    }


def resting_page(page: Page, workspace: Workspace, language: str, to: str, site: Site) -> Answer:
    """Say why it can't be entered, with the button that goes on
    from there. `to`: the path in it that was asked for.
    """
    texts = _texts(language)
    action, label = {
        Page.ARCHIVED: ("start", "restore"),
        Page.PENDING: ("start", "start"),
        Page.ERROR: ("recover", "recover"),
    }[page]
    error = workspace.status.error_info
    if page is not Page.ERROR:
        why = f"<p>{escape(texts[f'{page}_why'])}</p>"
    elif error is not None:
        trouble, message = trouble_text(error.reason, language), message_text(error.message, language)
        why = f'<p>{escape(trouble)}</p><p class="message">{escape(message)}</p><p>{escape(remedy_text(error.reason, language))}</p>'
    else:
        why = ""
    link = (f"{site.hub}/workspaces/{workspace.id}", texts["details"]) if page is Page.ERROR else None
    button = _button(site, action, texts[label], _way_on(site, to))
    hint = f'<p class="hint">{escape(texts["recover_why"])}</p>' if page is Page.ERROR else ""
    return _page(page, workspace, language, f"{why}{button}{hint}", site, link=link)


def limit_page(workspace: Workspace, refused: Refused, language: str, to: str, site: Site) -> Answer:
    """List what runs, each with a button that stops it and comes back; what has a problem with a link to it,
    for no wish stops that. At an origin all are links: whoever serves it may stop nothing else.
    """
    texts = _texts(language)
    details = refused.details or {}
    running = details.get("running")
    most = details.get("max")
    listed: Sequence[Mapping[str, str]] = running if isinstance(running, Sequence) else ()
    failed = [entry for entry in listed if entry["id"] in refused.in_error]
    awake = [entry for entry in listed if entry not in failed]
    whys = [texts["limit_total"].format(max=most)]
    if details.get("limit") == "per_user":
        whys = [texts["limit_max"].format(max=most)]
        whys += (
            [texts["limit_why"].format(names=", ".join(entry["name"] for entry in awake))] if awake else []
        )
    whys += [texts["limit_problem"].format(name=entry["name"]) for entry in failed]
    way_on = {"then": str(workspace.id), **_way_on(site, to)}
    ways = [
        _button(Site(mount_of(UUID(entry["id"]))), "stop", texts["stop"].format(name=entry["name"]), way_on)
        if site.mount
        else _link(site, entry, texts["show"])
        for entry in awake
    ]
    ways += [_link(site, entry, texts["look"]) for entry in failed]
    body = f"<p>{escape(' '.join(whys))}</p>{''.join(ways)}"
    return _page(Page.LIMIT, workspace, language, body, site, link=(escape(to), texts["again"]))


def lost_page(workspace: Workspace, lost: Message, language: str, to: str, site: Site) -> Answer:
    """Say why nothing answers where it runs, as far as anybody can tell."""
    body, link = f"<p>{escape(message_text(lost, language))}</p>", (escape(to), _texts(language)["again"])
    return _page(Page.ERROR, workspace, language, body, site, link=link)


def refused_page(why: str, language: str, hub: str = "") -> Answer:
    """Say to whoever may not enter that nobody knows who they are (sessions), that it is not theirs
    (foreign), that a code is over (door), that nobody comes in inside a frame (frame), that it sleeps and its
    owner wakes it (asleep), or that there is nothing (missing, port). It tells nothing of the workspace.
    """
    texts, site = _texts(language), Site(hub=hub)
    link, headers = None, {}
    if why == "door":  # a code stands in the page's address
        link, headers = ("/", texts["door_again"]), {"Referrer-Policy": "no-referrer"}
    if why == "asleep":
        link = (f"{site.actions}/{SIGN_IN}", texts["asleep_owner"])
    body = f"<p>{escape(texts[f'{why}_why'])}</p>"
    if why == "frame":  # the hub shows itself in none
        tab = f'<a href="{site.actions}/{SIGN_IN}" target="_blank">{escape(texts["frame_open"])}</a>'
        body, link = f"{body}<p>{tab}</p>", ("", texts["again"])
    html = _html(language, texts[why], body, site, link=link)
    return _answer(_REFUSED[why], html, language, site, headers)


def silent_page(port: int, language: str, site: Site) -> Answer:
    """Say that nothing listens on a port. It enters by itself when something does."""
    texts = _texts(language)
    body = (
        f'<p id="now" role="status">{escape(texts["silent_why"].format(port=port))}</p>'
        f"<p>{escape(texts['silent_then'])}</p>"
    )
    html = _html(
        language, texts["silent"].format(port=port), body, site, script=_LISTEN, link=("", texts["again"])
    )
    return _answer(502, html, language, site, {PAGE_HEADER: SILENT})


def _now(workspace: Workspace, language: str) -> str:
    """Say what is done, or that it is held up: that counts while it
    is tried again, too, for the words would flicker.
    """
    status = workspace.status
    if status.held_up is not None or lost_host(status.conditions) is not None:
        return _texts(language)["held_up"]
    return under_way_text(status.operation, language)


def _far(workspace: Workspace, progress: Progress | None, language: str) -> str:
    """Say how far it is, or what holds it up."""
    status = workspace.status
    held = lost_host(status.conditions) if status.held_up is None else status.held_up.message
    if held is not None:
        return message_text(held, language)
    return "" if progress is None else progress_text(progress, language)


def _texts(language: str) -> Mapping[str, str]:
    return section(language, "proxy")


def _way_on(site: Site, to: str) -> Mapping[str, str]:
    """Return what a button says of where it leads afterwards: nothing if that is the workspace's first
    page.
    """
    return {} if to == site.entry else {"to": to}


def _link(site: Site, entry: Mapping[str, str], label: str) -> str:
    address = f"{site.hub}/workspaces/{UUID(entry['id'])}"
    return f'<a class="way" href="{address}">{escape(label.format(name=entry["name"]))}</a>'


def _button(site: Site, action: str, label: str, asked: Mapping[str, str]) -> str:
    """Draw a form with nothing in it: what it asks for stands in its address, for the gate reads no
    bodies.
    """
    query = f"?{urlencode(asked)}" if asked else ""
    return (
        f'<form method="post" action="{site.actions}/{action}{escape(query)}">'
        f"<button>{escape(label)}</button></form>"
    )


def _page(
    page: Page,
    workspace: Workspace,
    language: str,
    body: str,
    site: Site,
    *,
    main: str = "",
    script: str = "",
    link: tuple[str, str] | None = None,
) -> Answer:
    title = _texts(language)[page].format(name=workspace.spec.name)
    html = _html(language, title, body, site, main=main, script=script, link=link)
    return _answer(_STATUS[page], html, language, site, {"X-Codehub-Page": page.value})


def _html(
    language: str,
    title: str,
    body: str,
    site: Site,
    *,
    main: str = "",
    script: str = "",
    link: tuple[str, str] | None = None,
) -> str:
    title = escape(title)
    more = "" if link is None else f'<a href="{link[0]}">{escape(link[1])}</a>'
    scripted = f"<script>{script}</script>" if script else ""
    refresh = f'<noscript><meta http-equiv="refresh" content="{_REFRESH_S}"></noscript>' if script else ""
    return f"""<!doctype html>
<html lang="{language}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · codehub</title>
<link rel="icon" href="{_ICON}" type="image/svg+xml">
{refresh}
<style>{_STYLE}</style>
<main{main}>
{_MARK}
<h1>{title}</h1>
{body}
<nav>{more}<a href="{site.hub}/">{escape(_texts(language)["dashboard"])}</a></nav>
</main>
{scripted}
</html>
"""


def _answer(
    status: int, html: str, language: str, site: Site, headers: Mapping[str, str] | None = None
) -> Answer:
    # A form's answer may lead back to the hub, and browsers hold that against the policy of its page.
    policy = {"Content-Security-Policy": f"{_POLICY} {site.hub}".rstrip()}
    all_headers = {**policy, **_HEADERS, **(headers or {}), "Content-Language": language}
    return Answer(status, html.encode(), "text/html; charset=utf-8", all_headers)
