"""Routed messages: one answer each, whatever fails and whichever process dies."""

from __future__ import annotations

import asyncio

import pytest

from libs.contracts.agent.runs import HOPS_MAX, CallingRun
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, UNPROCESSABLE, Accepted, Rejected
from libs.contracts.groups.routing import AwardRule
from libs.contracts.groups.topics import SubscribeAgent, UnsubscribeAgent, topic_id
from tests.leased_work import sweep
from tests.unit.groups.routing_world import (
    ADA,
    BOB,
    CLEO,
    FAILS,
    HANGS,
    IS_BUSY,
    IS_GONE,
    ORG,
    Process,
    World,
)
from tests.waiting import wait_for


def called_by(*agent_ids: str) -> list[CallingRun]:
    """A chain of calls."""
    return [
        CallingRun(agent_id=each, conversation_id=f"conv-{each}", run_id=f"run-{each}", waits=True)
        for each in agent_ids
    ]


async def test_a_message_goes_to_the_best_agent_alone() -> None:
    world = World(paint=[BOB, ADA])
    assert isinstance(await Process(world).route(capability="paint"), Accepted)
    assert world.deliveries() == [(BOB, "answer", "delivered")]
    assert world.story() == [
        *("routed_message.accepted", "message.routed"),
        *("message.delivered", "routed_message.completed"),
    ]
    [run] = world.agents.of(BOB)
    assert run.metadata == {
        "run_type": "routed_message",
        "routed_message_id": "routed_message-1",
        "purpose": "answer",
    }


@pytest.mark.parametrize("does", [FAILS, IS_BUSY, IS_GONE], ids=["fails", "is busy", "is gone"])
async def test_the_next_agent_is_tried_where_one_fails_or_refuses(does: object) -> None:
    world = World(paint=[ADA, BOB, CLEO])
    world.agents.does = {ADA: does, BOB: does}
    await Process(world).route(capability="paint")
    assert world.deliveries() == [
        (ADA, "answer", "failed"),
        (BOB, "answer", "failed"),
        (CLEO, "answer", "delivered"),
    ]
    assert world.row()["answers"] == [3]


async def test_where_all_fail_the_message_says_why() -> None:
    world = World(paint=[ADA, BOB])
    world.agents.does = {ADA: FAILS, BOB: IS_GONE}
    await Process(world).route(capability="paint")
    error = world.row()["error"]
    assert (world.row()["status"], error["code"]) == ("failed", "unavailable")
    assert f"{BOB}: It is not there" in error["reason"]


async def test_the_named_agent_is_first_and_others_are_its_fallback() -> None:
    world = World(paint=[ADA])
    world.agents.does = {CLEO: FAILS}
    await Process(world).route(capability="paint", first=CLEO)
    assert [agent_id for agent_id, _, _ in world.deliveries()] == [CLEO, ADA]


async def test_nobody_who_has_a_part_in_a_message_gets_it_again() -> None:
    world = World(paint=[ADA, BOB])
    await Process(world).route(capability="paint", callers=called_by(ADA))
    assert [agent_id for agent_id, _, _ in world.deliveries()] == [BOB]


async def test_loops_and_too_many_hops_are_refused_and_leave_nothing() -> None:
    world = World(paint=[ADA])
    process = Process(world)
    looping = await process.route(capability="paint", callers=called_by(ADA, BOB))
    assert isinstance(looping, Rejected)
    assert looping.code == CONFLICT
    assert f"it would loop: {ADA} -> {BOB} -> {ADA}" in looping.reason
    chain = called_by(*(f"agent-{number}" for number in range(HOPS_MAX + 1)))
    far = await process.route("m-2", capability="paint", callers=chain)
    assert isinstance(far, Rejected)
    assert (far.code, f"{HOPS_MAX} times" in far.reason) == (UNPROCESSABLE, True)
    nobody = await process.route("m-3", capability="sing")
    assert isinstance(nobody, Rejected)
    assert nobody.code == NOT_FOUND
    unknown = await process.route("m-4", capability="paint", caller_run_id="run-0")
    assert isinstance(unknown, Rejected)
    assert "caller_run_id" in unknown.reason
    assert world.story() == []


