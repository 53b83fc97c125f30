"""Limits: which one is reached, what is said, and whose workspaces are named."""

from uuid import UUID

from codehub.core.limits import Limits, refuse_one_more
from codehub.core.messages import Code, Message
from codehub.core.operations import Phase
from codehub.core.requests import Refusal

ONE = (UUID(int=1), "first", Phase.RUNNING)
FAILED = (UUID(int=2), "second", Phase.ERROR)


def test_below_both_limits_nothing_is_said() -> None:
    assert refuse_one_more(Limits(2, 100), [ONE], 99) is None


def test_the_owner_s_limit_names_what_runs_and_what_to_do() -> None:
    refused = refuse_one_more(Limits(1, 100), [ONE], 1)
    assert refused is not None
    assert refused.code is Refusal.LIMIT_EXCEEDED
    facts = {"count": 1, "max": 1, "names": ["first"], "ways": [Message(Code.STOP_ONE)]}
    assert refused.message == Message(Code.OWNER_LIMIT, facts)
    assert refused.details == {
        "limit": "per_user",
        "max": 1,
        "running": [{"id": str(ONE[0]), "name": "first"}],
    }


def test_what_is_in_error_is_not_to_be_stopped_but_decided_about() -> None:
    both, alone = (refuse_one_more(Limits(1, 100), running, 2) for running in ([ONE, FAILED], [FAILED]))
    assert both is not None
    way = Message(Code.RECOVER_OR_DELETE, {"name": "second"})
    assert both.message.facts["ways"] == [Message(Code.STOP_ONE), way]
    assert list(both.in_error) == [str(FAILED[0])]
    assert alone is not None
    assert alone.message.facts["ways"] == [way]


def test_the_total_names_nobody() -> None:
    refused = refuse_one_more(Limits(2, 3), [ONE], 3)
    assert refused is not None
    assert refused.message == Message(Code.TOTAL_LIMIT, {"max": 3})
    assert refused.details == {"limit": "total", "max": 3, "running": []}
