"""The language that commands speak: the environment goes in, one that codehub speaks comes out."""

import os
from collections.abc import Mapping

from codehub.text import DEFAULT, LANGUAGES, section

_VARIABLES = ("CODEHUB_LANG", "LC_ALL", "LC_MESSAGES", "LANG")


def chosen_language(environment: Mapping[str, str]) -> str:
    """Return the language that the first variable with a value names: codehub's own, then those of every
    program.
    """
    value = next((environment[name] for name in _VARIABLES if environment.get(name)), DEFAULT)
    language = value.replace("-", "_").partition("_")[0].lower()
    return language if language in LANGUAGES else DEFAULT


def say(key: str, **facts: object) -> str:
    """Return a text of the command line's section, in the language of whoever runs the command."""
    template = _texts()[key]
    return template.format(**facts) if facts else template


def doing_text(operation: str) -> str:
    """Return the text of an operation in progress; empty for none, or for one that only a newer
    server knows.
    """
    return _texts().get(f"doing.{operation}", "")


def done_text(operation: str) -> str:
    """The same, of what was done."""
    return _texts().get(f"done.{operation}", "")


def heading_text(heading: str) -> str:
    """Return what stands above a column."""
    return say(f"heading.{heading}")


def label_text(label: str) -> str:
    """Return what stands before a value; itself, if it is a name that has no text."""
    return _texts().get(f"label.{label}", label)


def stage_text(stage: str) -> str:
    return say(f"stage.{stage}")


def _texts() -> Mapping[str, str]:
    return section(chosen_language(os.environ), "cli")
