"""`heeler` for the operator of a server on this machine: logs, database, bus, backups."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest

from cli.exit_codes import ExitCode
from tests.e2e.asking import unique
from tests.e2e.conftest import NewTool
from tests.heeler_command import HeelerCommand
from tests.servers import HeelerInstance

NOBODY = "letter-11111111-1111-4111-8111-111111111111"


@pytest.fixture
def on_this_machine(heeler_command: HeelerCommand, heeler: HeelerInstance) -> HeelerCommand:
    """The command on the machine of that server."""
    heeler_command.monkeypatch.setenv("HEELER_HOME", str(heeler.home))
    return heeler_command


def test_the_version_of_the_server_is_shown_if_one_answers(heeler_command: HeelerCommand) -> None:
    shown = heeler_command.json("version")
    assert shown["server"] == f"heeler {shown['version']}"
    assert shown["letta"] == "0.16.8"
    alone = heeler_command.json("version", "--url", "http://127.0.0.1:1")
    assert (alone["version"], alone["server"]) == (shown["version"], None)


def test_logs_are_shown_of_one_part(
    on_this_machine: HeelerCommand, capfd: pytest.CaptureFixture[str]
) -> None:
    on_this_machine("logs", "supervisor", "--no-follow", "-n", "1")
    [line] = capfd.readouterr().out.splitlines()
    assert "started, pid" in line
    wrong = on_this_machine.run("logs", "agnt", "--no-follow")
    assert (wrong.code, "'agent'" in wrong.err) == (ExitCode.NOT_FOUND, True)


def test_the_database_answers_sql(
    on_this_machine: HeelerCommand, capfd: pytest.CaptureFixture[str]
) -> None:
    on_this_machine("psql", "-tAc", "select count(*) from agent.relay")
    assert capfd.readouterr().out == "1\n"
    assert on_this_machine.run("psql", "-c", "select nothing").code != 0


def test_the_bus_is_watched(on_this_machine: HeelerCommand, http: httpx.Client) -> None:
    label, seen = unique("label"), threading.Event()

    def make_blocks() -> None:
        while not seen.wait(0.1):
            made = http.post("/v1/blocks", json={"label": label, "value": "x"}).json()
            http.delete(f"/v1/blocks/{made['id']}")

    maker = threading.Thread(target=make_blocks)
    maker.start()
    try:
        shown = on_this_machine("watch", "--count", "1").out
    finally:
        seen.set()
        maker.join()
    assert ".event." in shown


def test_read_models_are_compared_and_rebuilt(
    on_this_machine: HeelerCommand, new_tool: NewTool
) -> None:
    new_tool("return 'six'")
    [tools] = on_this_machine.json("admin", "rebuild", "--check", "--service", "tools")
    assert (tools["service"], tools["changed"]) == ("tools", {})
    assert tools["events"] > 0
    rebuilt = on_this_machine("admin", "rebuild", "--service", "tools").out
    assert "rows changed: none" in rebuilt
    for words in (["--table", "tools"], ["--service", "toolz"]):
        assert on_this_machine.run("admin", "rebuild", *words).code == ExitCode.USAGE


def test_a_backup_is_written_and_not_restored_over_what_is_there(
    on_this_machine: HeelerCommand, tmp_path: Path, http: httpx.Client
) -> None:
    http.post("/v1/blocks", json={"label": unique("label"), "value": "x"})
    file = tmp_path / "heeler.dump"
    assert on_this_machine("admin", "backup", str(file)).out == f"{file}\n"
    assert file.read_bytes().startswith(b"PGDMP")
    assert file.stat().st_mode & 0o777 == 0o600
    refused = on_this_machine.run("admin", "restore", str(file))
    assert refused.code == ExitCode.FAILED
    assert "blocks" in refused.err
    nowhere = on_this_machine.run("admin", "backup", str(tmp_path / "no" / "file"))
    assert (nowhere.code, nowhere.out) == (ExitCode.FAILED, "")


def test_without_a_server_the_operator_is_told_to_start_one(
    heeler_command: HeelerCommand, tmp_path: Path
) -> None:
    for words in (["psql"], ["watch"], ["logs"], ["admin", "backup", "x"], ["admin", "rebuild"]):
        ended = heeler_command.run(*words)
        assert (ended.code, ended.out) == (ExitCode.FAILED, ""), words
        assert " up" in ended.err, words


def test_what_no_service_gave_up_is_not_found(heeler_command: HeelerCommand) -> None:
    for verb in ("show", "replay"):
        ended = heeler_command.run("admin", "dead-letters", verb, NOBODY)
        assert ended.code == ExitCode.NOT_FOUND
    assert heeler_command.run("admin", "dead-letters", "discard", NOBODY).code == ExitCode.USAGE
