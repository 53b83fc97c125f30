"""The statements of queries.sql by name. Refuses a name that is there twice."""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def statements() -> Mapping[str, str]:
    _head, *parts = _NAME.split(resources.files(__package__).joinpath("queries.sql").read_text("utf-8"))
    names, bodies = parts[::2], parts[1::2]
    if len(set(names)) != len(names):
        raise ValueError(f"queries.sql names a statement twice: {sorted(names)}")
    return MappingProxyType({name: body.strip() for name, body in zip(names, bodies, strict=True)})
