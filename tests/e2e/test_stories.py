"""What belongs together is seen together: one correlation id from what begins a story to the tools
that its runs call, and lists of runs by what they were started for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from letta_client import Letta

from libs.contracts.letta.enums import MessageRole
from libs.contracts.letta.message_requests import MessageCreate
from libs.contracts.scheduler.schedule_config import (
    Action,
    GroupMessageAction,
    MessageAction,
)
from libs.contracts.service_registry import names
from tests.e2e.asking import unique
from tests.e2e.conftest import NewAgent, NewTool
from tests.servers import HeelerInstance
from tests.waiting import wait_for

SECONDS_MAX = 60.0
# What every run tells that calls a client's tool and edits a block.
OF_A_RUN = {
    ("agent", "run.accepted"),
    ("agent", "run.started"),
    ("agent", "model.replied"),
    ("agent", "tool_call.started"),
    ("agent", "tool_call.finished"),
    ("agent", "run.completed"),
    ("tools", "tool_run.begun"),
    ("tools", "tool_run.ended"),
    ("memory", "block.changed"),
}

OF_A_GROUP_RUN = {
    ("groups", topic)
    for topic in (
        *("group_run.accepted", "group_run.started", "group_message.appended"),
        *("group_hop.started", "group_hop.ended", "group_run.completed"),
    )
}

type Story = list[tuple[str, str, str]]


def story_of(heeler: HeelerInstance, correlation_id: str) -> Story:
    """All that is recorded under a correlation id: service, topic, and what it is about."""
    logs = " union all ".join(
        f"select '{service}', topic, about from {service}.events"
        f" where metadata->>'correlation_id' = '{correlation_id}'"
        for service in names()
    )
    return heeler.psql(logs)  # type: ignore[return-value]


def correlations(heeler: HeelerInstance, run_ids: list[str]) -> set[str]:
    """The correlation ids under which events of these runs, of their tools' calls and of their
    messages are recorded, in all services."""
    listed = ", ".join(f"'{run_id}'" for run_id in run_ids)
    logs = " union ".join(
        f"select metadata->>'correlation_id' from {service}.events where about in ({listed})"
        f" or payload->>'run_id' in ({listed}) or payload->'cause'->>'run_id' in ({listed})"
        for service in names()
    )
    return {found for (found,) in heeler.psql(logs)}


def script(tool: str, text: str) -> str:
    """What has the scripted model call a client's tool, edit a block, and answer."""
    edit = '{"label": "human", "new_string": "Likes tea."}'
    return f'CALL:{tool}:{{"sides": 6}} CALL:memory_insert:{edit} SAY:{text}'


def new_worker(letta: Letta, new_agent: NewAgent, tool: Any) -> str:
    """The id of an agent that has the tool, and a block that it may edit."""
    agent = new_agent(memory_blocks=[{"label": "human", "value": ""}])
    letta.agents.tools.attach(tool.id, agent_id=agent.id)
    return str(agent.id)


async def schedule(ahttp: httpx.AsyncClient, agent_id: str, action: Action) -> str:
    """The id of a schedule that is due in a second."""
    body = {
        "action": {"type": action.type, **action.model_dump(mode="json", exclude_unset=True)},
        "schedule_type": "one_time",
        "scheduled_time": (datetime.now(UTC) + timedelta(seconds=1)).isoformat(),
    }
    created = await ahttp.post(f"/v1/agents/{agent_id}/schedule", json=body)
    assert created.is_success, created.text
    return str(created.json()["id"])


async def ended_firing(heeler: HeelerInstance, schedule_id: str) -> dict[str, Any]:
    """The one firing of a schedule, once it has ended."""
    query = f"select to_jsonb(f) from scheduler.firing_view f where schedule_id = '{schedule_id}'"

    def is_over() -> bool:
        return any(row["status"] not in ("running", "retrying") for (row,) in heeler.psql(query))

    await wait_for("the end of the firing", is_over, SECONDS_MAX)
    [(firing,)] = heeler.psql(query)
    assert firing["status"] == "completed", firing
    return dict(firing)


def user_message(text: str) -> MessageCreate:
    return MessageCreate(role=MessageRole.user, content=text)


async def runs_for(ahttp: httpx.AsyncClient, **started_for: str) -> list[Any]:
    """The runs that were started for a schedule, a batch or a group."""
    answer = await ahttp.get("/v1/runs", params=started_for)
    assert answer.status_code == 200, answer.text
    runs: list[Any] = answer.json()
    return runs


