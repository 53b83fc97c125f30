"""What a cache makes of events, lists and own writes, in any order they can come in."""

from typing import Any

import pytest

from codehub.adapters.kubernetes.contents import Contents, Rewound

Json = Any
LABELS = {"app": "a"}


def pod(name: str, version: int, uid: str = "", **metadata: Json) -> Json:
    named = {"name": name, "uid": uid or name, "resourceVersion": str(version), "labels": LABELS}
    return {"kind": "Pod", "metadata": {**named, **metadata}}


def event(kind: str, name: str, version: int, uid: str = "") -> Json:
    return {"type": kind, "object": pod(name, version, uid)}


def version_of(item: Json) -> int:
    return int(item["metadata"]["resourceVersion"])


@pytest.fixture
def contents() -> Contents[int]:
    """Two objects, listed at version 10."""
    contents = Contents(version_of, LABELS)
    relist(contents, 10, pod("a", 3), pod("b", 5))
    return contents


def relist(contents: Contents[int], version: int, *items: Json) -> frozenset[str]:
    listing = contents.begin_list()
    for item in items:
        contents.add(listing, item)
    return contents.replace(listing, version)


def test_a_list_says_what_is_other_than_before(contents: Contents[int]) -> None:
    changes = relist(contents, 20, pod("b", 5), pod("c", 12), pod("d", 13))
    assert changes == {"a", "c", "d"}
    assert contents.objects() == {"b": 5, "c": 12, "d": 13}


def test_one_of_the_same_name_is_another_object(contents: Contents[int]) -> None:
    assert relist(contents, 20, pod("a", 3, "other"), pod("b", 5)) == {"a"}


def test_events_follow_a_list(contents: Contents[int]) -> None:
    assert contents.apply(event("ADDED", "c", 11)) == {"c"}
    assert contents.apply(event("MODIFIED", "a", 12)) == {"a"}
    assert contents.apply(event("DELETED", "b", 13)) == {"b"}
    assert contents.objects() == {"a": 12, "c": 11}
    assert contents.find("a") == 12
    assert contents.find("b") is None


def test_a_bookmark_only_moves_on(contents: Contents[int]) -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "99"}}}
    assert contents.apply(bookmark) == frozenset()
    assert contents.version == 99
    assert contents.objects() == {"a": 3, "b": 5}


def test_the_end_of_an_older_object_does_not_take_the_newer_one(contents: Contents[int]) -> None:
    contents.apply(event("ADDED", "a", 11, "newer"))
    contents.apply(event("DELETED", "a", 12, "a"))
    assert contents.objects() == {"a": 11, "b": 5}


def test_an_event_from_before_is_refused(contents: Contents[int]) -> None:
    with pytest.raises(Rewound, match="version 9 came after version 10"):
        contents.apply(event("MODIFIED", "a", 9))
    assert contents.objects() == {"a": 3, "b": 5}


def test_a_list_that_streams_takes_deletions_in(contents: Contents[int]) -> None:
    listing = contents.begin_list()
    for early in (event("ADDED", "x", 11), event("ADDED", "y", 12), event("DELETED", "x", 13)):
        contents.apply_early(listing, early)
    assert contents.objects() == {"a": 3, "b": 5}
    contents.replace(listing, 13)
    assert contents.objects() == {"y": 12}


def test_an_own_write_is_seen_before_the_watch_tells_it(contents: Contents[int]) -> None:
    assert contents.learn(pod("c", 15)) == frozenset({"c"})
    assert contents.learn(pod("a", 16)) == frozenset({"a"})
    assert contents.objects() == {"a": 16, "b": 5, "c": 15}
    assert contents.find("c") == 15
    contents.apply(event("MODIFIED", "a", 12))  # somebody else's, before ours
    assert contents.find("a") == 16
    contents.apply(event("ADDED", "c", 15))
    contents.apply(event("MODIFIED", "a", 16))
    contents.apply(event("DELETED", "c", 17))
    assert contents.objects() == {"a": 16, "b": 5}


def test_an_own_write_that_the_watch_has_told_already_changes_nothing(contents: Contents[int]) -> None:
    contents.apply(event("ADDED", "c", 15))
    contents.apply(event("MODIFIED", "c", 16))
    assert contents.learn(pod("c", 15)) == frozenset()
    assert contents.find("c") == 16


