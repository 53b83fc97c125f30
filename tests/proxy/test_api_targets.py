"""Which process of the API a request goes to: each in turn, but
none that leaves or is silent while there is another.
"""

from tests.support.engine import ManualClock

from codehub.ports.instances import TcpUpstream
from codehub.proxy.policy.api_targets import ApiTargets


def targets(count: int) -> tuple[ApiTargets, ManualClock]:
    clock = ManualClock()
    return ApiTargets([TcpUpstream("api", port) for port in range(1, count + 1)], clock), clock


def ports(apis: ApiTargets, count: int = 6) -> list[int]:
    return [apis.choose().address.port for _ in range(count)]  # type: ignore[union-attr]


def test_requests_go_to_each_in_turn() -> None:
    apis, _ = targets(3)
    assert ports(apis) == [1, 2, 3, 1, 2, 3]


def test_one_that_is_about_to_end_is_asked_for_nothing_for_a_while() -> None:
    apis, clock = targets(2)
    apis.choose().is_leaving = True
    assert ports(apis, 4) == [2] * 4
    clock.seconds += 5
    assert set(ports(apis, 4)) == {1, 2}


def test_one_that_is_silent_is_asked_last_and_nobody_twice_in_a_moment() -> None:
    apis, clock = targets(2)
    first = apis.choose()
    second = apis.find_other(first)
    assert second is not None
    assert second is not first
    assert ports(apis, 4) == [2] * 4
    assert apis.find_other(second) is None
    clock.seconds += 1
    assert apis.find_other(second) is first, "it may have come back"


def test_one_that_leaves_is_better_than_one_that_is_silent() -> None:
    apis, _ = targets(2)
    first, second = apis.choose(), apis.choose()
    second.is_leaving = True
    assert apis.find_other(first) is second
    assert ports(apis, 4) == [2] * 4


def test_one_alone_has_no_other() -> None:
    apis, _ = targets(1)
    alone = apis.choose()
    assert not alone.has_twin
    assert apis.find_other(alone) is None
    assert ports(apis, 2) == [1, 1]
