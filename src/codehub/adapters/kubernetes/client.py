"""What codehub asks of a cluster: objects of one namespace are read,
made, changed under a precondition, deleted, and watched.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from codehub.adapters.kubernetes.access import Access
from codehub.adapters.kubernetes.answers import Gone, NotFound
from codehub.adapters.kubernetes.api import ANSWER_S_MAX, AnswerStream, Json, KubernetesApi, Query
from codehub.adapters.kubernetes.kinds import PODS, Kind
from codehub.core.messages import Code, Message
from codehub.ports.backends import BackendUnreachable
from codehub.ports.system import Clock

MANAGER = "codehub"
_PAGE = "500"
_LISTS_MAX = 3
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
# A field that the API does not know is a mistake of ours, or of
# the operator's patch: it is refused, not left out.
_STRICT = {"fieldManager": MANAGER, "fieldValidation": "Strict"}

Labels = Mapping[str, str]
_NONE: Labels = {}


class KubernetesClient:
    """One namespace of one cluster. Opened when it is first used, within the event loop."""

    def __init__(
        self, access: Access, *, namespace: str, clock: Clock, answer_s_max: float = ANSWER_S_MAX
    ) -> None:
        self.namespace = namespace
        self.api = KubernetesApi(access, clock=clock, answer_s_max=answer_s_max)

    async def close(self) -> None:
        await self.api.close()

    async def version(self) -> Json:
        return await self.api.ask("GET", "/version")

    async def get(self, kind: Kind, name: str) -> Json:
        """Return the object as it is now, not as some cache has it."""
        return await self.api.ask("GET", kind.path(self.namespace, name))

    async def find(self, kind: Kind, name: str) -> Json | None:
        """Return the object as it is now, or None."""
        try:
            return await self.get(kind, name)
        except NotFound:
            return None

    async def list_objects(self, kind: Kind, *, labels: Labels = _NONE, fields: Labels = _NONE) -> list[Json]:
        """Return all of them, or raise: never a part."""
        for _ in range(_LISTS_MAX):
            with suppress(Gone):  # the list took longer than its moment is kept
                return [
                    item
                    async for page in self.pages(kind, labels=labels, fields=fields)
                    for item in page.items
                ]
        raise BackendUnreachable(Message(Code.KUBERNETES_LIST_EXPIRED, {"kind": kind.plural}))

    async def pages(
        self, kind: Kind, *, labels: Labels = _NONE, fields: Labels = _NONE
    ) -> AsyncIterator["Page"]:
        """Yield all objects page by page, as they were at one moment."""
        page = await self._page(kind, _selectors(labels, fields))
        yield page
        while page.next_page:
            page = await self._page(kind, {**_selectors(labels, fields), "continue": page.next_page})
            yield page

    async def list_whole(self, kind: Kind, *, labels: Labels) -> Sequence[Json]:
        """Return all objects of a kind that has no versions and no pages: what is counted, not kept."""
        answer = await self.api.ask("GET", kind.path(self.namespace), _selectors(labels, _NONE))
        items: Sequence[Json] = answer.get("items") or []
        return items

    async def current_version(self, kind: Kind, *, labels: Labels = _NONE) -> int:
        """Return how far the cluster is: no object of this kind has a higher version."""
        page = await self._page(kind, _selectors(labels, _NONE), limit="1")
        return page.version

    async def _page(self, kind: Kind, query: Query, limit: str = _PAGE) -> "Page":
        return Page(await self.api.ask("GET", kind.path(self.namespace), {"limit": limit, **query}))

    async def create(self, kind: Kind, body: Mapping[str, Any], *, dry_run: bool = False) -> Json:
        """Make an object. With `dry_run` it is only asked whether that would be accepted."""
        query = {**_STRICT, **({"dryRun": "All"} if dry_run else {})}
        return await self.api.ask("POST", kind.path(self.namespace), query, body=_with_kind(kind, body))

    async def apply(self, kind: Kind, name: str, body: Mapping[str, Any]) -> Json:
        """Make an object, or make the fields in `body` so. What others set beside them stays.

        `metadata.uid` and `metadata.resourceVersion` in the body are preconditions.
        """
        path = kind.path(self.namespace, name)
        query = {**_STRICT, "force": "true"}
        return await self.api.ask("PATCH", path, query, body=_with_kind(kind, body), content_type=_APPLY)

    async def patch(
        self,
        kind: Kind,
        name: str,
        changes: Mapping[str, Any],
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> Json:
        """Merge changes into an object, if it is still this very one, and unchanged. None removes a field."""
        required = _preconditions(uid, resource_version)
        body = {**changes, "metadata": {**changes.get("metadata", {}), **required}} if required else changes
        path = kind.path(self.namespace, name)
        return await self.api.ask("PATCH", path, _STRICT, body=body, content_type=_MERGE)

    async def patch_json(self, kind: Kind, name: str, operations: Sequence[Mapping[str, Any]]) -> Json:
        """Apply operations of RFC 6902. A `test` that fails is Invalid."""
        path = kind.path(self.namespace, name)
        return await self.api.ask("PATCH", path, _STRICT, body=list(operations), content_type=_JSON_PATCH)

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_s: int | None = None,
        propagation: str = "Background",
    ) -> Json:
        """Delete an object, if it is still this very one. Returns
        it, or a Status: it may be there for a while yet.
        """
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        }
        if required := _preconditions(uid, resource_version):
            options["preconditions"] = required
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        return await self.api.ask("DELETE", kind.path(self.namespace, name), body=options)

    async def logs(
        self,
        pod: str,
        container: str,
        *,
        tail: int | None = None,
        follow: bool = False,
        previous: bool = False,
    ) -> AsyncIterator[bytes]:
        """Yield a container's output, oldest first. `previous`: of the one that ran before it."""
        query = {"container": container}
        query |= {"tailLines": str(tail)} if tail is not None else {}
        query |= {"follow": "true"} if follow else {}
        query |= {"previous": "true"} if previous else {}
        path = PODS.path(self.namespace, pod, "log")
        # The kubelet begins to answer with the first line, which may be long in coming.
        begins_within_s = None if follow else self.api.answer_s_max
        async with self.api.stream(path, query, begins_within_s=begins_within_s) as output:
            while part := await output.read():
                yield part

    @asynccontextmanager
    async def watch(self, kind: Kind, *, labels: Labels, since: int | None) -> AsyncIterator["EventStream"]:
        """Yield what happens. Without `since` it begins with all that is there (WatchList)."""
        query = {"watch": "true", "allowWatchBookmarks": "true", **_selectors(labels, _NONE)}
        if since is None:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = str(since)
        path = kind.path(self.namespace)
        async with self.api.stream(path, query, begins_within_s=self.api.answer_s_max) as body:
            yield EventStream(body)


