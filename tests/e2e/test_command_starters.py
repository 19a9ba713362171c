"""`heeler create --template`: agents that answer at once, from files that are one's own."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.e2e.asking import unique
from tests.heeler_command import HeelerCommand


def test_a_template_is_an_agent_that_answers_and_files_to_edit(
    heeler_command: HeelerCommand, http: httpx.Client, tmp_path: Path
) -> None:
    name, folder = unique("ada"), tmp_path / "ada"
    heeler_command("create", "--template", "chatbot", "--name", name, "--to", str(folder))
    (listed,) = http.get("/v1/agents/", params={"name": name}).json()
    agent = http.get(f"/v1/agents/{listed['id']}", params={"include": "agent.blocks"}).json()
    models = http.get("/v1/models/").json()
    assert agent["model"] == models[0]["handle"]  # the file names none
    assert [block["label"] for block in agent["blocks"]] == ["human", "persona"]
    message = {"messages": [{"role": "user", "content": "Hello"}]}
    answer = http.post(f"/v1/agents/{agent['id']}/messages", json=message)
    assert answer.json()["stop_reason"]["stop_reason"] == "end_turn"

    file = folder / "agent.toml"
    file.write_text(file.read_text().replace("You are a friendly", "You are a grumpy"))
    heeler_command("apply", "-f", str(folder))
    changed = http.get(f"/v1/agents/{agent['id']}").json()
    assert changed["system"].startswith("You are a grumpy")
    assert changed["model"] == agent["model"]
    http.delete(f"/v1/agents/{agent['id']}")
