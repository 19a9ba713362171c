"""Text files as editors and shells of Windows write them: with a mark before the text."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cli.agent_tests.found_files import found_in
from cli.agent_tests.scenario_files import read as read_scenario
from cli.files_and_json import text_of
from cli.fleet.files import fleet_of, read_agents
from cli.inputs import text_of as given_text
from cli.remotes import read as read_remotes
from libs.agent_toml import rules_from
from libs.bus.configuration_file import from_file
from libs.contracts.outside_texts import decode_text
from services.api.http.request_parsing import json_of
from services.api.v1.agent_file.agent_file_reader import scan
from tests.agent_scenarios import agent_folder
from tests.heeler_command import HeelerCommand

ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-be")
TEXT = "Zoë 🦊"
AGENT = """name = "ada"
system_prompt_file = "prompt.md"
model = "openai/gpt-4.1"
description = "d"

[[memory]]
label = "human"
description = "Who it is"
value_file = "human.md"
"""


def marked(text: str, encoding: str) -> bytes:
    """The text with a mark in front."""
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    return mark + text.encode(encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_agent_and_the_files_beside_it_are_read_without_their_marks(
    command: HeelerCommand, tmp_path: Path, encoding: str
) -> None:
    for name, text in {"ada.toml": AGENT, "prompt.md": TEXT, "human.md": TEXT}.items():
        (tmp_path / name).write_bytes(marked(text, encoding))
    [file] = read_agents(fleet_of([tmp_path]), [tmp_path / "ada.toml"])
    assert file.desired is not None, file.problems
    assert file.desired.fields["system"] == TEXT
    assert [block.value for block in file.desired.blocks] == [TEXT]
    assert command("validate", str(tmp_path)).code == 0


def test_half_a_character_is_told_with_its_place(command: HeelerCommand, tmp_path: Path) -> None:
    (tmp_path / "ada.toml").write_bytes(marked("a = 1", "utf-16") + b"\x00")
    ended = command.run("validate", str(tmp_path))
    assert ended.code != 0
    assert "byte 12 is no UTF-16" in ended.out + ended.err


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_text_that_the_command_takes_may_have_a_mark(
    command: HeelerCommand, tmp_path: Path, encoding: str
) -> None:
    file = tmp_path / "text"
    file.write_bytes(marked(TEXT, encoding))
    assert text_of(file) == given_text(f"@{file}") == TEXT
    file.write_bytes(marked("environment = 'production'", encoding))
    assert rules_from(decode_text(file.read_bytes())).environment == "production"
    command("remote", "add", "work", "http://here")
    remotes = tmp_path / "config" / "heeler" / "remotes.toml"
    remotes.write_bytes(marked(remotes.read_text(), encoding))
    assert read_remotes().by_name["work"].url == "http://here"
    settings = tmp_path / "heeler.toml"
    settings.write_bytes(marked("[server]\nport = 9000\n", encoding))
    assert from_file({}, settings).environment == {"HEELER_PORT": "9000"}
    folder = agent_folder(tmp_path)
    scenario = folder / "keeps.toml"
    scenario.write_bytes(marked(scenario.read_text(), encoding))
    assert list(found_in([folder])) == [scenario]
    assert read_scenario(scenario).scenario.scenario.name == "keeps what it is told"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_stdin_may_have_a_mark(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(marked(TEXT, encoding)), encoding="ascii")
    monkeypatch.setattr("sys.stdin", stdin)
    assert given_text("-") == TEXT


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_bodies_and_agent_files_may_have_a_mark(encoding: str) -> None:
    document = {"agents": [], "name": TEXT}
    content = marked(json.dumps(document, ensure_ascii=False), encoding)
    assert json_of(content) == document
    assert dict(scan(io.BytesIO(content)))[("name",)] == TEXT
