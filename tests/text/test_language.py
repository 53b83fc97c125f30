"""Which language a page speaks."""

import pytest

from codehub.text.language import preferred_language


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("ko-KR,ko;q=0.9,en;q=0.8", "ko"),
        ("en;q=0.9,ko;q=0.1", "en"),
        ("xx", "en"),
        ("", "en"),
        ("ko;q=x", "en"),
        ("KO", "ko"),
    ],
)
def test_the_page_speaks_the_browsers_language(header: str, language: str) -> None:
    assert preferred_language(header) == language


def test_of_a_list_that_no_browser_sends_only_the_beginning_is_read() -> None:
    assert preferred_language("xx," * 100 + "ko") == "en"
    assert preferred_language("xx," * 10 + "ko") == "ko"
