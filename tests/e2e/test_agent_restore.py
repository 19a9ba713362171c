"""The way back: a bad edit, a bad compaction and a bad configuration are undone in one call."""

from __future__ import annotations

from typing import Any

import httpx
from letta_client import Letta

from tests.e2e.asking import NOBODY, call_tool, says, tool_call, unique
from tests.e2e.conftest import PAUSING, NewAgent, NewTool
from tests.e2e.test_agent_difference import difference, newest
from tests.e2e.test_agent_events import events
from tests.waiting import wait_for


def restore(
    http: httpx.Client, agent_id: str, at: str, *what: str, key: str = ""
) -> httpx.Response:
    headers = {"idempotency-key": key} if key else {}
    body = {"at": at, "what": [*what]}
    return http.post(f"/v1/agents/{agent_id}/restore", json=body, headers=headers)


def restored(http: httpx.Client, agent_id: str, at: str, *what: str) -> Any:
    answer = restore(http, agent_id, at, *what)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_bad_edit_of_a_block_is_undone(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    at = newest(http, agent.id)
    call_tool(letta, agent.id, "memory_replace", label="human", old_string="Ada", new_string="Eve")
    persona = next(block for block in agent.memory.blocks if block.label == "persona")
    letta.blocks.delete(persona.id)
    notes = letta.blocks.create(label="notes", value="one")
    letta.agents.blocks.attach(notes.id, agent_id=agent.id)

    shown = restored(http, agent.id, at, "blocks")

    values = {block["label"]: block["value"] for block in shown["blocks"]}
    assert values == {"human": "Name: Ada", "persona": "I am kind."}
    assert letta.blocks.retrieve(notes.id).value == "one", "what is detached is not deleted"
    [undone] = events(http, agent.id, topic="block.changed", include="payload", limit=1)
    assert undone["payload"]["restored_version"] == 1
    assert undone["request_id"].startswith("restore-")
    again = restored(http, agent.id, at, "blocks")
    assert [block["id"] for block in again["blocks"]] == [block["id"] for block in shown["blocks"]]
    assert difference(http, agent.id, **{"from": undone["id"]})["blocks"]["changed"] == []


def test_a_bad_compaction_is_undone(http: httpx.Client, letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()
    for word in ("tea", "coffee"):
        letta.agents.messages.create(agent.id, messages=says(f"I like {word}"))
    before = letta.agents.retrieve(agent.id).message_ids
    at = newest(http, agent.id)
    http.post(f"/v1/agents/{agent.id}/summarize").raise_for_status()
    letta.agents.messages.create(agent.id, messages=says("Still there?"))
    assert letta.agents.retrieve(agent.id).message_ids != before

    shown = restored(http, agent.id, at, "context")

    assert shown["message_ids"] == before
    context = http.get(f"/v1/agents/{agent.id}/context").json()
    assert [message["id"] for message in context["messages"]] == before
    [replaced] = events(http, agent.id, topic="context.replaced", include="payload")
    assert replaced["payload"]["restored_from"].rpartition(".")[0] == replaced["aggregate_id"]
    assert len(letta.agents.messages.list(agent.id, limit=100).items) > len(before)
    answer = letta.agents.messages.create(agent.id, messages=says("And now?"))
    assert answer.stop_reason.stop_reason == "end_turn"


def test_what_was_said_by_send_message_comes_back_too(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(**PAUSING)
    spoken = tool_call("send_message", message="Tea it is.")
    letta.agents.messages.create(agent.id, messages=says(spoken))
    before = letta.agents.retrieve(agent.id).message_ids
    at = newest(http, agent.id)
    http.post(f"/v1/agents/{agent.id}/summarize").raise_for_status()

    assert restored(http, agent.id, at, "context")["message_ids"] == before

    [replaced] = events(http, agent.id, topic="context.replaced", include="payload")
    answers = [each for each in replaced["payload"]["returned"] if each["role"] == "tool"]
    assert len(answers) == 1, "models are shown what became of the call, which clients are not"
    letta.agents.messages.create(agent.id, messages=says(spoken))


def test_a_configuration_comes_back_without_what_is_gone(
    http: httpx.Client, letta: Letta, new_agent: NewAgent, new_tool: NewTool
) -> None:
    kept, gone = new_tool("return '1'"), new_tool("return '2'")
    agent = new_agent(name=unique("first"), tags=["old"], tool_ids=[kept.id, gone.id])
    at = newest(http, agent.id)
    letta.agents.update(agent.id, name=unique("second"), system="Be rude.", tags=["new"])
    letta.agents.tools.detach(kept.id, agent_id=agent.id)
    letta.tools.delete(gone.id)

    shown = restored(http, agent.id, at, "configuration")

    assert (shown["name"], shown["tags"], shown["system"]) == (agent.name, ["old"], agent.system)
    names = {tool["id"] for tool in shown["tools"]}
    assert kept.id in names
    assert gone.id not in names
    [updated] = events(http, agent.id, topic="agent.updated", include="payload", limit=1)
    assert updated["payload"]["restored_from"].startswith(f"{agent.id}.")


async def test_nothing_is_restored_while_a_run_is_in_the_way(
    http: httpx.Client, letta: Letta, new_agent: NewAgent, new_tool: NewTool
) -> None:
    tool = new_tool("import time\ntime.sleep(50)\nreturn '1'")  # until it is cancelled
    agent = new_agent(tool_ids=[tool.id])
    at = newest(http, agent.id)
    letta.agents.update(agent.id, description="Wise")
    run = letta.agents.messages.create_async(agent.id, messages=says(tool_call(tool.name, sides=6)))
    await wait_for("the tool is called", lambda: events(http, agent.id, topic="tool_call.started"))

    refused = restore(http, agent.id, at, "configuration", "context")

    assert refused.status_code == 409
    assert run.id in refused.text
    assert letta.agents.retrieve(agent.id).description == "Wise"
    letta.agents.messages.cancel(agent.id)


def test_the_same_request_again_changes_nothing(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent, key = new_agent(), unique("key")
    at = newest(http, agent.id)
    letta.agents.blocks.update("human", agent_id=agent.id, value="Name: Eve")
    first = restore(http, agent.id, at, "blocks", "configuration", "context", key=key)
    letta.agents.blocks.update("human", agent_id=agent.id, value="Name: Grace")
    last = newest(http, agent.id)

    again = restore(http, agent.id, at, "blocks", "configuration", "context", key=key)

    assert (first.status_code, again.status_code) == (200, 200)
    assert newest(http, agent.id) == last, "what came after it stays"


def test_what_cannot_be_restored_is_named(http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent()
    at = newest(http, agent.id)

    nothing = restore(http, agent.id, at)
    unknown = restore(http, agent.id, at, "weather")
    never = restore(http, agent.id, f"{agent.id}.99", "blocks")
    nobody = restore(http, f"agent-{NOBODY}", at, "blocks")

    assert [nothing.status_code, unknown.status_code] == [422, 422]
    assert "what" in nothing.text
    assert never.status_code == 404
    assert nobody.status_code == 404


def test_where_a_part_is_refused_everything_is_as_before(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent, other = new_agent(), new_agent()
    human = next(block for block in agent.memory.blocks if block.label == "human")
    at = newest(http, agent.id)
    letta.agents.update(agent.id, description="Wise")
    letta.blocks.update(human.id, label="person")
    letta.agents.blocks.attach(human.id, agent_id=other.id)
    before = letta.agents.retrieve(agent.id)

    refused = restore(http, agent.id, at, "configuration", "blocks")

    assert refused.status_code == 409, refused.text
    assert "human" in refused.text
    after = letta.agents.retrieve(agent.id)
    stamps = {"updated_at", "last_updated_by_id"}
    assert after.model_dump(exclude=stamps) == before.model_dump(exclude=stamps)
    letta.agents.blocks.detach(human.id, agent_id=other.id)
    assert restored(http, agent.id, at, "configuration", "blocks")["description"] is None
