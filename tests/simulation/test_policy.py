"""The proxy's policy in virtual time: who is let in may be, and who may no longer be is out in time."""

from unittest.mock import ANY

import pytest
from tests.simulation.policy_world import PolicyWorld

from codehub.proxy.policy import route_cache
from codehub.proxy.policy.entrances import CachedWorkspace
from codehub.proxy.policy.route_cache import RouteCache

SEEDS = range(4)


@pytest.mark.parametrize("has_origins", [False, True], ids=["below the mount", "at origins"])
@pytest.mark.parametrize("seed", SEEDS)
def test_grants_and_what_ends_them_are_as_the_world_is(seed: int, *, has_origins: bool) -> None:
    world = PolicyWorld(seed, has_origins=has_origins).run()
    assert not world.broken
    assert world.granted > 50
    assert world.ended > 5


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = PolicyWorld(1).run(), PolicyWorld(1).run()
    assert (first.granted, first.ended) == (second.granted, second.ended)


async def _nothing(*_args: object, **_kwargs: object) -> None:
    return


@pytest.mark.parametrize("has_origins", [False, True], ids=["below the mount", "at origins"])
@pytest.mark.parametrize(
    "mutant", ["people are never asked again", "a grant never ends", "everything is current"]
)
def test_a_policy_that_is_broken_on_purpose_is_found(
    mutant: str, monkeypatch: pytest.MonkeyPatch, *, has_origins: bool
) -> None:
    if mutant.startswith("people"):
        monkeypatch.setattr(RouteCache, "_look_at_people", _nothing)
    elif mutant.startswith("a grant"):
        monkeypatch.setattr(CachedWorkspace, "end", lambda _cached, _grants: None)
    else:
        monkeypatch.setattr(route_cache, "_STALE_S_MAX", 1e9)
    assert any(PolicyWorld(seed, has_origins=has_origins).run().broken for seed in SEEDS)


def test_a_door_that_opens_any_workspace_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codehub.core.visit.Door", lambda *_place: ANY)
    assert any(PolicyWorld(seed, has_origins=True).run().broken for seed in SEEDS)
