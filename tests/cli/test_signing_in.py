"""Signing in on a machine: the token is stored for its user, sent to one server, ends with `logout`."""

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest
from tests.support.command import Command
from tests.support.site import PASSWORD, Site

from codehub.cli.account import Account, find_account, normalise_url
from codehub.cli.failures import Failed
from codehub.error_codes import Exit


async def signed_in(site: Site, home: Path) -> Command:
    await site.user("ann")
    command = Command(home)
    name = site.prefix + "ann"
    output = await command(
        "login", site.address, "--username", name, "--password-stdin", stdin=f"{PASSWORD}\n"
    )
    assert output.code == 0, output.err
    assert PASSWORD not in output.out + output.err
    return command


async def test_a_person_signs_in_once_and_stays_signed_in(living_site: Site, tmp_path: Path) -> None:
    command = await signed_in(living_site, tmp_path)
    login_file = tmp_path / ".config/codehub/login.json"
    assert stat.S_IMODE(login_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(login_file.parent.stat().st_mode) == 0o700
    token = json.loads(login_file.read_text())["token"]
    assert (await command("ws", "list", "--json")).json == []
    (item,) = (await command("token", "list", "--json")).json
    assert item["name"].startswith("codehub login on ")
    assert item["expires_at"] is not None
    assert (await command("logout")).out == f"Signed out of {living_site.address}.\n"
    assert not login_file.exists()
    assert (await command("ws", "list", url=living_site.address, token=token)).code == 3
    assert (await command("logout")).code == 3


async def test_signing_in_again_ends_the_token_that_it_replaces(living_site: Site, tmp_path: Path) -> None:
    command = await signed_in(living_site, tmp_path)
    first = json.loads((tmp_path / ".config/codehub/login.json").read_text())["token"]
    await signed_in(living_site, tmp_path)
    assert len((await command("token", "list", "--json")).json) == 1
    assert (await command("ws", "list", url=living_site.address, token=first)).code == 3
    # The very token that is kept already is not ended by bringing it along.
    token = json.loads((tmp_path / ".config/codehub/login.json").read_text())["token"]
    assert (await command("login", living_site.address, "--token-stdin", stdin=f"{token}\n")).code == 0
    assert (await command("ws", "list")).code == 0


async def test_a_wrong_password_keeps_nothing(living_site: Site, tmp_path: Path) -> None:
    await living_site.user("ann")
    arguments = ("login", living_site.address, "-u", living_site.prefix + "ann", "--password-stdin")
    output = await Command(tmp_path)(*arguments, stdin="wrong\n")
    assert (output.code, output.out) == (3, "")
    assert "wrong" in output.err
    assert not (tmp_path / ".config").exists()


async def test_a_token_is_kept_as_well(living_site: Site, command: Command, tmp_path: Path) -> None:
    word = command.settings["token"]
    fresh = Command(tmp_path / "fresh")
    output = await fresh("login", living_site.address, "--token-stdin", "--json", stdin=f"{word}\n")
    assert output.json == {"url": living_site.address, "username": living_site.prefix + "ann"}
    assert (await fresh("ws", "list")).code == 0
    assert (await fresh("login", living_site.address, "--token-stdin", stdin="cht_no\n")).code == 3


async def test_without_a_terminal_nobody_is_asked_for_a_password(tmp_path: Path) -> None:
    output = await Command(tmp_path)("login", "http://127.0.0.1:1", "--username", "ann")
    assert (output.code, "--password-stdin" in output.err) == (2, True)


async def test_the_kept_token_is_sent_to_no_other_server(living_site: Site, tmp_path: Path) -> None:
    command = await signed_in(living_site, tmp_path)
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        await command("ws", "list", url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert heads
    assert not any(b"uthorization" in head or b"cht_" in head for head in heads)


async def test_a_password_is_changed_by_whoever_knows_the_old_one(living_site: Site, tmp_path: Path) -> None:
    command = await signed_in(living_site, tmp_path)
    assert (await command("password", "--stdin", stdin="wrong\nanother horse\n")).code == 3
    change = await command("password", "--stdin", stdin=f"{PASSWORD}\nanother horse\n")
    assert (change.code, change.out) == (0, "Your password is changed.\n")
    login = ("login", living_site.address, "-u", living_site.prefix + "ann", "--password-stdin")
    assert (await Command(tmp_path / "new")(*login, stdin=f"{PASSWORD}\n")).code == 3
    assert (await Command(tmp_path / "new")(*login, stdin="another horse\n")).code == 0


async def test_a_token_is_made_shown_once_and_deleted(command: Command) -> None:
    output = await command("token", "create", "ci", "--scope", "read", "--expires", "30d")
    word = output.out.strip()
    assert word.startswith("cht_")
    assert word not in output.err
    assert (await command("ws", "list", token=word)).code == 0
    listing = (await command("token", "list")).out
    assert word not in listing
    assert "ci" in listing
    assert (await command("token", "delete", "ci")).out == "Deleted ci.\n"
    assert (await command("ws", "list", token=word)).code == 3


def test_the_environment_takes_precedence(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert find_account(home) == Account("http://127.0.0.1:8000", None)
    environ = {**home, "CODEHUB_URL": "https://code.example.org/", "CODEHUB_TOKEN": "cht_a"}
    assert find_account(environ) == Account("https://code.example.org", "cht_a")


def test_with_both_variables_set_neither_file_nor_home_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)  # nobody of whom this machine knows where they live
    environ = {"CODEHUB_URL": "https://code.example.org", "CODEHUB_TOKEN": "cht_a"}
    assert find_account(environ) == Account("https://code.example.org", "cht_a")
    with pytest.raises(Failed, match=r"your home directory, .* is not known") as refusal:
        find_account({})
    assert refusal.value.exit is Exit.USAGE


@pytest.mark.parametrize(
    "text",
    [
        "ftp://x",
        "http://",
        "http://ann:secret@host",
        "http://ann:secret@host:port",
        "http://host:port",
        "http://[::1",
        "http://a b",
        "http://a\nb",
        "http://host/a b",
        "http://host/\u00e9",
        "http://host\udcff",
        f"http://{'x' * 70}.example",
        "http://a..example",
    ],
    ids=ascii,
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(Failed) as refusal:
        normalise_url(text)
    assert refusal.value.exit is Exit.USAGE
    assert "secret" not in refusal.value.message


@pytest.mark.parametrize("url", ["http://[::1]:8000", "https://b\u00fccher.example", "http://host/below"])
def test_every_form_of_address_is_accepted(url: str) -> None:
    assert normalise_url(f"{url}/") == url


@pytest.mark.parametrize(
    "token", ["cht_geheim\n", "cht_\x01geheim", "cht_geheim\u00e9", "cht_geheim\udcff"], ids=ascii
)
async def test_an_invalid_token_is_refused_and_not_repeated(tmp_path: Path, token: str) -> None:
    command = Command(tmp_path, {"url": "http://127.0.0.1:1"})
    for_people = await command("ws", "list", token=token)
    for_programs = await command("ws", "list", "--json", token=token)
    assert (for_people.code, for_programs.code, for_programs.json["error"]["code"]) == (2, 2, "USAGE")
    assert "geheim" not in for_people.out + for_people.err + for_programs.out + for_programs.err
    assert "Traceback" not in for_people.err


@pytest.mark.parametrize(
    "damaged",
    [
        "{",
        '{"url": "http://a b", "token": "cht_geheim"}',
        '{"url": "http://127.0.0.1:1", "token": "cht_geheim\\n"}',
        '{"url": "http://127.0.0.1:1", "token": 5}',
    ],
)
async def test_a_damaged_login_file_is_named(tmp_path: Path, damaged: str) -> None:
    login_file = tmp_path / ".config/codehub/login.json"
    login_file.parent.mkdir(parents=True)
    login_file.write_text(damaged)
    output = await Command(tmp_path)("ws", "list")
    assert output.code == 2
    assert str(login_file) in output.err
    assert "geheim" not in output.err


async def test_a_password_that_is_no_text_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:strict")  # as it is in most languages but C's
    process = await Command(tmp_path).started("login", "http://127.0.0.1:1", "-u", "ann", "--password-stdin")
    out, err = await process.communicate(b"geheim\xff\n")
    assert (process.returncode, out) == (2, b"")
    assert err == b"codehub: what came on stdin is not text in UTF-8\n"


async def test_a_token_that_can_not_be_stored_is_ended(
    living_site: Site, command: Command, tmp_path: Path
) -> None:
    directory = tmp_path / "full" / ".config/codehub"
    directory.parent.mkdir(parents=True)
    directory.symlink_to("nowhere")  # no directory can be made there, not even by root
    login = ("login", living_site.address, "-u", living_site.prefix + "ann", "--password-stdin")
    output = await Command(tmp_path / "full")(*login, stdin=f"{PASSWORD}\n")
    assert (output.code, output.out) == (1, "")
    assert output.err == f"codehub: {directory}/login.json can't be written (File exists)\n"
    assert len((await command("token", "list", "--json")).json) == 1, "the test's own"


async def test_a_token_of_the_environment_is_named_when_it_opens_nothing(
    living_site: Site, tmp_path: Path
) -> None:
    command = await signed_in(living_site, tmp_path)
    refusal = await command("ws", "list", token="cht_wrong")
    assert (refusal.code, "CODEHUB_TOKEN" in refusal.err, "login http" in refusal.err) == (3, True, False)
    name = living_site.prefix + "ann"
    login = ("login", living_site.address, "-u", name, "--password-stdin")
    assert "CODEHUB_TOKEN is set" in (await command(*login, stdin=f"{PASSWORD}\n", token="cht_wrong")).err


async def test_tokens_of_one_name_are_told_apart(command: Command) -> None:
    for expires in ("never", "30d"):
        assert (await command("token", "create", "ci", "--expires", expires)).code == 0
    output = await command("token", "delete", "ci")
    assert output.code == 2
    assert "  used never, expires never\n" in output.err
    assert "  used never, expires 20" in output.err
