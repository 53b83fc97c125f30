"""Log lines: secrets never get in, whatever the caller did."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from codehub.logs import configure_logs, mask


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("password", "geheim", "***"),
        ("api_token", "geheim", "***"),
        ("Set-Cookie", "geheim", "***"),
        ("dsn", "geheim", "***"),
        ("error", "can't reach postgresql://u:geheim@host/db", "can't reach postgresql://u:***@host/db"),
        ("event", "Bearer cht_abcDEF-12_3 refused", "Bearer cht_*** refused"),
        ("image", "codercom/code-server:4", "codercom/code-server:4"),
    ],
)
def test_secrets_are_masked_by_name_and_by_shape(key: str, value: str, expected: str) -> None:
    assert mask(None, "info", {key: value})[key] == expected


def test_a_doors_code_is_masked() -> None:
    address = "http://0.localhost:8000/_codehub/enter?code=Zm9v-YmFy_x&next=/"
    line = mask(None, "info", {"path": address, "text": f'to "{address}"'})
    assert line["path"] == "http://0.localhost:8000/_codehub/enter?code=***&next=/"
    assert "Zm9v" not in line["text"]


def test_what_comes_from_outside_is_bounded() -> None:
    assert len(mask(None, "info", {"path": "x" * 100_000})["path"]) < 9000


@pytest.fixture
def stderr(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What a program that logs JSON writes."""
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    monkeypatch.setattr(sys, "stderr", stream)
    try:
        configure_logs(as_json=True)
        yield stream
    finally:
        root.handlers, root.level = handlers, level
        structlog.reset_defaults()


def test_lines_are_json_with_a_static_name_and_bound_identifiers(stderr: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        structlog.get_logger().info("instance_started", image="a\nb")
    logging.getLogger("a.library").warning("postgresql://u:geheim@h is away")
    first, second = stderr.getvalue().splitlines()
    assert (
        json.loads(first).items()
        >= {"event": "instance_started", "request_id": "r1", "image": "a\nb"}.items()
    )
    assert "geheim" not in second


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "critical", "exception"])
def test_a_line_that_can_not_be_written_is_lost_and_raises_nothing(level: str, stderr: io.StringIO) -> None:
    stderr.close()
    getattr(structlog.get_logger(), level)("instance_started")
