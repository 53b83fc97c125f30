"""What a policy puts into a document on its way: an answer's content goes in as it comes, what the client is
given comes out.
"""

from typing import TYPE_CHECKING, Protocol

from codehub.proxy.engine.http_body import Chunked, Sized, UntilClose

if TYPE_CHECKING:
    from codehub.proxy.engine.requests import RequestHead
    from codehub.proxy.engine.responses import ResponseHead

_OK = 200


class Edit(Protocol):
    """One document, as it passes."""

    def feed(self, content: bytes, *, is_last: bool) -> bytes:
        """Return what the client is given now: it may keep some back, but nothing of the last part."""


class Insertion(Protocol):
    """What one request's answer may get."""

    def begin(self, head: "ResponseHead") -> Edit | None:
        """Say by the answer's head whether it gets anything."""


class Inserter(Protocol):
    """What a policy puts into the documents of one target."""

    def choose(self, head: "RequestHead") -> Insertion | None:
        """Say by a request whether its answer may get anything.

        If so, its server is asked for the whole content, in no encoding.
        """


class EditedBody:
    """A body that is edited on its way, and passed on in chunks of ours: nobody knows its length before."""

    __slots__ = ("_body", "_edit")

    def __init__(self, body: Sized | Chunked, edit: Edit) -> None:
        """One that came in chunks says its content alone (`decodes`)."""
        self._body = body
        self._edit = edit

    @property
    def done(self) -> bool:
        return self._body.done

    @property
    def has_more(self) -> bool:
        return self._body.has_more

    def take(self, data: bytes, start: int) -> int:
        """Return where the body's part of `data`, which begins at `start`, ends."""
        return self._body.take(data, start)

    def passed_on(self, data: bytes, start: int, stop: int) -> bytes:
        """Return what the client is given of what was just taken."""
        body = self._body
        content = body.passed_on(data, start, stop) if isinstance(body, Chunked) else data[start:stop]
        content = self._edit.feed(content, is_last=body.done)
        framed = b"%x\r\n%b\r\n" % (len(content), content) if content else b""
        return framed + b"0\r\n\r\n" if body.done else framed


def edited_body(request: "RequestHead", head: "ResponseHead") -> EditedBody | None:
    """Return an answer's body as it is edited, if it is: a whole document that says where it ends."""
    insertion: Insertion | None = request.insertion
    if insertion is None or head.status != _OK:
        return None
    body = head.body(to_head=False, decodes=True)
    if isinstance(body, UntilClose):
        return None
    edit = insertion.begin(head)
    return None if edit is None else EditedBody(body, edit)
