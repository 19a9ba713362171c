"""Schedules over HTTP: in the form of V1's SDK, and in the one that has more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from letta_client import Letta, NotFoundError

from tests.e2e.asking import MODEL, NOBODY
from tests.e2e.conftest import NewAgent, NewTool
from tests.servers import wait_until

SECONDS_MAX = 40.0
OPERATIONS = "/v1/agents/{agent_id}/schedule"
FAR = datetime(2099, 6, 1, 12, 30, tzinfo=UTC)
WEEKLY = {"schedule_type": "recurring", "recurrence_rule": "0 9 * * mon"}
LATER = {"schedule_type": "one_time", "scheduled_time": FAR.isoformat()}


def soon() -> datetime:
    """A moment that is a second ahead."""
    return datetime.now(UTC) + timedelta(seconds=1)


def made(http: httpx.Client, agent_id: str, **fields: Any) -> Any:
    """A schedule of the form that has more, as it is answered."""
    answer = http.post(f"/v1/agents/{agent_id}/schedule", json={"message": "Hello", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


def refused(http: httpx.Client, agent_id: str, body: Any, status: int = 422) -> str:
    """Why a schedule is refused; none is left behind."""
    path = f"/v1/agents/{agent_id}/schedule"
    before = http.get(path).text
    answer = http.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert http.get(path).text == before
    detail = answer.json()["detail"]
    return detail if isinstance(detail, str) else str(detail)


def texts(letta: Letta, agent_id: str, kind: str) -> list[Any]:
    """What the messages of an agent of this type say."""
    page: list[Any] = letta.agents.messages.list(agent_id).items
    return [message.content for message in page if message.message_type == kind]


def ended(http: httpx.Client, path: str) -> Any:
    """The newest firing of a schedule, once it has ended."""
    found: list[Any] = []

    def has_ended() -> bool:
        found[:] = http.get(f"{path}/firings").json()
        return bool(found) and found[0]["status"] not in ("running", "retrying")

    wait_until("the end of a firing", has_ended, SECONDS_MAX)
    return found[0]


@pytest.mark.operation(f"POST {OPERATIONS}")
@pytest.mark.operation(f"GET {OPERATIONS}")
@pytest.mark.operation(f"GET {OPERATIONS}/{{scheduled_message_id}}")
def test_a_schedule_of_the_sdk_fires_and_its_answer_stands_in_the_history(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent, moment = new_agent(), soon()
    created = letta.agents.schedule.create(
        agent.id,
        messages=[{"role": "user", "content": "SAY:The time has come.", "otid": "otid-1"}],
        schedule={"type": "one-time", "scheduled_at": moment.timestamp() * 1_000},
        max_steps=7,
        include_return_message_types=["assistant_message"],
    )
    at = datetime.fromisoformat(str(created.next_scheduled_at))
    assert abs(at - moment) < timedelta(milliseconds=1)
    read = letta.agents.schedule.retrieve(created.id, agent_id=agent.id)
    assert (read.id, read.agent_id) == (created.id, agent.id)
    assert read.schedule.type == "one-time"
    assert abs(read.schedule.scheduled_at - moment.timestamp() * 1_000) < 1  # type: ignore[union-attr]
    assert [message.content for message in read.message.messages] == ["SAY:The time has come."]
    assert read.message.messages[0].otid == "otid-1"
    assert read.message.max_steps == 7
    assert read.message.include_return_message_types == ["assistant_message"]
    listed = letta.agents.schedule.list(agent.id, limit="10")
    assert [item.id for item in listed.scheduled_messages] == [created.id]
    assert listed.has_next_page is False

    firing = ended(http, f"/v1/agents/{agent.id}/schedule/{created.id}")
    assert (firing["status"], firing["attempts"], firing["error"]) == ("completed", 1, None)
    assert datetime.fromisoformat(firing["slot"]) == at
    assert "The time has come." in texts(letta, agent.id, "assistant_message")
    after = letta.agents.schedule.retrieve(created.id, agent_id=agent.id)
    assert after.next_scheduled_time is None
    [run] = letta.runs.list(agent_id=agent.id).items
    assert run.id == firing["run_id"]
    by_schedule = http.get("/v1/runs", params={"schedule_id": created.id}).json()
    assert [found["id"] for found in by_schedule] == [run.id]


@pytest.mark.operation(f"DELETE {OPERATIONS}/{{scheduled_message_id}}")
def test_a_recurring_schedule_of_the_sdk_is_listed_and_fires_no_more_once_deleted(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    recurring = letta.agents.schedule.create(
        agent.id,
        messages=[{"role": "user", "content": [{"type": "text", "text": "Every Monday"}]}],
        schedule={"type": "recurring", "cron_expression": "0 9 * * mon"},
    )
    once = letta.agents.schedule.create(
        agent.id,
        messages=[{"role": "system", "content": "Never to be said"}],
        schedule={"scheduled_at": soon().timestamp()},  # in seconds
    )
    first = letta.agents.schedule.list(agent.id, limit="1")
    assert ([item.id for item in first.scheduled_messages], first.has_next_page) == (
        [once.id],
        True,
    )
    assert first.scheduled_messages[0].schedule.scheduled_at < 1e11  # type: ignore[union-attr]
    rest = letta.agents.schedule.list(agent.id, limit="1", after=once.id)
    assert [item.id for item in rest.scheduled_messages] == [recurring.id]
    assert rest.has_next_page is False
    [item] = rest.scheduled_messages
    assert item.schedule.cron_expression == "0 9 * * mon"  # type: ignore[union-attr]
    at = datetime.fromisoformat(str(item.next_scheduled_time))
    assert (at.weekday(), at.hour) == (0, 9)

    deleted = letta.agents.schedule.delete(once.id, agent_id=agent.id)
    assert deleted.success is True
    with pytest.raises(NotFoundError):
        letta.agents.schedule.retrieve(once.id, agent_id=agent.id)
    with pytest.raises(NotFoundError):
        letta.agents.schedule.delete(once.id, agent_id=agent.id)
    left = letta.agents.schedule.list(agent.id, after=once.id).scheduled_messages
    assert [item.id for item in left] == [recurring.id]
    # One that is due later has fired, and that one has not.
    witness = made(http, agent.id, schedule_type="one_time", scheduled_time=soon().isoformat())
    ended(http, f"/v1/agents/{agent.id}/schedule/{witness['id']}")
    assert "Never to be said" not in texts(letta, agent.id, "system_message")
    assert len(letta.runs.list(agent_id=agent.id).items) == 1


def test_every_field_of_a_schedule_comes_back_and_changes(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    conversation = http.post("/v1/conversations/", params={"agent_id": agent.id}, json={}).json()
    fields = {
        "schedule_type": "recurring",
        "recurrence_rule": "30 8 * * mon-fri",
        "timezone": "Europe/Berlin",
        "name": "Stand-up",
        "conversation_id": conversation["id"],
        "missed": "all",
        "missed_slots_max": 5,
        "if_active": "skip",
        "retries_max": 1,
    }
    schedule = made(http, agent.id, **fields, max_steps=9, callback_url="http://127.0.0.1:9/x")
    assert {name: schedule[name] for name in fields} == fields
    path = f"/v1/agents/{agent.id}/schedule/{schedule['id']}"
    assert http.get(path).json() == {**schedule}
    assert schedule["agent_id"] == agent.id
    assert schedule["status"] == "active"
    assert schedule["scheduled_time"] is None
    assert schedule["action"]["type"] == "message"
    message = schedule["message"]
    assert (message["max_steps"], message["callback_url"]) == (9, "http://127.0.0.1:9/x")
    assert message["messages"][0]["content"] == "Hello"
    assert schedule["last_firing"] is schedule["last_error"] is schedule["last_skipped"] is None
    at = datetime.fromisoformat(schedule["next_run"]).astimezone(ZoneInfo("Europe/Berlin"))
    assert (at.hour, at.minute) == (8, 30)
    assert schedule["next_scheduled_time"] == schedule["next_run"]

    changes = {
        "message": [{"role": "user", "content": "Good morning"}],
        "schedule_type": "one_time",
        "scheduled_time": "2099-01-31T09:00:00",
        "timezone": "Asia/Tokyo",
        "missed": "skip",
        "if_active": "wake",
        "retries_max": 0,
        "name": None,
        "conversation_id": None,
    }
    changed = http.patch(path, json=changes)
    assert changed.status_code == 200, changed.text
    after = changed.json()
    assert after == http.get(path).json()
    same = ("timezone", "missed", "if_active", "retries_max", "name")
    assert {name: after[name] for name in same} == {name: changes[name] for name in same}
    assert after["conversation_id"] is after["recurrence_rule"] is None
    in_utc = datetime(2099, 1, 31, tzinfo=UTC)
    assert datetime.fromisoformat(after["scheduled_time"]) == in_utc
    assert datetime.fromisoformat(after["next_run"]) == in_utc
    assert after["schedule"] == {"type": "one-time", "scheduled_at": in_utc.timestamp() * 1_000}
    assert after["message"]["messages"][0]["content"] == "Good morning"
    assert (after["message"]["max_steps"], after["created_at"]) == (9, schedule["created_at"])


def test_a_schedule_is_paused_resumed_and_fired_by_hand_with_its_history(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    schedule = made(http, agent.id, **WEEKLY, message="SAY:By hand.")
    path = f"/v1/agents/{agent.id}/schedule/{schedule['id']}"
    assert http.get(f"{path}/firings").json() == []

    paused = http.post(f"{path}/pause").json()
    assert (paused["status"], paused["next_run"]) == ("paused", None)
    assert http.post(f"{path}/pause").json() == paused
    fired = http.post(f"{path}/fire")
    assert fired.status_code == 200, fired.text
    firing = ended(http, path)
    assert firing["id"] == fired.json()["id"]
    assert firing["run_id"] == fired.json()["run_id"]
    assert (firing["by_hand"], firing["status"], firing["schedule_id"]) == (
        True,
        "completed",
        schedule["id"],
    )
    assert "By hand." in texts(letta, agent.id, "assistant_message")
    assert http.get(path).json()["last_firing"] == firing
    run = letta.runs.retrieve(firing["run_id"])
    assert run.metadata is not None
    assert run.metadata["schedule_id"] == schedule["id"]
    resumed = http.post(f"{path}/resume").json()
    assert (resumed["status"], resumed["next_run"]) == ("active", schedule["next_run"])
    assert http.post(f"{path}/resume").json() == resumed

    http.post(f"{path}/fire").raise_for_status()
    ended(http, path)
    newest, oldest = http.get(f"{path}/firings").json()
    assert oldest["id"] == firing["id"]
    page = http.get(f"{path}/firings", params={"after": newest["id"]}).json()
    assert [each["id"] for each in page] == [oldest["id"]]
    assert http.get(f"{path}/firings", params={"status": "dead_letter"}).json() == []


def test_a_firing_that_failed_for_good_is_shown_and_repeated(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    schedule = made(http, agent.id, **WEEKLY, message="FAIL:500", retries_max=0)
    path = f"/v1/agents/{agent.id}/schedule/{schedule['id']}"
    http.post(f"{path}/fire").raise_for_status()
    firing = ended(http, path)
    assert firing["status"] == "dead_letter"
    assert firing["error"]
    shown = http.get(path).json()
    assert shown["last_error"]["firing_id"] == firing["id"]
    assert shown["last_error"]["error"] == firing["error"]
    failing = {"agent_id": agent.id, "has_error": True}
    assert [each["id"] for each in http.get("/v1/schedules", params=failing).json()] == [
        schedule["id"]
    ]
    letters = http.get(f"{path}/firings", params={"status": "dead_letter"}).json()
    assert [each["id"] for each in letters] == [firing["id"]]
    http.patch(path, json={"message": "Better now"}).raise_for_status()
    again = http.post(f"{path}/fire", json={"firing_id": firing["id"]}).json()
    assert (again["id"], again["attempts"]) == (firing["id"], 2)
    assert (ended(http, path))["status"] == "completed"
    assert http.get(path).json()["last_error"] is None
    assert http.get("/v1/schedules", params=failing).json() == []
    no_letter = http.post(f"{path}/fire", json={"firing_id": firing["id"]})
    assert no_letter.status_code == 409
    unknown = http.post(f"{path}/fire", json={"firing_id": "firing-x"})
    assert unknown.status_code == 404


def test_a_schedule_speaks_in_a_new_conversation_each_time(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    fields = {"name": "Diary", "description": "Of each day", "conversation_id": "new"}
    schedule = made(http, agent.id, **WEEKLY, **fields, message="SAY:Dear diary.")
    assert {name: schedule[name] for name in fields} == fields
    path = f"/v1/agents/{agent.id}/schedule/{schedule['id']}"
    for _ in range(2):
        http.post(f"{path}/fire").raise_for_status()
        assert ended(http, path)["status"] == "completed"
    conversations = letta.conversations.list(agent_id=agent.id)
    assert [each.summary for each in conversations] == ["Diary", "Diary"]
    for conversation in conversations:
        messages: list[Any] = letta.conversations.messages.list(conversation.id).items
        said = [each.content for each in messages if each.message_type == "assistant_message"]
        assert said == ["Dear diary."]
    history = http.get(f"{path}/history", params={"limit": 1, "offset": 1}).json()
    assert [each["status"] for each in history["history"]] == ["completed"]
    assert history["has_next_page"] is False
    assert http.get(f"{path}/history", params={"limit": 1}).json()["has_next_page"] is True
    changed = http.patch(path, json={"conversation_id": "default", "description": None}).json()
    assert changed["conversation_id"] is changed["description"] is None
    refusal = http.post(
        f"/v1/agents/{agent.id}/schedule",
        json={**WEEKLY, "action": {"type": "compact"}, "conversation_id": "new"},
    )
    assert refusal.status_code == 422
    assert "conversation_id: 'new' goes with messages" in refusal.json()["detail"]


def test_the_next_times_of_a_schedule_are_shown_in_its_own_zone(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    schedule = made(
        http,
        agent.id,
        schedule_type="recurring",
        recurrence_rule="0 9 * * *",
        timezone="America/New_York",
    )
    path = f"/v1/agents/{agent.id}/schedule/{schedule['id']}"
    shown = http.get(f"{path}/next", params={"count": 40}).json()
    assert (shown["schedule_id"], shown["timezone"]) == (schedule["id"], "America/New_York")
    times = [datetime.fromisoformat(time["time"]) for time in shown["times"]]
    local = [datetime.fromisoformat(time["local_time"]) for time in shown["times"]]
    assert len(times) == 40
    assert times == local
    assert times == sorted(set(times))
    assert {(time.hour, time.minute) for time in local} == {(9, 0)}
    assert times[0] == datetime.fromisoformat(schedule["next_run"])
    assert len(http.get(f"{path}/next").json()["times"]) == 10
    http.post(f"{path}/pause").raise_for_status()
    assert len(http.get(f"{path}/next").json()["times"]) == 10
    assert http.get(f"{path}/next", params={"count": 101}).status_code == 422
    once = made(http, agent.id, **LATER)
    [only] = http.get(f"/v1/agents/{agent.id}/schedule/{once['id']}/next").json()["times"]
    assert datetime.fromisoformat(only["time"]) == FAR


def test_schedules_of_all_agents_are_listed_and_filtered(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent, other = new_agent(), new_agent()
    first = made(http, agent.id, **WEEKLY, name=f"Report {agent.id}")
    second = made(http, other.id, **WEEKLY)
    ids = [each["id"] for each in http.get("/v1/schedules", params={"limit": 2}).json()]
    assert ids == [second["id"], first["id"]]
    of_agent = http.get("/v1/schedules", params={"agent_id": agent.id}).json()
    assert of_agent == [first]
    named = http.get("/v1/schedules", params={"name": first["name"]}).json()
    assert named == [first]
    http.post(f"/v1/agents/{agent.id}/schedule/{first['id']}/pause").raise_for_status()
    query = {"agent_id": agent.id, "status": "paused"}
    assert [each["id"] for each in http.get("/v1/schedules", params=query).json()] == [first["id"]]
    assert http.get("/v1/schedules", params={**query, "status": "active"}).json() == []


def test_a_schedule_calls_a_tool_without_asking_a_model(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, new_tool: NewTool
) -> None:
    agent, tool = new_agent(), new_tool("return sides + 1")
    letta.agents.tools.attach(tool.id, agent_id=agent.id)
    action = {"type": "tool", "tool_name": tool.name, "arguments": {"sides": 6}}
    body = {**WEEKLY, "action": action}
    answer = http.post(f"/v1/agents/{agent.id}/schedule", json=body)
    assert answer.status_code == 201, answer.text
    schedule = answer.json()
    assert schedule["action"] == action
    assert schedule["message"] == {"messages": []}
    [item] = letta.agents.schedule.list(agent.id).scheduled_messages
    assert item.id == schedule["id"]
    path = f"/v1/agents/{agent.id}/schedule/{schedule['id']}"
    http.post(f"{path}/fire").raise_for_status()
    assert (ended(http, path))["status"] == "completed"
    refusal = http.patch(path, json={"max_steps": 3})
    assert refusal.status_code == 422
    assert "max_steps" in refusal.json()["detail"]


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({**WEEKLY, "recurrence_rule": "75 * * * *"}, "recurrence_rule: '75 * * * *'"),
    ({**WEEKLY, "recurrence_rule": "75 * * * *"}, "minute 75 is out of 0-59"),
    ({**WEEKLY, "recurrence_rule": "0 0 30 2 *"}, "day of the month 30 is in none of the months 2"),
    ({**WEEKLY, "recurrence_rule": "0 0 * *"}, "it has 4 fields, and needs 5"),
    ({**WEEKLY, "timezone": "Europe/Berln"}, "timezone: 'Europe/Berln' is no IANA time zone"),
    ({**WEEKLY, "timezone": "Europe/Berln"}, "use 'Europe/Berlin'"),
    ({**LATER, "scheduled_time": "2020-01-01T00:00:00Z"}, "scheduled_time: this time is past"),
    ({**LATER, "scheduled_time": 4_000_000_000}, "Give an ISO 8601 time"),
    ({**LATER, "scheduled_time": "9999-12-31T23:59:59-23:00"}, "scheduled_time"),
    ({**LATER, "timezone": "Mars/Base", "scheduled_time": "2099-01-01T00:00"}, "no IANA"),
    ({**LATER, "recurrence_rule": "0 9 * * *"}, "`recurrence_rule` goes with 'recurring'"),
    ({"schedule_type": "one_time"}, "`scheduled_time` is missing"),
    ({"schedule_type": "recurring"}, "`recurrence_rule` is missing"),
    ({"scheduled_time": "2099-01-01T00:00"}, "`schedule_type` is missing"),
    ({**WEEKLY, "schedule": {"type": "one-time", "scheduled_at": 4e9}}, "two forms"),
    ({**WEEKLY, "messages": [{"role": "user", "content": "x"}]}, "two forms"),
    ({**WEEKLY, "time_zone": "UTC"}, "time_zone"),
    ({**WEEKLY, "action": {"type": "compact"}}, "Send either `message` or `action`"),
    ({**WEEKLY, "message": []}, "message"),
    ({**WEEKLY, "message": " "}, "`content` is empty"),
    ({**WEEKLY, "message": {"role": "assistant", "content": "x"}}, "`role` of the last message"),
    ({**WEEKLY, "timezone": "GMT+2"}, "'Etc/GMT-2', which is +02:00"),
    ({**WEEKLY, "message": None}, "`message` is missing"),
    ({**WEEKLY, "retries_max": 11}, "retries_max"),
    ({**WEEKLY, "missed": "never"}, "missed"),
    ({**WEEKLY, "if_active": "sing"}, "if_active"),
    ({**WEEKLY, "callback_url": "nowhere"}, "callback_url"),
    ({**WEEKLY, "missed_slots_max": 5}, "missed_slots_max: it goes with `missed`: 'all'"),
    ({**WEEKLY, "conversation_id": "new", "if_active": "skip"}, "if_active: 'skip' has no effect"),
    ({**WEEKLY, "conversation_id": f"conv-{NOBODY}"}, "conversation_id"),
]


@pytest.fixture(scope="module")
def lonely(letta: Letta) -> Any:
    """An agent without schedules, for requests that make none."""
    agent = letta.agents.create(model=MODEL, name="Lonely")
    yield agent
    letta.agents.delete(agent.id)


@pytest.mark.parametrize(("fields", "says"), REFUSALS)
def test_what_cannot_be_scheduled_is_refused_with_the_field_and_the_fix(
    http: httpx.Client, lonely: Any, fields: dict[str, Any], says: str
) -> None:
    assert says in refused(http, lonely.id, {"message": "Hello", **fields})


OF_V1: list[tuple[dict[str, Any], str]] = [
    ({"schedule": {"scheduled_at": 1_000}}, "schedule.scheduled_at: this time is past"),
    ({"schedule": {"type": "recurring", "cron_expression": "x"}}, "schedule.cron_expression"),
    ({"schedule": {"type": "recurring"}}, "cron_expression"),
    ({"schedule": {"type": "one-time"}}, "scheduled_at"),
    ({"schedule": {"type": "recurring", "cron_expression": "* * * * *", "x": 1}}, "x"),
    ({"schedule": {"type": "one-time", "scheduled_at": 1e300}}, "scheduled_at"),
    ({}, "`schedule` is missing"),
    ({"messages": [], "schedule": {"scheduled_at": 4e9}}, "messages"),
    ({"schedule": {"scheduled_at": 4e9}, "timezone": "UTC"}, "two forms"),
    ({"schedule": {"scheduled_at": 4e9}, "target_device_id": "x"}, "No computers are connected"),
]


@pytest.mark.parametrize(("fields", "says"), OF_V1)
def test_what_cannot_be_scheduled_in_the_form_of_v1_is_refused(
    http: httpx.Client, lonely: Any, fields: dict[str, Any], says: str
) -> None:
    body = {"messages": [{"role": "user", "content": "Hello"}], **fields}
    assert says in refused(http, lonely.id, body)


def test_actions_that_cannot_be_are_refused(http: httpx.Client, lonely: Any) -> None:
    unknown = {"type": "tool", "tool_name": "x", "args": {}}
    assert "`args` is no field of this action" in refused(
        http, lonely.id, {**WEEKLY, "action": unknown}
    )
    no_tool = {"type": "tool", "tool_name": "x"}
    assert "action.tool_name" in refused(http, lonely.id, {**WEEKLY, "action": no_tool})
    elsewhere = {**WEEKLY, "action": {"type": "compact"}, "max_steps": 3}
    assert "`max_steps` goes with `message`" in refused(http, lonely.id, elsewhere)


SAID = [{"role": "user", "content": "Hello"}]
# What an action does not do: another conversation than it has, and what a busy agent has to do
# with it.
WITHOUT_EFFECT: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"type": "tool", "tool_name": "x"}, {"if_active": "skip"}, "if_active: 'skip' has no effect"),
    ({"type": "tool", "tool_name": "x"}, {"conversation_id": "conv-x"}, "conversation_id: a tool"),
    ({"type": "summarize"}, {"if_active": "wake"}, "if_active: 'wake' has no effect"),
    ({"type": "summarize"}, {"conversation_id": "conv-x"}, "conversation_id: a summary is of"),
    (
        {"type": "group_message", "group_id": "group-x", "messages": SAID},
        {"if_active": "skip"},
        "if_active: 'skip' has no effect on the action 'group_message': say 'queue'",
    ),
    (
        {"type": "group_message", "group_id": "group-x", "messages": SAID},
        {"conversation_id": "conv-x"},
        "conversation_id: a group",
    ),
    ({"type": "compact"}, {"if_active": "wake"}, "say 'queue' or 'skip'"),
    ({"type": "compact"}, {"conversation_id": "new"}, "conversation_id: 'new' goes with messages"),
    ({"type": "message", "messages": SAID, "callback_url": "x"}, {}, "action.callback_url"),
]


@pytest.mark.parametrize(("action", "fields", "says"), WITHOUT_EFFECT)
def test_what_would_have_no_effect_on_an_action_is_refused(
    http: httpx.Client, lonely: Any, action: dict[str, Any], fields: dict[str, Any], says: str
) -> None:
    assert says in refused(http, lonely.id, {**WEEKLY, "action": action, **fields})


def test_an_update_to_what_would_have_no_effect_is_refused_and_changes_nothing(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    schedule = made(http, agent.id, **WEEKLY, if_active="skip")
    path = f"/v1/agents/{agent.id}/schedule/{schedule['id']}"
    changes: list[tuple[dict[str, Any], str]] = [
        ({"action": {"type": "summarize"}}, "if_active"),
        ({"missed_slots_max": 5}, "missed_slots_max"),
        ({"conversation_id": "new"}, "if_active"),
    ]
    for change, field in changes:
        refusal = http.patch(path, json=change)
        assert refusal.status_code == 422, refusal.text
        assert refusal.json()["detail"].startswith(f"{field}:")
    assert http.get(path).json() == schedule


def test_what_is_not_there_is_a_404_and_another_agents_schedule_too(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent, other = new_agent(), new_agent()
    nobody = f"/v1/agents/agent-{NOBODY}/schedule"
    assert http.get(nobody).status_code == 404
    created = http.post(nobody, json={"message": "Hello", **WEEKLY})
    assert created.status_code == 404
    assert f"agent-{NOBODY}" in created.json()["detail"]
    schedule = made(http, agent.id, **WEEKLY)
    for owner, schedule_id, status in (
        (agent.id, f"schedule-{NOBODY}", 404),
        (other.id, schedule["id"], 404),
        (agent.id, "schedule-x", 422),
    ):
        path = f"/v1/agents/{owner}/schedule/{schedule_id}"
        answers = [
            http.get(path),
            http.delete(path),
            http.patch(path, json={"name": "x"}),
            http.get(f"{path}/next"),
            http.get(f"{path}/firings"),
            *(http.post(f"{path}/{verb}") for verb in ("pause", "resume", "fire")),
        ]
        for answer in answers:
            assert answer.status_code == status, answer.text
            expected = schedule_id if status == 404 else "scheduled_message_id"
            assert expected in answer.text
    assert http.get(f"/v1/agents/{agent.id}/schedule/{schedule['id']}").json() == schedule


def test_a_schedule_that_is_made_twice_under_one_key_is_one(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    path, body = f"/v1/agents/{agent.id}/schedule", {"message": "Hello", **WEEKLY}
    key = {"Idempotency-Key": f"key-{agent.id}"}
    first, second = (http.post(path, json=body, headers=key) for _ in range(2))
    assert first.json() == second.json()
    assert len(http.get(path).json()["scheduled_messages"]) == 1
    other = http.post(path, json={**body, "message": "Other"}, headers=key)
    assert other.status_code == 409
