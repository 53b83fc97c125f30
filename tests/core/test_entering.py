"""What a browser brings to the hub when it wants to enter a workspace's origin: what is read of it, and what
is not taken.
"""

import pytest

from codehub.core.entering import read_challenge, read_path
from codehub.core.origins import Place, read_place

LABEL = "0123456789abcdef0123"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (LABEL, Place(LABEL, None)),
        (f"3000-{LABEL}", Place(LABEL, 3000)),
        (f"1-{LABEL}", Place(LABEL, 1)),
        (f"65535-{LABEL}", Place(LABEL, 65535)),
    ],
)
def test_a_name_is_read_as_origins_write_it(name: str, place: Place) -> None:
    assert read_place(name) == place


@pytest.mark.parametrize(
    "name",
    [
        "",
        LABEL[1:],
        f"{LABEL}0",
        LABEL.upper(),
        f"{LABEL}.evil.example",
        f"-{LABEL}",
        f"0-{LABEL}",
        f"03000-{LABEL}",
        f"65536-{LABEL}",
        f"3000-3001-{LABEL}",
        f"{LABEL}\n",
        f"{LABEL}@evil.example",
        "\uff13\uff10\uff10\uff10-" + LABEL,
    ],
)
def test_what_no_origin_is_called_names_no_place(name: str) -> None:
    assert read_place(name) is None


def test_a_challenge_is_64_digits() -> None:
    assert read_challenge("0f" * 32) == b"\x0f" * 32


@pytest.mark.parametrize(
    "text", ["", "0f" * 31, "0f" * 33, "0F" * 32, "0g" * 32, " " + "0f" * 32, "\uff10" * 64]
)
def test_whatever_else_is_no_challenge(text: str) -> None:
    assert read_challenge(text) is None


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/lab",
        "/lab/tree/a%20b?reset&x=%2F%2Fy",
        "/a//b",
        "/?next=//evil.example",
        "/.//x",
        "/" + "x" * 4095,
    ],
)
def test_a_path_of_the_origin_is_where_it_goes_on(path: str) -> None:
    assert read_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "lab",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "/lab\\..\\x",
        "\\\\evil.example",
        "/\t/evil.example",
        "\t//evil.example",
        "/\n/evil.example",
        "/a\r\nSet-Cookie: x=1",
        "/ /evil.example",
        "/\x00",
        "/\x7f",
        "/한글",
        "https://evil.example/",
        "javascript:alert(1)",
        "/" + "x" * 4096,
    ],
)
def test_whatever_could_lead_elsewhere_becomes_the_first_page(path: str) -> None:
    assert read_path(path) == "/"
