"""`heeler agents` against a server: each effect is read back."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import Letta

from cli.exit_codes import ExitCode
from tests.e2e.asking import EMBEDDING, MODEL, NOBODY, call_tool, says, unique
from tests.e2e.conftest import NewAgent, NewTool
from tests.heeler_command import HeelerCommand
from tests.waiting import wait_for


def test_agents_are_listed_and_shown_by_name_and_id(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    tag = unique("tag")
    agents = [new_agent(name=unique(name), tags=[tag]) for name in ("ada", "bob")]
    listed = heeler_command.json("agents", "list", "--tag", tag)
    assert [agent["id"] for agent in listed] == [agents[1].id, agents[0].id]
    found = heeler_command("agents", "list", "--tag", tag, "--query", agents[0].name, "--quiet")
    assert found.out == f"{agents[0].name}\n"
    for word in (agents[0].id, agents[0].name):
        assert heeler_command.json("agents", "get", word)["id"] == agents[0].id
    shown = heeler_command("agents", "get", agents[0].name).out
    assert re.search(f"^name +{agents[0].name}$", shown, re.MULTILINE)
    assert re.search("^blocks +(human, persona|persona, human)$", shown, re.MULTILINE)


def test_a_name_that_two_agents_have_is_refused(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    name = unique("twin")
    ids = {new_agent(name=name).id, new_agent(name=name).id}
    ended = heeler_command.run("agents", "get", name)
    assert (ended.code, ended.out) == (ExitCode.REFUSED, "")
    assert all(agent_id in ended.err for agent_id in ids)


def test_an_agent_that_lists_leave_out_is_found_by_its_name(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    agent = new_agent(name=unique("hidden"), hidden=True)
    assert heeler_command.json("agents", "get", agent.name)["id"] == agent.id


def test_a_field_that_agents_do_not_have_is_refused_and_nothing_is_changed(
    heeler_command: HeelerCommand, new_agent: NewAgent, http: httpx.Client
) -> None:
    agent, other = new_agent(), unique("other")
    before = http.get(f"/v1/agents/{agent.id}").json()
    for command in (("agents", "set", agent.id), ("agents", "create", other)):
        ended = heeler_command.run(*command, "--set", "description=a", "--set", "modle=b")
        assert ended.code == ExitCode.USAGE
        assert "did you mean 'model'?" in ended.err
    assert http.get(f"/v1/agents/{agent.id}").json() == before
    assert http.get("/v1/agents/", params={"name": other}).json() == []


def test_an_unknown_name_suggests_the_one_that_is_meant(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    name = unique("whiskers")
    new_agent(name=name)
    ended = heeler_command.run("agents", "get", name.replace("k", "q"))
    assert ended.code == ExitCode.NOT_FOUND
    assert f"did you mean '{name}'?" in ended.err


def test_an_agent_is_made_with_what_the_options_say(
    heeler_command: HeelerCommand, letta: Letta, new_tool: NewTool, tmp_path: Path
) -> None:
    tool = new_tool("return 4")
    prompt = tmp_path / "prompt.md"
    prompt.write_text("You are kind.\nAnd short.\n")
    name = unique("ada")
    made = heeler_command(
        *("agents", "create", name, "--model", MODEL, "--embedding", EMBEDDING),
        *("--system", f"@{prompt}", "--memory", "human=Name: Ada=Lovelace", "--memory", "notes=-"),
        *("--tool", tool.name, "--tag", "a", "--tag", "b"),
        *("--set", "description=Talks", "--set", 'metadata={"team": 7}'),
        input="One\nTwo",
    )
    agent = letta.agents.retrieve(
        made.out.strip(), include=["agent.blocks", "agent.tools", "agent.tags"]
    )
    assert (agent.name, agent.model, agent.system) == (name, MODEL, "You are kind.\nAnd short.\n")
    assert {block.label: block.value for block in agent.blocks} == {
        "human": "Name: Ada=Lovelace",
        "notes": "One\nTwo",
    }
    assert tool.id in {each.id for each in agent.tools}
    assert sorted(agent.tags) == ["a", "b"]
    assert (agent.description, agent.metadata) == ("Talks", {"team": 7})
    heeler_command("agents", "delete", name, "--yes")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], ExitCode.USAGE, "--model"),
        (["--memory", "human"], ExitCode.USAGE, "--memory is NAME=VALUE"),
        (["--system", "@missing.md"], ExitCode.NOT_FOUND, "missing.md"),
        (["--model", "gpt"], ExitCode.REFUSED, "provider/model-name"),
        (["--model", MODEL, "--tool", "no_such_tool"], ExitCode.NOT_FOUND, "no_such_tool"),
    ],
)
def test_a_wrong_option_makes_no_agent(
    heeler_command: HeelerCommand, letta: Letta, arguments: list[str], code: int, text: str
) -> None:
    name = unique("nobody")
    ended = heeler_command.run("agents", "create", name, *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert text in ended.err
    assert letta.agents.list(name=name).items == []


def test_fields_are_changed_and_the_others_stay(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(tags=["old"], description="Before")
    name = unique("renamed")
    heeler_command("agents", "set", agent.id, "--name", name, "--tag", "new", "--system", "@@home")
    changed = letta.agents.retrieve(agent.id, include=["agent.tags", "agent.blocks"])
    assert (changed.name, changed.tags, changed.system) == (name, ["new"], "@home")
    assert (changed.description, changed.model) == ("Before", MODEL)
    assert len(changed.blocks) == 2
    heeler_command("agents", "set", name, "--set", "description=null")
    assert letta.agents.retrieve(agent.id).description is None
    ended = heeler_command.run("agents", "set", name, "--set", "timezone=7")
    assert ended.code == ExitCode.REFUSED
    assert "timezone" in ended.err


def test_an_agent_is_deleted_when_one_says_so(
    heeler_command: HeelerCommand, new_agent: NewAgent, http: httpx.Client, letta: Letta
) -> None:
    agent = new_agent()
    assert heeler_command.run("agents", "delete", agent.name).code == ExitCode.USAGE
    assert letta.agents.retrieve(agent.id).name == agent.name
    heeler_command("agents", "delete", agent.name, "--yes")
    assert http.get(f"/v1/agents/{agent.id}").status_code == 404
    assert heeler_command.run("agents", "get", agent.id).code == ExitCode.NOT_FOUND


def test_the_history_names_moments_that_can_be_shown_compared_and_restored(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(name=unique("ada"))
    [made] = heeler_command.json("agents", "history", agent.name, "--limit", "1")
    call_tool(letta, agent.id, "memory_insert", label="human", new_string="Likes tea")
    events = heeler_command.json("agents", "history", agent.name, "--topic", "block.changed")
    assert [event["topic"] for event in events] == ["block.changed"]
    assert "payload" not in events[0]
    [full] = heeler_command.json(
        "agents", "history", agent.name, "--topic", "block.changed", "--payload"
    )
    assert "Likes tea" in json.dumps(full["payload"])
    assert "block.changed" in heeler_command("agents", "history", agent.name).out

    then = heeler_command.json("agents", "get", agent.name, "--at", made["id"])
    assert "Name: Ada" in {block["value"] for block in then["blocks"]}
    difference = heeler_command("agents", "diff", agent.name, made["id"]).out
    assert "~ block human\n" in difference
    assert "+Likes tea" in difference
    assert "+ messages: " in difference
    same = heeler_command("agents", "diff", agent.name, made["id"], made["id"])
    assert (same.out, same.err) == ("", "Nothing differs.\n")

    heeler_command("agents", "restore", agent.name, made["id"], "--what", "blocks")
    assert letta.agents.blocks.retrieve("human", agent_id=agent.id).value == "Name: Ada"
    ended = heeler_command.run("agents", "restore", agent.name, "yesterday")
    assert ended.code == ExitCode.REFUSED
    ended = heeler_command.run("agents", "restore", agent.name, made["id"], "--what", "all")
    assert ended.code == ExitCode.REFUSED
    assert "what" in ended.err


def test_the_history_is_followed_until_control_c(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    looks = []

    def look_again(_: float) -> None:
        looks.append(None)
        if len(looks) == 3:
            raise KeyboardInterrupt
        letta.agents.update(agent.id, description=f"Look {len(looks)}")

    heeler_command.monkeypatch.setattr("cli.agent_history.sleep", look_again)
    arguments = ("agents", "history", agent.id, "--follow", "--topic", "agent.updated", "--json")
    ended = heeler_command.run(*arguments)
    assert ended.code == ExitCode.INTERRUPTED
    events = [json.loads(line) for line in ended.out.splitlines()]
    assert [event["topic"] for event in events] == ["agent.updated"] * 2
    assert len({event["id"] for event in events}) == 2


def test_an_agent_is_forked_now_and_as_it_was(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    [made] = heeler_command.json("agents", "history", agent.id, "--limit", "1")
    call_tool(letta, agent.id, "memory_insert", label="human", new_string="Likes tea")
    name = unique("fork")
    now = heeler_command("agents", "fork", agent.id, "--name", name).out.strip()
    then = heeler_command("agents", "fork", agent.id, "--at", made["id"]).out.strip()
    assert letta.agents.retrieve(now).name == name
    assert letta.agents.blocks.retrieve("human", agent_id=now).value == "Name: Ada\nLikes tea"
    assert letta.agents.blocks.retrieve("human", agent_id=then).value == "Name: Ada"
    refused = heeler_command.run("agents", "fork", agent.id, "--name", "a/b")
    assert refused.code == ExitCode.REFUSED
    assert "'a/b' has characters" in refused.err


@pytest.mark.parametrize("way", ["files", "pipes"])
def test_an_agent_goes_into_a_file_and_comes_back(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent, tmp_path: Path, way: str
) -> None:
    agent = new_agent()
    letta.agents.messages.create(agent.id, messages=says("SAY:Remember this."))
    file = tmp_path / "ada.heeler.gz"
    if way == "files":
        heeler_command("agents", "export", agent.name, str(file))
        assert file.stat().st_mode & 0o777 == 0o600
        data = file.read_bytes()
    else:
        data = heeler_command("agents", "export", agent.name).out_bytes
    assert json.loads(gzip.decompress(data).splitlines()[0])["kind"] == "header"
    heeler_command("agents", "delete", agent.id, "--yes")
    given = str(file) if way == "files" else "-"
    imported = heeler_command("agents", "import", given, input=data)
    assert imported.out == f"{agent.id}\n"
    messages = letta.agents.messages.list(agent.id, order="asc").items
    assert "Remember this." in [getattr(message, "content", None) for message in messages]
    assert list(tmp_path.glob("tmp*")) == []


def test_an_agent_file_of_letta_is_written_and_read(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent, tmp_path: Path
) -> None:
    agent = new_agent()
    file = tmp_path / "ada.af"
    heeler_command("agents", "export", agent.id, str(file), "--format", "letta")
    assert json.loads(file.read_text())["agents"][0]["name"] == agent.name
    name = unique("copy")
    document = heeler_command.json("agents", "import", str(file), "--name", name)
    [copy] = document["agent_ids"]
    assert document["status"] == "completed"
    assert letta.agents.retrieve(copy).name == name


async def test_control_c_takes_an_import_back(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent, tmp_path: Path
) -> None:
    agent = new_agent()
    file = tmp_path / "ada.gz"
    heeler_command("agents", "export", agent.id, str(file))

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    heeler_command.monkeypatch.setattr("cli.imports.sleep", interrupt)
    name = unique("copy")
    ended = heeler_command.run("agents", "import", str(file), "--name", name)
    assert (ended.code, ended.out) == (ExitCode.INTERRUPTED, "")
    [import_id] = re.findall("import-[0-9a-f-]{36}", ended.err)

    def how_it_ended() -> str | None:
        found: Any = letta.get(f"/v1/imports/{import_id}", cast_to=object)
        return found["status"] if found["completed_at"] else None

    status = await wait_for("the end of the import", how_it_ended)
    assert status in ("cancelled", "completed"), "it may have been complete before"
    assert len(letta.agents.list(name=name).items) == (status == "completed")


def test_what_is_wrong_with_a_file_is_told_and_nothing_is_made(
    heeler_command: HeelerCommand, letta: Letta, tmp_path: Path
) -> None:
    file = tmp_path / "broken.af"
    file.write_text('{"agents": [{"id": "agent-0", "messages": [{"role": "nobody"}]}]}')
    ended = heeler_command.run("agents", "import", str(file))
    assert (ended.code, ended.out) == (ExitCode.REFUSED, "")
    assert "agents[0]" in ended.err
    assert "{" not in ended.err, "in words"
    ended = heeler_command.run("agents", "import", str(tmp_path / "missing.af"))
    assert ended.code == ExitCode.NOT_FOUND


def test_an_export_that_fails_leaves_no_file(
    heeler_command: HeelerCommand, new_agent: NewAgent, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    file = folder / "ada.heeler.gz"
    file.write_bytes(b"yesterday's")
    agent = new_agent()
    for arguments in (
        [f"agent-{NOBODY}", str(file)],
        [agent.id, str(file), "--at", "tomorrow"],
        [agent.id, str(file), "--format", "yaml"],
    ):
        ended = heeler_command.run("agents", "export", *arguments)
        assert ended.code in (ExitCode.NOT_FOUND, ExitCode.REFUSED, ExitCode.USAGE)
        assert [path.name for path in folder.iterdir()] == ["ada.heeler.gz"]
        assert file.read_bytes() == b"yesterday's"
    ended = heeler_command.run("agents", "export", agent.id, str(folder / "none" / "ada.gz"))
    assert ended.code == ExitCode.NOT_FOUND


def test_secrets_go_with_the_file_under_a_passphrase(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent, tmp_path: Path
) -> None:
    agent = new_agent(secrets={"TOKEN": "hush-hush"})
    file, passphrase = tmp_path / "ada.gz", tmp_path / "passphrase"
    passphrase.write_text("correct horse\n")
    sealed = ("--passphrase-file", str(passphrase))
    heeler_command("agents", "export", agent.id, str(file), *sealed)
    assert b"hush-hush" not in gzip.decompress(file.read_bytes())
    copy = heeler_command("agents", "import", str(file), *sealed).out.strip()
    assert copy != agent.id
    [secret] = letta.agents.retrieve(copy, include=["agent.secrets"]).secrets
    assert (secret.key, secret.value) == ("TOKEN", "hush-hush")
