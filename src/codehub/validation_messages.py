"""What is wrong with a field or a setting, as a sentence: one of pydantic's problems goes in, codehub's text
comes out.
"""

from collections.abc import Mapping
from typing import Any

from codehub.core.access import PASSWORD_LENGTH_MIN

PASSWORD_LENGTH_MAX = 1024
"""The longest that signing in accepts: nobody must be able to choose a longer one."""
_WHOLE = "it must be a whole number"
_NUMBER = "it must be a number"
_TRUTH = "it must be true or false"

# By pydantic's name of the problem; the facts in braces are those that it gives.
PROBLEM_TEXTS: Mapping[str, str] = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such field",
    "string_type": "it must be text",
    "string_unicode": "it contains half of a character (a lone surrogate)",
    "string_too_short": "it must have a length of at least {min_length}",
    "string_too_long": "it must have a length of at most {max_length}",
    "string_pattern_mismatch": "it must look like {pattern}",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "it is too large",
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": _NUMBER,
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than_equal": "it must be at most {le}",
    "enum": "it must be {expected}",
    "literal_error": "it must be {expected}",
    "model_attributes_type": "it must be an object",
    "model_type": "it must be an object",
    "dict_type": "it must be an object",
    "value_error": "{error}",
}
_OTHERWISE = "it is not a valid value"


def problem_text(problem: Any) -> str:
    return PROBLEM_TEXTS.get(problem["type"], _OTHERWISE).format(**problem.get("ctx", {}))


def password_problem(password: str) -> str | None:
    """Say what is wrong with a password that somebody chooses, without repeating it."""
    if len(password) < PASSWORD_LENGTH_MIN:
        return f"it must have at least {PASSWORD_LENGTH_MIN} characters"
    if len(password) > PASSWORD_LENGTH_MAX:
        return f"it must have at most {PASSWORD_LENGTH_MAX} characters"
    if "\0" in password:
        return "it contains a NUL character"
    if any("\ud800" <= character <= "\udfff" for character in password):
        return "it is not text in UTF-8"
    return None