async def test_a_command_that_comes_twice_is_one_message() -> None:
    world = World(paint=[ADA])
    process = Process(world)
    await process.route("m-1", capability="paint")
    await process.route("m-1", capability="paint")
    assert isinstance(await process.route("m-2", capability="paint"), Accepted)
    assert len(world.agents.runs) == 1


async def test_a_message_whose_process_dies_is_answered_once_by_another() -> None:
    world = World(paint=[ADA, BOB])
    world.agents.does = {ADA: HANGS}
    first, second = Process(world), Process(world, "groups-2")
    await first.route(capability="paint")
    await wait_for("the run has begun", lambda: world.agents.of(ADA))
    await first.die()
    [run] = world.agents.of(ADA)
    world.agents.end(run.run_id)
    await sweep(second.routed)
    assert world.deliveries() == [(ADA, "answer", "delivered")]
    assert world.agents.started == {run.run_id: 1}, "it was not started again"
    await sweep(first.routed)
    await sweep(second.routed)
    assert world.story().count("message.delivered") == 1


async def test_two_processes_that_attempt_the_same_message_record_its_end_once() -> None:
    world = World(paint=[ADA])
    world.agents.does = {ADA: HANGS}
    first, second = Process(world), Process(world, "groups-2")
    await first.route(capability="paint")
    await wait_for("the run has begun", lambda: world.agents.of(ADA))
    world.clock.seconds += 60  # the lease of the first has run out, it only does not know
    [run] = world.agents.of(ADA)
    await second.routed.sweep()
    world.agents.end(run.run_id)
    await wait_for("both attempts end", lambda: not first.routed.tasks and not second.routed.tasks)
    assert world.story().count("routed_message.completed") == 1
    assert world.story().count("message.delivered") == 1


async def test_who_is_late_is_withdrawn_and_nobody_else_is_asked() -> None:
    world = World(paint=[ADA, BOB])
    world.agents.does = {ADA: HANGS}
    first = Process(world)
    await first.route(capability="paint", seconds_max=10)
    await wait_for("the run has begun", lambda: world.agents.of(ADA))
    await first.die()
    world.clock.seconds += 11
    await sweep(Process(world, "groups-2").routed)
    assert world.deliveries() == [(ADA, "answer", "failed")]
    assert world.agents.cancelled == [run.run_id for run in world.agents.of(ADA)]
    assert "No agent answered in time" in world.row()["error"]["reason"]


async def test_answers_are_gathered_up_to_the_deadline() -> None:
    world = World(paint=[ADA, BOB, CLEO])
    world.agents.does = {ADA: HANGS, BOB: FAILS}
    first = Process(world)
    await first.route(pattern="scatter_gather", capability="paint", seconds_max=10)
    await wait_for("the others are recorded", lambda: "delivery.failed" in world.story())
    await wait_for("all are recorded", lambda: "message.delivered" in world.story())
    await first.die()
    world.clock.seconds += 11
    await sweep(Process(world, "groups-2").routed)
    assert sorted(world.deliveries()) == [
        (ADA, "answer", "failed"),
        (BOB, "answer", "failed"),
        (CLEO, "answer", "delivered"),
    ]
    assert world.row()["status"] == "completed"


async def test_what_is_published_is_done_when_the_runs_are_accepted() -> None:
    world = World()
    process = Process(world)
    topic = topic_id(ORG, "news")
    for number, agent_id in enumerate([ADA, BOB]):
        command = SubscribeAgent(topic_id=topic, name="news", agent_id=agent_id)
        assert isinstance(await process.tell(command, f"s-{number}"), Accepted)
    world.agents.does = {ADA: HANGS}
    await process.route(pattern="publish", topic="news")
    await wait_for("it is published", lambda: world.row()["status"] == "completed")
    assert sorted(world.deliveries()) == [
        (ADA, "notice", "delivered"),
        (BOB, "notice", "delivered"),
    ]
    gone = UnsubscribeAgent(topic_id=topic, name="news", agent_id=CLEO)
    refused = await process.tell(gone, "u-1")
    assert isinstance(refused, Rejected)
    assert refused.code == NOT_FOUND


