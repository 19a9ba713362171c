"""`heeler tools` against a server: each effect is read back."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from cli.exit_codes import ExitCode
from tests.e2e.asking import unique
from tests.e2e.conftest import ROLL, NewAgent
from tests.heeler_command import HeelerCommand


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file with a function; its stem is the name of the tool."""
    name = unique("roll").replace("-", "_")
    file = tmp_path / f"{name}.py"
    file.write_text(ROLL.format(name=name, body="print('rolling')\n    return str(sides)"))
    return file


def test_a_tool_is_made_of_a_file_changed_and_deleted(
    heeler_command: HeelerCommand, source: Path, http: httpx.Client
) -> None:
    name = source.stem
    made = heeler_command.json("tools", "create", str(source), "--tag", "dice", "--approval")
    assert (made["name"], made["tags"]) == (name, ["dice"])
    assert made["default_requires_approval"] is True
    assert http.get(f"/v1/tools/{made['id']}").json()["source_code"] == source.read_text()
    assert "sides: integer" in heeler_command("tools", "get", name).out
    listed = heeler_command.json("tools", "list", "--search", name)
    assert [tool["id"] for tool in listed] == [made["id"]]

    source.write_text(source.read_text().replace("Roll a die", "Throw a die"))
    options = ("--file", str(source), "--no-approval", "--package", "greeting==1.0")
    heeler_command("tools", "set", name, *options)
    changed = http.get(f"/v1/tools/{made['id']}").json()
    assert changed["source_code"] == source.read_text()
    assert changed["default_requires_approval"] is False
    assert changed["pip_requirements"] == [{"name": "greeting", "version": "1.0"}]
    assert "greeting==1.0" in heeler_command("tools", "get", name).out

    refused = heeler_command.run("tools", "create", str(source))
    assert (refused.code, "--replace" in refused.err) == (ExitCode.REFUSED, True)
    replaced = heeler_command.json("tools", "create", str(source), "--replace", "--tag", "new")
    assert (replaced["id"], replaced["tags"]) == (made["id"], ["new"])

    heeler_command("tools", "delete", name, "--yes")
    assert http.get(f"/v1/tools/{made['id']}").status_code == 404


def test_a_tool_is_attached_run_and_detached(
    heeler_command: HeelerCommand, source: Path, new_agent: NewAgent, http: httpx.Client
) -> None:
    agent = new_agent(name=unique("ada"))
    name = heeler_command.json("tools", "create", str(source))["name"]

    def tools() -> list[str]:
        return [tool["name"] for tool in http.get(f"/v1/agents/{agent.id}/tools").json()]

    heeler_command("tools", "attach", name, agent.name)
    assert name in tools()
    for words in ((name,), (str(source),), (name, "--agent", agent.name)):
        ran = heeler_command("tools", "run", *words[:1], '{"sides": 8}', *words[1:])
        assert (ran.out, ran.err) == ("8\n", "rolling\n")
    heeler_command("tools", "detach", name, agent.name)
    assert name not in tools()
    heeler_command("tools", "delete", name, "--yes")


def test_a_tool_that_fails_says_why(heeler_command: HeelerCommand, source: Path) -> None:
    failed = heeler_command.run("tools", "run", str(source), "{}")
    assert (failed.code, failed.out) == (ExitCode.FAILED, "")
    assert "sides" in failed.err
    assert heeler_command.run("tools", "run", str(source), "[").code == ExitCode.USAGE
    gone = heeler_command.run("tools", "create", str(source.with_name("gone.py")))
    assert gone.code == ExitCode.NOT_FOUND
    assert "gone.py" in gone.err
