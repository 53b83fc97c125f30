"""Origins of workspaces: which Host is whose, and which settings can be."""

import pytest

from codehub.core.origins import Place, Unfit, UnfitOrigins, WorkspaceOrigins, origins_at, usual_host

LABEL = "0123456789abcdef0123"
HERE = WorkspaceOrigins("https", "ws.example.net", None)
LOCAL = WorkspaceOrigins("http", "localhost", 8000)


@pytest.mark.parametrize("port", [None, 1, 3000, 65535])
@pytest.mark.parametrize("origins", [HERE, LOCAL])
def test_an_origin_is_read_as_it_was_written(origins: WorkspaceOrigins, port: int | None) -> None:
    host = origins.origin_of(LABEL, port).partition("//")[2]
    assert origins.read_host(host.encode()) == Place(LABEL, port)
    assert origins.read_host(host.upper().encode()) == Place(LABEL, port)
    assert origins.covers(host.encode())


@pytest.mark.parametrize(
    "host",
    [
        f"{LABEL}.ws.example.net:8443",
        f"{LABEL}.ws.example.net.",
        f"{LABEL}.ws.example.net.evil.example",
        f"{LABEL}.evil-ws.example.net",
        f"{LABEL}.wsXexample.net",
        f"a.{LABEL}.ws.example.net",
        f"{LABEL}0.ws.example.net",
        f"{LABEL[1:]}.ws.example.net",
        f"0-{LABEL}.ws.example.net",
        f"03000-{LABEL}.ws.example.net",
        f"65536-{LABEL}.ws.example.net",
        f"-{LABEL}.ws.example.net",
        f"3000-3001-{LABEL}.ws.example.net",
        "ws.example.net",
        "example.net",
        "",
    ],
)
def test_a_host_that_is_not_exactly_a_workspaces_names_none(host: str) -> None:
    assert HERE.read_host(host.encode()) is None


@pytest.mark.parametrize("host", ["x.ws.example.net", "X.WS.example.net.", f"{LABEL}.ws.example.net:1"])
def test_whatever_lies_below_the_domain_is_not_the_hubs(host: str) -> None:
    assert HERE.covers(host.encode())


@pytest.mark.parametrize("host", ["ws.example.net", "example.net", "evilws.example.net", "localhost"])
def test_what_lies_beside_the_domain_may_be_the_hubs(host: str) -> None:
    assert not HERE.covers(host.encode())


@pytest.mark.parametrize(
    ("written", "base_url", "origin"),
    [
        ("*.ws.example.net", "https://hub.example.org", f"https://{LABEL}.ws.example.net"),
        ("*.WS.example.net", "https://hub.example.org:8443", f"https://{LABEL}.ws.example.net:8443"),
        ("*.ws.example.net:9443", "https://hub.example.org", f"https://{LABEL}.ws.example.net:9443"),
        ("*.localhost", "http://127.0.0.1:8000", f"http://{LABEL}.localhost:8000"),
        ("*.localhost", "http://localhost", f"http://{LABEL}.localhost"),
        ("*.hub.example.org", "https://hub.example.org", f"https://{LABEL}.hub.example.org"),
    ],
)
def test_origins_follow_the_setting_and_the_hubs_address(written: str, base_url: str, origin: str) -> None:
    origins = origins_at(written, base_url)
    assert origins is not None
    assert origins.origin_of(LABEL) == origin


@pytest.mark.parametrize(
    ("base_url", "host"),
    [
        ("http://127.0.0.1:8000", "*.localhost"),
        ("http://localhost:8000", "*.localhost"),
        ("http://[::1]:8000", "*.localhost"),
        ("http://127.0.0.2:8000", "none"),
        ("http://hub.localhost:8000", "none"),
        ("http://hub.example.org", "none"),
        ("https://hub.example.org", "none"),
        ("https://localhost:8443", "none"),
    ],
)
def test_names_that_every_browser_knows_are_the_default_and_others_are_not_guessed(
    base_url: str, host: str
) -> None:
    assert usual_host(base_url) == host
    assert (origins_at(host, base_url) is None) is (host == "none")


def test_none_is_no_origins() -> None:
    assert origins_at("none", "https://hub.example.org") is None


@pytest.mark.parametrize(
    ("written", "base_url", "why"),
    [
        ("ws.example.net", "https://hub.example.org", Unfit.NO_WILDCARD),
        ("*.", "https://hub.example.org", Unfit.NO_WILDCARD),
        ("*.ws.example.net/x", "https://hub.example.org", Unfit.NO_WILDCARD),
        ("*.ws.example.net:65536", "https://hub.example.org", Unfit.NO_WILDCARD),
        ("*.ws.example.net", "http://hub.example.org", Unfit.PLAIN_HTTP),
        ("*.localhost", "http://hub.example.org", Unfit.PLAIN_HTTP),
        ("*.ws.example.net", "http://127.0.0.1:8000", Unfit.PLAIN_HTTP),
        ("*.example.org", "https://hub.example.org", Unfit.HUB_BELOW),
        ("*.localhost", "http://hub.localhost:8000", Unfit.PLAIN_HTTP),
    ],
)
def test_a_setting_that_can_not_hold_is_refused(written: str, base_url: str, why: Unfit) -> None:
    with pytest.raises(UnfitOrigins) as refusal:
        origins_at(written, base_url)
    assert refusal.value.why is why


def test_a_place_is_named_as_its_host_begins() -> None:
    assert (Place(LABEL, None).name, Place(LABEL, 3000).name) == (LABEL, f"3000-{LABEL}")


@pytest.mark.parametrize(
    ("domain", "is_local"), [("localhost", True), ("ws.localhost", True), ("ws.example.net", False)]
)
def test_browsers_find_their_own_machine_without_asking(domain: str, *, is_local: bool) -> None:
    assert WorkspaceOrigins("http", domain, None).is_local is is_local
