"""What happened to an agent: the events of all services in one order."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import NOBODY, USER, call_tool, says, unique
from tests.e2e.conftest import NewAgent
from tests.waiting import wait_for


def events(http: httpx.Client, agent_id: str, **query: Any) -> list[dict[str, Any]]:
    answer = http.get(f"/v1/agents/{agent_id}/events", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def topics(found: list[dict[str, Any]]) -> list[str]:
    return [event["topic"] for event in found]


def test_a_memory_edit_stands_between_the_call_and_its_result(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    returned = call_tool(letta, agent.id, "memory_insert", label="human", new_string="Likes tea")

    told = events(http, agent.id)[::-1]

    assert topics(told[:3]).count("agent.created") == 1
    seen = topics(told)
    order = ["tool_call.started", "block.changed", "tool_call.finished"]
    assert [topic for topic in seen if topic in order] == order
    assert seen.index("run.accepted") < seen.index("tool_call.started")
    [changed] = [event for event in told if event["topic"] == "block.changed"]
    [started] = [event for event in told if event["topic"] == "tool_call.started"]
    assert changed["service"] == "memory"
    assert changed["run_id"] == started["run_id"] == returned.run_id
    assert changed["tool_call_id"] == started["tool_call_id"] == returned.tool_call_id
    assert changed["tool_name"] == "memory_insert"
    assert changed["actor_id"] == USER
    assert "Likes tea" in changed["summary"]
    assert changed["id"] == f"{changed['aggregate_id']}.2"
    assert all(event["request_id"] and event["command_id"] for event in told)


async def test_each_event_stands_in_exactly_one_page_either_way(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    letta.agents.messages.create(agent.id, messages=says("Hello"))
    letta.agents.passages.create(agent.id, text="Tea is ready")
    whole = [event["id"] for event in events(http, agent.id)]
    await wait_for(
        "all events are settled",
        lambda: [event["id"] for event in events(http, agent.id, order="asc")] == whole[::-1],
    )

    for order, expected in (("desc", whole), ("asc", whole[::-1])):
        paged: list[str] = []
        while page := events(
            http, agent.id, order=order, limit=3, **({"after": paged[-1]} if paged else {})
        ):
            paged += [event["id"] for event in page]
        assert paged == expected
        before = events(http, agent.id, order=order, limit=2, before=expected[4])
        assert [event["id"] for event in before] == expected[2:4]


def test_filters_narrow_the_events(http: httpx.Client, letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()
    first = call_tool(letta, agent.id, "memory_insert", label="human", new_string="Likes tea")
    letta.agents.messages.create(agent.id, messages=says("Hello"))
    letta.agents.passages.create(agent.id, text="Tea is ready")

    of_run = events(http, agent.id, run_id=first.run_id)
    of_call = events(http, agent.id, tool_call_id=first.tool_call_id)
    written = events(http, agent.id, topic=["passage.created", "block.changed"])
    of_memory = events(http, agent.id, service="memory")
    whole = events(http, agent.id)

    assert {event["run_id"] for event in of_run} == {first.run_id}
    assert {"run.accepted", "block.changed", "run.completed"} <= set(topics(of_run))
    assert {"model.replied", "tool_call.started", "block.changed"} <= set(topics(of_call))
    assert "run.completed" not in topics(of_call)
    assert topics(written) == ["passage.created", "block.changed"]
    assert {event["service"] for event in of_memory} == {"memory"}
    at = of_call[0]["occurred_at"]
    later, earlier = events(http, agent.id, since=at), events(http, agent.id, until=at)
    assert sorted(event["id"] for event in later + earlier) == sorted(
        event["id"] for event in whole
    )
    assert min(event["occurred_at"] for event in later) == at


def test_payloads_come_when_they_are_asked_for_and_without_secrets(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    word = unique("secret")
    agent = new_agent(secrets={"API_TOKEN": word})

    plain = http.get(f"/v1/agents/{agent.id}/events")
    whole = http.get(f"/v1/agents/{agent.id}/events", params={"include": "payload"})

    assert "payload" not in plain.json()[0]
    [replaced] = [e for e in whole.json() if e["topic"] == "agent.secrets_replaced"]
    assert replaced["payload"]["secrets"] == {"API_TOKEN": "[sealed]"}
    assert word not in whole.text
    assert "sealed:" not in whole.text


def test_schedules_groups_identities_and_restores_of_an_agent_are_among_its_events(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent, member = new_agent(), new_agent()
    path = f"/v1/agents/{agent.id}"
    at = events(http, agent.id, limit=1)[0]["id"]
    cron = {"schedule": {"type": "recurring", "cron_expression": "0 9 * * *"}}
    message = {"messages": [{"role": "user", "content": "Good morning"}]}
    scheduled = http.post(f"{path}/schedule", json={**cron, **message})
    assert scheduled.status_code < 300, scheduled.text
    managed = {"manager_type": "supervisor", "manager_agent_id": agent.id}
    group = {"agent_ids": [member.id], "description": "Crew", "manager_config": managed}
    http.post("/v1/groups/", json=group).raise_for_status()
    key = {"identifier_key": unique("ada"), "name": "Ada", "identity_type": "user"}
    identity = http.post("/v1/identities", json=key).json()
    http.patch(f"{path}/identities/attach/{identity['id']}").raise_for_status()
    http.post(f"{path}/restore", json={"at": at, "what": ["blocks"]}).raise_for_status()

    seen = topics(events(http, agent.id)[::-1])

    order = ["schedule.created", "group.created", "attachment.made", "agent_restore.completed"]
    assert [topic for topic in seen if topic in order] == order
    for topic in order:
        [event] = events(http, agent.id, topic=topic)
        assert http.get(path, params={"at": event["id"]}).status_code == 200, topic


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"topic": "block.eaten"}, "topic"),
        ({"service": "kitchen"}, "service"),
        ({"since": "yesterday"}, "since"),
        ({"until": "0000-01-01"}, "until"),
        ({"include": "everything"}, "include"),
        ({"limit": 100_000}, "limit"),
    ],
)
def test_a_wrong_filter_is_named(
    http: httpx.Client, new_agent: NewAgent, query: dict[str, Any], names: str
) -> None:
    answer = http.get(f"/v1/agents/{new_agent().id}/events", params=query)

    assert answer.status_code == 422
    assert names in answer.text


def test_events_of_no_agent_and_after_no_event_are_refused(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()

    missing = http.get(f"/v1/agents/agent-{NOBODY}/events")
    unknown = http.get(f"/v1/agents/{agent.id}/events", params={"after": f"{agent.id}.99"})

    assert missing.status_code == 404
    assert unknown.status_code == 400
    assert "after" in unknown.text


def test_moments_at_the_ends_of_time_bound_nothing(http: httpx.Client, new_agent: NewAgent) -> None:
    agent = new_agent()
    whole = events(http, agent.id)

    first, last = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"

    assert events(http, agent.id, since=first, until=last) == whole
    assert events(http, agent.id, since=last) == events(http, agent.id, until=first) == []


def test_what_a_fork_brought_says_so_and_comes_before_what_followed(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent()
    letta.agents.messages.create(agent.id, messages=says("Hello"))
    fork = http.post(f"/v1/agents/{agent.id}/fork", json={}).json()
    letta.agents.messages.create(fork["id"], messages=says("Hello again"))

    told = events(http, fork["id"])[::-1]

    brought = [event["import_id"] is not None for event in told]
    assert "agent.created" in topics(told)
    assert brought.count(True) > 3
    assert brought == sorted(brought, reverse=True), "first what came, then what happened here"
    assert agent.id not in {event["aggregate_id"] for event in told}


def test_a_run_of_another_agent_is_none_of_this_ones(
    http: httpx.Client, letta: Letta, new_agent: NewAgent
) -> None:
    agent, other = new_agent(), new_agent()
    call = call_tool(letta, other.id, "memory_insert", label="human", new_string="Likes tea")

    assert events(http, other.id, run_id=call.run_id) != []
    assert events(http, agent.id, run_id=call.run_id) == []
    assert events(http, agent.id, tool_call_id=call.tool_call_id, run_id="run-unknown") == []