class Page:
    """A part of a list."""

    def __init__(self, answer: Json) -> None:
        self.items: Sequence[Json] = answer.get("items") or []
        self.version = int(answer["metadata"]["resourceVersion"])
        self.next_page: str = answer["metadata"].get("continue") or ""


class EventStream:
    """A watch's events, a line of JSON each."""

    def __init__(self, body: AnswerStream) -> None:
        self._body = body
        self._rest = b""

    async def read(self) -> Sequence[bytes]:
        """Return the next events, as many at once as have arrived; none at
        the end. Parsed one by one they take little memory.
        """
        while part := await self._body.read():
            *lines, self._rest = (self._rest + part).split(b"\n")
            if events := [line for line in lines if line]:
                return events
        return ()


def _selectors(labels: Labels, fields: Labels) -> Query:
    selectors = {"labelSelector": labels, "fieldSelector": fields}
    return {
        name: ",".join(f"{key}={value}" for key, value in required.items())
        for name, required in selectors.items()
        if required
    }


def _preconditions(uid: str | None, resource_version: str | None) -> dict[str, str]:
    required = {"uid": uid, "resourceVersion": resource_version}
    return {name: value for name, value in required.items() if value is not None}


def _with_kind(kind: Kind, body: Mapping[str, Any]) -> Json:
    return {**body, "apiVersion": kind.api_version, "kind": kind.name}
