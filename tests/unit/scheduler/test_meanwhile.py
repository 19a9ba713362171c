"""What people do to a schedule, or to its agent or a clock, while it fires: nothing is stuck, and
nothing fires twice or after the end."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from libs.contracts.bus_messages import NOT_FOUND, Accepted, Rejected
from libs.contracts.scheduler.firings import slot_key
from libs.contracts.scheduler.schedules import (
    DeleteSchedule,
    FireSchedule,
    PauseSchedule,
    ResumeSchedule,
    UpdateSchedule,
)
from services.scheduler.domain import schedule_rules
from services.scheduler.domain.attempts import RETRY_SECONDS
from tests.contract.schedule_examples import SCHEDULE
from tests.unit.given import NOW
from tests.unit.scheduler.in_memory_queries import NoAgentTools
from tests.unit.scheduler.schedule_world import MINUTELY, Process, World

MINUTE = 60.0
# `NOW` is some seconds later.
BEGINNING = NOW.replace(second=0, microsecond=0)
HOURS_WRONG = 7_200.0


@pytest.fixture
async def world() -> World:
    made = World()
    await made.begin()
    return made


def slots(world: World) -> list[str]:
    """The slots of the runs that were accepted, in order."""
    return [command["run"]["metadata"]["slot"] for command in world.agents.commands]


def minutes(*numbers: int) -> list[str]:
    return [slot_key(BEGINNING + timedelta(minutes=number)) for number in numbers]


def statuses(world: World) -> list[str]:
    return [row["status"] for row in world.rows("firings")]


async def told(process: Process, command: Any, message_id: str = "m-1") -> None:
    reply = await process.tell(command, message_id)
    assert isinstance(reply, Accepted), reply


@pytest.mark.parametrize("missed", ["fire_once", "skip", "all"])
async def test_clocks_that_jump_while_slots_are_due_change_nothing(
    world: World, missed: str
) -> None:
    """Two processes, whose clocks jump by two hours both ways between any two looks."""
    one, other = Process(world, "one"), Process(world, "other")
    await one.create(MINUTELY.model_copy(update={"missed": missed}))
    for number in range(12):
        one.clock.ahead = (HOURS_WRONG, -HOURS_WRONG, 0.0)[number % 3]
        other.clock.ahead = -one.clock.ahead
        await one.sweep(MINUTE / 2)
        await other.sweep()
        world.agents.end("completed")
    assert slots(world) == minutes(1, 2, 3, 4, 5, 6)
    assert statuses(world).count("completed") == 5
    assert "slots.skipped" not in world.story()


@pytest.mark.parametrize("ahead", [HOURS_WRONG, -HOURS_WRONG])
async def test_a_wrong_clock_neither_hurries_nor_delays_a_retry(world: World, ahead: float) -> None:
    process = Process(world, ahead=ahead)
    await process.create()
    await process.sweep(5)
    world.agents.end("failed")
    await process.sweep(1)
    process.clock.ahead = -ahead
    await process.sweep(RETRY_SECONDS - 1)
    assert len(world.agents.runs) == 1
    await process.sweep(1)
    assert len(world.agents.runs) == 2


async def test_a_change_between_two_slots_holds_from_the_next_one_on(world: World) -> None:
    process = Process(world)
    await process.create(MINUTELY)
    await process.sweep(MINUTE)
    world.agents.end("completed")
    every_third = {"cron_expression": "*/3 * * * *", "name": "Seldom"}
    await told(process, UpdateSchedule(schedule_id=SCHEDULE, changes=every_third))
    for _ in range(5):
        await process.sweep(MINUTE)
        world.agents.end("completed")
    third = [number for number in range(2, 7) if (BEGINNING.minute + number) % 3 == 0]
    assert slots(world) == minutes(1, *third)


async def test_a_change_of_the_same_slot_does_not_fire_it_again(world: World) -> None:
    """Its time zone is another one, in which the slot that was fired is a slot, too."""
    process = Process(world)
    await process.create(MINUTELY)
    await process.sweep(MINUTE)
    await told(process, UpdateSchedule(schedule_id=SCHEDULE, changes={"timezone": "Asia/Tokyo"}))
    await process.sweep()
    assert slots(world) == minutes(1)


async def test_a_paused_schedule_sees_to_its_open_firing_and_to_no_slot(world: World) -> None:
    process = Process(world)
    await process.create(MINUTELY)
    await process.sweep(MINUTE)
    await told(process, PauseSchedule(schedule_id=SCHEDULE), "pause")
    world.agents.end("failed")
    await process.sweep(1)
    assert statuses(world) == ["retrying"]
    await process.sweep(RETRY_SECONDS)
    world.agents.end("completed")
    await process.sweep(3 * MINUTE)
    assert statuses(world) == ["completed"]
    assert set(slots(world)) == set(minutes(1))
    [row] = world.rows("schedules")
    assert (row["status"], row["next_at"]) == ("paused", None)

    await told(process, ResumeSchedule(schedule_id=SCHEDULE), "resume")
    await process.sweep()
    assert set(slots(world)) == set(minutes(1)), "the slots of the pause do not come later"
    await process.sweep(MINUTE)
    assert len(set(slots(world))) == 2


async def test_a_schedule_that_is_deleted_before_its_run_was_started_starts_none(
    world: World,
) -> None:
    process, other = Process(world), Process(world, "other")
    await process.create(MINUTELY)
    process.bus.away = "before"
    await process.sweep(MINUTE)
    assert statuses(world) == ["running"]
    await told(process, DeleteSchedule(schedule_id=SCHEDULE), "delete")
    for each in (process, other):
        each.bus.away = ""
        await each.sweep(MINUTE)
    assert world.agents.asked == []
    assert await process.store.take_lease(SCHEDULE) is not None, "nobody keeps it"
    refused = await process.tell(FireSchedule(schedule_id=SCHEDULE), "fire")
    assert isinstance(refused, Rejected)
    assert refused.code == NOT_FOUND


async def test_an_agent_that_goes_in_the_moment_of_a_firing_takes_its_schedule_along(
    world: World,
) -> None:
    process = Process(world)
    await process.serve()
    await process.create(MINUTELY)
    world.agents.refusal = Rejected(code=NOT_FOUND, reason="No such agent")
    await process.sweep(MINUTE)
    assert statuses(world) == ["dead_letter"]
    world.agents.delete()
    process.cleanup.look_at_all()
    await process.cleanup.sweep()
    await process.sweep(MINUTE)
    assert (world.rows("schedules"), world.rows("firings")) == ([], [])
    assert len(world.agents.asked) == 1


async def test_another_action_is_done_by_a_firing_that_had_started_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is started is looked for by its id, which says what it is."""
    process = Process(world)
    await process.create(MINUTELY)
    process.bus.away = "before"
    await process.sweep(MINUTE)

    async def found(*_: object) -> Any:
        return SimpleNamespace(runs_alone=True)

    with monkeypatch.context() as attached:
        attached.setattr(NoAgentTools, "tool_of_agent", found)
        action = {"type": "tool", "tool_name": "roll_dice"}
        await told(process, UpdateSchedule(schedule_id=SCHEDULE, changes={"action": action}))
    process.bus.away = ""
    await process.sweep(2)
    [row] = world.rows("firings")
    assert row["run_id"].startswith("tool_run-")
    assert row["status"] == "dead_letter", "the tool is gone meanwhile"
    assert "roll_dice" in row["error"]
    assert datetime.fromisoformat(row["slot"]) == BEGINNING + timedelta(minutes=1)


async def test_a_completed_schedule_that_is_due_again_counts_as_a_new_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(world)
    await process.create()
    await process.sweep(5)
    world.agents.end("completed")
    await process.sweep(1)
    other = MINUTELY.model_copy(update={"id": "schedule-2"})
    await process.create(other)
    later = {"scheduled_at": (NOW + timedelta(hours=1)).isoformat()}
    again = UpdateSchedule(schedule_id=SCHEDULE, changes=later)
    with monkeypatch.context() as full:
        full.setattr(schedule_rules, "AGENT_SCHEDULES_MAX", 1)
        refused = await process.tell(again, "again")
        assert isinstance(refused, Rejected)
        assert "The agent has 1 schedules, and may have 1" in refused.reason
        assert world.story()[-1] == "firing.ended"
        name = UpdateSchedule(schedule_id=SCHEDULE, changes={"name": "Over"})
        await told(process, name, "name")
    await told(process, again, "again")
    row = next(row for row in world.rows("schedules") if row["id"] == SCHEDULE)
    assert row["status"] == "active"
