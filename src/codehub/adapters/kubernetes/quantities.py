"""Quantities as the API writes them go in ("1500Mi", "250m", "98765n"), numbers come out."""

import re
from collections.abc import Mapping

_UNITS: Mapping[str, float] = {
    **{f"{letter}i": 1 << (10 * power) for power, letter in enumerate("KMGTPE", 1)},
    **{letter: 10 ** (3 * power) for power, letter in enumerate("kMGTPE", 1)},
    **{letter: 10 ** (-3 * power) for power, letter in enumerate("mun", 1)},
    "": 1,
}
_QUANTITY = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[KMGTPE]i|[kMGTPEmun]|)")


def parse_quantity(text: str) -> float:
    """Return the number; 0 for what is none."""
    match = _QUANTITY.fullmatch(text)
    return 0 if match is None else float(match["number"]) * _UNITS[match["unit"]]
