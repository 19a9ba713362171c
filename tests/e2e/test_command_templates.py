"""`heeler templates` against a server: each effect is read back."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from cli.exit_codes import ExitCode
from tests.e2e.asking import unique
from tests.e2e.conftest import NewAgent
from tests.heeler_command import HeelerCommand


def test_agents_are_made_of_a_template(
    heeler_command: HeelerCommand, new_agent: NewAgent, http: httpx.Client
) -> None:
    blocks = [{"label": "human", "value": "Name: {{name}}"}]
    agent, template = new_agent(name=unique("ada"), memory_blocks=blocks), unique("clerk")
    heeler_command("templates", "create", template, "--agent", agent.name)
    assert heeler_command.json("templates", "get", template)["latest_version"] == "1"
    assert template in heeler_command("templates", "list").out

    unset = heeler_command.run("templates", "deploy", template)
    assert (unset.code, "name" in unset.err) == (ExitCode.REFUSED, True)
    name = unique("bob")
    options = ("--name", name, "--var", "name=Bob", "--tag", "made")
    made = heeler_command.json("templates", "deploy", f"{template}:1", *options)
    document = heeler_command.json("agents", "get", made["agent_ids"][0])
    assert (document["name"], document["tags"]) == (name, ["made"])
    assert document["blocks"][0]["value"] == "Name: Bob"

    heeler_command("templates", "delete", template, "--yes")
    assert heeler_command.run("templates", "get", template).code == ExitCode.NOT_FOUND
    assert http.get(f"/v1/agents/{made['agent_ids'][0]}").status_code == 200


def test_versions_are_saved_listed_and_rolled_back(
    heeler_command: HeelerCommand, new_agent: NewAgent, http: httpx.Client, tmp_path: Path
) -> None:
    agent, template = new_agent(), unique("clerk")
    file = tmp_path / "agent.af"
    file.write_text(json.dumps(http.get(f"/v1/agents/{agent.id}/export").json()))
    heeler_command("templates", "create", template, "--file", str(file))
    heeler_command("templates", "set", template, "--description", "A clerk", "--file", str(file))
    assert heeler_command.json("templates", "get", template)["description"] == "A clerk"
    heeler_command("templates", "save", template, "-m", "second")
    versions = heeler_command.json("templates", "versions", template)
    assert [entry["version"] for entry in versions] == ["2", "1"]
    assert versions[0]["message"] == "second"
    heeler_command("templates", "rollback", template, "1")
    assert heeler_command.run("templates", "rollback", template, "9").code == ExitCode.NOT_FOUND
    for words in (["create", "x"], ["set", template]):
        assert heeler_command.run("templates", *words).code == ExitCode.USAGE
    heeler_command("templates", "delete", template, "--yes")
