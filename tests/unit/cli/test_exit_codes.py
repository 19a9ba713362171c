"""How the command ends, and where it says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.exit_codes import MEANINGS, ExitCode
from tests.heeler_command import HeelerCommand
from tests.unit.cli.stand_in import StandIn

CHECKOUT = Path(__file__).parents[3]


def process(*arguments: str, url: str, **options: Any) -> subprocess.Popen[str]:
    """The command as a process of its own."""
    environment = {"PATH": os.environ["PATH"], "HEELER_URL": url, "PYTHONPATH": str(CHECKOUT)}
    return subprocess.Popen(
        [sys.executable, "-m", "cli", *arguments],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, ExitCode.REFUSED),
        (401, ExitCode.UNREACHABLE),
        (403, ExitCode.UNREACHABLE),
        (404, ExitCode.NOT_FOUND),
        (409, ExitCode.REFUSED),
        (422, ExitCode.REFUSED),
        (500, ExitCode.FAILED),
    ],
)
def test_the_answer_of_the_server_is_an_exit_code(
    command: HeelerCommand, stand_in: StandIn, status: int, code: ExitCode
) -> None:
    stand_in.status = status
    stand_in.body = {"detail": "That is why."}
    command.monkeypatch.setattr("letta_client._base_client.INITIAL_RETRY_DELAY", 0.001)
    ended = command.run("agents", "list", "--url", stand_in.url)
    assert ended.code == code
    assert ended.out == ""
    assert ended.err.startswith("That is why.")
    assert "Traceback" not in ended.err


def test_errors_of_fields_name_each_field(command: HeelerCommand, stand_in: StandIn) -> None:
    stand_in.status = 422
    stand_in.body = {
        "detail": [
            {"loc": ["body", "model"], "msg": "no such model", "type": "value_error"},
            {"loc": ["body", "tags", 1], "msg": "too long", "type": "value_error"},
        ]
    }
    ended = command.run("agents", "list", "--url", stand_in.url)
    assert ended.err.splitlines() == ["model: no such model", "tags.1: too long"]


def test_with_json_an_error_is_one_document_on_stderr(
    command: HeelerCommand, stand_in: StandIn
) -> None:
    stand_in.status = 404
    stand_in.body = {"detail": "Agent not found"}
    ended = command.run("agents", "list", "--json", "--url", stand_in.url)
    assert ended.out == ""
    assert ended.error == {"error": "Agent not found", "exit_code": 3}


def test_a_wrong_key_says_how_to_give_one(command: HeelerCommand, stand_in: StandIn) -> None:
    stand_in.status = 401
    stand_in.body = {"detail": "Unauthorized"}
    command.monkeypatch.setenv("HEELER_API_KEY", "wrong")
    ended = command.run("agents", "list", "--url", stand_in.url)
    assert ended.code == ExitCode.UNREACHABLE
    assert "HEELER_API_KEY" in ended.err
    assert "wrong" not in ended.err


def test_where_no_server_answers_the_command_says_how_to_start_one(
    command: HeelerCommand,
) -> None:
    command.monkeypatch.setattr("letta_client._base_client.INITIAL_RETRY_DELAY", 0.001)
    ended = command.run("agents", "list", "--url", "http://127.0.0.1:1")
    assert ended.code == ExitCode.UNREACHABLE
    assert ended.err == (
        "No server answers at http://127.0.0.1:1: start one with `heeler up`, "
        "or name another with --url or --remote\n"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["agnets"], "No such command 'agnets'. Did you mean 'agents'?"),
        (["agents", "lits"], "list"),
        (["agents", "list", "--limti", "3"], "--limit"),
        (["agents", "list", "--limit", "many"], "--limit"),
        (["agents", "get"], "Missing argument 'AGENT'"),
        (["agents", "list", "--url", "http://a", "--remote", "b"], "not both"),
        (["agents", "list", "--url", "here:8283"], "write it as http://"),
        (["down", "--url", "http://a"], "`heeler down` is for the server on this machine"),
        (["--remote", "b", "admin", "backup", "x"], "on this machine: leave out --remote"),
        (["watch", "--json"], "prints no JSON: leave out --json"),
        (["psql", "--json"], "prints no JSON: leave out --json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_typed_wrong_ends_with_2(
    command: HeelerCommand, arguments: list[str], text: str
) -> None:
    ended = command.run(*arguments)
    assert (ended.code, ended.out) == (ExitCode.USAGE, "")
    assert text in ended.err
    ended = command.run(*arguments, "--json")
    assert (ended.code, ended.out) == (ExitCode.USAGE, "")
    assert text in ended.error["error"]


def test_the_options_of_every_command_may_stand_before_it(
    command: HeelerCommand, stand_in: StandIn
) -> None:
    stand_in.body = [{"name": "ada", "id": "agent-1"}]
    assert command("--json", "--url", stand_in.url, "agents", "list").json == stand_in.body
    assert command("agents", "--json", "list", "--url", stand_in.url).json == stand_in.body


def test_an_earlier_call_leaves_no_options_behind(
    command: HeelerCommand, stand_in: StandIn
) -> None:
    command("agents", "list", "--json", "--url", stand_in.url)
    assert command("agents", "list", "--url", stand_in.url).out == "NAME  ID  MODEL  CREATED\n"


def test_a_pipe_that_closes_ends_the_command_quietly(stand_in: StandIn) -> None:
    stand_in.body = [{"name": "n" * 50, "id": f"agent-{number}"} for number in range(5000)]
    arguments = ("agents", "list", "--limit", "5001")
    with process(*arguments, url=stand_in.url, stdout=subprocess.PIPE) as listing:
        assert listing.stdout
        assert listing.stderr
        assert listing.stdout.readline().startswith("NAME")
        listing.stdout.close()
        assert listing.stderr.read() == ""
    assert listing.returncode == ExitCode.CLOSED_PIPE


def test_a_pipe_that_is_closed_before_a_short_output(stand_in: StandIn) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with process("agents", "list", url=stand_in.url, stdout=writing) as listing:
        assert listing.stderr
        assert listing.stderr.read() == ""
    os.close(writing)
    assert listing.returncode == ExitCode.CLOSED_PIPE


def test_control_c_ends_with_130(command: HeelerCommand) -> None:
    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)

    command.monkeypatch.setattr("cli.agents.server", interrupt)
    ended = command.run("agents", "list")
    assert (ended.code, ended.out) == (ExitCode.INTERRUPTED, "")
    assert "Traceback" not in ended.err


def test_an_address_of_something_else_is_told_so(command: HeelerCommand, stand_in: StandIn) -> None:
    stand_in.body = {"hello": "world"}
    ended = command.run("agents", "list", "--url", stand_in.url)
    assert (ended.code, ended.out) == (ExitCode.UNREACHABLE, "")
    assert f"{stand_in.url} does not answer as a Heeler does" in ended.err


def test_of_many_of_one_name_some_ids_are_shown(command: HeelerCommand, stand_in: StandIn) -> None:
    stand_in.body = [{"name": "ada", "id": f"agent-{number}"} for number in range(100)]
    ended = command.run("agents", "get", "ada", "--url", stand_in.url)
    assert ended.code == ExitCode.REFUSED
    assert ended.err.startswith("At least 100 agents are called 'ada'")
    assert ended.err.endswith("agent-8, agent-9, ...)\n")


def test_the_version_may_be_asked_as_of_other_commands(
    command: HeelerCommand, stand_in: StandIn
) -> None:
    command.monkeypatch.setenv("HEELER_URL", stand_in.url)
    assert command("--version").out == command("version").out


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (PermissionError(13, "Permission denied", "/a/lock"), "No access to /a/lock: it belongs"),
        (OSError(28, "No space left on device", "/a/file"), "/a/file: No space left on device"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    command: HeelerCommand, monkeypatch: pytest.MonkeyPatch, problem: OSError, said: str
) -> None:
    def fail() -> None:
        raise problem

    monkeypatch.setattr("deploy.embedded.settings.read_settings_of_home", fail)
    ended = command.run("status")
    assert (ended.code, ended.out) == (ExitCode.FAILED, "")
    assert ended.err.startswith(said)
