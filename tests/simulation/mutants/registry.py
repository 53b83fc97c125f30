"""Mutants: deliberate bugs, one at a time, each of which the judges must
find. One that survives means a judge or a fault is missing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from tests.simulation.faults import RIFE_IN_A_CLUSTER, Fault

Mutant = Callable[[], Any]
MUTANTS: dict[str, Mutant] = {}
# What has to go wrong before they can be seen: seeds in which it is rife are searched first.
NEEDS: dict[str, tuple[Fault, ...]] = {
    "adopt_by_making_a_new_volume": (Fault.IDENTITY_GONE,),
    "adopt_what_nobody_spoke_of": (Fault.IDENTITY_GONE,),
    "go_on_without_a_volume_whose_identity_is_lost": (Fault.IDENTITY_GONE,),
    "collect_older_archives_while_the_archive_is_missing": (Fault.ARCHIVE_GONE,),
    "delete_a_volume_that_is_in_use": (Fault.ACT_LATE,),
    "forget_what_changed_when_a_pass_fails": (Fault.STORE_AWAY, Fault.HINT_LOST),
    "leave_a_home_that_a_person_gave_up": (Fault.IDENTITY_GONE,),
    "let_everybody_handle_nothing_that_is_new": (Fault.LAST_CRASH,),
    "replace_whatever_volume_is_there": (Fault.ACT_LATE,),
    "restore_the_older_archive_without_a_word": (Fault.ROLLBACK,),
    "collect_archives_that_are_newer_than_the_row": (Fault.ROLLBACK,),
    "take_the_end_of_the_trash_for_a_persons_word": (Fault.ROLLBACK,),
    "take_a_home_for_a_copy_of_an_archive_that_is_gone": (Fault.ROLLBACK, Fault.ARCHIVE_GONE),
    "take_the_next_archive_for_one_that_has_vanished": (Fault.CHOSEN_GONE,),
    "take_what_an_earlier_restore_left_as_it_is": (Fault.ACT_LATE,),
    "take_what_the_row_does_not_know_for_half_a_volume": (Fault.IDENTITY_GONE, Fault.ROLLBACK),
    "take_a_step_in_flight_for_held_up": (Fault.ACT_HUNG, Fault.LOOK_FAILED),
    "use_a_condemned_volume": (Fault.ACT_LATE,),
    "ask_the_watch_alone_whether_a_volume_is_there": (Fault.WATCH_BEHIND, Fault.VOLUME_GONE),
    "believe_a_watch_that_shows_the_volume_before": (Fault.WATCH_BEHIND, Fault.PAUSE),
    "believe_two_watches_that_contradict_each_other": (Fault.WATCH_BEHIND,),
    "begin_what_fills_a_full_disk": (Fault.DISK_FULL,),
    "start_beside_an_instance_that_ends": (Fault.ENDS_SLOWLY,),
    "start_on_a_volume_that_ends": (Fault.ENDS_LATE,),
    "take_a_broken_watch_for_an_empty_one": (Fault.WATCH_BROKEN,),
    "take_an_ending_instance_for_gone": (Fault.ENDS_SLOWLY,),
    "take_an_ending_volume_for_gone": (Fault.ENDS_LATE,),
}


def mutant(make: Mutant) -> Mutant:
    """A function that returns what to patch: its name, read as words, says what is wrong."""
    MUTANTS[make.__name__] = make
    return make


def is_of_cluster(name: str) -> bool:
    """Whether it takes what only a cluster does."""
    return any(fault in RIFE_IN_A_CLUSTER for fault in NEEDS.get(name, ()))


@contextmanager
def alive(name: str) -> Iterator[None]:
    """Let this bug be, for as long as the block lasts."""
    patches = MUTANTS[name]()
    with contextmanager(_all)(patches if isinstance(patches, list) else [patches]):
        yield


def _all(patches: Sequence[Any]) -> Iterator[None]:
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def patched(target: object, name: str, new: object) -> Any:
    return mock.patch.object(target, name, new)
