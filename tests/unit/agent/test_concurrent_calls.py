"""Calls of one step beside each other: which, how many, what is recorded, and what of them the
model sees, whatever happens to their process or their run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from libs.contracts.agent.conversations import ToolCall
from libs.contracts.agent.runs import CancelRuns
from libs.contracts.bus_messages import Context
from libs.contracts.memory.blocks import CreateBlocks
from services.agent.adapters.conversation_tools import ConversationTools
from services.agent.domain.conversations.active_run import CANCELLED, CONCURRENT_CALLS_MAX
from services.agent.domain.runs.step_results import ToolResult
from services.agent.settings import Deadlines
from tests.contract.examples import AGENT, BLOCK, HUMAN
from tests.unit.agent.driven_runs import ACCEPTED, KEEP, TEA, WORDS
from tests.unit.agent.model_replies import calls, words
from tests.unit.agent.world import Process, World
from tests.waiting import wait_for

RESULT = ["tool_call.finished", "message.appended"]
ASKED = ["model.replied", "message.appended"]


def find(number: int, query: str = "") -> ToolCall:
    """A call that may run beside others."""
    arguments = f'{{"query":"{query or number}"}}'
    return ToolCall(id=f"find_{number}", name="conversation_search", arguments=arguments)


class Searches:
    """Searches that end when they are told to; `running` are those that have begun."""

    def __init__(self, process: Process) -> None:
        owner = process.tools.owners["agent"]
        assert isinstance(owner, ConversationTools)
        owner.runners["conversation_search"] = self.search
        self.running: list[str] = []
        self.most = 0
        self.now = 0
        self.gates: dict[str, asyncio.Event] = {}

    def gate(self, call_id: str) -> asyncio.Event:
        return self.gates.setdefault(call_id, asyncio.Event())

    async def search(self, calling: Any) -> ToolResult:
        self.running.append(calling.call.id)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.gate(calling.call.id).wait()
        finally:
            self.now -= 1
        return ToolResult("success", f"of {calling.call.id}")


async def until(holds: Callable[[], bool]) -> None:
    await wait_for("what the test waits for", holds)


@pytest.fixture
async def world() -> World:
    world = World()
    await world.start_memory()
    process = world.process("setup")
    await process.bus.request(CreateBlocks(blocks=[HUMAN]), Context("blocks", org="org-1"))
    await world.agent(block_ids=[BLOCK])
    return world


def results(process: Process, step: int = -1) -> list[tuple[str | None, object]]:
    """The results that the model was shown in a step."""
    messages = process.model.asked[step].messages
    return [
        (message.tool_call_id, message.content) for message in messages if message.role == "tool"
    ]


async def test_calls_that_may_run_at_once_do_and_results_keep_the_order_of_the_calls(
    world: World,
) -> None:
    process = world.process("p-1", calls(find(1), find(2), find(3)), words())
    searches = Searches(process)
    await world.hear(process, "run-1")
    await process.say("run-1")
    await until(lambda: len(searches.running) == 3)
    assert world.story() == [*ACCEPTED, *ASKED, "tool_calls.started"]
    for call_id in ("find_3", "find_1", "find_2"):
        before = len(world.story())
        searches.gate(call_id).set()
        await until(lambda before=before: len(world.story()) > before)
    await process.idle()
    assert world.story() == [
        *ACCEPTED,
        *ASKED,
        "tool_calls.started",
        "tool_call.finished",  # of the third, durable at once
        *RESULT,  # of the first
        *RESULT,  # of the second
        "message.appended",  # of the third, which was held for it
        *WORDS,
    ]
    assert results(process) == [(f"find_{n}", f"of find_{n}") for n in (1, 2, 3)]
    told = [delta["message"] for delta in world.deltas["run-1"] if "message" in delta]
    assert [result["tool_call_id"] for result in told[1:4]] == ["find_1", "find_2", "find_3"]
    assert [delta["number"] for delta in world.deltas["run-1"]] == [2, 3, 4, 5, 6, 7]
    rows = sorted(world.schema.rows("messages"), key=lambda row: row["position"])
    times = [row["created_at"] for row in rows]
    assert times == sorted(times), "messages are listed by time in the order of the calls"


async def test_what_may_not_run_beside_others_runs_alone_and_after_them(world: World) -> None:
    process = world.process("p-1", calls(TEA, find(1), KEEP, find(2)), words())
    searches = Searches(process)

    async def nobody_else_runs() -> None:
        assert searches.now == 0

    world.build_tool(process, nobody_else_runs)
    for n in (1, 2):
        searches.gate(f"find_{n}").set()
    await process.say("run-1")
    await process.idle()
    started = [event for event in world.events() if event.topic.endswith(".started")][1:]
    assert [event.topic for event in started] == [
        "tool_calls.started",
        "tool_call.started",
        "tool_call.started",
    ]
    assert [event.tool_call_id for event in started[1:]] == [TEA.id, KEEP.id]  # type: ignore[attr-defined]
    assert [result[0] for result in results(process)] == [TEA.id, "find_1", KEEP.id, "find_2"]


async def test_a_hundred_calls_of_one_step_run_so_many_at_once_as_may(world: World) -> None:
    process = world.process("p-1", calls(*(find(n) for n in range(100))), words())
    searches = Searches(process)
    for n in range(100):
        searches.gate(f"find_{n}").set()
    await process.say("run-1")
    await process.idle()
    assert searches.most <= CONCURRENT_CALLS_MAX
    assert len(searches.running) == 100
    assert [result[0] for result in results(process)] == [f"find_{n}" for n in range(100)]
    assert world.row("runs", "run-1")["stop_reason"] == "end_turn"


async def test_one_call_alone_is_recorded_as_it_always_was(world: World) -> None:
    process = world.process("p-1", calls(find(1)), words())
    Searches(process).gate("find_1").set()
    await process.say("run-1")
    await process.idle()
    assert world.story() == [*ACCEPTED, *ASKED, "tool_call.started", *RESULT, *WORDS]


async def test_a_run_that_is_cancelled_ends_each_of_its_calls_with_a_result(world: World) -> None:
    process = world.process("p-1", calls(find(1), find(2), find(3), TEA), words())
    searches = Searches(process)
    await process.say("run-1")
    await until(lambda: len(searches.running) == 3)
    searches.gate("find_2").set()
    await until(lambda: world.story()[-1] == "tool_call.finished")
    await process.tell(CancelRuns(agent_id=AGENT), "cancel")
    await process.idle()
    assert searches.now == 0, "nothing goes on"
    await process.say("run-2")
    await process.idle()
    assert results(process) == [
        ("find_1", CANCELLED),
        ("find_2", "of find_2"),
        ("find_3", CANCELLED),
        (TEA.id, CANCELLED),
    ]


async def test_a_run_that_is_cancelled_in_another_process_lets_all_its_calls_go(
    world: World,
) -> None:
    first, other = world.process("p-1", calls(find(1), find(2))), world.process("p-2")
    searches = Searches(first)
    await first.say("run-1")
    await until(lambda: len(searches.running) == 2)
    await other.tell(CancelRuns(agent_id=AGENT), "cancel")
    first.drivers.cancelled_somewhere()
    await first.idle()
    assert searches.now == 0
    assert world.row("runs", "run-1")["status"] == "cancelled"


async def test_who_takes_over_repeats_what_may_be_repeated_and_keeps_what_has_ended(
    world: World,
) -> None:
    first = world.process("p-1", calls(find(1), find(2), find(3)))
    searches = Searches(first)
    await first.say("run-1")
    await until(lambda: len(searches.running) == 3)
    searches.gate("find_3").set()
    await until(lambda: world.story()[-1] == "tool_call.finished")
    world.lease_expires()
    second = world.process("p-2", words())
    again = Searches(second)
    for n in (1, 2, 3):
        again.gate(f"find_{n}").set()
    await second.drivers.sweep()
    await second.idle()
    assert again.running == ["find_1", "find_2"], "the third is not run once more"
    assert results(second) == [(f"find_{n}", f"of find_{n}") for n in (1, 2, 3)]
    for n in (1, 2):
        searches.gate(f"find_{n}").set()
    await first.idle()
    assert world.story().count("tool_call.finished") == 3


async def test_tools_that_never_answer_end_with_their_deadline_and_the_run_goes_on(
    world: World,
) -> None:
    process = world.process("p-1", calls(find(1), find(2), TEA), words())
    process.tools.seconds_max = 0.5
    searches = Searches(process)
    searches.gate("find_2").set()
    await process.say("run-1")
    await process.idle()
    first, second, third = results(process)
    assert first[0] == "find_1"
    assert "took longer than 0.5 seconds" in str(first[1])
    assert second == ("find_2", "of find_2")
    assert third == (TEA.id, "Name: Ada\nLikes tea")
    statuses = [event.status for event in world.events() if event.topic == "tool_call.finished"]  # type: ignore[attr-defined]
    assert sorted(statuses) == ["error", "success", "success"]
    assert world.row("runs", "run-1")["stop_reason"] == "end_turn"


async def test_a_run_past_its_deadline_ends_although_its_tools_never_answer(world: World) -> None:
    process = world.process("p-1", calls(find(1), find(2)), words())
    searches = Searches(process)
    process.drivers.ports.deadlines = Deadlines(run_seconds_max=0.05)
    await process.say("run-1")
    await until(lambda: len(searches.running) == 2)
    world.clock.seconds += 1
    await process.idle()
    row = world.row("runs", "run-1")
    assert (row["status"], row["error"]["error_type"]) == ("failed", "llm_timeout")
    assert searches.now == 0
    assert world.story().count("tool_call.interrupted") == 2


async def test_a_process_that_stops_leaves_its_calls_to_the_next(world: World) -> None:
    first = world.process("p-1", calls(find(1), find(2)))
    searches = Searches(first)
    await first.say("run-1")
    await until(lambda: len(searches.running) == 2)
    first.drivers.stopping = True
    for task in first.drivers.tasks.values():
        task.cancel()
    await asyncio.gather(*first.drivers.tasks.values(), return_exceptions=True)
    assert searches.now == 0
    second = world.process("p-2", words())
    again = Searches(second)
    for n in (1, 2):
        again.gate(f"find_{n}").set()
    await second.drivers.sweep()
    await second.idle()
    assert results(second) == [("find_1", "of find_1"), ("find_2", "of find_2")]


async def test_a_bug_in_one_tool_ends_no_other_call_without_a_result(world: World) -> None:
    """A failed attempt is made again, and after so many the run is given up: no call is left open
    and the next message works."""

    async def broken(calling: Any) -> ToolResult:
        raise RuntimeError("a bug")

    process = world.process("p-1", calls(find(1), TEA), words())
    owner = process.tools.owners["agent"]
    assert isinstance(owner, ConversationTools)
    owner.runners["conversation_search"] = broken
    await process.say("run-1")
    await process.idle()
    for _ in range(5):
        world.lease_expires()
        await process.drivers.sweep()
        await process.idle()
    assert world.row("runs", "run-1")["status"] == "failed"
    await process.say("run-2")
    await process.idle()
    assert [result[0] for result in results(process)] == ["find_1", TEA.id]
    assert world.row("runs", "run-2")["status"] == "completed"
