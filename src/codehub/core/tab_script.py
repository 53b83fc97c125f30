"""Where codehub's script goes in an IDE's page, and whether it may: requests, policies and HTML go in, a
place comes out (docs/adr/0043).
"""

import re
from collections.abc import Iterable
from html import unescape
from typing import NamedTuple

from codehub.core.ides import IdeProfile
from codehub.core.visit import Visit

SCANNED_BYTES_MAX = 65_536
_BLANKS = rb"[\t\n\x0c\r ]"
_BEFORE = re.compile(
    rb"(?:\xef\xbb\xbf)?+(?:%b++|<!--.*?-->|<!doctype[^>]*>)*+" % _BLANKS, re.DOTALL | re.IGNORECASE
)
_ATTRIBUTES = rb"(?:[\t\n\x0c\r /](?:[^>\"']|\"[^\"]*\"|'[^']*')*+)?>"
_HTML = re.compile(rb"<html" + _ATTRIBUTES, re.IGNORECASE)
_HEAD = re.compile(rb"<head" + _ATTRIBUTES, re.IGNORECASE)
_HEAD_ENDS = re.compile(rb"</head|<body[\t\n\x0c\r />]", re.IGNORECASE)
_META = re.compile(rb"<meta[\t\n\x0c\r /][^<>]*+>", re.IGNORECASE)
_OF_POLICY = b"content-security-policy"
_CONTENT = re.compile(
    rb"[\t\n\x0c\r /\"']content%b*+=%b*+(?:\"([^\"]*)\"|'([^']*)')" % (_BLANKS, _BLANKS), re.IGNORECASE
)
_SCRIPTS = ("script-src-elem", "script-src", "default-src")
_CONNECTIONS = ("connect-src", "default-src")
_NEEDED_IN_SANDBOX = {"allow-scripts", "allow-same-origin"}


class Place(NamedTuple):
    """Where a document takes a script, and why it takes none: one of them is None."""

    at: int | None
    refused: str | None


def is_top_document(profile: IdeProfile, visit: Visit, path: str) -> bool:
    """Whether a request is for the page of a tab in which this IDE runs. `path` is what follows its mount.

    Browsers say so where they trust the connection: https, and this machine.
    """
    is_page = visit.method == "GET" and visit.fetch_mode == "navigate" and visit.fetch_dest == "document"
    if not is_page or visit.is_upgrade:
        return False
    path = path.partition("?")[0]
    return any(
        path == document or (document != "/" and path.startswith(document + "/"))
        for document in profile.documents
    )


def allows_script(policies: Iterable[str]) -> bool:
    """Whether these Content-Security-Policies all let a page load a script of its own origin, which asks that
    origin. What is not plainly allowed is forbidden.
    """
    separate = (policy for line in policies for policy in line.split(","))
    return all(_allows(_directives(policy)) for policy in separate)


def find_place(html: bytes, *, is_whole: bool) -> Place | None:
    """Say where a script goes in the beginning of a document: behind its first tag of head, or html; None
    if more of it has to be seen, for a policy may follow in its head.
    """
    is_enough = is_whole or len(html) >= SCANNED_BYTES_MAX
    at = _skip(html, 0)
    document = _HTML.match(html, at)
    if document is not None:
        at = _skip(html, document.end())
    head = _HEAD.match(html, at)
    ends = _HEAD_ENDS.search(html, at)
    if ends is None and not is_enough:
        return None
    tag = head or document
    if tag is None:
        return Place(None, "no_head")
    policies = _policies_in(html[at : len(html) if ends is None else ends.start()])
    if policies is None or not allows_script(policies):
        return Place(None, "policy")
    return Place(tag.end(), None)


def _skip(html: bytes, at: int) -> int:
    """Return where blanks, comments and the like end that begin here."""
    skipped = _BEFORE.match(html, at)
    assert skipped is not None  # for nothing at all matches, too
    return skipped.end()


def _allows(directives: dict[str, list[str]]) -> bool:
    sandbox = directives.get("sandbox")
    if sandbox is not None and not _NEEDED_IN_SANDBOX.issubset(sandbox):
        return False
    return _allows_own(directives, _SCRIPTS, unless="'strict-dynamic'") and _allows_own(
        directives, _CONNECTIONS
    )


def _allows_own(directives: dict[str, list[str]], names: Iterable[str], *, unless: str | None = None) -> bool:
    sources = next((directives[name] for name in names if name in directives), None)
    if sources is None:
        return True
    return unless not in sources and ("'self'" in sources or "*" in sources)


def _directives(policy: str) -> dict[str, list[str]]:
    """Return a policy's directives; the first of a name counts."""
    directives: dict[str, list[str]] = {}
    for directive in policy.lower().split(";"):
        name, *sources = directive.split() or [""]
        directives.setdefault(name, sources)
    return directives


def _policies_in(head: bytes) -> list[str] | None:
    """Return the policies that a document's head names; None if there may be one that is not understood."""
    policies: list[str] = []
    for meta in _META.findall(head):
        if _OF_POLICY in meta.lower():
            content = _CONTENT.search(meta)
            if content is None:
                return None
            policies.append(unescape((content[1] or content[2] or b"").decode("latin-1")))
    return policies if len(policies) == head.lower().count(_OF_POLICY) else None
