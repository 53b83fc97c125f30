"""The statements of this folder's .sql files by name, with named parameters. Refuses a name used twice."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from codehub.adapters.postgres.columns import FRAGMENTS

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_FRAGMENT = re.compile(r"\{(\w+)\}")
_PARAMETER = re.compile(r"(?<!:):([a-z]\w*)")  # two colons are a cast


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL as PostgreSQL takes it, with $1, $2 …, and which parameter each of those is."""

    text: str
    parameters: tuple[str, ...]

    def __call__(self, **values: Any) -> tuple[Any, ...]:
        """Return what asyncpg is called with: the text and its arguments in order."""
        if len(values) != len(self.parameters):
            raise TypeError(f"takes {', '.join(self.parameters)}; given {', '.join(values)}")
        return (self.text, *(values[name] for name in self.parameters))


@cache
def statements() -> Mapping[str, Statement]:
    files = sorted(path.name for path in resources.files(__package__).iterdir() if path.name.endswith(".sql"))
    by_name: dict[str, Statement] = {}
    for file in files:
        _head, *parts = _NAME.split(resources.files(__package__).joinpath(file).read_text("utf-8"))
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            if name in by_name:
                raise ValueError(f"{file} names a statement that is there already: {name}")
            by_name[name] = compile_statement(body)
    return MappingProxyType(by_name)


def compile_statement(body: str) -> Statement:
    """Number the parameters, since asyncpg knows no names, and fill in the columns of a workspace (`{…}`)."""
    text = _FRAGMENT.sub(lambda fragment: FRAGMENTS[fragment[1]], _COMMENT.sub("", body))
    parameters = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    numbers = {name: f"${number}" for number, name in enumerate(parameters, start=1)}
    return Statement(_PARAMETER.sub(lambda parameter: numbers[parameter[1]], text).strip(), parameters)
