"""Text for people: a language, a key and its facts in, a sentence
out. Decides nothing; the sentences stand in `languages/`.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from codehub.text import languages

DEFAULT = "en"
_FILES = {path.stem for path in Path(languages.__path__[0]).glob("*.py")}
LANGUAGES: tuple[str, ...] = (DEFAULT, *sorted(_FILES - {DEFAULT, "__init__"}))
"""Those that there is a file for. The first is for whoever names none of them."""

Say = Callable[..., str]


@cache
def texts(language: str) -> Mapping[str, str]:
    """Return every text of a language by its key. Only the languages that are asked for are loaded."""
    if language not in LANGUAGES:
        raise KeyError(language)
    catalogue: Mapping[str, str] = import_module(f"codehub.text.languages.{language}").TEXTS
    return MappingProxyType(catalogue)


@cache
def section(language: str, name: str) -> Mapping[str, str]:
    """Return the texts whose keys begin with the section's name, by the rest of their keys."""
    prefix = f"{name}."
    return MappingProxyType(
        {key.removeprefix(prefix): text for key, text in texts(language).items() if key.startswith(prefix)}
    )


def text(language: str, key: str, **facts: object) -> str:
    """Return the text with the facts of the case. A key that is not there is a mistake of ours, and
    raises.
    """
    template = texts(language)[key]
    return template.format(**facts) if facts else template


def speaker(language: str) -> Say:
    """Return what says a thing in this language by its key."""

    def say(key: str, **facts: object) -> str:
        return text(language, key, **facts)

    return say