async def test_a_firing_its_run_and_the_tools_are_one_story(
    heeler: HeelerInstance,
    ahttp: httpx.AsyncClient,
    letta: Letta,
    new_agent: NewAgent,
    new_tool: NewTool,
) -> None:
    tool = new_tool("return sides + 1")
    agent_id = new_worker(letta, new_agent, tool)
    action = MessageAction(messages=[user_message(script(tool.name, "Done"))])
    schedule_id = await schedule(ahttp, agent_id, action)

    firing = await ended_firing(heeler, schedule_id)

    [run] = await runs_for(ahttp, schedule_id=schedule_id)
    assert (run["id"], run["status"]) == (firing["run_id"], "completed")
    assert run["metadata"]["schedule_id"] == schedule_id
    assert (await ahttp.get(f"/v1/runs/{run['id']}")).json()["metadata"] == run["metadata"]
    [correlation] = correlations(heeler, [run["id"]])
    story = story_of(heeler, correlation)
    told = {(service, topic) for service, topic, _ in story}
    firing_told = {("scheduler", "firing.started"), ("scheduler", "firing.ended")}
    assert told >= OF_A_RUN | firing_told
    assert {about for _, topic, about in story if topic.startswith("firing.")} == {firing["id"]}
    spans = [span["SpanName"] for span in (await ahttp.get(f"/v1/runs/{run['id']}/trace")).json()]
    assert spans[0] == "agent_run"
    assert {f"{tool.name}._execute_tool", "memory_insert._execute_tool"} <= set(spans)


async def test_a_firing_a_group_its_hops_and_their_tools_are_one_story(
    heeler: HeelerInstance,
    ahttp: httpx.AsyncClient,
    letta: Letta,
    new_agent: NewAgent,
    new_tool: NewTool,
) -> None:
    tool = new_tool("return sides + 1")
    members = [new_worker(letta, new_agent, tool) for _ in range(2)]
    wanted = {
        "agent_ids": members,
        "description": "A team",
        "manager_config": {"manager_type": "round_robin", "max_turns": 2},
    }
    group_id = (await ahttp.post("/v1/groups/", json=wanted)).json()["id"]
    text = script(tool.name, unique("Done"))
    action = GroupMessageAction(group_id=group_id, messages=[user_message(text)])
    schedule_id = await schedule(ahttp, members[0], action)

    firing = await ended_firing(heeler, schedule_id)

    runs = await runs_for(ahttp, group_id=group_id)
    assert sorted(run["agent_id"] for run in runs) == sorted(members)
    assert {run["metadata"]["group_id"] for run in runs} == {group_id}
    run_ids = [firing["run_id"], *(run["id"] for run in runs)]
    [correlation] = correlations(heeler, run_ids)
    told = {(service, topic) for service, topic, _ in story_of(heeler, correlation)}
    firing_told = {("scheduler", "firing.started"), ("scheduler", "firing.ended")}
    assert told >= OF_A_RUN | OF_A_GROUP_RUN | firing_told


async def test_a_batch_and_its_runs_are_one_story(
    heeler: HeelerInstance,
    ahttp: httpx.AsyncClient,
    letta: Letta,
    new_agent: NewAgent,
    new_tool: NewTool,
) -> None:
    tool = new_tool("return sides + 1")
    agent_id, request_id = new_worker(letta, new_agent, tool), unique("request")
    items = [script(tool.name, f"Done {number}") for number in range(3)]
    begun = await ahttp.post(
        f"/v1/agents/{agent_id}/messages/batch",
        json={"items": items, "keep": True},
        headers={"x-request-id": request_id},
    )
    assert begun.status_code == 202, begun.text
    batch_id = begun.json()["id"]
    path = f"/v1/agents/{agent_id}/messages/batch/{batch_id}"

    async def is_over() -> bool:
        return (await ahttp.get(path)).json()["completed_at"] is not None

    await wait_for("the end of the batch", is_over, SECONDS_MAX)
    runs = await runs_for(ahttp, batch_id=batch_id)
    assert len(runs) == 3
    assert correlations(heeler, [run["id"] for run in runs]) == {request_id}
    told = {(service, topic) for service, topic, _ in story_of(heeler, request_id)}
    assert told >= OF_A_RUN


async def test_a_request_to_a_group_is_one_story_under_the_id_that_the_client_gave_it(
    heeler: HeelerInstance, ahttp: httpx.AsyncClient, new_agent: NewAgent
) -> None:
    members = [new_agent().id for _ in range(2)]
    wanted = {
        "agent_ids": members,
        "description": "A team",
        "manager_config": {"manager_type": "round_robin", "max_turns": 2},
    }
    group_id, request_id = (
        (await ahttp.post("/v1/groups/", json=wanted)).json()["id"],
        unique("request"),
    )
    answer = await ahttp.post(
        f"/v1/groups/{group_id}/messages",
        json={"messages": [{"role": "user", "content": "SAY:Hello"}]},
        headers={"x-request-id": request_id},
    )
    assert answer.status_code == 200, answer.text
    runs = await runs_for(ahttp, group_id=group_id)
    assert len(runs) == 2
    assert correlations(heeler, [run["id"] for run in runs]) == {request_id}
    told = {(service, topic) for service, topic, _ in story_of(heeler, request_id)}
    assert told >= OF_A_GROUP_RUN | {("agent", "run.accepted"), ("agent", "run.completed")}
