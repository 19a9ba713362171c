"""What is printed, on a terminal and elsewhere."""

from __future__ import annotations

import io
import json
import sys

import pytest

from cli import output
from cli.options import OPTIONS
from tests.heeler_command import HeelerCommand
from tests.unit.cli.stand_in import StandIn

RED = "\x1b[31mred\x1b[0m"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_no_control_sequences_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    output.show_text(f"{RED}\x9b2J\u202e\r\n\tend")
    output.show({"name": RED}, {"name": "name"})
    output.show_rows([{"name": RED}], {"name": "name"})
    assert terminal.getvalue() == ("[31mred[0m2J\n\tend\nname  [31mred[0m\nNAME\n[31mred[0m\n")


def test_a_file_gets_the_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    output.show_text(RED)
    assert file.getvalue() == f"{RED}\n"


def test_json_keeps_every_character_and_prints_none_that_steers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    text = f"{RED}\x9b2J\x7f\u202e é 🦊"
    output.show_json({"text": text})
    assert json.loads(file.getvalue()) == {"text": text}
    assert output.UNSAFE.sub("", file.getvalue()) == file.getvalue()
    assert "é 🦊" in file.getvalue()


def test_errors_are_harmless_to_a_terminal_too(
    command: HeelerCommand, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.status = 404
    stand_in.body = {"detail": RED}
    monkeypatch.setattr(output, "printable", lambda text, _: output.UNSAFE.sub("", text))
    assert command.run("agents", "list", "--url", stand_in.url).err == "[31mred[0m\n"


def test_quiet_prints_names_alone(command: HeelerCommand, stand_in: StandIn) -> None:
    stand_in.body = [{"name": "ada", "id": "agent-1"}, {"name": "bob", "id": "agent-2"}]
    ended = command("agents", "list", "--quiet", "--url", stand_in.url)
    assert (ended.out, ended.err) == ("ada\nbob\n", "")


def test_no_progress_is_drawn_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress("Importing", 10) as done:
        done(10)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("no_color", [None, "1"])
def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch, no_color: str | None) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(OPTIONS, "quiet", False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    with output.progress("Importing", 10) as done:
        done(5)
    drawn = terminal.getvalue()
    assert "Importing" in drawn
    assert ("\x1b[38;" in drawn or "\x1b[3" in drawn) is (no_color is None)
