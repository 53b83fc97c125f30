"""What a watch says goes in, what there is comes out, own writes
included. Pure. Refuses to go back to an older state.

Versions of objects are numbers that grow over the whole cluster,
as Kubernetes promises (KEP-5504): no clock is asked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Json = Any
Changes = frozenset[str]
"""Names of objects that are not what they were."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Rewound(Exception):
    """The server has gone back to an older state, as one does whose
    database was restored: what is kept may never have been.
    """


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    uid: str
    version: int
    value: T


@dataclass(frozen=True, slots=True)
class _OwnWrite(Generic[T]):
    """What a write of ours has answered, until the watch has come as
    far. Without an entry: the object of this uid is gone.
    """

    uid: str
    entry: Entry[T] | None
    number: int


class Listing(Generic[T]):
    """A list that is coming in. It holds what was written before it began."""

    def __init__(self, writes: int) -> None:
        self.entries: dict[str, Entry[T]] = {}
        self.writes = writes


class Contents(Generic[T]):
    """Objects by name, each as small as `project` makes it."""

    def __init__(self, project: Callable[[Json], T], labels: Mapping[str, str]) -> None:
        self.version = 0
        self._project = project
        self._labels = labels
        self._entries: dict[str, Entry[T]] = {}
        self._own: dict[str, _OwnWrite[T]] = {}
        self._writes = 0

    def objects(self) -> dict[str, T]:
        objects = {name: entry.value for name, entry in self._entries.items()}
        for name, own in self._own.items():
            if own.entry is not None:
                objects[name] = own.entry.value
            elif name in objects and self._entries[name].uid == own.uid:
                del objects[name]
        return objects

    def find(self, name: str) -> T | None:
        entry, own = self._entries.get(name), self._own.get(name)
        if own is not None and (own.entry is not None or (entry is not None and entry.uid == own.uid)):
            entry = own.entry
        return None if entry is None else entry.value

    def begin_list(self) -> Listing[T]:
        return Listing(self._writes)

    def add(self, listing: Listing[T], item: Json) -> None:
        listing.entries[item["metadata"]["name"]] = self._entry(item)

    def apply_early(self, listing: Listing[T], event: Json) -> None:
        """Take in one event before the list is complete."""
        if event["type"] == "DELETED":
            listing.entries.pop(event["object"]["metadata"]["name"], None)
        elif event["type"] != "BOOKMARK":
            self.add(listing, event["object"])

    def replace(self, listing: Listing[T], version: int) -> Changes:
        """Take a complete list for what there is."""
        before = self._entries
        self._entries = listing.entries
        self.version = version
        self._own = {name: own for name, own in self._own.items() if own.number > listing.writes}
        return frozenset(
            name
            for name in before.keys() | listing.entries.keys()
            if _identity(before.get(name)) != _identity(listing.entries.get(name))
        )

    def apply(self, event: Json) -> Changes:
        """Take in one event after the list."""
        item = event["object"]
        version = int(item["metadata"]["resourceVersion"])
        if version < self.version:
            raise Rewound(f"an event of version {version} came after version {self.version}")
        self.version = version
        if event["type"] == "BOOKMARK":
            return frozenset()
        entry, name = self._entry(item), item["metadata"]["name"]
        if event["type"] == "DELETED":
            if name in self._entries and self._entries[name].uid == entry.uid:
                del self._entries[name]
        else:
            self._entries[name] = entry
        self._forget_own(name, entry)
        return frozenset({name})

    def learn(self, answer: Json) -> Changes | None:
        """Take in the object that a write of ours has answered. None: it
        does not fit what the watch says: only a list can tell.
        """
        self._writes += 1
        metadata = answer["metadata"]
        labels = metadata.get("labels") or {}
        if any(labels.get(key) != value for key, value in self._labels.items()):
            return frozenset()
        entry, name = self._entry(answer), metadata["name"]
        if entry.version <= self.version:
            seen = self._entries.get(name)
            return frozenset() if seen is not None and seen.version >= entry.version else None
        self._own[name] = _OwnWrite(entry.uid, entry, self._writes)
        return frozenset({name})

    def learn_deletion(self, answer: Json) -> Changes | None:
        """Take in what a deletion of ours has answered: a Status or
        the object, which may be there for a while yet.
        """
        if answer.get("kind") == "Status":
            details = answer.get("details") or {}
            return self._learn_end(details.get("name", ""), details.get("uid", ""))
        metadata = answer["metadata"]
        if _is_being_deleted(metadata):
            return self.learn(answer)
        return self._learn_end(metadata["name"], metadata["uid"])

    def _learn_end(self, name: str, uid: str) -> Changes:
        """An object went at once. Nothing brings back one of the same uid."""
        self._writes += 1
        own = self._own.get(name)
        if own is not None and own.uid == uid:
            del self._own[name]
        if name not in self._entries or self._entries[name].uid != uid:
            return frozenset()
        self._own[name] = _OwnWrite(uid, None, self._writes)
        return frozenset({name})

    def _forget_own(self, name: str, entry: Entry[T]) -> None:
        """Drop an own write that the watch has come up to."""
        own = self._own.get(name)
        if own is None:
            return
        if own.entry is None:
            is_passed = name not in self._entries or self._entries[name].uid != own.uid
        else:
            is_passed = own.entry.version <= entry.version
        if is_passed:
            del self._own[name]

    def _entry(self, item: Json) -> Entry[T]:
        metadata = item["metadata"]
        return Entry(metadata["uid"], int(metadata["resourceVersion"]), self._project(item))


def _is_being_deleted(metadata: Mapping[str, Any]) -> bool:
    """Whether a deleted object still waits for something: its grace period, or a finalizer."""
    is_marked = metadata.get("deletionTimestamp") is not None
    return is_marked and bool(metadata.get("deletionGracePeriodSeconds") or metadata.get("finalizers"))


def _identity(entry: Entry[T] | None) -> tuple[str, int] | None:
    return None if entry is None else (entry.uid, entry.version)