async def test_what_was_published_goes_on_after_the_deadline() -> None:
    world = World()
    world.agents.does = {ADA: HANGS}
    process = Process(world)
    command = SubscribeAgent(topic_id=topic_id(ORG, "news"), name="news", agent_id=ADA)
    await process.tell(command, "s-1")
    world.agents.started_late = asyncio.Event()
    await process.route(pattern="publish", topic="news", seconds_max=10)
    await wait_for("the run has begun", lambda: world.agents.of(ADA))
    await process.die()
    world.clock.seconds += 11
    await sweep(Process(world, "groups-2").routed)
    assert world.deliveries() == [(ADA, "notice", "delivered")]
    assert world.agents.cancelled == []


async def test_a_stage_of_a_pipeline_fails_over_within_the_stage() -> None:
    world = World(draft=[ADA], edit=[BOB, CLEO])
    world.agents.does = {ADA: "A draft", BOB: FAILS, CLEO: "A text"}
    await Process(world).route(pattern="pipeline", capabilities=["draft", "edit"])
    assert world.deliveries() == [
        (ADA, "answer", "delivered"),
        (BOB, "answer", "failed"),
        (CLEO, "answer", "delivered"),
    ]
    assert (world.agents.heard(ADA), world.agents.heard(CLEO)) == (["Do it"], ["A draft"])
    assert world.row()["answers"] == [3]


async def test_the_best_bid_gets_the_task_and_the_second_best_one_where_it_fails() -> None:
    world = World(haul=[ADA, BOB, CLEO])
    world.agents.does = {ADA: "BID: 2", BOB: "BID: 1", CLEO: "I would rather not"}
    wanted = {"pattern": "contract_net", "capability": "haul", "award": AwardRule()}
    await Process(world).route(**wanted, tell_losers=True)
    purposes = [(agent_id, purpose) for agent_id, purpose, _ in world.deliveries()]
    assert purposes[3:] == [(BOB, "award"), (ADA, "notice")]
    assert "Your bid of 1 has won" in world.agents.heard(BOB)[1]
    assert world.agents.heard(BOB)[2] == "Do it"

    other = World(haul=[ADA, BOB])
    other.agents.does = {ADA: "BID: 2", BOB: "BID: 1"}
    other.agents.refuses = {(BOB, "award")}
    await Process(other).route(**wanted)
    assert other.deliveries()[2:] == [(BOB, "award", "failed"), (ADA, "award", "delivered")]


async def test_a_bidder_that_is_silent_does_not_keep_the_task_from_the_others() -> None:
    world = World(haul=[ADA, BOB])
    world.agents.does = {ADA: HANGS, BOB: "BID: 5"}
    first = Process(world)
    await first.route(pattern="contract_net", capability="haul", seconds_max=20)
    await wait_for("a bid is there", lambda: "message.delivered" in world.story())
    await first.die()
    world.clock.seconds += 11
    second = Process(world, "groups-2")
    await sweep(second.routed)
    assert world.deliveries() == [
        (ADA, "bid", "failed"),
        (BOB, "bid", "delivered"),
        (BOB, "award", "delivered"),
    ]
    assert world.agents.cancelled == [run.run_id for run in world.agents.of(ADA)]
    assert (world.row()["status"], world.row()["answers"]) == ("completed", [3])


async def test_a_busy_loser_keeps_nobody_waiting_for_the_answer() -> None:
    world = World(haul=[ADA, BOB])
    world.agents.does = {ADA: "BID: 2", BOB: "BID: 1"}
    world.agents.busy = {(ADA, "notice")}
    await Process(world).route(pattern="contract_net", capability="haul", tell_losers=True)
    assert world.deliveries()[2:] == [(BOB, "award", "delivered"), (ADA, "notice", "failed")]
    assert world.row()["answers"] == [3]
