"""Firings: each slot starts one run, whatever dies or is away, and however many processes look."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from libs.contracts.bus_messages import (
    BUSY,
    CONFLICT,
    NOT_FOUND,
    PENDING_APPROVAL,
    Accepted,
    Rejected,
)
from libs.contracts.scheduler.firings import firing_of_slot
from libs.contracts.scheduler.schedule_config import MessageAction
from libs.contracts.scheduler.schedules import CreateSchedule, DeleteSchedule, FireSchedule
from libs.eventstore.ports import StoreUnavailable
from services.scheduler.domain.attempts import RETRY_SECONDS, run_of_attempt
from services.scheduler.policies import schedule_cleanup
from tests.contract.schedule_examples import AGENT, CONFIG, SCHEDULE
from tests.leased_work import finish
from tests.unit.scheduler.schedule_world import MINUTELY, ONCE, ORG, SOON, Process, World

FIRING = firing_of_slot(SCHEDULE, SOON)
RUN = run_of_attempt(ONCE, FIRING, 1)


@pytest.fixture
async def world() -> World:
    made = World()
    await made.begin()
    return made


def firing(world: World) -> Any:
    [row] = world.rows("firings")
    return row


async def test_a_slot_that_has_come_starts_a_run_whose_end_ends_the_firing(world: World) -> None:
    process = Process(world)
    await process.create()
    await process.sweep(4)
    assert world.agents.runs == []

    await process.sweep(1)

    assert world.agents.runs == [RUN]
    [command], [context] = world.agents.commands, world.agents.contexts
    assert command["agent_id"] == AGENT
    assert command["messages"][0]["content"] == (
        "[Automatic message] This was due on Sunday, 2026-05-17 14:30:20 +02:00."
        " It is Sunday, 2026-05-17 14:30:20 +02:00 (Europe/Berlin).\n\nWhat is new?"
    )
    assert not command.get("unless_said")
    assert command["max_steps"] == 7
    assert (context.org, context.correlation_id, context.message_id) == (ORG, FIRING, RUN)
    metadata = command["run"]["metadata"]
    assert metadata["schedule_id"] == SCHEDULE
    assert metadata["firing_id"] == FIRING
    assert firing(world)["status"] == "running"

    await process.sweep(60)  # it goes on, and nothing is to be done
    world.agents.end("completed")
    await process.sweep(2)

    assert firing(world)["status"] == "completed"
    assert world.story() == [
        "schedule.created", "firing.started", "schedule.completed", "firing.ended",
    ]  # fmt: skip
    assert world.agents.asked == [RUN]
    assert await process.store.take_lease(SCHEDULE) is not None, "nobody keeps it"


async def test_the_time_of_the_database_decides_whatever_the_clock_of_a_process_says(
    world: World,
) -> None:
    early, late = Process(world, "early", ahead=7200.0), Process(world, "late", ahead=-7200.0)
    await early.create()
    await early.sweep(4)
    assert world.agents.runs == []
    await late.sweep(1)
    assert world.agents.runs == [RUN]


async def test_two_processes_that_look_at_once_start_one_run(world: World) -> None:
    one, other = Process(world, "one"), Process(world, "other")
    await one.create()
    world.clock.seconds += 6
    await asyncio.gather(one.firings.sweep(), other.firings.sweep())
    await asyncio.gather(finish(one.firings), finish(other.firings))
    assert world.agents.runs == [RUN]
    assert world.story().count("firing.started") == 1


async def test_a_stale_look_records_nothing(world: World) -> None:
    one, other = Process(world, "one"), Process(world, "other")
    await one.create(MINUTELY)
    world.clock.seconds += 60
    [stale] = await other.firings.due()
    await one.sweep()
    world.agents.end("completed")
    await one.sweep(1)
    before = world.story()
    other.firings.begin(stale, await other.store.take_lease(stale.id))
    await finish(other.firings)
    assert world.story() == before
    assert len(world.agents.runs) == 1


@pytest.mark.parametrize("away", ["before", "after"])
async def test_a_start_that_gets_lost_is_repeated_under_the_same_id(
    world: World, away: str
) -> None:
    process, other = Process(world), Process(world, "other")
    await process.create()
    process.bus.away = away
    await process.sweep(6)
    assert firing(world)["status"] == "running"
    await other.sweep(2)
    assert world.agents.runs == [RUN]
    assert set(world.agents.asked) == {RUN}
    assert world.story().count("firing.started") == 1


async def test_an_outage_of_the_store_leaves_the_slot_to_a_later_sweep(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(world)
    await process.create()

    async def away(_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as broken:
        broken.setattr(process.store, "commit", away)
        await process.sweep(6)
    assert world.agents.asked == []
    await process.sweep(11)
    assert world.agents.runs == [RUN]


async def test_a_failed_run_is_retried_with_another_id_and_then_a_dead_letter(
    world: World,
) -> None:
    process = Process(world)
    await process.create(ONCE.model_copy(update={"retries_max": 1}))
    await process.sweep(5)
    world.agents.end("failed", "The model is away")
    await process.sweep(1)
    row = firing(world)
    assert (row["status"], row["error"], row["attempts"]) == ("retrying", "The model is away", 1)
    [schedule] = world.rows("schedules")
    assert schedule["fields"]["last_error"]["firing_id"] == FIRING

    await process.sweep(RETRY_SECONDS - 1)
    assert world.agents.runs == [RUN]
    await process.sweep(1)
    second = run_of_attempt(ONCE, FIRING, 2)
    assert world.agents.runs == [RUN, second]
    world.agents.end("failed", "The model is away")
    await process.sweep(1)
    row = firing(world)
    assert (row["status"], row["attempts"], row["run_id"]) == ("dead_letter", 2, second)

    again = await process.tell(FireSchedule(schedule_id=SCHEDULE, firing_id=FIRING), "again")
    assert isinstance(again, Accepted)
    await process.sweep()
    assert world.agents.runs[-1] == again.result["run_id"] == run_of_attempt(ONCE, FIRING, 3)
    world.agents.end("completed")
    await process.sweep(1)
    [schedule] = world.rows("schedules")
    assert (firing(world)["status"], schedule["fields"]["last_error"]) == ("completed", None)


async def test_each_attempt_says_the_same_as_the_first_one_at_its_time(world: World) -> None:
    process, parts = Process(world), [{"type": "text", "text": "Look"}]
    messages = [{"role": "user", "content": parts}, {"role": "user", "content": "Now"}]
    action = MessageAction.model_validate({"messages": messages})
    await process.create(ONCE.model_copy(update={"action": action}))
    await process.sweep(65)
    world.agents.end("failed", "The model is away")
    await process.sweep(1)
    await process.sweep(RETRY_SECONDS)
    first, second = world.agents.commands
    assert first["messages"][0]["content"][0]["text"] == (
        "[Automatic message] This was due on Sunday, 2026-05-17 14:30:20 +02:00."
        " It is Sunday, 2026-05-17 14:31:20 +02:00 (Europe/Berlin)."
    )
    assert [first["messages"][1]["content"], first["messages"][0]["content"][1]["text"]] == [
        "Now",
        "Look",
    ]
    for before, after in zip(first["messages"], second["messages"], strict=True):
        assert (after["otid"], after["content"]) == (before["otid"], before["content"])
        assert after["id"] != before["id"]
    assert second["unless_said"] is True


async def test_a_cancelled_run_is_not_retried(world: World) -> None:
    process = Process(world)
    await process.create()
    await process.sweep(5)
    world.agents.end("cancelled")
    await process.sweep(1)
    assert firing(world)["status"] == "cancelled"
    await process.sweep(3600)
    assert world.agents.runs == [RUN]


@pytest.mark.parametrize("code", [BUSY, PENDING_APPROVAL])
async def test_an_agent_without_room_is_asked_again_and_it_counts_as_no_failure(
    world: World, code: str
) -> None:
    process = Process(world)
    await process.create(ONCE.model_copy(update={"retries_max": 0}))
    world.agents.refusal = Rejected(code=code, reason="Later")
    await process.sweep(5)
    assert firing(world)["status"] == "retrying"
    world.agents.refusal = None
    await process.sweep(RETRY_SECONDS)
    assert world.agents.runs == [RUN], "the same attempt"


async def test_a_refusal_that_would_come_again_is_a_dead_letter_at_once(world: World) -> None:
    process = Process(world)
    await process.create()
    world.agents.refusal = Rejected(code=NOT_FOUND, reason="No such agent")
    await process.sweep(5)
    assert (firing(world)["status"], firing(world)["error"]) == ("dead_letter", "No such agent")


async def test_a_slot_is_skipped_while_the_agent_is_busy_where_that_is_wanted(
    world: World,
) -> None:
    process = Process(world)
    await process.create(ONCE.model_copy(update={"if_active": "skip"}))
    world.agents.refusal = Rejected(code=CONFLICT, reason="It is busy")
    await process.sweep(5)
    assert (firing(world)["status"], firing(world)["error"]) == ("skipped", "It is busy")


async def test_slots_are_merged_while_an_earlier_firing_waits_where_that_is_wanted(
    world: World,
) -> None:
    process = Process(world)
    await process.create(MINUTELY.model_copy(update={"if_active": "wake"}))
    await process.sweep(60)
    assert world.agents.commands[0]["ends_pause"] is True
    await process.sweep(60)
    assert len(world.agents.runs) == 1
    [schedule] = world.rows("schedules")
    assert schedule["fields"]["last_skipped"]["reason"] == "merged"
    world.agents.end("completed")
    await process.sweep(60)
    assert len(world.agents.runs) == 2


async def test_all_missed_slots_start_a_run_each_in_order(world: World) -> None:
    process = Process(world)
    await process.create(MINUTELY.model_copy(update={"missed": "all"}))
    world.clock.seconds += 25 * 60
    for _ in range(3):  # some in each attempt
        await process.sweep()
    assert len(set(world.agents.runs)) == 25
    slots = [command["run"]["metadata"]["slot"] for command in world.agents.commands]
    assert slots == sorted(slots)


async def test_a_schedule_is_fired_by_hand_in_the_story_of_the_request(world: World) -> None:
    process = Process(world)
    await process.create()
    fired = await process.tell(FireSchedule(schedule_id=SCHEDULE), "fire")
    assert isinstance(fired, Accepted)
    await process.sweep()
    assert world.agents.runs == [fired.result["run_id"]]
    assert world.agents.contexts[0].correlation_id == "c-1"
    [schedule] = world.rows("schedules")
    assert schedule["next_at"] == SOON.isoformat(), "its slot is still to come"


async def test_a_deleted_schedule_fires_nothing_and_has_no_rows(world: World) -> None:
    process = Process(world)
    await process.create()
    await process.sweep(5)
    assert isinstance(await process.tell(DeleteSchedule(schedule_id=SCHEDULE)), Accepted)
    assert (world.rows("schedules"), world.rows("firings")) == ([], [])
    world.agents.end("failed")
    await process.sweep(60)
    assert world.agents.runs == [RUN]


async def test_a_schedule_needs_an_agent_of_its_organisation(world: World) -> None:
    process = Process(world)
    stranger = CONFIG.model_copy(update={"agent_id": "agent-2"})
    reply = await process.tell(CreateSchedule(schedule=stranger))
    assert isinstance(reply, Rejected)
    assert (reply.code, reply.reason) == (NOT_FOUND, "Agent with id 'agent-2' not found")


async def test_of_schedules_that_are_over_the_newest_stay(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_cleanup, "COMPLETED_SCHEDULES_KEPT", 2)
    process = Process(world)
    await process.serve()
    names = [f"schedule-{number}" for number in range(5)]
    for number, name in enumerate(names):
        made_at = SOON + timedelta(seconds=number)
        fields = {"id": name, "created_at": made_at}
        await process.create(ONCE.model_copy(update=fields))
    await process.create(MINUTELY.model_copy(update={"id": "schedule-goes-on"}))
    await process.sweep(5)
    await process.outdated.sweep()
    assert len(world.rows("schedules")) == 6, "their runs go on"
    world.agents.end("completed")
    await process.sweep(1)
    process.outdated.look_at_all()
    await process.outdated.sweep()
    left = sorted(row["id"] for row in world.rows("schedules"))
    assert left == ["schedule-3", "schedule-4", "schedule-goes-on"]
    over = DeleteSchedule(schedule_id="schedule-goes-on", if_over=True)
    refused = await process.tell(over, "over")
    assert isinstance(refused, Rejected)
    assert refused.code == CONFLICT


async def test_schedules_go_with_their_agent(world: World) -> None:
    process = Process(world)
    await process.serve()
    await process.create()
    await process.cleanup.sweep()
    assert len(world.rows("schedules")) == 1
    world.agents.delete()
    process.cleanup.look_at_all()
    await process.cleanup.sweep()
    assert world.rows("schedules") == []
