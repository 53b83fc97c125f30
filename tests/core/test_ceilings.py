"""Ceilings as tables: what is refused, with which bound, what
a start gives, and which images a pattern names.
"""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.workspaces import SPEC

from codehub.core.ceilings import (
    Ceilings,
    Images,
    clamp,
    describe_clamp,
    fits,
    may_run,
    refuse_one_more_workspace,
    refuse_spec,
)
from codehub.core.messages import Code, Message
from codehub.core.requests import FieldRefusal, Refusal
from codehub.core.workspace import InstanceBackend, Resources

LOW = Ceilings(Resources(memory_mb=1024, cpus=1.5, pids=100, disk_mb=2048))
WITHIN = replace(SPEC, resources=Resources(1024, 1.5, 100, 2048))
DOCKER = replace(WITHIN, instance_backend=InstanceBackend.LOCAL_DOCKER)


def test_what_is_at_the_ceiling_is_granted() -> None:
    assert refuse_spec(LOW, WITHIN) is None


@pytest.mark.parametrize(
    ("field", "asked", "most", "shown"),
    [
        ("memory_mb", 1025, 1024, "1024 MB"),
        ("cpus", 1.6, 1.5, "1.5"),
        ("pids", 101, 100, "100"),
        ("disk_mb", 2049, 2048, "2048 MB"),
    ],
)
def test_what_is_above_a_ceiling_is_refused_with_the_bound(
    field: str, asked: Any, most: float, shown: str
) -> None:
    greedy = replace(WITHIN, resources=replace(WITHIN.resources, **{field: asked}))
    refused = refuse_spec(LOW, greedy)
    assert refused is not None
    assert refused.code is Refusal.INVALID_REQUEST
    problem = Message(Code.ABOVE_CEILING, {"max": shown})
    assert refused.fields == [FieldRefusal(f"resources.{field}", problem, {"max": most})]
    assert refused.message == Message(Code.OF_FIELD, {"field": f"resources.{field}", "problem": problem})
    assert refuse_spec(LOW, replace(greedy, name="other"), greedy) is None
    assert refuse_spec(LOW, greedy, WITHIN) is not None


def test_an_image_that_nobody_allowed_is_refused_with_what_is_and_an_old_one_stays() -> None:
    ceilings = replace(LOW, images=Images(("debian:12",), ("team/*",)))
    asked = replace(DOCKER, image_ref="evil/image")
    refused = refuse_spec(ceilings, asked)
    assert refused is not None
    assert refused.fields[0].bound["allowed"] == ["team/*", "debian:12"]
    assert refuse_spec(ceilings, replace(asked, name="other"), asked) is None
    assert refuse_spec(ceilings, replace(asked, image_ref="debian:12")) is None


def test_a_process_of_this_machine_has_no_image_to_refuse() -> None:
    assert may_run(Images((), ("team/*",)), replace(WITHIN, image_ref="evil/image"))


def test_the_login_is_for_what_the_operator_named_alone() -> None:
    free = Images(("team/own",))
    assert free.allows("anything/else")
    assert [free.has_login(image) for image in ("team/own:3", "anything/else")] == [True, False]


@pytest.mark.parametrize(
    ("image", "pattern", "is_named"),
    [
        ("codercom/code-server", "codercom/code-server", True),
        ("codercom/code-server:4.1", "codercom/code-server", True),
        ("codercom/code-server@sha256:0f", "codercom/code-server", True),
        ("docker.io/codercom/code-server:4.1", "codercom/code-server", True),
        ("docker.io/library/debian", "debian", True),
        ("codercom/code-server:4.2", "codercom/code-server:4.1", False),
        ("codercom/code-server", "codercom/code-server:4.1", False),
        ("codercom/code-server-evil", "codercom/code-server", False),
        ("example.org:5000/team/a/b:1", "example.org:5000/team/*", True),
        ("example.org/other/a", "example.org/team/*", False),
        ("evil.org/example.org/team/a", "example.org/team/*", False),
        ("team/a@sha256:0f", "team/a@sha256:0e", False),
        ("team/a:1@sha256:0f", "team/a@sha256:*", False),
        ("TEAM/a", "team/*", False),
        ("anything/at:all", "*", True),
    ],
)
def test_which_images_a_pattern_names(image: str, pattern: str, is_named: bool) -> None:
    assert fits(image, pattern) is is_named


def test_nobody_has_one_more_than_the_operator_lets_them() -> None:
    ceilings = replace(LOW, workspaces=3)
    assert refuse_one_more_workspace(ceilings, 2) is None
    refused = refuse_one_more_workspace(ceilings, 3)
    assert refused is not None
    assert (refused.code, refused.fields[0].bound["max"]) == (Refusal.INVALID_REQUEST, 3)


def test_a_start_gives_what_was_asked_for_up_to_today_s_ceilings() -> None:
    assert clamp(LOW, Resources(4096, 1.0, 500, 10)) == Resources(1024, 1.0, 100, 10)


def test_what_a_start_gives_is_said_where_it_is_less_than_was_asked_for() -> None:
    ceilings = Ceilings(Resources(memory_mb=512, cpus=0.5, pids=64, disk_mb=1024))
    assert describe_clamp(ceilings, ceilings.resources) is None
    assert describe_clamp(ceilings, Resources(memory_mb=513, cpus=0.25, pids=64, disk_mb=1000)) == Message(
        Code.CLAMPED, {"memory": 512, "cpus": "0.25", "pids": 64, "disk": 1000}
    )
