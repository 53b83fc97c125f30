"""Languages: what somebody prefers goes in, one that codehub speaks comes out."""

from codehub.text import DEFAULT, LANGUAGES

_READ_MAX = 32


def preferred_language(accept_language: str) -> str:
    """Return the language that the browser names with the highest
    weight, the first of several, among the first it names.
    """
    best, best_weight = DEFAULT, 0.0
    for entry in accept_language.split(",", _READ_MAX)[:_READ_MAX]:
        tag, _, parameter = entry.strip().partition(";")
        language = tag.strip().lower().partition("-")[0]
        weight = _weight(parameter)
        if language in LANGUAGES and weight > best_weight:
            best, best_weight = language, weight
    return best


def _weight(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
