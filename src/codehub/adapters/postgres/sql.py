"""The statements of this folder's .sql files by name. Refuses a name that is there twice."""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def statements() -> Mapping[str, str]:
    files = sorted(path.name for path in resources.files(__package__).iterdir() if path.name.endswith(".sql"))
    found: dict[str, str] = {}
    for file in files:
        _head, *parts = _NAME.split(resources.files(__package__).joinpath(file).read_text("utf-8"))
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"{file} names a statement that is there already: {name}")
            found[name] = body.strip()
    return MappingProxyType(found)
