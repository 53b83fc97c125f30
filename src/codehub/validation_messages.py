"""What is wrong with a field or a setting, as a sentence: one of pydantic's problems goes in, codehub's text
comes out.
"""

from collections.abc import Mapping
from typing import Any

from codehub.core.access import PASSWORD_LENGTH_MIN
from codehub.text import DEFAULT, section, text

PASSWORD_LENGTH_MAX = 1024
"""The longest that signing in accepts: nobody must be able to choose a longer one."""
# By pydantic's name of the problem, where another has the same text.
_SAME: Mapping[str, str] = {
    "int_type": "whole",
    "int_parsing": "whole",
    "int_from_float": "whole",
    "float_type": "number",
    "float_parsing": "number",
    "finite_number": "number",
    "bool_type": "truth",
    "bool_parsing": "truth",
    "literal_error": "enum",
    "model_attributes_type": "object",
    "model_type": "object",
    "dict_type": "object",
}


def problem_text(problem: Any, language: str = DEFAULT) -> str:
    """Return what is wrong. The text's facts are those that pydantic gives."""
    texts = section(language, "problem")
    kind = _SAME.get(problem["type"], problem["type"])
    return texts.get(kind, texts["otherwise"]).format(**problem.get("ctx", {}))


def password_problem(password: str, language: str = DEFAULT) -> str | None:
    """Say what is wrong with a password that somebody chooses, without repeating it."""
    if len(password) < PASSWORD_LENGTH_MIN:
        return text(language, "password.short", length=PASSWORD_LENGTH_MIN)
    if len(password) > PASSWORD_LENGTH_MAX:
        return text(language, "password.long", length=PASSWORD_LENGTH_MAX)
    if "\0" in password:
        return text(language, "password.nul")
    if any("\ud800" <= character <= "\udfff" for character in password):
        return text(language, "password.no_text")
    return None
