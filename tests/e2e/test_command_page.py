"""What docs/agents-by-command.md says to type works, in its order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import httpx

from cli.exit_codes import MEANINGS
from tests.e2e.asking import unique
from tests.heeler_command import HeelerCommand

PAGE = Path(__file__).parents[2] / "docs" / "agents-by-command.md"


def test_every_command_of_the_page_works(
    heeler_command: HeelerCommand, http: httpx.Client, tmp_path: Path
) -> None:
    name = unique("ada")
    heeler_command.monkeypatch.chdir(tmp_path)
    blocks = re.findall("^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).splitlines()
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
