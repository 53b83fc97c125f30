"""Where the script goes in a page, and whether it may."""

import pytest
from tests.core.test_visit import BACKGROUND, NAVIGATION, PROGRAM, SOCKET

from codehub.core.ides import ide_profile
from codehub.core.tab_script import SCANNED_BYTES_MAX, allows_script, find_place, is_top_document
from codehub.core.visit import Visit

CODE, JUPYTER, HTTP = (ide_profile(ide) for ide in ("code-server", "jupyterlab", "http"))
FRAME = Visit(fetch_mode="navigate", fetch_dest="iframe", fetch_site="same-origin")
POSTED = Visit(method="POST", fetch_mode="navigate", fetch_dest="document", fetch_site="none")
MUTE = Visit(agent="Mozilla/5.0", accept="text/html")


@pytest.mark.parametrize(
    ("profile", "visit", "path", "is_one"),
    [
        (CODE, NAVIGATION, "/", True),
        (CODE, NAVIGATION, "/?folder=/home", True),
        (CODE, NAVIGATION, "/static/x.html", False),
        (CODE, FRAME, "/", False),
        (CODE, POSTED, "/", False),
        (CODE, MUTE, "/", False),
        (CODE, BACKGROUND, "/", False),
        (CODE, PROGRAM, "/", False),
        (CODE, SOCKET, "/", False),
        (JUPYTER, NAVIGATION, "/lab", True),
        (JUPYTER, NAVIGATION, "/lab/tree/a.ipynb?x=1", True),
        (JUPYTER, NAVIGATION, "/doc/tree/a.ipynb", True),
        (JUPYTER, NAVIGATION, "/labs", False),
        (JUPYTER, NAVIGATION, "/files/page.html", False),
        (JUPYTER, NAVIGATION, "/", False),
        (HTTP, NAVIGATION, "/", False),
    ],
)
def test_only_the_page_of_a_tab_in_which_an_ide_runs_gets_it(
    profile: object, visit: Visit, path: str, is_one: bool
) -> None:
    assert is_top_document(profile, visit, path) is is_one  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policies", "allows"),
    [
        ([], True),
        (["frame-ancestors 'self'; report-uri /x"], True),
        (["default-src 'self'"], True),
        (["Script-Src 'SELF' 'unsafe-eval'; connect-src 'self' wss:"], True),
        (["script-src *; connect-src *"], True),
        (["default-src 'none'"], False),
        (["default-src 'none'; script-src 'self'"], False),
        (["default-src 'none'; script-src 'self'; connect-src 'self'"], True),
        (["script-src 'nonce-abc'"], False),
        (["script-src 'self' 'strict-dynamic' 'nonce-abc'"], False),
        (["script-src 'self'; script-src-elem 'none'"], False),
        (["script-src 'none'; script-src 'self'"], False),
        (["connect-src 'none'"], False),
        (["script-src https://cdn.example.org"], False),
        (["default-src 'self'", "script-src 'none'"], False),
        (["default-src 'self', script-src 'none'"], False),
        (["sandbox"], False),
        (["sandbox allow-scripts"], False),
        (["sandbox allow-scripts allow-same-origin"], True),
        ([";; "], True),
    ],
)
def test_a_policy_that_does_not_plainly_allow_it_forbids_it(policies: list[str], allows: bool) -> None:
    assert allows_script(policies) is allows


@pytest.mark.parametrize(
    "html",
    [
        b"<html><head>|<title>x</title></head><body></body></html>",
        (
            b"\xef\xbb\xbf<!-- <head> --><!DOCTYPE html>\n"
            b"<html lang='a>b'>\n<!-- c --><HEAD data-x=\">\">|</head>"
        ),
        b"<head>|</head>",
        b"<html>|<body><header></header></body>",
        b"<html>|</html>",
        (
            b"<html><head>|<meta charset=utf-8>"
            b"<meta http-equiv=Content-Security-Policy content=\"script-src 'self'\"></head>"
        ),
        (
            b"<html><head>|"
            b"<meta http-equiv='Content-Security-Policy' content='script-src &#39;self&#39;'></head>"
        ),
    ],
)
def test_it_goes_behind_the_first_tag_of_the_head_or_else_of_html(html: bytes) -> None:
    place = find_place(html.replace(b"|", b""), is_whole=True)
    assert place == (html.index(b"|"), None)


@pytest.mark.parametrize(
    ("html", "why"),
    [
        (b"", "no_head"),
        (b"<p>Not found</p>", "no_head"),
        (b"<!doctype html><title>x</title><html><head></head>", "no_head"),
        (b"<header><head></head>", "no_head"),
        (b"<!-- <html><head>", "no_head"),
        ("<html><head></head>".encode("utf-16"), "no_head"),
        (b"<head><meta http-equiv='content-security-policy' content='default-src https:'></head>", "policy"),
        (b"<head><meta http-equiv=content-security-policy content=none></head>", "policy"),
        (b"<head><meta http-equiv='content-security-policy' content='<'></head>", "policy"),
    ],
)
def test_a_page_without_a_head_or_with_a_policy_against_it_is_left_alone(html: bytes, why: str) -> None:
    assert find_place(html, is_whole=True) == (None, why)


def test_as_much_is_waited_for_as_may_hold_a_policy_and_no_more() -> None:
    page = b"<html><head><title>x</title>"
    assert find_place(page, is_whole=False) is None
    assert find_place(page + b"</head>", is_whole=False) == (12, None)
    assert find_place(page + b"<body class='x'>", is_whole=False) == (12, None)
    assert find_place(page + b" " * SCANNED_BYTES_MAX, is_whole=False) == (12, None)
