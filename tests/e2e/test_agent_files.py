"""Agents are written to files of the retired server's form, and made from such files."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import HELLO, MODEL, ask, call_tool, says, tool_call, unique
from tests.e2e.conftest import NewAgent
from tests.unit.api.agent_files.small_agent_files import ROLL_SCHEMA, legacy_file, modern_file
from tests.unit.letta import recordings
from tests.waiting import wait_for

EXPORT = pytest.mark.operation("GET /v1/agents/{agent_id}/export")
IMPORT = pytest.mark.operation("POST /v1/agents/import")
EXPORT_WITH_SKILLS = pytest.mark.operation("POST /v1/agents/{agent_id}/export")
SOURCE_CODE = """def roll(sides: int) -> str:
    \"\"\"Roll a die.

    Args:
        sides: How many sides it has.
    \"\"\"
    return f"a {sides}"
"""


def exported(http: httpx.Client, agent_id: str, **body: Any) -> Any:
    """The file of an agent."""
    answer = http.post(f"/v1/agents/{agent_id}/export", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@EXPORT_WITH_SKILLS
def test_a_file_has_what_the_agent_has(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(
        memory_blocks=[{"label": "human", "value": "Likes tea."}],
        tags=["t1"],
        secrets={"KEY": "hunter2"},
    )
    call_tool(letta, agent.id, "memory_insert", label="human", new_string="And cake.")
    skill = {"name": "s", "files": {"SKILL.md": "# s"}}
    file = exported(http, agent.id, skills=[skill])
    recorded: Any = recordings.exchange("agent_export")["body"]
    assert [*file] == [*recorded]
    [written] = file["agents"]
    assert [*written] == [*recorded["agents"][0]]
    assert (written["name"], written["tags"]) == (agent.name, ["t1"])
    assert written["tool_exec_environment_variables"] == {"KEY": ""}
    assert "hunter2" not in json.dumps(file)
    [block] = file["blocks"]
    assert block["value"] == "Likes tea.\nAnd cake."
    messages = written["messages"]
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert "And cake." in messages[0]["content"][0]["text"]
    assert messages[2]["tool_calls"][0]["function"]["name"] == "memory_insert"
    assert json.loads(messages[3]["tool_returns"][0]["func_response"])["status"] == "OK"
    assert written["in_context_message_ids"] == [message["id"] for message in messages]
    assert {tool["name"] for tool in file["tools"]} >= {"memory_insert"}
    assert file["skills"] == [{**skill, "source_url": None}]


@EXPORT_WITH_SKILLS
def test_a_file_may_be_without_messages_or_of_another_conversation(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent, other = new_agent(), new_agent()
    ask(letta, agent.id, "hi there")
    scrubbed = exported(http, agent.id, scrub_messages=True)["agents"][0]
    assert scrubbed["messages"] == scrubbed["in_context_message_ids"] == []
    conversation = letta.conversations.create(agent_id=agent.id)
    [system] = exported(http, agent.id, conversation_id=conversation.id)["agents"][0]["messages"]
    assert system["role"] == "system"
    body = {"conversation_id": conversation.id}
    assert http.post(f"/v1/agents/{other.id}/export", json=body).status_code == 404


@EXPORT
def test_a_file_may_be_that_of_an_earlier_moment(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(memory_blocks=[{"label": "human", "value": "Likes tea."}])
    [created] = http.get(f"/v1/agents/{agent.id}/events?topic=agent.created").json()
    call_tool(letta, agent.id, "memory_insert", label="human", new_string="And cake.")
    path = f"/v1/agents/{agent.id}/export"
    [now], [then] = (
        http.get(path, params=at).json()["agents"] for at in ({}, {"at": created["id"]})
    )
    file = http.get(path, params={"at": created["id"]}).json()
    assert [block["value"] for block in file["blocks"]] == ["Likes tea."]
    assert len(now["messages"]) == 5
    assert [message["role"] for message in then["messages"]] == ["system"]
    assert "And cake." not in then["messages"][0]["content"][0]["text"]


def sent(http: httpx.Client, file: Any, **fields: str) -> httpx.Response:
    """The answer to the import of a file."""
    data = file if isinstance(file, bytes) else json.dumps(file).encode()
    return http.post("/v1/agents/import", files={"file": ("agent.af", data)}, data=fields)


def here(file: dict[str, Any]) -> dict[str, Any]:
    """A file whose agents ask a model that this server has."""
    for agent in file.get("agents", [file]):
        agent["llm_config"]["handle"] = MODEL
    return file


def imported(http: httpx.Client, file: Any, **fields: str) -> str:
    """The id of the only agent of a file."""
    answer = sent(http, file, **fields)
    assert answer.status_code == 200, answer.text
    [agent_id] = answer.json()["agent_ids"]
    return str(agent_id)


@EXPORT
@IMPORT
def test_an_agent_is_the_same_after_export_and_import_by_the_sdk(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    tool = letta.tools.create(
        source_code=SOURCE_CODE.replace("roll", unique("roll_").replace("-", "_"))
    )
    agent = new_agent(
        memory_blocks=[{"label": "human", "value": "Likes tea."}],
        tags=["t1"],
        tool_ids=[tool.id],
        tool_rules=[{"type": "exit_loop", "tool_name": "send_message"}],
    )
    call_tool(letta, agent.id, "memory_insert", label="human", new_string="And cake.")
    file = letta.agents.export_file(agent.id)
    answer = letta.agents.import_file(file=file.encode(), append_copy_suffix=True)
    [copy_id] = answer.agent_ids
    before, after = letta.agents.retrieve(agent.id), letta.agents.retrieve(copy_id)
    assert copy_id != agent.id
    assert after.name == f"{before.name}_copy"
    assert (after.system, after.llm_config) == (before.system, before.llm_config)
    assert (after.tool_rules, after.description) == (before.tool_rules, before.description)
    assert tools_of(letta, copy_id) == tools_of(letta, agent.id)
    assert tool.id in tools_of(letta, copy_id)
    assert blocks_of(letta, copy_id) == blocks_of(letta, agent.id)
    assert said_in(letta, copy_id) == said_in(letta, agent.id)
    assert len(after.message_ids or []) == len(before.message_ids or [])
    again = json.loads(letta.agents.export_file(copy_id))
    first = json.loads(file)
    for each in (again, first):
        del each["created_at"], each["agents"][0]["name"]
        for message in each["agents"][0]["messages"]:
            del message["otid"]
        each["agents"][0]["messages"][0]["content"] = []
    assert again == first
    spoken, _ = ask(letta, copy_id, "hi there")
    assert spoken[-1].content == HELLO


@IMPORT
@pytest.mark.parametrize("file", [modern_file(), legacy_file()], ids=["modern", "legacy"])
def test_a_file_of_either_form_becomes_an_agent_that_answers(
    http: httpx.Client, letta: Letta, file: dict[str, Any]
) -> None:
    agent_id = imported(http, here(file), name=unique("old"), secrets='{"KEY": "opened"}')
    agent = http.get(f"/v1/agents/{agent_id}?include=agent.secrets").json()
    assert [secret["value"] for secret in agent["secrets"]] == ["opened"]
    spoken = said_in(letta, agent_id)
    assert ("user_message", "hi there") in spoken or ("user_message", "hello") in spoken
    asked = {"messages": says(tool_call("send_message", message="Hello again."))}
    if agent["agent_type"] == "letta_v1_agent":
        asked = {"messages": says("hi again")}
    answer = http.post(f"/v1/agents/{agent_id}/messages", json=asked)
    assert answer.status_code == 200, answer.text
    kinds = [message["message_type"] for message in answer.json()["messages"]]
    assert "assistant_message" in kinds


@IMPORT
async def test_folders_and_files_come_with_their_texts(
    http: httpx.Client, ahttp: httpx.AsyncClient
) -> None:
    file = here(modern_file())
    file["sources"][0]["name"] = unique("notes")
    agent_id = imported(http, file)
    written = (await ahttp.get(f"/v1/agents/{agent_id}/export", timeout=60)).json()
    assert [each["content"] for each in written["files"]] == ["Tea is hot."], "it waits for it"
    [folder] = (await ahttp.get(f"/v1/agents/{agent_id}/folders")).json()
    path = f"/v1/folders/{folder['id']}/files"

    async def processed() -> Any:
        ended = ("completed", "error")
        files = (await ahttp.get(path)).json()
        return [each for each in files if each["processing_status"] in ended]

    [found] = await wait_for("the file is processed", processed)
    assert found["processing_status"] == "completed"
    file_with_text = await ahttp.get(f"{path}/{found['id']}?include_content=true")
    assert file_with_text.json()["content"] == "Tea is hot."


@IMPORT
def test_an_agent_without_a_model_gets_that_of_the_request(
    http: httpx.Client, letta: Letta
) -> None:
    file = modern_file()
    file["agents"][0]["llm_config"] = None
    refused = sent(http, file)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["entry"] == "agents[0].llm_config"
    agent = letta.agents.retrieve(imported(http, file, model=MODEL))
    made = letta.agents.create(model=MODEL)
    assert agent.llm_config.handle == MODEL
    assert agent.llm_config.context_window == made.llm_config.context_window
    assert ask(letta, agent.id, HELLO)[1] == "end_turn"


@IMPORT
def test_a_tool_of_a_file_is_called_only_after_an_approval(http: httpx.Client) -> None:
    file = here(modern_file())
    name = unique("roll_").replace("-", "_")
    file["tools"][1] |= {
        "name": name,
        "source_code": SOURCE_CODE.replace("roll", name),
        "json_schema": {**ROLL_SCHEMA, "name": name},
    }
    file["agents"][0]["tool_rules"] = []
    agent_id = imported(http, file)
    asked = {"messages": says(tool_call(name, sides=6))}
    answer = http.post(f"/v1/agents/{agent_id}/messages", json=asked).json()
    assert answer["stop_reason"]["stop_reason"] == "requires_approval"

    accepted_id = imported(http, file, accept_tools="true")
    answer = http.post(f"/v1/agents/{accepted_id}/messages", json=asked).json()
    [result] = [
        each for each in answer["messages"] if each["message_type"] == "tool_return_message"
    ]
    assert result["tool_return"] == "a 6"


@IMPORT
def test_a_tool_that_is_there_gets_the_code_of_a_file_only_if_that_is_accepted(
    http: httpx.Client, letta: Letta
) -> None:
    name = unique("roll_").replace("-", "_")
    source = SOURCE_CODE.replace("roll", name)
    tool = letta.tools.create(source_code=source)
    other = source.replace("a {sides}", "another {sides}")
    file = here(modern_file())
    file["tools"][1] |= {"name": name, "source_code": other, "json_schema": None}

    def code() -> str | None:
        return letta.tools.retrieve(tool.id).source_code

    agent_id = imported(http, file)
    assert tool.id in tools_of(letta, agent_id)
    assert code() == source
    failed = sent(http, file, accept_tools="true", model="nobody/nothing")
    assert (failed.status_code, code()) == (422, source)
    imported(http, file, accept_tools="true", override_existing_tools="false")
    assert code() == source
    agent_id = imported(http, file, accept_tools="true")
    assert tool.id in tools_of(letta, agent_id)
    assert code() == other


@IMPORT
def test_what_is_wrong_with_a_file_is_said_and_nothing_is_made(
    http: httpx.Client, letta: Letta
) -> None:
    file = here(modern_file())
    file["agents"][0]["name"] = name = unique("wrong")
    file["agents"][0]["messages"][3]["role"] = "robot"
    answer = sent(http, file)
    assert answer.status_code == 422, answer.text
    assert "agents[0].messages[3].role" in answer.text
    assert sent(http, b"{nothing").status_code in (400, 422)
    file = here(modern_file())
    file["agents"][0]["name"] = name
    file["tools"][1] |= {"source_code": "no Python", "name": unique("roll_").replace("-", "_")}
    answer = sent(http, file)
    assert answer.status_code == 422, answer.text
    [error] = answer.json()["errors"]
    assert error["entry"] == "tools[1]"
    assert letta.agents.list(name=name).items == []


@IMPORT
def test_what_becomes_of_ids_cannot_be_chosen_for_a_file_whose_ids_are_always_new(
    http: httpx.Client, letta: Letta
) -> None:
    file = here(modern_file())
    file["agents"][0]["name"] = name = unique("chosen")
    for policy in ("fail", "replace", "merge", "continue"):
        answer = sent(http, file, conflicts=policy)
        assert answer.status_code == 422, answer.text
        assert f"`conflicts`: '{policy}' has no effect on an agent file" in answer.text
    assert letta.agents.list(name=name).items == []
    assert imported(http, file, conflicts="copy")


@IMPORT
def test_what_is_left_out_of_a_file_is_said_by_entry(http: httpx.Client) -> None:
    file = here(modern_file())
    file["skills"] = [{"name": "cron", "source_url": "letta:cron"}]
    answer = sent(http, file)
    assert answer.status_code == 200, answer.text
    status = http.get(answer.headers["location"]).json()
    assert status["agent_ids"] == answer.json()["agent_ids"]
    assert [each["entry"] for each in status["left_out"]][-2:] == [
        "agents[0].secrets.KEY",
        "skills[0]",
    ]


def tools_of(letta: Letta, agent_id: str) -> list[str]:
    """The ids of an agent's tools."""
    return sorted(tool.id for tool in letta.agents.tools.list(agent_id))


def blocks_of(letta: Letta, agent_id: str) -> list[tuple[str | None, str]]:
    """What an agent remembers."""
    return [(block.label, block.value) for block in letta.agents.blocks.list(agent_id)]


def said_in(letta: Letta, agent_id: str) -> list[tuple[str, Any]]:
    """What was said in an agent's conversation, but for the system's message."""
    listed = letta.agents.messages.list(agent_id, order="asc", limit=100).items
    shown: list[tuple[str, Any]] = []
    for message in listed:
        fields = message.model_dump()
        words = fields.get("content", fields.get("tool_return"))
        shown.append((fields["message_type"], words or fields.get("tool_calls")))
    return [each for each in shown if each[0] != "system_message"]
