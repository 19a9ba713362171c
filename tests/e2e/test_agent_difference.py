"""How an agent differs at two moments."""

from __future__ import annotations

from typing import Any

import httpx
from letta_client import Letta

from tests.e2e.asking import NOBODY, USER, call_tool, says, unique
from tests.e2e.conftest import NewAgent, NewTool
from tests.e2e.test_agent_events import events


def difference(http: httpx.Client, agent_id: str, **query: Any) -> Any:
    answer = http.get(f"/v1/agents/{agent_id}/diff", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def newest(http: httpx.Client, agent_id: str) -> str:
    return str(events(http, agent_id, limit=1)[0]["id"])


def test_everything_that_changed_is_said(
    http: httpx.Client, letta: Letta, new_agent: NewAgent, new_tool: NewTool
) -> None:
    agent = new_agent()
    old = letta.agents.passages.create(agent.id, text="Coffee is ready")[0]
    tool = new_tool("return '1'")
    letta.agents.tools.attach(tool.id, agent_id=agent.id)
    start = newest(http, agent.id)
    letta.agents.update(agent.id, description="Wise", tags=["old"])
    call_tool(letta, agent.id, "memory_insert", label="human", new_string="Likes tea")
    letta.agents.passages.delete(old.id, agent_id=agent.id)
    new = letta.agents.passages.create(agent.id, text="Tea is ready")[0]
    letta.tools.update(tool.id, description="Rolls once")
    middle = newest(http, agent.id)
    notes = letta.blocks.create(label="notes", value="one")
    letta.agents.blocks.attach(notes.id, agent_id=agent.id)
    letta.agents.tools.detach(tool.id, agent_id=agent.id)

    whole = difference(http, agent.id, **{"from": start})
    first = difference(http, agent.id, **{"from": start, "to": middle})
    second = difference(http, agent.id, **{"from": middle})
    none = difference(http, agent.id, **{"from": middle, "to": middle})

    assert first["configuration"] == {
        "description": {"before": None, "after": "Wise"},
        "tags": {"before": [], "after": ["old"]},
    }
    [human] = first["blocks"]["changed"]
    assert human["label"] == "human"
    assert "+Likes tea" in human["value_diff"].split("\n")
    assert first["messages"]["added"]["total"] == 4
    assert first["messages"]["after"] == first["messages"]["before"] + 4
    assert [item["role"] for item in first["messages"]["added"]["items"]] == [
        *("user", "assistant", "tool", "assistant"),
    ]
    assert first["context"]["added"]["items"] == [
        item["id"] for item in first["messages"]["added"]["items"]
    ]
    assert [item["id"] for item in first["passages"]["added"]["items"]] == [new.id]
    assert first["passages"]["added"]["items"][0]["text"] == "Tea is ready"
    assert [item["id"] for item in first["passages"]["removed"]["items"]] == [old.id]
    [changed] = first["tools"]["changed"]
    assert changed["id"] == tool.id
    assert changed["fields"]["description"]["after"] == "Rolls once"
    assert [block["id"] for block in second["blocks"]["added"]] == [notes.id]
    assert [gone["id"] for gone in second["tools"]["removed"]] == [tool.id]
    assert [gone["id"] for gone in whole["tools"]["removed"]] == [tool.id]
    assert whole["passages"] == first["passages"]
    for nothing in (
        *(none["configuration"], none["blocks"]["changed"], none["tools"]["changed"]),
        *(none["messages"]["added"]["items"], none["passages"]["added"]["items"]),
    ):
        assert not nothing


def test_a_conversation_that_went_takes_its_messages_along(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    beside = letta.conversations.create(agent_id=agent.id)
    for _ in letta.conversations.messages.create(beside.id, messages=says("Hello")):
        pass
    start = newest(http, agent.id)
    letta.conversations.delete(beside.id)

    messages = difference(http, agent.id, **{"from": start})["messages"]

    assert messages["removed"]["total"] == 3
    assert len(messages["removed"]["items"]) == 3
    assert messages["after"] == messages["before"] - 3


def test_what_cannot_be_compared_is_named(http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent(name=unique("compared"))
    start = newest(http, agent.id)
    http.patch(f"/v1/agents/{agent.id}", json={"description": "Wise"})
    path = f"/v1/agents/{agent.id}/diff"

    missing = http.get(path)
    wrong = http.get(path, params={"from": "yesterday"})
    swapped = http.get(path, params={"from": newest(http, agent.id), "to": start})
    unknown = http.get(f"/v1/agents/agent-{NOBODY}/diff", params={"from": start})

    assert [missing.status_code, wrong.status_code, swapped.status_code] == [422, 422, 422]
    assert "from" in missing.text
    assert "`from`" in wrong.text
    assert "swap" in swapped.text
    assert unknown.status_code == 404


def test_a_deleted_agent_is_compared_between_two_moments_that_are_given(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    start = newest(http, agent.id)
    letta.agents.update(agent.id, description="Wise")
    end = newest(http, agent.id)
    letta.agents.delete(agent.id)

    changes = difference(http, agent.id, **{"from": start, "to": end})["configuration"]
    until_now = http.get(f"/v1/agents/{agent.id}/diff", params={"from": start})

    assert changes == {"description": {"before": None, "after": "Wise"}}
    assert until_now.status_code == 404
    gone = events(http, agent.id, topic="agent.deleted")
    assert [event["actor_id"] for event in gone] == [USER]
