"""The dashboard's words: a language in, something that says things in it out."""

from collections.abc import Callable, Mapping

from codehub.dashboard.words import en, ko

WORDS: Mapping[str, Mapping[str, str]] = {"en": en.WORDS, "ko": ko.WORDS}

Say = Callable[..., str]


def speaker(language: str) -> Say:
    """Return what says a thing by its key. A key that is not there is a mistake of ours, and raises."""
    words = WORDS[language]

    def say(key: str, **facts: object) -> str:
        return words[key].format(**facts) if facts else words[key]

    return say
