"""Logging: structured lines on stderr, for people on a terminal and as JSON elsewhere.

Secrets are masked whatever happens.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, TextIO

import structlog

_SECRET_NAMES = re.compile(
    r"password|passwd|secret|token|cookie|authorization|credential|api_key|dsn", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"(\w+://[^\s:/@]*):[^\s@]+@")
_TOKEN = re.compile(r"\bcht_[A-Za-z0-9_-]+")
_DOOR_CODE = re.compile(r"(/_codehub/enter\?code=)[^\s&\"']+")
_LENGTH_MAX = 8192


def configure_logs(*, level: int = logging.INFO, as_json: bool | None = None) -> None:
    """Send every log line, of libraries too, through one chain."""
    json_lines = not sys.stderr.isatty() if as_json is None else as_json
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        mask,
    ]
    renderer: Any = structlog.processors.JSONRenderer() if json_lines else structlog.dev.ConsoleRenderer()
    lines = _Lines(sys.stderr)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=processors,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)


class _Lines:
    """Writes our own lines directly, without `logging`.

    Never raises: a line that can't be written is lost.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):
            self._file.write(f"{line}\n")
            self._file.flush()

    debug = info = warning = error = critical = exception = fatal = log = msg


def mask(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask what is secret by its name or its shape, and bound what came from outside (security 17)."""
    for key, value in event.items():
        if _SECRET_NAMES.search(key):
            event[key] = "***"
        elif isinstance(value, str):
            event[key] = _mask_text(value)
    return event


def _mask_text(text: str) -> str:
    text = _TOKEN.sub("cht_***", _URL_PASSWORD.sub(r"\1:***@", text))
    text = _DOOR_CODE.sub(r"\1***", text)
    return text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]}… ({len(text)} characters)"
