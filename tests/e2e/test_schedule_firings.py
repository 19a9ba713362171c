"""Schedules fire: what the scheduler service does about slots, and what then stands in the history.

The commands are sent over the bus; what clients send over HTTP is in the tests of the routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from letta_client import Letta

from libs.bus.clock_and_ids import RandomIds
from libs.bus.nats_bus import NatsBus
from libs.contracts.bus_messages import Accepted, Command, Context, JsonObject, Rejected
from libs.contracts.letta.enums import MessageRole
from libs.contracts.letta.message_requests import MessageCreate
from libs.contracts.scheduler.schedule_config import (
    Action,
    CompactAction,
    GroupMessageAction,
    MessageAction,
    ScheduleConfig,
    SummarizeAction,
    ToolAction,
)
from libs.contracts.scheduler.schedules import (
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    PauseSchedule,
    UpdateSchedule,
)
from tests.e2e.asking import ask
from tests.e2e.conftest import PAUSING, NewAgent, NewTool
from tests.servers import HeelerInstance
from tests.waiting import wait_for

SECONDS_MAX = 40.0

type Send = Callable[[Command], Awaitable[Accepted | Rejected]]


@pytest.fixture
async def send(heeler: HeelerInstance) -> AsyncIterator[Send]:
    """Sends a command as the api does."""
    bus, ids = NatsBus(heeler.nats_url, "schedules-test"), RandomIds()
    await bus.start()

    async def request(command: Command) -> Accepted | Rejected:
        return await bus.request(command, Context(ids.new("test")))

    yield request
    await bus.stop()


def saying(text: str) -> MessageAction:
    return MessageAction(messages=[MessageCreate(role=MessageRole.user, content=text)])


def config(agent_id: str, action: Action, **fields: Any) -> ScheduleConfig:
    """A schedule of an agent, which is due in a second unless something else is said."""
    now = datetime.now(UTC)
    when = {"schedule_type": "one_time", "scheduled_at": now + timedelta(seconds=1)}
    wanted: dict[str, Any] = {"id": f"schedule-{uuid4()}", "agent_id": agent_id, **when, **fields}
    return ScheduleConfig(created_at=now, action=action, **wanted)


def firings(heeler: HeelerInstance, schedule: ScheduleConfig) -> list[JsonObject]:
    """The firings of a schedule, the oldest first."""
    query = (
        "select to_jsonb(f) from scheduler.firing_view f"
        f" where schedule_id = '{schedule.id}' order by created_at, id"
    )
    return [row for (row,) in heeler.psql(query)]


async def ended(heeler: HeelerInstance, schedule: ScheduleConfig, count: int = 1) -> list[Any]:
    """The firings of a schedule once so many have ended."""

    def over() -> bool:
        found = firings(heeler, schedule)
        return sum(row["status"] not in ("running", "retrying") for row in found) >= count

    await wait_for("the ends of firings", over, SECONDS_MAX)
    return firings(heeler, schedule)


def row_of(heeler: HeelerInstance, schedule: ScheduleConfig) -> Any:
    [(row,)] = heeler.psql(
        f"select to_jsonb(s) from scheduler.schedule_view s where id = '{schedule.id}'"
    )
    return row


async def test_a_one_time_schedule_fires_once_and_its_answer_stands_in_the_history(
    heeler: HeelerInstance, letta: Letta, new_agent: NewAgent, send: Send
) -> None:
    agent = new_agent()
    schedule = config(agent.id, saying("The time has come"))
    created = await send(CreateSchedule(schedule=schedule))
    assert isinstance(created, Accepted), created

    [firing] = await ended(heeler, schedule)

    assert (firing["status"], firing["attempts"], firing["error"]) == ("completed", 1, None)
    run = letta.runs.retrieve(firing["run_id"])
    assert run.status == "completed"
    assert run.metadata is not None
    assert run.metadata["run_type"] == "schedule"
    assert run.metadata["schedule_id"] == schedule.id
    assert run.metadata["firing_id"] == firing["id"]
    said = [
        message.content
        for message in letta.agents.messages.list(agent.id)
        if message.message_type in ("user_message", "assistant_message")
    ]
    told, _ = said
    assert told.startswith("[Automatic message] This was due on ")
    assert told.endswith(" (UTC).\n\nThe time has come")
    row = row_of(heeler, schedule)
    assert (row["status"], row["next_at"]) == ("completed", None)
    assert datetime.fromisoformat(row["fields"]["last_slot"]) == schedule.scheduled_at
    correlations = heeler.psql(
        "select distinct metadata->>'correlation_id' from scheduler.events"
        f" where about = '{firing['id']}' union select distinct metadata->>'correlation_id'"
        f" from agent.events where about = '{firing['run_id']}'"
    )
    assert correlations == [(firing["id"],)]


async def test_a_recurring_schedule_is_fired_by_hand_and_deleted(
    heeler: HeelerInstance, new_agent: NewAgent, send: Send
) -> None:
    weekly = {"schedule_type": "recurring", "scheduled_at": None, "cron_expression": "0 9 * * mon"}
    schedule = config(new_agent().id, saying("Now and then"), **weekly, timezone="Asia/Tokyo")
    assert isinstance(await send(CreateSchedule(schedule=schedule)), Accepted)
    row = row_of(heeler, schedule)
    next_at = datetime.fromisoformat(row["next_at"]).astimezone(UTC)
    assert (row["status"], next_at.weekday(), next_at.hour) == ("active", 0, 0)

    fired = await send(FireSchedule(schedule_id=schedule.id))
    assert isinstance(fired, Accepted)
    [firing] = await ended(heeler, schedule)
    assert (firing["id"], firing["run_id"]) == (fired.result["firing_id"], fired.result["run_id"])
    assert (firing["status"], firing["fields"]["by_hand"]) == ("completed", True)

    assert isinstance(await send(PauseSchedule(schedule_id=schedule.id)), Accepted)
    assert row_of(heeler, schedule)["next_at"] is None
    assert isinstance(await send(DeleteSchedule(schedule_id=schedule.id)), Accepted)
    assert firings(heeler, schedule) == []
    gone = await send(UpdateSchedule(schedule_id=schedule.id, changes={"name": "x"}))
    assert isinstance(gone, Rejected)
    assert gone.code == "not_found"


async def test_a_run_that_fails_is_retried_and_then_a_dead_letter_which_can_be_fired_again(
    heeler: HeelerInstance, new_agent: NewAgent, send: Send
) -> None:
    schedule = config(new_agent().id, saying("FAIL:500"), retries_max=0)
    assert isinstance(await send(CreateSchedule(schedule=schedule)), Accepted)
    [firing] = await ended(heeler, schedule)
    assert firing["status"] == "dead_letter"
    assert firing["error"]
    last_error = row_of(heeler, schedule)["fields"]["last_error"]
    assert (last_error["firing_id"], last_error["error"]) == (firing["id"], firing["error"])

    better = UpdateSchedule(
        schedule_id=schedule.id,
        changes={"action": saying("Better now").model_dump(mode="json")},
    )
    assert isinstance(await send(better), Accepted)
    again = await send(FireSchedule(schedule_id=schedule.id, firing_id=firing["id"]))
    assert isinstance(again, Accepted), again
    assert again.result["run_id"] != firing["run_id"]

    def completed() -> bool:
        return firings(heeler, schedule)[0]["status"] == "completed"

    await wait_for("the second attempt", completed, SECONDS_MAX)
    assert row_of(heeler, schedule)["fields"]["last_error"] is None


async def test_a_schedule_calls_a_tool_of_its_agent(
    heeler: HeelerInstance, letta: Letta, new_agent: NewAgent, new_tool: NewTool, send: Send
) -> None:
    agent, tool = new_agent(), new_tool("return sides + 1")
    letta.agents.tools.attach(tool.id, agent_id=agent.id)
    schedule = config(agent.id, ToolAction(tool_name=tool.name, arguments={"sides": 6}))
    assert isinstance(await send(CreateSchedule(schedule=schedule)), Accepted)
    [firing] = await ended(heeler, schedule)
    assert (firing["status"], firing["error"]) == ("completed", None)
    [(text,)] = heeler.psql(
        f"select result->>'text' from tools.tool_run_view where id = '{firing['run_id']}'"
    )
    assert text == "7"

    unknown = config(agent.id, ToolAction(tool_name="no_such_tool"))
    refused = await send(CreateSchedule(schedule=unknown))
    assert isinstance(refused, Rejected)
    assert "action.tool_name" in refused.reason


async def test_a_schedule_compacts_and_skips_where_nothing_is_to_be_made_shorter(
    heeler: HeelerInstance, letta: Letta, new_agent: NewAgent, send: Send
) -> None:
    agent = new_agent()
    empty = config(agent.id, CompactAction())
    assert isinstance(await send(CreateSchedule(schedule=empty)), Accepted)
    [firing] = await ended(heeler, empty)
    assert firing["status"] == "skipped"
    assert firing["error"]

    for text in ("One", "Two", "Three"):
        letta.agents.messages.create(agent.id, input=text)
    compacts = config(agent.id, CompactAction())
    assert isinstance(await send(CreateSchedule(schedule=compacts)), Accepted)
    [firing] = await ended(heeler, compacts)
    assert firing["status"] == "completed"


@pytest.mark.parametrize("if_active", ["wake", "queue"])
async def test_a_schedule_that_wakes_its_agent_ends_a_pause(
    heeler: HeelerInstance, letta: Letta, new_agent: NewAgent, send: Send, if_active: str
) -> None:
    agent = new_agent(**PAUSING)
    ask(letta, agent.id, 'CALL:pause_heartbeats:{"minutes": 60}')
    pauses = f"select 1 from agent.heartbeat_pauses where agent_id = '{agent.id}'"
    assert heeler.psql(pauses) == [(1,)]
    words = saying('CALL:send_message:{"message": "Good morning"}')
    schedule = config(agent.id, words, if_active=if_active)
    assert isinstance(await send(CreateSchedule(schedule=schedule)), Accepted)
    [firing] = await ended(heeler, schedule)
    assert (firing["status"], firing["error"]) == ("completed", None)
    ends = (
        "select count(*) filter (where topic = 'heartbeat_pause.cancelled'),"
        " count(*) filter (where topic = 'heartbeats.resumed') from agent.events"
        " where aggregate_id = (select aggregate_id from agent.events"
        f" where about = '{firing['run_id']}' and topic = 'run.accepted')"
    )
    [(cancelled, resumed)] = heeler.psql(ends)
    if if_active == "wake":
        assert (heeler.psql(pauses), cancelled, resumed) == ([], 1, 0)
    else:
        assert cancelled == 0, "the agent is answered, and its pause goes on to its end"
        assert (heeler.psql(pauses), resumed) == ([(1,)], 0)


async def test_a_schedule_goes_with_its_agent(
    heeler: HeelerInstance, letta: Letta, new_agent: NewAgent, send: Send
) -> None:
    agent = new_agent()
    schedule = config(agent.id, saying("Hello?"), scheduled_at=datetime(2099, 1, 1, tzinfo=UTC))
    assert isinstance(await send(CreateSchedule(schedule=schedule)), Accepted)
    letta.agents.delete(agent.id)
    rows = f"select 1 from scheduler.schedule_view where id = '{schedule.id}'"
    await wait_for("the end of the schedule", lambda: heeler.psql(rows) == [], SECONDS_MAX)
    refused = await send(CreateSchedule(schedule=config(agent.id, saying("Hello?"))))
    assert isinstance(refused, Rejected)
    assert refused.reason == f"Agent with id '{agent.id}' not found"


async def test_a_schedule_writes_a_summary(
    heeler: HeelerInstance, letta: Letta, new_agent: NewAgent, send: Send
) -> None:
    agent = new_agent()
    letta.agents.messages.create(agent.id, input="My cat is called Whiskers")
    schedule = config(agent.id, SummarizeAction(summary_length="short"))
    assert isinstance(await send(CreateSchedule(schedule=schedule)), Accepted)
    [firing] = await ended(heeler, schedule)
    assert (firing["status"], firing["error"]) == ("completed", None)
    assert firing["run_id"].startswith("summary-")
    rows = f"select status from agent.summary_view where id = '{firing['run_id']}'"
    assert heeler.psql(rows) == [("completed",)]


def new_group(http: httpx.Client, agent_id: str) -> str:
    """The id of a group with one member, which answers once."""
    manager = {"manager_type": "round_robin", "max_turns": 1}
    wanted = {"agent_ids": [agent_id], "description": "A team", "manager_config": manager}
    return str(http.post("/v1/groups/", json=wanted).json()["id"])


async def test_a_schedule_writes_to_a_group(
    heeler: HeelerInstance, http: httpx.Client, new_agent: NewAgent, send: Send
) -> None:
    agent = new_agent()
    group_id = new_group(http, agent.id)
    [message] = saying("What is new?").messages
    action = GroupMessageAction(group_id=group_id, messages=[message])
    schedule = config(agent.id, action)
    created = await send(CreateSchedule(schedule=schedule))
    assert isinstance(created, Accepted), created
    [firing] = await ended(heeler, schedule)
    assert (firing["status"], firing["error"]) == ("completed", None)
    rows = (
        "select fields->'metadata'->>'schedule_id' from groups.group_run_view"
        f" where id = '{firing['run_id']}'"
    )
    assert heeler.psql(rows) == [(schedule.id,)]

    nowhere = GroupMessageAction(group_id=f"group-{uuid4()}", messages=[message])
    refused = await send(CreateSchedule(schedule=config(agent.id, nowhere)))
    assert isinstance(refused, Rejected)
    assert refused.reason.startswith("action.group_id: there is no group")
