"""Settings: what is read, what is refused and in which words."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.program import codehub

from codehub.app.edge import own_origins
from codehub.core.operations import Operation
from codehub.core.rules import DEFAULT_RULES
from codehub.core.workspace import Resources, StorageBackend
from codehub.settings import Settings, WrongSetting, load_settings, unknown_settings


@pytest.fixture(autouse=True)
def _no_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("CODEHUB_"):
            monkeypatch.delenv(name)


def load(monkeypatch: pytest.MonkeyPatch, **values: str) -> Settings:
    for name, value in values.items():
        monkeypatch.setenv(f"CODEHUB_{name}", value)
    return load_settings()


def test_no_setting_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch)
    root = Path("/var/lib/codehub") if os.geteuid() == 0 else Path.home() / ".local/share/codehub"
    assert settings.data_dir == root
    assert settings.base_url == "http://127.0.0.1:8000"
    assert settings.archives == f"file://{root}/archives"
    assert settings.homes is StorageBackend.LOCAL_DIR


def test_without_settings_the_rules_are_the_specifications(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch)
    assert settings.rules == DEFAULT_RULES
    assert settings.default_resources == Resources()


def test_an_operator_changes_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(
        monkeypatch,
        TIME_LIMIT_STARTING_SECONDS="900",
        RETRIES="0",
        RESTART_WINDOW_SECONDS="60",
        DEFAULT_CPUS="0.5",
    )
    assert settings.rules.time_limits[Operation.STARTING] == timedelta(minutes=15)
    assert settings.rules.retries_max == 0
    assert settings.rules.restart_window == timedelta(minutes=1)
    assert settings.default_resources.cpus == 0.5


def test_no_period_is_so_long_that_an_operations_time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = load(monkeypatch, ACTIVE_PERIOD_SECONDS="600").rules
    assert rules.look_gap_max > timedelta(seconds=600)


@pytest.mark.parametrize("pair", [("BACKOFF_SECONDS", "40", "30"), ("PROBE_SECONDS", "2", "1")])
def test_the_least_is_not_above_the_most(monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str, str]) -> None:
    name, least, most = pair
    with pytest.raises(WrongSetting, match=f"CODEHUB_{name}_MIN is more than CODEHUB_{name}_MAX"):
        load(monkeypatch, **{f"{name}_MIN": least, f"{name}_MAX": most})


def test_minio_is_another_name_of_the_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch, STORAGE_BACKEND="minio").homes is StorageBackend.OBJECT_STORE


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch, PORT="", DATABASE_URL="").port == 8000


def test_a_relative_data_dir_becomes_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch, DATA_DIR="here").data_dir == Path.cwd() / "here"


@pytest.mark.parametrize(
    ("backend", "homes"),
    [("local-process", "local-dir"), ("local-docker", "docker-volume"), ("k8s", "k8s-pvc")],
)
def test_homes_follow_the_instance_backend(monkeypatch: pytest.MonkeyPatch, backend: str, homes: str) -> None:
    assert load(monkeypatch, INSTANCE_BACKEND=backend).homes == homes


def test_an_ipv6_address_gets_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch, HOST="::1").base_url == "http://[::1]:8000"


@pytest.mark.parametrize(("host", "address"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]")])
def test_who_listens_everywhere_is_found_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, host: str, address: str
) -> None:
    settings = load(monkeypatch, HOST=host)
    assert (settings.base_url, settings.is_open_elsewhere) == (f"http://{address}:8000", True)
    assert not load(monkeypatch, HOST=host, PUBLIC_BASE_URL="https://code.example.org").is_open_elsewhere


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("https://code.example.org", "https://code.example.org"),
        ("https://code.example.org/", "https://code.example.org"),
        ("https://code.example.org:443", "https://code.example.org"),
        ("https://Code.Example.org", "https://code.example.org"),
        ("https://code.example.org:8443", "https://code.example.org:8443"),
        ("http://code.example.org:443", "http://code.example.org:443"),
        ("http://[::1]:80", "http://[::1]"),
    ],
)
def test_api_and_proxy_know_the_public_address_as_browsers_write_it(
    monkeypatch: pytest.MonkeyPatch, address: str, origin: str
) -> None:
    settings = load(monkeypatch, PUBLIC_BASE_URL=address)
    assert settings.base_url == origin
    assert own_origins(settings, 8000) == {origin}


@pytest.mark.parametrize(
    ("values", "port", "address", "also"),
    [
        ({"PORT": "80"}, 80, "http://127.0.0.1", {"http://localhost", "http://[::1]"}),
        ({"HOST": "Box", "PORT": "81"}, 81, "http://box:81", {"http://127.0.0.1:81", "http://localhost:81"}),
    ],
)
def test_without_a_public_address_they_know_the_one_they_listen_on(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], port: int, address: str, also: set[str]
) -> None:
    settings = load(monkeypatch, **values)
    assert settings.base_url == address
    assert {address, *also} <= own_origins(settings, port)


WRONG = [
    ({"PUBLIC_BASE_URL": "https://a:x"}, "it must be http://host or https://host"),
    ({"PORT": "eight"}, "CODEHUB_PORT: 'eight' won't do: it must be a whole number."),
    ({"PORT": "70000"}, "CODEHUB_PORT: '70000' won't do: it must be at most 65535."),
    ({"PUBLIC_BASE_URL": "code.example.org"}, "CODEHUB_PUBLIC_BASE_URL: 'code.example.org' won't do"),
    ({"PUBLIC_BASE_URL": "https://a/b"}, "without a path"),
    ({"ARCHIVE_URL": "ftp://x"}, "must begin with file:/// or s3://"),
    ({"REDIS_URL": "http://x"}, "CODEHUB_REDIS_URL"),
    (
        {"INSTANCE_BACKEND": "vmware"},
        "CODEHUB_INSTANCE_BACKEND: 'vmware' won't do: it must be 'local-process', ",
    ),
    (
        {"INSTANCE_BACKEND": "k8s", "STORAGE_BACKEND": "local-dir"},
        "CODEHUB_STORAGE_BACKEND: local-dir can't hold",
    ),
    ({"IDE": "emacs"}, "CODEHUB_IDE: 'emacs' won't do"),
    ({"ARCHIVE_URL": "s3://"}, "CODEHUB_ARCHIVE_URL: 's3://' won't do: it must name a bucket"),
    ({"ARCHIVE_URL": "s3:///prefix"}, "it must name a bucket"),
    ({"ARCHIVE_URL": "file:///"}, "CODEHUB_ARCHIVE_URL: 'file:///' won't do: it must name a directory"),
    ({"API_URL": "http://"}, "CODEHUB_API_URL: 'http://' won't do: its host and port can't be read."),
    ({"API_URL": "http://host:many"}, "its host and port can't be read."),
    ({"WORKSPACE_IMAGE": "bad image"}, "CODEHUB_WORKSPACE_IMAGE: 'bad image' won't do: it must look like"),
    ({"HELPER_IMAGE": "-x"}, "CODEHUB_HELPER_IMAGE: '-x' won't do: it must look like"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_a_wrong_setting_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], message: str
) -> None:
    with pytest.raises(WrongSetting) as refusal:
        load(monkeypatch, **values)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if name.endswith("_seconds")])
@pytest.mark.parametrize("value", ["2147483648", "inf", "nan"])
def test_a_time_that_no_database_or_calendar_holds_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    with pytest.raises(WrongSetting, match=f"CODEHUB_{name.upper()}: '{value}' won't do"):
        load(monkeypatch, **{name.upper(): value})


def test_the_longest_times_can_be_counted_with(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("standby_ttl", "archive_ttl", "sleep_warning", "trash", "gc_grace")
    settings = load(monkeypatch, **{f"{name}_seconds".upper(): "2147483647" for name in names})
    for name in names:
        span = timedelta(seconds=getattr(settings, f"{name}_seconds"))
        assert datetime.now(UTC) - span < datetime.now(UTC) + span


def test_a_wrong_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongSetting) as refusal:
        load(monkeypatch, DATABASE_URL="mysql://u:geheim@h/d")
    assert "CODEHUB_DATABASE_URL" in str(refusal.value)
    assert "geheim" not in str(refusal.value)


@pytest.mark.parametrize("password", ["gehe/im", "gehe[im", "gehe#im", "gehe?im"])
@pytest.mark.parametrize(
    ("name", "url"),
    [("DATABASE_URL", "postgresql://ann:{}@host/codehub"), ("REDIS_URL", "redis://:{}@host:6379/0")],
)
def test_a_password_that_hides_the_host_is_refused_with_how_to_write_it_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, name: str, url: str, password: str
) -> None:
    with pytest.raises(WrongSetting) as refusal:
        load(monkeypatch, **{name: url.format(password)})
    assert str(refusal.value).startswith(f"CODEHUB_{name}: its host and port can't be read. A password is")
    assert "gehe" not in str(refusal.value)
    address = url.format(password.replace("/", "%2F").replace("[", "%5B").replace("#", "%23"))
    load(monkeypatch, **{name: address.replace("?", "%3F")})


def test_a_database_may_have_several_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://ann:geheim@one:5432,two:5433/codehub"
    database_url = load(monkeypatch, DATABASE_URL=url).database_url
    assert database_url is not None
    assert database_url.get_secret_value() == url


@pytest.mark.parametrize("values", [{"DATA_DIR": "~nobody-at-all/data"}, {}], ids=["another's", "one's own"])
def test_a_home_directory_that_is_not_known_is_told_with_its_setting(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str]
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 7)  # no root, who needs no home
    monkeypatch.setattr(
        os, "getuid", lambda: 2**31 - 7
    )  # and nobody of whom this machine knows where they live
    with pytest.raises(
        WrongSetting, match=r"^CODEHUB_DATA_DIR: the home directory .* is not known. Set HOME, or "
    ):
        load(monkeypatch, **values)


@pytest.mark.parametrize(
    ("workspace_host", "base_url", "remedy"),
    [
        ("ws.example.net", "https://hub.example.org", r"must be \*\. and a name"),
        ("*.ws.example.net", "http://hub.example.org", "over plain http .* CODEHUB_PUBLIC_BASE_URL"),
        ("*.example.org", "https://hub.example.org", "https://hub.example.org, lies below example.org"),
    ],
)
def test_a_place_where_workspaces_can_not_have_origins_is_refused_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, workspace_host: str, base_url: str, remedy: str
) -> None:
    with pytest.raises(WrongSetting, match=f"CODEHUB_WORKSPACE_HOST: .*{remedy}"):
        load(monkeypatch, WORKSPACE_HOST=workspace_host, PUBLIC_BASE_URL=base_url)


@pytest.mark.parametrize(
    ("values", "origin"),
    [
        ({}, "http://{label}.localhost:8000"),
        ({"PORT": "80"}, "http://{label}.localhost"),
        ({"HOST": "0.0.0.0", "PUBLIC_BASE_URL": "http://localhost:9000"}, "http://{label}.localhost:9000"),
        ({"WORKSPACE_HOST": "none"}, None),
        ({"HOST": "0.0.0.0"}, None),
        ({"HOST": "box"}, None),
        ({"PUBLIC_BASE_URL": "http://box:8000"}, None),
        ({"PUBLIC_BASE_URL": "https://code.example.org"}, None),
    ],
)
def test_workspaces_have_origins_by_default_where_codehub_is_reached_on_loopback_alone(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], origin: str | None
) -> None:
    origins, label = load(monkeypatch, **values).workspace_origins, "0" * 20
    assert (origins and origins.origin_of(label)) == (origin and origin.format(label=label))


def test_a_typing_error_is_pointed_out() -> None:
    lines = unknown_settings(
        {"CODEHUB_PROT": "1", "CODEHUB_PORT": "1", "CODEHUB_TOKEN": "x", "CODEHUB_TEST_S3": "y", "HOME": "/"}
    )
    assert lines == ["CODEHUB_PROT is no setting and is ignored: did you mean CODEHUB_PORT?"]
    assert unknown_settings({"CODEHUB_QZX": "1"}) == ["CODEHUB_QZX is no setting and is ignored."]


def test_a_wrong_setting_makes_the_command_exit_with_2(tmp_path: Path) -> None:
    process = codehub("up", data_dir=str(tmp_path / "d"), port="x")
    assert process.returncode == 2
    assert process.stderr.startswith("codehub: CODEHUB_PORT: 'x' won't do")
    assert process.stderr.count("\n") == 1
    assert not (tmp_path / "d").exists()


def test_a_trash_without_end_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch).trash_seconds == 604_800
    assert load(monkeypatch, TRASH_SECONDS="0").trash_seconds == 0
    assert load(monkeypatch, TRASH_SECONDS="never").trash_seconds is None
    for wrong in ("none", "-1", "1.5"):
        with pytest.raises(WrongSetting, match=r"CODEHUB_TRASH_SECONDS: .*`never`"):
            load(monkeypatch, TRASH_SECONDS=wrong)


def test_homes_lie_in_the_data_directory_or_where_they_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEHUB_DATA_DIR", "/srv/codehub")
    assert load(monkeypatch).homes_root == Path("/srv/codehub")
    for place in ("/srv/homes", "/srv/codehub", "/srv/codehub/homes", "/srv"):
        assert load(monkeypatch, HOMES_DIR=place).homes_root == Path(place)


@pytest.mark.parametrize(
    ("homes", "archives", "problem"),
    [
        ("homes", None, "the whole path of a directory"),
        ("~/homes", None, "the whole path of a directory"),
        ("/", None, "the whole path of a directory"),
        ("/srv/codehub/postgres", None, "would lie in one another"),
        ("/srv/codehub/postgres/../archives/x", None, "would lie in one another"),
        ("/srv/codehub/users", None, "would lie in one another"),
        ("/srv/kept/homes", "file:///srv/kept", "would lie in one another"),
        ("/srv/homes", "file:///srv/homes/users/archives", "would lie in one another"),
    ],
)
def test_homes_never_lie_among_other_files(
    monkeypatch: pytest.MonkeyPatch, homes: str, archives: str | None, problem: str
) -> None:
    monkeypatch.setenv("CODEHUB_DATA_DIR", "/srv/codehub")
    if archives is not None:
        monkeypatch.setenv("CODEHUB_ARCHIVE_URL", archives)
    with pytest.raises(WrongSetting, match=rf"CODEHUB_HOMES_DIR: .*{problem}"):
        load(monkeypatch, HOMES_DIR=homes)
