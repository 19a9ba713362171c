"""Output that cannot be written, or not in these characters, and homes that cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.exit_codes import ExitCode
from cli.files_and_json import json_object
from tests.heeler_command import HeelerCommand
from tests.unit.cli.stand_in import StandIn
from tests.walks import CHECKOUT

NAME = "Zoë 🦊"
NOBODY = "http://127.0.0.1:1"


def run(*arguments: str, url: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), "HEELER_URL": url}
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        env=environment | options.pop("environment", {}),
        check=False,
        text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


@pytest.mark.parametrize("arguments", [["man"], ["agents", "list"], ["agents", "list", "--json"]])
def test_a_full_stdout_is_told_in_one_sentence(stand_in: StandIn, arguments: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = run(*arguments, url=stand_in.url, stdout=full)
    assert ended.returncode == ExitCode.FAILED
    assert "The output cannot be written: No space left on device" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_full_stderr_changes_no_exit_code() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert run("agnets", stderr=full).returncode == ExitCode.USAGE
        assert run("logs", "--json", stderr=full).returncode == ExitCode.USAGE


STDIN = [("groups", "send"), ("archives", "passages", "add")]


@pytest.mark.parametrize("words", STDIN, ids=" ".join)
def test_a_stdin_that_is_no_text_is_told_in_one_sentence(words: tuple[str, ...]) -> None:
    strict = {"PYTHONIOENCODING": "utf-8:strict"}
    read, write = os.pipe()
    os.write(write, b"caf\xe9")
    os.close(write)
    with os.fdopen(read) as given:
        ended = run(*words, "agent-1", "-", url=NOBODY, stdin=given, environment=strict)
    assert ended.returncode == ExitCode.FAILED
    assert ended.stderr.startswith("stdin is no text in UTF-8: ")
    assert len(ended.stderr.splitlines()) == 1


def test_a_closed_stdin_is_an_empty_one(stand_in: StandIn) -> None:
    words = 'exec "$0" -m cli groups delete group-1 <&-'
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), "HEELER_URL": NOBODY}
    ended = subprocess.run(
        ["/bin/sh", "-c", words, sys.executable],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_line_that_is_no_text_does_not_end_a_chat(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT)}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.unit.cli.chat_program", str(tmp_path / "never")],
        env={**environment, "PYTHONIOENCODING": "utf-8:surrogateescape"},
        input=b"caf\xe9\nHello\n",
        capture_output=True,
        check=True,
    )
    assert ended.stdout.decode() == "MESSAGE 'Hello'\n"
    assert "bytes that are no UTF-8, and was not sent" in ended.stderr.decode()


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_closed_stream_is_no_error(stand_in: StandIn, closed: str) -> None:
    stand_in.body = [{"name": "ada", "id": "agent-1"}]
    words = f'exec "$0" -m cli agents list {closed}>&-'
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT)}
    ended = subprocess.run(
        ["/bin/sh", "-c", words, sys.executable],
        env={**environment, "HEELER_URL": stand_in.url},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (ExitCode.OK, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["agents", "get", "\udcff"],
        ["agents", "send", "ada", "\udcff bad"],
        ["tools", "run", "tool-1", '{"a":' + "[" * 100_000],
    ],
    ids=["name", "text", "deep JSON"],
)
def test_what_cannot_be_sent_is_told_in_one_sentence(
    command: HeelerCommand, stand_in: StandIn, arguments: list[str]
) -> None:
    stand_in.body = [{"name": "ada", "id": "agent-1"}]
    ended = command.run(*arguments, "--url", stand_in.url)
    assert (ended.code, ended.out) == (ExitCode.USAGE, "")
    assert len(ended.err.splitlines()) == 1


def test_a_mark_before_json_counts_for_nothing() -> None:
    assert json_object("\ufeff{}", "The arguments") == {}


def test_a_closed_stdout_takes_names_that_are_no_utf_8(tmp_path: Path) -> None:
    words = f'exec "$0" -m cli validate --json "{tmp_path}/$(printf "\\377").toml" >&-'
    ended = subprocess.run(
        ["/bin/sh", "-c", words, sys.executable],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT)},
        check=False,
        capture_output=True,
    )
    assert b"Traceback" not in ended.stderr


def test_characters_that_stdout_does_not_have_are_written_as_numbers(stand_in: StandIn) -> None:
    ascii_alone = {"PYTHONIOENCODING": "ascii"}
    stand_in.body = [{"name": NAME, "id": "agent-1"}]
    ended = run("agents", "list", url=stand_in.url, environment=ascii_alone)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Zo\\xeb \\U0001f98a" in ended.stdout
    ended = run("agents", "list", "--json", url=stand_in.url, environment=ascii_alone)
    assert json.loads(ended.stdout) == stand_in.body
    ended = run("agents", "get", NAME + "?", url=stand_in.url, environment=ascii_alone)
    assert ended.returncode == ExitCode.NOT_FOUND
    assert "Zo\\xeb \\U0001f98a" in ended.stderr


def test_stdout_and_stderr_come_in_order_where_both_are_one_pipe(tmp_path: Path) -> None:
    program = "from cli.output import *; write('1'); say('2'); write('3'); warn('4'); write('5')"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    assert ended.stdout.split() == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("arguments", [["logs"], ["man"], ["completion", "bash"]])
def test_what_prints_no_json_refuses_to(command: HeelerCommand, arguments: list[str]) -> None:
    ended = command.run(*arguments, "--json")
    assert (ended.code, ended.out) == (ExitCode.USAGE, "")
    assert "prints no JSON: leave out --json" in ended.error["error"]


def test_what_asks_no_server_takes_no_address(command: HeelerCommand) -> None:
    ended = command.run("man", "--url", "http://a")
    assert (ended.code, ended.out) == (ExitCode.USAGE, "")
    assert "`heeler man` asks no server: leave out --url" in ended.err


def test_commands_ask_a_server_without_any_home(command: HeelerCommand, stand_in: StandIn) -> None:
    command.monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
    command.monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    command.monkeypatch.setattr("cli.server._local_url", lambda environment: stand_in.url)
    assert command.json("agents", "list") == []
