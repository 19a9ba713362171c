"""A run ends, however long its models and tools take, and whoever drives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from libs.contracts.environment_parsing import WrongSetting
from services.agent.domain.conversations.active_run import PAUSE_SECONDS_MAX, ActiveRun
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.step_results import ModelReply
from services.agent.settings import RUN_SECONDS_MAX, Deadlines
from tests.clock_and_ids import ManualClock
from tests.contract.examples import RUN_CONFIG
from tests.unit.agent.driven_runs import TEA, frozen, with_block
from tests.unit.agent.model_replies import calls, words
from tests.unit.agent.world import CONVERSATION, World
from tests.unit.given import NOW


@pytest.fixture
async def world() -> World:
    world = World()
    await world.start_memory()
    await with_block(world)
    return world


def after(world: World, seconds: float, reply: ModelReply) -> Callable[[], Awaitable[ModelReply]]:
    """A model that takes so long."""

    async def answer() -> ModelReply:
        world.clock.seconds += seconds
        return reply

    return answer


async def hang() -> ModelReply:
    await asyncio.Event().wait()
    raise AssertionError("nobody ends it")


def ended_late(row: dict[str, Any]) -> bool:
    return (
        (row["status"], row["stop_reason"]) == ("failed", "llm_api_error")
        and row["error"]["error_type"] == "llm_timeout"
        and "HEELER_RUN_SECONDS_MAX" in row["error"]["message"]
    )


async def test_a_model_that_hangs_does_not_hold_the_run_and_the_next_one_works(
    world: World,
) -> None:
    process = world.process("p-1", hang, words())
    process.drivers.ports.deadlines = Deadlines(run_seconds_max=0.05)
    await process.say("run-1")
    await process.idle()
    assert ended_late(world.row("runs", "run-1"))
    process.drivers.ports.deadlines = Deadlines(run_seconds_max=60.0)
    await process.say("run-2")
    await process.idle()
    assert world.row("runs", "run-2")["status"] == "completed"
    assert world.lease_is_free()


async def test_a_model_that_takes_too_long_for_one_step_ends_the_run_and_says_so(
    world: World,
) -> None:
    process = world.process("p-1", calls(TEA), hang, words())
    process.drivers.ports.deadlines = Deadlines(step_seconds_max=0.05)
    await process.say("run-1")
    await process.idle()
    row = world.row("runs", "run-1")
    assert (row["status"], row["error"]["error_type"]) == ("failed", "llm_timeout")
    assert "0.05 seconds" in row["error"]["message"]
    assert "HEELER_STEP_SECONDS_MAX" in row["error"]["message"]
    await process.say("run-2")
    await process.idle()
    assert world.row("runs", "run-2")["status"] == "completed"


async def test_a_run_of_many_steps_ends_between_two_of_them(world: World) -> None:
    process = world.process("p-1", *(after(world, 20.0, calls(TEA)) for _ in range(9)))
    process.drivers.ports.deadlines = Deadlines(run_seconds_max=50.0)
    await process.say("run-1")
    await process.idle()
    assert ended_late(world.row("runs", "run-1"))
    assert len(process.model.asked) == 3
    assert world.story()[-3:] == ["tool_call.interrupted", "message.appended", "run.failed"]


async def test_who_takes_a_run_over_counts_what_it_took_before(world: World) -> None:
    stand_still = asyncio.Event()

    async def die() -> ModelReply:
        stand_still.set()
        return await hang()

    first = world.process("p-1", after(world, 40.0, calls(TEA)), die)
    second = world.process("p-2", after(world, 20.0, calls(TEA)), words("too late"))
    for process in (first, second):
        process.drivers.ports.deadlines = Deadlines(run_seconds_max=55.0)
    await first.say("run-1")
    await stand_still.wait()
    world.lease_expires()
    await second.drivers.sweep()
    await second.idle()
    assert ended_late(world.row("runs", "run-1"))
    assert len(second.model.asked) == 1
    for task in first.drivers.tasks.values():
        task.cancel()


@pytest.mark.parametrize("hours", [2, -2])
async def test_a_clock_that_is_set_ends_no_run(
    world: World, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = world.clock

    def jumped() -> datetime:
        return NOW + timedelta(seconds=clock.seconds, hours=hours)

    async def set_clock() -> ModelReply:
        monkeypatch.setattr(clock, "now", jumped)
        return calls(TEA)

    process = world.process("p-1", set_clock, after(world, 100.0, words()))
    process.drivers.ports.deadlines = Deadlines(run_seconds_max=RUN_SECONDS_MAX)
    await process.say("run-1")
    await process.idle()
    assert world.row("runs", "run-1")["status"] == "completed"


async def test_runs_that_are_accepted_behind_it_by_other_clocks_take_none_of_its_time(
    world: World,
) -> None:
    """Two replicas, whose clocks are two hours apart, accept messages by turns."""
    slow, reached, let_go = frozen()
    process, other = world.process("p-1", slow), world.process("p-2")
    other.handlers.ports.clock = ManualClock(ahead=7_200.0)
    await process.say("run-1")
    await reached.wait()
    for number in range(2, 12):
        await (other if number % 2 else process).say(f"run-{number}")
    conversation = await process.repository.load(Conversation, CONVERSATION, org="org-1")
    assert conversation.running().run.id == "run-1"
    assert conversation.running().seconds == 0
    let_go.set()
    for task in process.drivers.tasks.values():
        task.cancel()


def test_what_a_run_took_is_folded_from_its_events_and_no_pause_counts_for_much() -> None:
    turn = ActiveRun(run=RUN_CONFIG, max_steps=9, started_at=NOW)
    at = NOW
    for seconds, counted in ((5, 5), (7_200, 5 + PAUSE_SECONDS_MAX), (1, 606), (-600, 606)):
        at += timedelta(seconds=seconds)
        turn.pass_until(at)
        assert turn.seconds == counted
    assert PAUSE_SECONDS_MAX < RUN_SECONDS_MAX / 2, "one jump does not end a run"


def test_processes_whose_clocks_differ_do_not_count_their_difference_by_turns() -> None:
    turn = ActiveRun(run=RUN_CONFIG, max_steps=9, started_at=NOW)
    for second in range(1, 11):
        for skew in (7_200, 0, -7_200):
            turn.pass_until(NOW + timedelta(seconds=second + skew))
    assert turn.seconds == PAUSE_SECONDS_MAX + 9


def test_how_long_runs_steps_and_tools_may_take_are_settings() -> None:
    assert Deadlines.from_environment({}) == Deadlines(RUN_SECONDS_MAX, 600.0, 120.0)
    for what in ("run", "step", "tool"):
        name = f"HEELER_{what.upper()}_SECONDS_MAX"
        chosen = Deadlines.from_environment({name: "90.5"})
        assert getattr(chosen, f"{what}_seconds_max") == 90.5
        for wrong in ("0", "-1", "soon", "nan", "inf"):
            with pytest.raises(WrongSetting, match=name):
                Deadlines.from_environment({name: wrong})
