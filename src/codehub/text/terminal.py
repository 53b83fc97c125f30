"""Text for whoever runs a command: a section's key and its facts in, a sentence in their language out."""

import os
import unicodedata
from collections.abc import Mapping

from codehub.text import DEFAULT, LANGUAGES, Say, section

_VARIABLES = ("CODEHUB_LANG", "LC_ALL", "LC_MESSAGES", "LANG")


def chosen_language(environment: Mapping[str, str]) -> str:
    """Return the language that the first variable with a value names: codehub's own, then those of every
    program.
    """
    value = next((environment[name] for name in _VARIABLES if environment.get(name)), DEFAULT)
    language = value.replace("-", "_").partition("_")[0].lower()
    return language if language in LANGUAGES else DEFAULT


def terminal_language() -> str:
    return chosen_language(os.environ)


def terminal_texts(name: str) -> Mapping[str, str]:
    """Return the texts of a section, by the rest of their keys."""
    return section(terminal_language(), name)


def columns(text: str) -> int:
    """Return how wide a terminal shows it: some letters take two columns."""
    return sum(2 if is_wide(letter) else 1 for letter in text)


def is_wide(letter: str) -> bool:
    return unicodedata.east_asian_width(letter) in "WF"


def terminal_speaker(name: str) -> Say:
    """Return what says a section's things by the rest of their keys."""

    def say(key: str, **facts: object) -> str:
        template = terminal_texts(name)[key]
        return template.format(**facts) if facts else template

    return say
