"""Places in the queue of passwords: strangers have fewer than there are, so that they keep nobody else
out.
"""

from contextlib import ExitStack

import pytest

from codehub.service.password_queue import ALL_MAX, STRANGERS_MAX, PasswordQueue, PasswordQueueFull


def test_strangers_fill_their_places_and_a_known_browser_still_finds_one() -> None:
    queue = PasswordQueue()
    with ExitStack() as waiting:
        for _ in range(STRANGERS_MAX):
            waiting.enter_context(queue.enter(is_known=False))
        with pytest.raises(PasswordQueueFull):
            waiting.enter_context(queue.enter(is_known=False))
        waiting.enter_context(queue.enter(is_known=True))


def test_all_places_together_are_bounded_and_free_again_afterwards() -> None:
    queue = PasswordQueue()
    with ExitStack() as waiting:
        for _ in range(ALL_MAX):
            waiting.enter_context(queue.enter(is_known=True))
        with pytest.raises(PasswordQueueFull):
            waiting.enter_context(queue.enter(is_known=True))
    with queue.enter(is_known=False):
        pass
