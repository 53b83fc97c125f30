"""The columns of a workspace, one per field of Spec and Status: its type, how it is read and written.

A new field is stored and read without a change here, unless its Python type is new: `_OF_TYPE` needs a row
then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from sys import intern
from types import NoneType
from typing import Any, get_args, get_type_hints
from uuid import UUID

from codehub.adapters.postgres import encoding
from codehub.core.conditions import Conditions
from codehub.core.errors import ErrorInfo
from codehub.core.workspace import HeldUp, HomeCtx, Resources, Spec, Status

Codec = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class SqlType:
    """How a value of one Python type is stored. None: asyncpg reads or writes it as it is."""

    name: str
    decode: Codec | None = None
    encode: Codec | None = None
    in_arrays: str | None = None
    """The type in which many values travel at once, if it is another."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: SqlType

    @property
    def array(self) -> str:
        return f":{self.name}::{self.type.in_arrays or self.type.name}[]"

    @property
    def assignment(self) -> str:
        cast = f"::{self.type.name}" if self.type.in_arrays else ""
        return f"{self.name} = s.{self.name}{cast}"


_OF_TYPE: Mapping[Any, SqlType] = {
    UUID: SqlType("uuid"),
    str: SqlType("text"),
    int: SqlType("bigint"),  # an integer column takes it, and refuses what is too large
    bool: SqlType("boolean"),
    datetime: SqlType("timestamptz"),
    # An array of arrays would be one array to unnest: it travels as PostgreSQL's own text.
    tuple[datetime, ...]: SqlType("timestamptz[]", tuple, encoding.from_times, in_arrays="text"),
    Resources: SqlType("jsonb", encoding.to_resources, encoding.from_resources),
    Conditions: SqlType("jsonb", encoding.to_conditions, encoding.from_conditions),
    HomeCtx: SqlType("jsonb", encoding.to_home, encoding.from_home),
    ErrorInfo: SqlType("jsonb", encoding.to_error, encoding.from_error),
    HeldUp: SqlType("jsonb", encoding.to_held_up, encoding.from_held_up),
}
# Thousands of rows have the same few values: each is kept in memory once.
_OF_NAME: Mapping[str, SqlType] = dict.fromkeys(("image_ref", "ide"), SqlType("text", intern))


def _columns(declaration: type) -> tuple[Column, ...]:
    types = get_type_hints(declaration)
    return tuple(
        Column(field.name, _OF_NAME.get(field.name) or _sql_type(types[field.name]))
        for field in fields(declaration)
    )


def _sql_type(annotation: Any) -> SqlType:
    if NoneType in get_args(annotation):
        (annotation,) = (argument for argument in get_args(annotation) if argument is not NoneType)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return SqlType("text", annotation)
    return _OF_TYPE[annotation]


SPEC = _columns(Spec)
STATUS = _columns(Status)


def _join(parts: Sequence[str]) -> str:
    return ", ".join(parts)


# What the .sql files say in braces. A pass adds one to the version, so that is not assigned.
FRAGMENTS: Mapping[str, str] = {
    "spec_columns": _join([column.name for column in SPEC]),
    "spec_parameters": _join([f":{column.name}" for column in SPEC]),
    "spec_assignments": _join([f"{column.name} = :{column.name}" for column in SPEC]),
    "status_columns": _join([column.name for column in STATUS]),
    "status_arrays": _join([column.array for column in STATUS]),
    "status_assignments": _join([column.assignment for column in STATUS if column.name != "version"]),
}
