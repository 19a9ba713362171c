"""`heeler archives` against a server: each effect is read back."""

from __future__ import annotations

import httpx

from cli.exit_codes import ExitCode
from tests.e2e.asking import unique
from tests.e2e.conftest import NewAgent
from tests.heeler_command import HeelerCommand


def test_an_archive_is_made_changed_attached_and_deleted(
    heeler_command: HeelerCommand, new_agent: NewAgent, http: httpx.Client
) -> None:
    name, agent = unique("notes"), new_agent(name=unique("ada"))
    made = heeler_command.json("archives", "create", name, "--description", "Of cats")
    path = f"/v1/archives/{made['id']}"
    assert http.get(path).json()["description"] == "Of cats"
    heeler_command("archives", "set", name, "--description", "Of dogs")
    assert "Of dogs" in heeler_command("archives", "get", name).out
    heeler_command("archives", "attach", name, agent.name)
    listed = heeler_command.json("archives", "list", "--agent", agent.name)
    assert [archive["id"] for archive in listed] == [made["id"]]
    heeler_command("archives", "detach", name, agent.name)
    assert heeler_command.json("archives", "list", "--agent", agent.name) == []
    assert name in heeler_command("archives", "list").out
    heeler_command("archives", "delete", name, "--yes")
    assert http.get(path).status_code == 404


def test_passages_are_added_found_and_deleted(heeler_command: HeelerCommand) -> None:
    name = unique("notes")
    heeler_command("archives", "create", name)
    cats = heeler_command.json(
        "archives", "passages", "add", name, "Cats sleep a lot", "--tag", "cats"
    )
    heeler_command("archives", "passages", "add", name, "-", input="Ships cross the sea")

    def found(*words: str) -> list[str]:
        results = heeler_command.json("archives", "passages", "search", name, *words)
        return [result["passage"]["text"] for result in results]

    assert found("who sleeps?")[0] == "Cats sleep a lot"
    assert found("sea", "--tag", "cats") == ["Cats sleep a lot"]
    table = heeler_command("archives", "passages", "search", name, "sleep").out
    assert cats["id"] in table
    refused = heeler_command.run("archives", "passages", "delete", name, cats["id"])
    assert refused.code == ExitCode.USAGE
    heeler_command("archives", "passages", "delete", name, cats["id"], "--yes")
    assert found("who sleeps?") == ["Ships cross the sea"]
    heeler_command("archives", "delete", name, "--yes")


def test_a_shell_completes_names(heeler_command: HeelerCommand) -> None:
    name = unique("notes")
    heeler_command("archives", "create", name)
    heeler_command.monkeypatch.setenv("_HEELER_COMPLETE", "complete_bash")
    heeler_command.monkeypatch.setenv("COMP_WORDS", f"heeler archives get {name[:-2]}")
    heeler_command.monkeypatch.setenv("COMP_CWORD", "3")
    assert heeler_command.run().out.split() == [name]
    heeler_command.monkeypatch.setenv("HEELER_URL", "http://127.0.0.1:1")
    ended = heeler_command.run()
    assert (ended.out, ended.err) == ("\n", "")
