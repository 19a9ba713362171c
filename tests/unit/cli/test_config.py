"""`heeler config`: what is set and by what; what is wrong is said before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from libs.contracts.configuration.catalogue import KEYS
from tests.heeler_command import HeelerCommand
from tests.unit.cli.stand_in import StandIn

SECRET = "hunter2"


@pytest.fixture
def file(command: HeelerCommand, tmp_path: Path) -> Path:
    """A configuration file in the home of the server."""
    (tmp_path / "server").mkdir()
    path = tmp_path / "server" / "heeler.toml"
    path.write_text(
        f'[server]\nport = 8301\nreplicas = 2\nprot = 1\n[models.openai]\napi_key = "{SECRET}"\n'
    )
    path.chmod(0o600)
    return path


def test_each_key_is_shown_with_what_sets_it(
    command: HeelerCommand, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEELER_REPLICAS", "3")
    rows = {row["key"]: row for row in command.json("config", "show")}

    assert [*rows] == [key.name for key in KEYS]
    assert rows["server.port"]["value"] == "8301"
    assert rows["server.port"]["origin"] == {"kind": "file", "where": f"{file}:2"}
    assert rows["server.replicas"]["value"] == "3"
    assert rows["server.replicas"]["origin"] == {"kind": "environment", "where": "HEELER_REPLICAS"}
    assert rows["server.host"]["origin"]["kind"] == "default"
    assert rows["models.openai.api_key"]["value"] == "********"

    shown = command("config", "show", "--origin")
    (line,) = [line for line in shown.out.splitlines() if line.startswith("server.port ")]
    assert line.split() == ["server.port", "8301", "heeler.toml:2"]
    assert str(file) in shown.err
    assert SECRET not in shown.out + shown.err


def test_an_address_is_shown_without_what_lets_in(
    command: HeelerCommand, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", f"https://me:{SECRET}/@host:1/v1?key={SECRET}")
    monkeypatch.setenv("HEELER_PACKAGE_INDEX", f"https://{SECRET}@host/simple")
    shown = command("config", "show").out
    assert SECRET not in shown
    assert "https://********@host:1/v1?********" in shown
    assert "https://********@host/simple" in shown


def test_what_nobody_reads_is_named_once(
    command: HeelerCommand, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LETTA_TEAPOT", "x")
    for verb in ("show", "validate"):
        said = command("config", verb).err
        assert said.count("there is no key server.prot: did you mean server.port?") == 1
        assert said.count("LETTA_TEAPOT is not used") == 1


def test_one_value_is_printed_alone(command: HeelerCommand, file: Path) -> None:
    assert command("config", "get", "server.port").out == "8301\n"
    assert SECRET not in command("config", "get", "models.openai.api_key").out
    unknown = command.run("config", "get", "server.prot")
    assert unknown.code == 3
    assert "Did you mean 'server.port'?" in unknown.err


def test_what_a_service_would_refuse_is_found_with_its_line(
    command: HeelerCommand, file: Path
) -> None:
    assert command.json("config", "validate")["problems"] == []
    file.write_text('[server]\nlog_level = "loud"\n[runs]\nseconds_max = 0\n')
    refused = command.run("config", "validate", "--json")
    assert refused.code == 4
    log_level, seconds = refused.json["problems"]
    assert log_level.startswith(f"{file}:2: server.log_level: HEELER_LOG_LEVEL is 'loud'")
    assert seconds.startswith(f"{file}:4: runs.seconds_max: HEELER_RUN_SECONDS_MAX is '0'")


def test_the_password_and_the_address_of_the_file_lead_to_the_server(
    command: HeelerCommand, file: Path
) -> None:
    from cli.server import address

    file.write_text(f'[server]\nport = 8301\npassword = "{SECRET}"\n')
    assert address().url == "http://127.0.0.1:8301"
    assert address().key == SECRET


def test_who_waits_for_a_reload_is_told_that_the_server_was_stopped(
    command: HeelerCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cli.exit_codes import CommandError
    from cli.reloads import read_of
    from deploy.embedded.applied_configuration import AppliedConfiguration
    from deploy.embedded.state import ProcessMark

    (tmp_path / "server").mkdir()
    gone, applied = ProcessMark(2**22 + 1, 0.0), AppliedConfiguration()
    attempt = applied.begin()
    applied.write(tmp_path / "server")
    with pytest.raises(CommandError, match="was stopped meanwhile"):
        read_of(gone, 1)
    attempt.status = "applied"
    applied.write(tmp_path / "server")
    assert read_of(gone, 1)["reloads"][0]["status"] == "applied"
    with pytest.raises(CommandError, match="was stopped meanwhile"):
        read_of(gone, 2)


def test_who_reloads_a_new_password_from_afar_is_told_to_give_it(
    command: HeelerCommand, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cli.exit_codes import CommandError
    from cli.reloads import read_remote

    monkeypatch.setenv("HEELER_URL", stand_in.url)
    stand_in.body = {"version": 1}
    assert read_remote() == {"version": 1}
    stand_in.status = 401
    with pytest.raises(CommandError, match="that of the new configuration holds"):
        read_remote()
