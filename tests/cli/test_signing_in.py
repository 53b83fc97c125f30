"""Signing in on a machine: the token is kept for its user alone, sent to one server alone, and ends with `logout`."""

import asyncio
import json
import stat
from pathlib import Path

import pytest
from tests.support.command import Command
from tests.support.site import PASSWORD, Site

from codehub.cli.account import Account, find_account, normal_url
from codehub.cli.failures import Failed


async def signed_in(site: Site, home: Path) -> Command:
    await site.user("ann")
    command = Command(home)
    name = site.prefix + "ann"
    told = await command("login", site.address, "--username", name, "--password-stdin", stdin=f"{PASSWORD}\n")
    assert told.code == 0, told.err
    assert PASSWORD not in told.out + told.err
    return command


async def test_a_person_signs_in_once_and_stays_signed_in(living_site: Site, tmp_path: Path) -> None:
    command = await signed_in(living_site, tmp_path)
    kept = tmp_path / ".config/codehub/login.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    token = json.loads(kept.read_text())["token"]
    assert (await command("ws", "list", "--json")).json == []
    (listed,) = (await command("token", "list", "--json")).json
    assert listed["name"].startswith("codehub login on ")
    assert listed["expires_at"] is not None
    assert (await command("logout")).out == f"Signed out of {living_site.address}.\n"
    assert not kept.exists()
    assert (await command("ws", "list", url=living_site.address, token=token)).code == 3
    assert (await command("logout")).code == 3


async def test_signing_in_again_ends_the_token_that_it_replaces(living_site: Site, tmp_path: Path) -> None:
    command = await signed_in(living_site, tmp_path)
    first = json.loads((tmp_path / ".config/codehub/login.json").read_text())["token"]
    await signed_in(living_site, tmp_path)
    assert len((await command("token", "list", "--json")).json) == 1
    assert (await command("ws", "list", url=living_site.address, token=first)).code == 3
    # The very token that is kept already is not ended by bringing it along.
    kept = json.loads((tmp_path / ".config/codehub/login.json").read_text())["token"]
    assert (await command("login", living_site.address, "--token-stdin", stdin=f"{kept}\n")).code == 0
    assert (await command("ws", "list")).code == 0


async def test_a_wrong_password_keeps_nothing(living_site: Site, tmp_path: Path) -> None:
    await living_site.user("ann")
    arguments = ("login", living_site.address, "-u", living_site.prefix + "ann", "--password-stdin")
    told = await Command(tmp_path)(*arguments, stdin="wrong\n")
    assert (told.code, told.out) == (3, "")
    assert "wrong" in told.err
    assert not (tmp_path / ".config").exists()


async def test_a_token_is_kept_as_well(living_site: Site, command: Command, tmp_path: Path) -> None:
    word = command.settings["token"]
    fresh = Command(tmp_path / "fresh")
    told = await fresh("login", living_site.address, "--token-stdin", "--json", stdin=f"{word}\n")
    assert told.json == {"url": living_site.address, "username": living_site.prefix + "ann"}
    assert (await fresh("ws", "list")).code == 0
    assert (await fresh("login", living_site.address, "--token-stdin", stdin="cht_no\n")).code == 3


async def test_nobody_is_asked_where_nobody_is(tmp_path: Path) -> None:
    told = await Command(tmp_path)("login", "http://127.0.0.1:1", "--username", "ann")
    assert (told.code, "--password-stdin" in told.err) == (2, True)


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
    changed = await command("password", "--stdin", stdin=f"{PASSWORD}\nanother horse\n")
    assert (changed.code, changed.out) == (0, "Your password is changed.\n")
    login = ("login", living_site.address, "-u", living_site.prefix + "ann", "--password-stdin")
    assert (await Command(tmp_path / "new")(*login, stdin=f"{PASSWORD}\n")).code == 3
    assert (await Command(tmp_path / "new")(*login, stdin="another horse\n")).code == 0


async def test_a_token_is_made_shown_once_and_deleted(command: Command) -> None:
    made = await command("token", "create", "ci", "--scope", "read", "--expires", "30d")
    word = made.out.strip()
    assert word.startswith("cht_")
    assert word not in made.err
    assert (await command("ws", "list", token=word)).code == 0
    listed = (await command("token", "list")).out
    assert word not in listed
    assert "ci" in listed
    assert (await command("token", "delete", "ci")).out == "Deleted ci.\n"
    assert (await command("ws", "list", token=word)).code == 3


def test_the_environment_goes_first(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert find_account(home) == Account("http://127.0.0.1:8000", None)
    given = {**home, "CODEHUB_URL": "https://code.example.org/", "CODEHUB_TOKEN": "cht_a"}
    assert find_account(given) == Account("https://code.example.org", "cht_a")


@pytest.mark.parametrize(
    "text",
    [
        "ftp://x",
        "http://",
        "http://ann:secret@host",
        "http://ann:secret@host:port",
        "http://host:port",
        "http://[::1",
    ],
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Failed) as refused:
        normal_url(text)
    assert "secret" not in refused.value.message


async def test_a_damaged_login_file_is_named(tmp_path: Path) -> None:
    kept = tmp_path / ".config/codehub/login.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{")
    told = await Command(tmp_path)("ws", "list")
    assert told.code == 2
    assert str(kept) in told.err
