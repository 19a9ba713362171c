"""Which server is asked, with which key; keys stay with their servers and their owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.exit_codes import ExitCode
from tests.heeler_command import HeelerCommand
from tests.unit.cli.stand_in import StandIn

KEY = "a-key-of-work"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "heeler" / "remotes.toml"


def test_a_server_is_kept_used_and_forgotten(command: HeelerCommand, file: Path) -> None:
    command("remote", "add", "work", "https://heeler.example.com/", "--key", input=f"{KEY}\n")
    command("remote", "add", "home", "http://127.0.0.1:8283")
    command("remote", "use", "work")
    listed = command("remote", "list", "--json")
    assert KEY not in listed.out
    assert listed.json == [
        {"name": "home", "url": "http://127.0.0.1:8283", "key": False, "in_use": False},
        {"name": "work", "url": "https://heeler.example.com", "key": True, "in_use": True},
    ]
    command("remote", "remove", "work")
    assert [remote["name"] for remote in command.json("remote", "list")] == ["home"]
    assert KEY not in file.read_text()


def test_only_its_owner_reads_the_file(command: HeelerCommand, file: Path) -> None:
    command("remote", "add", "work", "https://heeler.example.com", "--key", input=KEY)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["remotes.toml"]


def test_a_file_that_others_may_read_is_refused(command: HeelerCommand, file: Path) -> None:
    command("remote", "add", "work", "https://heeler.example.com", "--key", input=KEY)
    file.chmod(0o644)
    ended = command.run("agents", "list", "--remote", "work")
    assert ended.code == ExitCode.FAILED
    assert f"chmod 600 {file}" in ended.err
    assert KEY not in ended.err


def test_a_remote_is_asked_with_its_own_key(command: HeelerCommand, stand_in: StandIn) -> None:
    command("remote", "add", "work", stand_in.url, "--key", input=KEY)
    command("agents", "list", "--remote", "work")
    command("remote", "use", "work")
    command("agents", "list")
    assert stand_in.keys == [f"Bearer {KEY}"] * 2


@pytest.mark.parametrize("how", ["--remote", "use"])
def test_a_key_never_goes_to_another_remote(
    command: HeelerCommand, stand_in: StandIn, how: str
) -> None:
    command.monkeypatch.setenv("HEELER_API_KEY", "of-the-environment")
    command.monkeypatch.setenv("LETTA_API_KEY", "of-the-environment")
    command.monkeypatch.setenv("HEELER_PASSWORD", "of-the-environment")
    command.monkeypatch.setenv("LETTA_CUSTOM_HEADERS", "authorization: of-the-environment")
    command("remote", "add", "work", "https://heeler.example.com", "--key", input=KEY)
    command("remote", "add", "other", stand_in.url)
    if how == "use":
        command("remote", "use", "other")
        command("agents", "list")
    else:
        command("agents", "list", "--remote", "other")
    assert stand_in.keys == [None]


def test_a_remote_that_moves_loses_its_key(command: HeelerCommand, stand_in: StandIn) -> None:
    command("remote", "add", "work", "https://heeler.example.com", "--key", input=KEY)
    command("remote", "add", "work", stand_in.url)
    command("agents", "list", "--remote", "work")
    assert stand_in.keys == [None]


def test_the_option_wins_over_the_environment_and_that_over_what_is_in_use(
    command: HeelerCommand, stand_in: StandIn
) -> None:
    nowhere = "http://127.0.0.1:1"
    command.monkeypatch.setenv("HEELER_API_KEY", "of-the-environment")
    command("remote", "add", "work", nowhere)
    command("remote", "use", "work")
    command.monkeypatch.setenv("HEELER_URL", stand_in.url)
    command("agents", "list")
    command.monkeypatch.setenv("HEELER_URL", nowhere)
    command("agents", "list", "--url", stand_in.url)
    assert stand_in.keys == ["Bearer of-the-environment"] * 2


def test_an_unknown_remote_names_those_that_are_known(command: HeelerCommand) -> None:
    command("remote", "add", "work", "https://heeler.example.com")
    ended = command.run("agents", "list", "--remote", "wrok")
    assert ended.code == ExitCode.NOT_FOUND
    assert ended.err == "There is no remote 'wrok' (there are: work)\n"
