"""Agent files of every form become lines that an import takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.agent_file import Footer, Header, HistoryPart, Line
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS
from libs.eventstore.event_decoding import event_of
from libs.eventstore.ports import StoredEvent
from services.agent.domain.agents.agent import Agent
from services.agent.domain.conversations.conversation import Conversation
from services.api.v1.agent_file.import_options import PresentThings
from services.memory.domain.block import Block, unfit
from services.tools.domain.tool_definition import complete_tool
from tests.unit.api.agent_files.small_agent_files import (
    ROLL_SCHEMA,
    SOURCE_CODE,
    call,
    definitions,
    events,
    legacy_file,
    lines_of,
    message,
    messages,
    modern_file,
    options,
    payload,
    returned,
    texts,
)

KINDS: dict[str, type[Aggregate[Any]]] = {
    "agent": Agent,
    "conv": Conversation,
    "block": Block,
}


def aggregates(lines: list[Line]) -> dict[str, Aggregate[Any]]:
    """What the histories of a file amount to, folded by the services that keep them."""
    known: dict[str, Aggregate[Any]] = {}
    for line in lines:
        if not isinstance(line, HistoryPart):
            continue
        name = line.history.aggregate_id
        aggregate = known.setdefault(name, KINDS[name.partition("-")[0]].blank(name))
        assert line.history.first_version == aggregate.version + 1
        for past in line.history.events:
            stored = StoredEvent(
                name,
                aggregate.version + 1,
                past.topic,
                past.schema_version,
                "org",
                name,
                "",
                {},
                past.occurred_at,
            )
            aggregate.append_past(event_of(line.service, stored, past.payload))
    return known


def shown(lines: list[Line]) -> list[Any]:
    """The contents of what models are shown of the only conversation."""
    [conversation] = [each for each in aggregates(lines).values() if type(each) is Conversation]
    return [each.content for each in conversation.state.window]


@pytest.mark.parametrize("file", [modern_file(), legacy_file()], ids=["modern", "legacy"])
def test_the_services_take_what_a_file_becomes(file: Any) -> None:
    lines = lines_of(file)
    known = aggregates(lines)
    [agent] = [each for each in known.values() if isinstance(each, Agent)]
    conversation = known[main_conversation(agent.id)]
    assert isinstance(conversation, Conversation)
    assert agent.design is not None
    assert {*agent.design.block_ids} == {each.id for each in known.values() if type(each) is Block}
    assert all(
        each.present is not None and unfit(each.present) is None
        for each in known.values()
        if isinstance(each, Block)
    )
    assert conversation.state.window[0].role == "system"
    assert conversation.state.agent_id == agent.id
    for tool in definitions(lines, "tool"):
        assert isinstance(complete_tool(ToolState.model_validate(tool.value["tool"])), ToolState)


def test_a_header_comes_first_and_a_footer_with_the_counts_last() -> None:
    header, *between, footer = lines_of(modern_file())
    assert isinstance(header, Header)
    assert isinstance(footer, Footer)
    assert header.written_by == "letta 1c28e167b74f"
    assert sum(footer.counts.values()) == len(between) + 1


def test_the_same_import_names_everything_the_same() -> None:
    assert lines_of(modern_file()) == lines_of(modern_file())


def test_an_agent_without_a_model_is_taken_if_the_request_names_one() -> None:
    file = modern_file()
    file["agents"][0]["llm_config"] = None
    created = payload(lines_of(file, options(model="openai/gpt-5")), "agent.created")
    assert created["config"]["llm_config"]["handle"] == "openai/gpt-5"


def test_an_agent_keeps_its_fields_and_gets_ids_of_its_own() -> None:
    created = payload(lines_of(modern_file()), "agent.created")
    assert created["config"]["id"].startswith("agent-")
    assert created["config"]["id"] != "agent-0"
    assert created["config"]["name"] == "Ada"
    assert created["config"]["system"] == "You are Ada."
    assert created["config"]["llm_config"]["handle"] == "openai/gpt-4o-mini"
    assert created["config"]["created_by_id"] == "user-1"
    assert created["tags"] == ["t1"]
    assert created["tools"] == ["memory_insert", "roll"]


def test_a_block_belongs_to_the_first_agent_that_has_it() -> None:
    lines = lines_of(modern_file())
    block, agent = payload(lines, "block.created"), payload(lines, "agent.created")
    assert block["block"]["value"] == "Likes tea."
    assert block["agent_id"] == agent["config"]["id"]
    assert agent["block_ids"] == agent["own_block_ids"] == [block["block"]["id"]]


def test_a_block_whose_value_is_longer_than_its_limit_gets_a_larger_one() -> None:
    file = modern_file()
    file["blocks"][0] |= {"value": "x" * 20, "limit": 10}
    left_out: list[Any] = []
    lines = lines_of(file, left_out=left_out)
    assert payload(lines, "block.created")["block"]["limit"] == 20
    assert left_out[-1].entry == "agents[0].secrets.KEY"
    assert left_out[0].entry == "blocks[0].limit"


def test_messages_become_a_conversation_with_times_in_order() -> None:
    lines = lines_of(modern_file())
    assert [each["role"] for each in messages(lines)] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    system, user, called, result, answer = messages(lines)
    assert system["content"] == "You are Ada, with blocks."
    assert user["content"] == "hi there"
    assert called["tool_calls"] == [{"id": "call-1", "name": "roll", "arguments": '{"sides": 6}'}]
    assert (result["content"], result["tool_status"]) == ("4", "success")
    assert answer["content"] == "A four."
    times = [event.occurred_at for event in events(lines, "message.appended")]
    assert times == sorted(times)
    assert events(lines, "context.replaced") == []


def test_only_what_was_in_context_is_shown_to_the_model() -> None:
    file = modern_file()
    file["agents"][0]["in_context_message_ids"] = ["message-0", "message-4"]
    lines = lines_of(file)
    assert shown(lines) == ["You are Ada, with blocks.", "A four."]
    assert events(lines, "context.replaced") == []


def test_what_was_in_context_is_shown_in_that_order() -> None:
    file = modern_file()
    file["agents"][0]["in_context_message_ids"] = ["message-0", "message-4", "message-1"]
    assert shown(lines_of(file)) == ["You are Ada, with blocks.", "A four.", "hi there"]


def test_the_system_message_in_context_is_the_first_that_is_shown() -> None:
    file = modern_file()
    agent = file["agents"][0]
    agent["messages"].append(message(5, "system", "You are another."))
    agent["in_context_message_ids"] = ["message-5", "message-4"]
    assert shown(lines_of(file)) == ["You are another.", "A four."]


def test_a_system_message_comes_first_also_where_the_file_has_none() -> None:
    file = modern_file()
    del file["agents"][0]["messages"][0]
    file["agents"][0]["in_context_message_ids"] = ["message-4"]
    lines = lines_of(file)
    [system, *_, last] = messages(lines)
    assert (system["role"], system["content"]) == ("system", "You are Ada.")
    assert shown(lines) == ["You are Ada.", last["content"]]


def test_a_call_without_its_result_is_closed_and_counted() -> None:
    file = modern_file()
    del file["agents"][0]["messages"][3]
    file["agents"][0]["in_context_message_ids"].remove("message-3")
    left_out: list[Any] = []
    lines = lines_of(file, left_out=left_out)
    closed = messages(lines)[3]
    assert (closed["role"], closed["tool_status"]) == ("tool", "error")
    assert closed["tool_call_id"] == "call-1"
    assert events(lines, "context.replaced") == []
    assert "1 calls of tools had no result: each got one that says so" in [
        each.why for each in left_out
    ]


def test_calls_beside_each_other_get_a_result_each() -> None:
    file = modern_file()
    conversation = file["agents"][0]["messages"]
    conversation[2]["tool_calls"].append(call("call-2", "roll", sides=8))
    conversation[3]["tool_returns"].append(returned("call-2", "no die", status="error"))
    results = [each for each in messages(lines_of(file)) if each["role"] == "tool"]
    assert [each["tool_call_id"] for each in results] == ["call-1", "call-2"]
    assert [each["content"] for each in results] == ["4", "no die"]
    assert [each["tool_status"] for each in results] == ["success", "error"]
    assert results[0]["id"] != results[1]["id"]


def test_an_approval_is_asked_for_and_answered() -> None:
    file = modern_file()
    conversation = file["agents"][0]["messages"]
    conversation[2]["role"] = "approval"
    denial = {"type": "approval", "tool_call_id": "call-1", "approve": False, "reason": "no"}
    conversation.insert(3, message(9, "approval", approvals=[denial]))
    file["agents"][0]["in_context_message_ids"].insert(3, "message-9")
    lines = lines_of(file)
    _, _, asked, answer, result, _ = messages(lines)
    assert asked["role"] == "assistant"
    assert asked["tool_calls"][0]["gated"] is True
    assert (answer["role"], answer["request_id"]) == ("approval", asked["id"])
    assert answer["content"] == [denial]
    assert result["tool_call_id"] == "call-1"
    assert events(lines, "context.replaced") == []


def test_reasoning_stays_what_its_provider_wants_back() -> None:
    file = modern_file()
    thought = {"type": "reasoning", "is_native": True, "reasoning": "Hm.", "signature": "sig"}
    file["agents"][0]["messages"][4]["content"].insert(0, thought)
    last = messages(lines_of(file))[-1]
    assert last["content"] == "A four."
    assert last["reasoning_parts"] == [{"text": "Hm.", "signature": "sig", "redacted": None}]


def test_an_old_agent_thinks_in_text_and_speaks_by_a_tool() -> None:
    lines = lines_of(legacy_file())
    _, user, spoken, result = messages(lines)
    assert user["content"] == "hello"
    assert (spoken["reasoning"], spoken["content"]) == ("I greet.", None)
    assert spoken["inner_thoughts"] is True
    assert spoken["tool_calls"][0]["spoken_argument"] == "message"
    assert (result["content"], result["hidden"]) == ("None", True)


def test_what_an_old_agent_said_has_a_result_also_where_the_file_has_none() -> None:
    file = legacy_file()
    del file["messages"][3]
    file["in_context_message_indices"] = [0, 2]
    left_out: list[Any] = []
    lines = lines_of(file, left_out=left_out)
    result = messages(lines)[-1]
    assert (result["role"], result["hidden"], result["tool_status"]) == ("tool", True, "success")
    assert [each.entry for each in left_out] == ["secrets.KEY"]


def test_the_legacy_form_keeps_the_fields_of_its_agent() -> None:
    lines = lines_of(legacy_file())
    created = payload(lines, "agent.created")
    assert created["config"]["name"] == "old_agent"
    assert created["config"]["agent_type"] == "memgpt_agent"
    assert created["config"]["metadata"] == {"a": 1}
    assert created["tags"] == ["old"]
    assert payload(lines, "block.created")["block"]["label"] == "persona"
    assert shown(lines) == ["You are old.", None, "None"]


def test_a_file_that_is_json_within_json_is_read() -> None:
    once = json.dumps(modern_file())
    assert lines_of(json.dumps(once).encode()) == lines_of(once.encode())


def test_a_tool_of_the_server_stays_that_of_the_server() -> None:
    file = modern_file()
    file["tools"][0] |= {"tool_type": "custom", "source_code": "def memory_insert(): evil()"}
    left_out: list[Any] = []
    lines = lines_of(file, options(override_existing_tools=True), left_out=left_out)
    assert [each.value["tool"]["name"] for each in definitions(lines, "tool")] == ["roll"]
    created = payload(lines, "agent.created")
    assert created["tool_ids"][0] == SERVER_TOOLS["memory_insert"].id
    assert left_out[0].entry == "tools[0]"


def test_a_tool_of_a_file_needs_an_approval_until_somebody_accepts_it() -> None:
    rule = {"tool_name": "roll", "type": "requires_approval", "prompt_template": None}
    lines = lines_of(modern_file())
    [tool] = definitions(lines, "tool")
    assert tool.value["tool"]["default_requires_approval"] is True
    assert rule in payload(lines, "agent.created")["config"]["tool_rules"]

    accepted = lines_of(modern_file(), options(tools_accepted=True))
    [tool] = definitions(accepted, "tool")
    assert tool.value["tool"]["default_requires_approval"] is None
    assert rule not in payload(accepted, "agent.created")["config"]["tool_rules"]


@pytest.mark.parametrize("said", [True, False, None])
def test_a_tool_that_is_accepted_needs_the_approval_that_its_file_says(said: bool | None) -> None:
    file = modern_file()
    file["tools"][1]["default_requires_approval"] = said
    [tool] = definitions(lines_of(file, options(tools_accepted=True)), "tool")
    assert tool.value["tool"]["default_requires_approval"] is said
    [untrusted] = definitions(lines_of(file), "tool")
    assert untrusted.value["tool"]["default_requires_approval"] is True
    there = PresentThings(tools={"roll": "tool-there"}, tool_sources={"roll": "def roll(): ..."})
    asked = options(tools_accepted=True, override_existing_tools=True)
    [override] = definitions(lines_of(file, asked, there), "tool")
    assert override.id == "tool-there"
    assert ("default_requires_approval" in override.value["given"]) is (said is not None)
    assert override.value["tool"]["default_requires_approval"] is said


def test_a_tool_loses_the_arguments_that_the_retired_server_added() -> None:
    file = modern_file()
    added = {"agent_state": {"type": "any"}, "request_heartbeat": {"type": "boolean"}}
    sides = {"sides": {"type": "integer"}}
    parameters = {"type": "object", "properties": {**added, **sides}, "required": [*added, *sides]}
    file["tools"][1]["json_schema"] = {**ROLL_SCHEMA, "parameters": parameters}
    [tool] = definitions(lines_of(file), "tool")
    schema = tool.value["tool"]["json_schema"]
    assert schema["parameters"] == {"type": "object", "properties": sides, "required": ["sides"]}


def test_a_tool_that_is_there_is_used_and_not_overridden_by_an_unaccepted_one() -> None:
    present = PresentThings(tools={"roll": "tool-there"}, tool_sources={"roll": "def roll(): ..."})
    rule = {"tool_name": "roll", "type": "requires_approval", "prompt_template": None}
    for asked in (options(), options(override_existing_tools=True), options(tools_accepted=True)):
        left_out: list[Any] = []
        lines = lines_of(modern_file(), asked, present, left_out)
        assert definitions(lines, "tool") == []
        created = payload(lines, "agent.created")
        assert created["tool_ids"][1] == "tool-there"
        assert rule not in created["config"]["tool_rules"]
        assert left_out[0].entry == "tools[1]"

    asked = options(override_existing_tools=True, tools_accepted=True)
    lines = lines_of(modern_file(), asked, present)
    [tool] = definitions(lines, "tool")
    assert tool.id == "tool-there"
    assert "source_code" in tool.value["given"]


def test_a_tool_that_is_there_with_the_same_code_is_simply_used() -> None:
    present = PresentThings(tools={"roll": "tool-there"}, tool_sources={"roll": SOURCE_CODE})
    left_out: list[Any] = []
    lines = lines_of(modern_file(), present=present, left_out=left_out)
    assert definitions(lines, "tool") == []
    assert [each.entry for each in left_out] == ["agents[0].secrets.KEY"]


def test_a_tool_that_this_import_has_made_already_is_defined_again() -> None:
    before = lines_of(modern_file())
    [tool] = definitions(before, "tool")
    present = PresentThings(tools={"roll": tool.id}, tool_sources={"roll": SOURCE_CODE})
    assert lines_of(modern_file(), present=present) == before


def test_a_tool_of_an_mcp_server_is_used_if_it_is_there_and_left_out_else() -> None:
    file = modern_file()
    file["tools"][1] |= {"tool_type": "external_mcp", "source_code": "def roll(**kwargs): ..."}
    left_out: list[Any] = []
    lines = lines_of(file, left_out=left_out)
    assert payload(lines, "agent.created")["tools"] == ["memory_insert"]
    assert left_out[0].entry == "tools[1]"
    present = PresentThings(tools={"roll": "tool-there"})
    created = payload(lines_of(file, present=present), "agent.created")
    assert created["tool_ids"][1] == "tool-there"


def test_a_file_starts_no_mcp_server_unless_the_request_says_so() -> None:
    file = modern_file()
    file["mcp_servers"] = [
        {
            "id": "mcp_server-0",
            "server_type": "stdio",
            "server_name": "exa",
            "stdio_config": {"command": "npx", "args": ["exa"]},
        }
    ]
    left_out: list[Any] = []
    assert definitions(lines_of(file, left_out=left_out), "mcp_server") == []
    assert left_out[0].entry == "mcp_servers[0]"
    [server] = definitions(lines_of(file, options(tools_accepted=True)), "mcp_server")
    assert server.value["name"] == "exa"
    assert server.value["config"] == {"transport": "stdio", "command": "npx", "args": ["exa"]}


def test_folders_come_with_the_texts_of_their_files() -> None:
    lines = lines_of(modern_file())
    [folder] = definitions(lines, "folder")
    [text] = texts(lines)
    assert folder.value["name"] == "notes"
    assert folder.attached_to == (payload(lines, "agent.created")["config"]["id"],)
    assert text.folder_id == folder.id
    assert text.value["name"] == "a.txt"
    assert [chunk.text for chunk in text.chunks] == ["Tea is hot."]


def test_a_folder_whose_name_is_taken_gets_another() -> None:
    present = PresentThings(folder_names=frozenset({"notes"}))
    [folder] = definitions(lines_of(modern_file(), present=present), "folder")
    assert str(folder.value["name"]).startswith("notes_")


def test_a_group_follows_its_agents() -> None:
    file = modern_file()
    other = {**modern_file()["agents"][0], "id": "agent-1", "name": "Bob", "block_ids": []}
    file["agents"].append(other)
    manager = {"manager_type": "sleeptime", "manager_agent_id": "agent-0"}
    file["groups"] = [{"id": "group-0", "agent_ids": ["agent-1"], "manager_config": manager}]
    lines = lines_of(file)
    configs = [event.payload["config"] for event in events(lines, "agent.created")]
    first, second = (config["id"] for config in configs)
    assert [config["enable_sleeptime"] for config in configs] == [True, None]
    [group] = definitions(lines, "group")
    assert group.value["config"]["agent_ids"] == [second]
    assert group.value["config"]["manager_agent_id"] == first
    assert lines.index(group) == len(lines) - 2


def test_options_change_the_name_the_project_the_messages_and_the_secrets() -> None:
    asked = options(
        append_copy_suffix=True,
        project_id="project-1",
        strip_messages=True,
        secrets={"KEY": "sealed:c2VjcmV0"},
    )
    left_out: list[Any] = []
    lines = lines_of(modern_file(), asked, left_out=left_out)
    created = payload(lines, "agent.created")["config"]
    assert (created["name"], created["project_id"]) == ("Ada_copy", "project-1")
    assert [each["role"] for each in messages(lines)] == ["system"]
    assert payload(lines, "agent.secrets_replaced")["secrets"] == {"KEY": "sealed:c2VjcmV0"}
    assert left_out == []
    named = lines_of(modern_file(), options(name="Eve", append_copy_suffix=True))
    assert payload(named, "agent.created")["config"]["name"] == "Eve"


def test_a_long_conversation_comes_in_several_lines() -> None:
    file = modern_file()
    agent = file["agents"][0]
    agent["messages"] = [message(0, "system", "s")]
    agent["messages"] += [
        message(number, "user", f"m{number}", created_at=None) for number in range(1, 1_200)
    ]
    agent["in_context_message_ids"] = ["message-0", "message-1199"]
    lines = lines_of(file)
    parts = [
        line.history
        for line in lines
        if isinstance(line, HistoryPart) and line.history.aggregate_id.startswith("conv-")
    ]
    assert len(parts) == 3
    assert [part.complete for part in parts] == [False, False, True]
    assert [part.first_version for part in parts] == [1, 501, 1_001]
    assert len(messages(lines)) == 1_200
