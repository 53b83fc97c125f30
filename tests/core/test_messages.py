"""Messages: a code and its facts. What goes into JSON comes back the same."""

import json

import pytest

from codehub.core.messages import Code, Message, from_json, to_json, verbatim

NESTED = Message(
    Code.FAILED_AGAIN,
    {"count": 6, "message": Message(Code.SEVERAL, {"messages": [verbatim("no"), Message(Code.NO_ANSWER)]})},
)


@pytest.mark.parametrize(
    "message", [Message(Code.VOLUME_LOST), verbatim("as it was said"), NESTED, Message("Later", {"n": ["a"]})]
)
def test_facts_that_go_into_json_come_back_the_same(message: Message) -> None:
    stored = json.loads(json.dumps(to_json(message.facts)))
    assert from_json(stored) == message.facts


def test_a_log_names_the_code_and_the_facts() -> None:
    assert str(verbatim("no space left")) == "no space left"
    assert str(Message(Code.VOLUME_LOST)) == "VolumeLost"
    assert str(NESTED) == "FailedAgain count=6 message=Several messages=no, NoAnswer"
