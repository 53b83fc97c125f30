"""For how long something has been known of a Pod, by this process's own clock.

A time in the cluster is by its node's clock, or by the API server's: here it only tells one fact from
another. Codehub's own clock may be minutes ahead of both, or behind.
"""

from collections.abc import Set

from codehub.ports.system import Clock


class Sightings:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[tuple[str, str], tuple[object, float]] = {}

    def seconds(self, uid: str, what: str, fact: object) -> float:
        """Return for how long this has been so of the Pod of this uid: 0 when it is asked for the first time.
        Another fact begins anew.
        """
        now = self._clock.monotonic()
        known, since = self._since.get((uid, what), (None, now))
        if known != fact:
            since = now
        self._since[uid, what] = (fact, since)
        return now - since

    def forget_all_but(self, uids: Set[str]) -> None:
        self._since = {key: since for key, since in self._since.items() if key[0] in uids}
