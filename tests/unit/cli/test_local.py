"""`heeler up`, `down` and `status`: which server of this machine they mean."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.__main__ import main
from deploy.containers import up as containers
from deploy.embedded import status, up
from deploy.embedded.command_name import command_name
from deploy.embedded.settings import CHECKOUT, Settings


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Settings]]:
    """What of the launcher was called, and with which settings; nothing is started."""
    calls: list[tuple[str, Settings]] = []

    def record(name: str):  # type: ignore[no-untyped-def]
        def call(settings: Settings, **_: object) -> int:
            calls.append((name, settings))
            return 0

        return call

    monkeypatch.setattr(up, "up", record("up"))
    monkeypatch.setattr(up, "run", record("run"))
    monkeypatch.setattr(up, "down", record("down"))
    monkeypatch.setattr(status, "status", record("status"))
    monkeypatch.setattr(containers, "up", record("up in containers"))
    monkeypatch.setattr(containers, "down", record("down in containers"))
    monkeypatch.setattr(containers, "status", record("status in containers"))
    return calls


def test_the_options_of_up_are_the_settings_of_the_start(
    called: list[tuple[str, Settings]], tmp_path: Path
) -> None:
    before = dict(os.environ)
    home = tmp_path / "home"
    words = ["--home", str(home), "--port", "8999", "--processes", "one", "--replicas", "2"]

    assert main(["up", *words]) == 0

    [(name, settings)] = called
    assert name == "up"
    assert (settings.home, settings.port) == (home, 8999)
    assert settings.services == ("services", "services-2")
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["up", "--foreground"], "run"),
        (["up", "--mode", "compose"], "up in containers"),
        (["down", "--mode", "compose"], "down in containers"),
        (["down"], "down"),
        (["status", "--mode", "compose"], "status in containers"),
        (["status"], "status"),
    ],
)
def test_each_mode_has_its_launcher(
    called: list[tuple[str, Settings]], tmp_path: Path, words: list[str], name: str
) -> None:
    assert main([*words, "--home", str(tmp_path)]) == 0
    assert [(each, settings.home) for each, settings in called] == [(name, tmp_path)]


@pytest.mark.parametrize("verb", ["up", "down"])
def test_with_json_stdout_has_the_state_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str, tmp_path: Path
) -> None:
    def tell(_: Settings) -> int:
        print("Starting")
        return 0

    def show(_: Settings, *, as_json: bool) -> int:
        print("{}" if as_json else "a table")
        return 0

    monkeypatch.setattr(up, verb, tell)
    monkeypatch.setattr(status, "status", show)
    words = [verb, "--home", str(tmp_path)]
    for options, out, err in ((["--json"], "{}\n", "Starting\n"), (["-q"], "", "")):
        assert main([*words, *options]) == 0
        assert tuple(capsys.readouterr()) == (out, err)


@pytest.mark.parametrize(
    "words",
    [["--mode", "cloud"], ["--port", "many"], ["--processes", "two"], ["--replicas", "0"]],
)
def test_a_wrong_option_starts_nothing(
    called: list[tuple[str, Settings]],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: list[str],
) -> None:
    assert main(["up", "--home", str(tmp_path), *words]) != 0
    assert called == []
    said = capsys.readouterr().err
    assert words[0] in said or words[0].removeprefix("--").upper() in said


def test_containers_have_no_foreground(called: list[tuple[str, Settings]]) -> None:
    assert main(["up", "--mode", "compose", "--foreground"]) != 0
    assert called == []


def test_what_is_printed_calls_the_command_by_a_name_that_works_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(CHECKOUT)
    assert command_name() == "./heeler"
    monkeypatch.chdir(tmp_path)
    assert command_name() == str(CHECKOUT / "heeler")
