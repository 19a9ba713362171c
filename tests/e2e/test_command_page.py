"""What the pages of the command say to type works, in their order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import httpx

from cli.exit_codes import MEANINGS
from tests.e2e.asking import HELLO, unique
from tests.e2e.conftest import ROLL, NewAgent
from tests.heeler_command import HeelerCommand

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "agents-by-command.md"
WORK = DOCS / "work-by-command.md"
NAMES = (
    *("ada", "bob", "roll_dice", "dice", "handbook", "notes", "morning", "crew", "clerk"),
    *("customer", "bakery"),
)


def commands_of(page: Path) -> list[str]:
    """The lines of a page that are to be typed."""
    blocks = re.findall("^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return "".join(blocks).splitlines()


def test_every_command_of_the_page_works(
    heeler_command: HeelerCommand, http: httpx.Client, tmp_path: Path
) -> None:
    name = unique("ada")
    heeler_command.monkeypatch.chdir(tmp_path)
    lines = commands_of(PAGE)
    assert len(lines) > 20
    for line in lines:
        piped, _, command = line.rpartition(" | ")
        words = [re.sub(r"^ada\b", name, word) for word in shlex.split(command)]
        assert words[0] == "heeler"
        heeler_command(*words[1:], input=f"{shlex.split(piped)[1]}\n" if piped else "")
    assert (tmp_path / f"{name}.heeler.gz").stat().st_size > 0
    assert http.get("/v1/agents/", params={"name": name}).json() == []
    for copy in (f"{name} two", f"{name} three"):
        [agent] = http.get("/v1/agents/", params={"name": copy}).json()
        assert agent["description"] == "Talks about tea"


def test_the_page_has_every_exit_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]


def test_every_command_of_the_page_of_work_works(
    heeler_command: HeelerCommand, new_agent: NewAgent, http: httpx.Client, tmp_path: Path
) -> None:
    suffix = unique("x").rpartition("-")[2]
    name_of = {name: f"{name}_{suffix}" for name in NAMES}
    heeler_command.monkeypatch.chdir(tmp_path)
    agents = [new_agent(name=name_of[name]) for name in ("ada", "bob")]
    tool = ROLL.format(name=name_of["roll_dice"], body="return str(sides)")
    (tmp_path / f"{name_of['roll_dice']}.py").write_text(tool)
    (tmp_path / "questions.jsonl").write_text('"Hello"\n"Hello again"\n')
    for name in ("rules", "travel"):
        (tmp_path / f"{name}.md").write_text("Be kind.\n")
    said = ""
    for line in commands_of(WORK):
        renamed = re.sub(rf"\b({'|'.join(NAMES)})\b", lambda word: name_of[word[0]], line)
        said += heeler_command(*shlex.split(renamed)[1:]).out
    for result in ("Be kind.", "The bakery_", "active", "completed", HELLO):
        assert result in said, result
    assert http.get(f"/v1/agents/{agents[0].id}/tools").json()[-1]["name"] == name_of["roll_dice"]
