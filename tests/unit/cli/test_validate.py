"""`heeler validate` needs no server, names each problem, and says by its exit code what it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.__main__ import main
from cli.exit_codes import ExitCode

GOOD = 'name = "ada"\ndescription = "d"\nsystem_prompt_file = "ada.md"\nmodel = "openai/gpt-4.1"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one good agent, in which the command is called."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ada.toml").write_text(GOOD)
    (tmp_path / "ada.md").write_text("You are Ada.\n")
    return tmp_path


def test_a_good_folder_is_valid(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "."]) == ExitCode.OK
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", "1 file: 0 errors, 0 warnings\n")


def test_each_problem_is_named_with_its_file_and_place(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad").mkdir()
    (folder / "bad" / "bob.toml").write_text('name = "bob"\nsystem_promt = "x"\n')
    assert main(["validate", ".", "--quiet"]) == ExitCode.REFUSED
    assert "bad/bob.toml:2:1: error AGT102" in capsys.readouterr().out
    assert main(["validate", ".", "--json"]) == ExitCode.REFUSED
    problems = json.loads(capsys.readouterr().out)
    assert [problem["code"] for problem in problems if problem["severity"] == "error"] == ["AGT102"]
    assert problems[-1]["suggestion"] == "system_prompt"


def test_strict_takes_warnings_for_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ada.toml").write_text('name = "ada"\nsystem_prompt = "x"\n')
    assert main(["validate", "ada.toml"]) == ExitCode.OK
    assert "warning AGT404" in capsys.readouterr().out
    assert main(["validate", "ada.toml", "--strict"]) == ExitCode.REFUSED
    assert "error AGT404" in capsys.readouterr().out


def test_the_environment_and_rules_of_ones_own_hold(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ada.toml").write_text(GOOD + 'tools = ["shell"]\n')
    assert main(["validate", "ada.toml"]) == ExitCode.OK
    assert main(["validate", "ada.toml", "-e", "production"]) == ExitCode.REFUSED
    assert "SEC005" in capsys.readouterr().out
    rules = folder / "rules.txt"
    rules.write_text('[[rule]]\nid = "ACME-1"\ntitle = "t"\npattern = "Ada"\nreason = "No Ada."\n')
    assert main(["validate", "ada.toml", "--rules", str(rules)]) == ExitCode.REFUSED
    assert "ACME-1" in capsys.readouterr().out
    assert main(["validate", "ada.toml", "-e", "prod"]) == ExitCode.USAGE


def test_two_files_of_one_agent_and_no_file_are_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "twin.toml").write_text(GOOD)
    assert main(["validate", "."]) == ExitCode.REFUSED
    assert "twin.toml:1:8: error AGT215: ada.toml describes the agent 'ada'" in (
        capsys.readouterr().out
    )
    (folder / "empty").mkdir()
    assert main(["validate", "empty"]) == ExitCode.NOT_FOUND
    assert main(["validate", "nowhere.toml"]) == ExitCode.NOT_FOUND


def test_a_link_does_not_lead_out_of_the_folder(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "key"
    secret.write_text("SECRET")
    (folder / "ada.md").unlink()
    (folder / "ada.md").symlink_to(secret)
    assert main(["validate", "ada.toml"]) == ExitCode.REFUSED
    assert "AGT205" in capsys.readouterr().out