def test_an_own_deletion_is_seen_at_once(contents: Contents[int]) -> None:
    status = {"kind": "Status", "status": "Success", "details": {"name": "a", "uid": "a"}}
    assert contents.learn_deletion(status) == frozenset({"a"})
    assert contents.objects() == {"b": 5}
    assert contents.find("a") is None
    contents.apply(event("MODIFIED", "a", 11))  # its last breath, from before the deletion
    assert contents.objects() == {"b": 5}
    contents.apply(event("DELETED", "a", 12))
    contents.apply(event("ADDED", "a", 13, "next"))
    assert contents.objects() == {"a": 13, "b": 5}


def test_the_next_of_the_name_is_not_hidden_by_the_deletion_of_the_one_before(
    contents: Contents[int],
) -> None:
    contents.learn_deletion({"kind": "Status", "details": {"name": "a", "uid": "a"}})
    contents.learn(pod("a", 15, "next"))
    assert contents.objects() == {"a": 15, "b": 5}
    contents.apply(event("DELETED", "a", 14))
    assert contents.objects() == {"a": 15, "b": 5}
    contents.apply(event("ADDED", "a", 15, "next"))
    contents.apply(event("DELETED", "a", 16, "next"))
    assert contents.objects() == {"b": 5}


def test_an_object_that_is_being_deleted_is_there_until_it_is_gone(contents: Contents[int]) -> None:
    going: Json = {"deletionTimestamp": "2026-11-18T20:00:00Z", "deletionGracePeriodSeconds": 30}
    contents.learn_deletion(pod("a", 12, **going))
    assert contents.find("a") == 12
    held: Json = {"deletionTimestamp": "2026-11-18T20:00:00Z", "finalizers": ["kubernetes.io/pvc-protection"]}
    contents.learn_deletion(pod("b", 13, **held))
    assert contents.find("b") == 13
    contents.apply(event("DELETED", "a", 14))
    contents.apply(event("DELETED", "b", 15))
    assert contents.objects() == {}


@pytest.mark.parametrize("metadata", [{}, {"deletionTimestamp": "x", "deletionGracePeriodSeconds": 0}])
def test_an_object_that_went_at_once_is_gone_though_it_was_answered(
    contents: Contents[int], metadata: Json
) -> None:
    contents.learn_deletion(pod("a", 12, **metadata))
    assert contents.objects() == {"b": 5}
    contents.apply(event("DELETED", "a", 12))
    assert contents.objects() == {"b": 5}


def test_a_list_that_began_before_a_write_does_not_take_it_back(contents: Contents[int]) -> None:
    listing = contents.begin_list()
    contents.add(listing, pod("a", 3))
    contents.learn(pod("c", 15))
    contents.learn_deletion({"kind": "Status", "details": {"name": "a", "uid": "a"}})
    contents.replace(listing, 12)
    assert contents.objects() == {"c": 15}


def test_a_list_that_began_after_a_write_knows_better(contents: Contents[int]) -> None:
    contents.learn(pod("c", 15))
    relist(contents, 20, pod("a", 3))
    assert contents.objects() == {"a": 3}


def test_after_a_restore_own_writes_are_what_the_new_list_says(contents: Contents[int]) -> None:
    contents.learn(pod("c", 15))
    relist(contents, 4, pod("a", 3))
    assert contents.objects() == {"a": 3}
    assert contents.version == 4


def test_a_write_that_is_older_than_the_watch_and_not_in_it_asks_for_a_list(contents: Contents[int]) -> None:
    """Somebody may have deleted it already; or the server has gone back, and the watch does not know yet."""
    assert contents.learn(pod("c", 9)) is None


def test_a_write_to_what_is_not_watched_changes_nothing(contents: Contents[int]) -> None:
    assert contents.learn(pod("c", 15, labels={"app": "other"})) == frozenset()
    assert contents.learn_deletion({"kind": "Status", "details": {"name": "c", "uid": "c"}}) == frozenset()
    assert contents.objects() == {"a": 3, "b": 5}
