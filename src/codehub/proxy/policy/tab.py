"""The script in the page of an IDE: a document goes in, comes out with the script, or as it was (ADR 0043).

What the script then asks for is in page_actions.py.
"""

import hashlib
from collections.abc import Callable
from importlib.resources import files

import structlog

from codehub.core.ides import ide_profile
from codehub.core.route import mount_of
from codehub.core.tab_script import SCANNED_BYTES_MAX, allows_script, find_place, is_top_document
from codehub.core.workspace import Workspace
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.responses import ResponseHead
from codehub.proxy.engine.targets import Answer
from codehub.proxy.policy.pages import ACTIONS
from codehub.proxy.policy.visits import visit_of

log = structlog.get_logger()

SCRIPT = "tab.js"
_SCANS_MAX = 32
"""A document that comes byte by byte is not looked through as often."""
_INSERTED = "inserted"
Count = Callable[[str], None]
"""Takes what became of a document: `inserted`, or why it was left alone."""


def _load() -> bytes:
    """Return the script without its comments and the blanks before its lines."""
    lines = (
        line.strip()
        for line in files("codehub.proxy.policy").joinpath(SCRIPT).read_text("utf-8").splitlines()
    )
    return "\n".join(line for line in lines if line and not line.startswith("//")).encode()


BODY = _load()
_VERSION = hashlib.sha256(BODY).hexdigest()[:12]


def script_answer(query: str) -> Answer:
    """Answer with the script. Its address names its version, so it is kept for ever; another's is not."""
    is_this = query == f"?v={_VERSION}"
    headers = {
        "Cache-Control": "private, max-age=31536000, immutable" if is_this else "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return Answer(200, BODY, "text/javascript; charset=utf-8", headers)


def script_tag(mount: str) -> bytes:
    return f'<script async src="{mount}/{ACTIONS}/{SCRIPT}?v={_VERSION}"></script>'.encode()


class TabInserter:
    """Puts the script into the pages of one workspace's IDE, as long as it is wanted there."""

    def __init__(self, row: Callable[[], Workspace], count: Count) -> None:
        """`row` returns the workspace as it was seen last."""
        self._row = row
        self._count = count

    def choose(self, head: RequestHead) -> "_Insertion | None":
        visit = visit_of(head)
        if visit.fetch_dest != "document" or head.block.is_http_1_0:
            return None
        row = self._row()
        profile, path = ide_profile(row.spec.ide), head.route.rest
        if profile.keeps_prefix:  # at an origin of its own, too, where nothing is mounted
            path = path.removeprefix(mount_of(row.id))
        is_page = row.spec.tab_script and is_top_document(profile, visit, path)
        return _Insertion(script_tag(head.route.mount), self._count) if is_page else None


class _Insertion:
    """The script, for one page."""

    def __init__(self, tag: bytes, count: Count) -> None:
        self._tag = tag
        self._count = count

    def begin(self, head: ResponseHead) -> "_Edit | None":
        kind = b"".join(head.values(b"content-type")).lower()
        if kind.partition(b";")[0].strip() != b"text/html":
            return None
        if any(coding.lower() != b"identity" for coding in head.values(b"content-encoding")):
            _note("encoded", self._count)
            return None
        policies = head.values(b"content-security-policy")
        if not allows_script(policy.decode("latin-1") for policy in policies):
            _note("policy", self._count)
            return None
        return _Edit(self._tag, self._count)


class _Edit:
    """One page as it passes: its beginning is kept until it is known where the script goes."""

    def __init__(self, tag: bytes, count: Count) -> None:
        self._tag = tag
        self._count = count
        self._kept: bytes | None = b""
        """None: the script is in, or will not be."""
        self._scans = 0

    def feed(self, content: bytes, *, is_last: bool) -> bytes:
        if self._kept is None or not (content or is_last):
            return content
        html = self._kept + content
        self._scans += 1
        place = find_place(html[:SCANNED_BYTES_MAX], is_whole=is_last or self._scans == _SCANS_MAX)
        if place is None:
            self._kept = html
            return b""
        self._kept = None
        _note(place.refused or _INSERTED, self._count)
        return html if place.at is None else html[: place.at] + self._tag + html[place.at :]


def _note(outcome: str, count: Count) -> None:
    count(outcome)
    if outcome != _INSERTED:
        log.info("ide_page_left_alone", reason=outcome)
