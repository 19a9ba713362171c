"""`heeler groups` against a server: each effect is read back."""

from __future__ import annotations

import httpx

from cli.exit_codes import ExitCode
from tests.e2e.asking import HELLO, unique
from tests.e2e.conftest import NewAgent
from tests.heeler_command import HeelerCommand


def test_a_group_is_made_changed_and_deleted(
    heeler_command: HeelerCommand, new_agent: NewAgent, http: httpx.Client
) -> None:
    ada, bob = (new_agent(name=unique(name)) for name in ("ada", "bob"))
    name = unique("crew")
    members = ("--agent", ada.name, "--agent", bob.id)
    made = heeler_command.json("groups", "create", name, *members, "--state", '{"a": 1}')
    path = f"/v1/agent-groups/{made['id']}"
    assert http.get(path).json()["agent_ids"] == [ada.id, bob.id]
    listed = heeler_command.json("groups", "list", "--agent", ada.name)
    assert [group["id"] for group in listed] == [made["id"]]
    assert f"members        {ada.name}, {bob.name}" in heeler_command("groups", "get", name).out

    heeler_command("groups", "set", name, "--description", "A crew", "--state", '{"b": 2}')
    changed = http.get(path).json()
    assert (changed["description"], changed["shared_state"]) == ("A crew", {"a": 1, "b": 2})
    heeler_command("groups", "remove", name, ada.name)
    assert http.get(path).json()["agent_ids"] == [bob.id]
    heeler_command("groups", "add", name, ada.name)
    assert http.get(path).json()["agent_ids"] == [bob.id, ada.id]

    heeler_command("groups", "delete", name, "--yes")
    assert http.get(path).status_code == 404
    assert http.get(f"/v1/agents/{ada.id}").status_code == 200


def test_a_group_answers_and_shows_its_transcript(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    ada, bob = (new_agent(name=unique(name)) for name in ("ada", "bob"))
    name = unique("crew")
    heeler_command("groups", "create", name, "--agent", ada.name, "--agent", bob.name)
    said = [f"{ada.name}: {HELLO}", f"{bob.name}: {HELLO}"]
    assert heeler_command("groups", "send", name, "Hello").out.splitlines() == said
    assert heeler_command("groups", "history", name).out.splitlines() == ["user: Hello", *said]
    newest = heeler_command.json("groups", "history", name, "--limit", "1")
    assert [message["name"] for message in newest] == [bob.name]
    answer = heeler_command.json("groups", "send", name, "-", "--to", bob.name, input="Psst")
    assert [message["name"] for message in answer["messages"]] == [bob.name]


def test_a_group_that_cannot_be_is_refused(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    agent = new_agent()
    wrong = heeler_command.run("groups", "create", "x", "--agent", agent.id, "--type", "anarchy")
    assert wrong.code == ExitCode.REFUSED
    assert "manager_config" in wrong.err
    nobody = heeler_command.run("groups", "create", "x", "--agent", unique("nobody"))
    assert nobody.code == ExitCode.NOT_FOUND
    for words in (["set", "x"], ["create", "x", "--agent", agent.id, "--state", "["]):
        assert heeler_command.run("groups", *words).code in (ExitCode.USAGE, ExitCode.NOT_FOUND)
