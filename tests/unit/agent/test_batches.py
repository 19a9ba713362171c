"""Batches on the engine for leased work, in memory: each item once, whoever dies when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from libs.bus.ports import BusUnavailable
from libs.contracts.agent.agents import DeleteAgent
from libs.contracts.agent.batches import CancelBatch, StartBatch, run_of_item
from libs.contracts.agent.conversations import DeleteConversation, Usage
from libs.contracts.agent.runs import CancelRuns, DeleteRun, RunAccepted
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Context, Rejected
from libs.eventstore.ports import StoreUnavailable
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.runs.step_results import Failure, ModelReply
from services.agent.engine.batches import DELETED, WAITS_FOR_CLIENT
from tests.contract.batch_examples import AGENT, BATCH, batch_item
from tests.leased_work import finish, sweep
from tests.unit.agent.approvals import KEEP, RULE
from tests.unit.agent.model_replies import calls
from tests.unit.agent.world import Process, World

FAILED = ModelFailed(Failure("llm_authentication", "the key is refused"))


def reply(number: int) -> ModelReply:
    return ModelReply(f"Answer {number}", [], "stop", Usage(prompt_tokens=3, completion_tokens=2))


@pytest.fixture
async def world() -> World:
    world = World()
    await world.start_memory()
    await world.agent()
    return world


async def serving(world: World, holder: str, *turns: Any) -> Process:
    """A process that also receives the commands that its own batches send."""
    process = world.process(holder, *turns)
    await process.bus.serve("agent", process.shell.answer)
    return process


def batch_of(items: int, **fields: Any) -> StartBatch:
    return StartBatch(
        batch_id=BATCH, agent_id=AGENT, items=[batch_item(n) for n in range(items)], **fields
    )


async def carry_on(process: Process, rounds: int = 60) -> None:
    """Sweep and answer until nothing is left to be done."""
    for _ in range(rounds):
        await sweep(process.batches)
        await process.idle()
        if not await process.batches.ports.queries.has_open_batches():
            return
    raise AssertionError("the batch has not ended")


def items(world: World) -> list[Any]:
    rows = world.queries.rows("batch_items")
    return sorted(rows, key=lambda row: row["number"])


def runs_accepted(world: World) -> list[str]:
    return [
        event.about
        for stream in world.schema.streams.values()
        for event in stream
        if event.topic == RunAccepted.topic
    ]


async def test_each_item_is_answered_once_and_its_result_outlives_its_conversation(
    world: World,
) -> None:
    process = await serving(world, "agent-1", *[reply(n) for n in range(12)])
    assert isinstance(await process.tell(batch_of(12), "batch-1"), Accepted)
    await carry_on(process)
    assert sorted(runs_accepted(world)) == sorted(run_of_item(BATCH, n) for n in range(12))
    said = [row["outcome"]["messages"][-1]["content"] for row in items(world)]
    assert sorted(said) == sorted(f"Answer {n}" for n in range(12))
    assert world.queries.rows("conversations") == []
    [batch] = world.queries.rows("batches")
    assert batch["status"] == "completed"
    assert not world.schema.leases, "nobody holds anything any more"


async def test_what_fails_says_why(world: World) -> None:
    process = await serving(world, "agent-1", reply(0), FAILED, reply(2))
    await process.tell(batch_of(3, at_once=1, keep=True), "batch-1")
    await carry_on(process)
    assert [row["status"] for row in items(world)] == ["completed", "failed", "completed"]
    assert items(world)[1]["outcome"]["reason"]
    assert len(world.queries.rows("conversations")) == 3, "they are kept"


@pytest.mark.parametrize("lost", [0, 1], ids=["at once", "after an outage"])
async def test_an_item_that_waits_for_an_approval_keeps_its_conversation_free(
    monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """One after the other, in the agent's own conversation."""
    world = World()
    await world.start_memory()
    await world.agent(tool_rules=[RULE])
    process = await serving(world, "agent-1", calls(KEEP), reply(1), reply(2))
    world.build_tool(process)
    bus, losses = process.batches.ports.bus, [BusUnavailable("away")] * lost
    request = bus.request

    async def request_or_lose(command: Any, context: Context, **fields: Any) -> Any:
        if isinstance(command, CancelRuns) and losses:
            raise losses.pop()
        return await request(command, context, **fields)

    monkeypatch.setattr(bus, "request", request_or_lose)
    own = [
        item.model_copy(update={"run": item.run.model_copy(update={"conversation_id": None})})
        for item in (batch_item(0), batch_item(1))
    ]
    await process.tell(StartBatch(batch_id=BATCH, agent_id=AGENT, items=own, at_once=1), "batch-1")
    await carry_on(process)
    assert [row["status"] for row in items(world)] == ["failed", "completed"]
    assert items(world)[0]["outcome"]["reason"] == WAITS_FOR_CLIENT
    await process.say("run-9")
    await process.idle()
    assert world.row("runs", "run-9")["status"] == "completed"


async def test_a_process_that_loses_its_commits_starts_no_item_twice(world: World) -> None:
    process = await serving(world, "agent-1", *[reply(n) for n in range(6)])
    process.store.lost_after = {1, 3, 5, 8}
    process.store.lost_before = {2, 6, 11}
    await process.tell(batch_of(6), "batch-1")
    for _ in range(60):
        world.clock.seconds += 11.0  # what an attempt held that failed runs out
        try:
            await sweep(process.batches)
            await process.drivers.sweep()
        except StoreUnavailable:
            continue
        await process.idle()
    assert not await world.queries.has_open_batches()
    accepted = runs_accepted(world)
    assert len(accepted) == len({*accepted}) == 6
    assert [row["status"] for row in items(world)] == ["completed"] * 6


async def hang() -> ModelReply:
    """A model that never answers."""
    await asyncio.Event().wait()
    return reply(0)


async def test_five_run_at_once_and_another_process_goes_on_where_one_has_died(
    world: World,
) -> None:
    first = await serving(world, "agent-1", *[hang] * 5)
    await first.tell(batch_of(9), "batch-1")
    await finish(first.batches)
    assert [row["status"] for row in items(world)] == ["running"] * 5 + ["pending"] * 4
    for task in first.drivers.tasks.values():
        task.cancel()
    await first.idle()
    world.clock.seconds += 11.0  # the leases of the first run out
    second = await serving(world, "agent-2", *[reply(n) for n in range(9)])
    await second.drivers.sweep()
    await second.idle()
    await carry_on(second)
    assert [row["status"] for row in items(world)] == ["completed"] * 9
    assert len({*runs_accepted(world)}) == len(runs_accepted(world)) == 9


async def test_a_cancelled_batch_leaves_nothing_running(world: World) -> None:
    process = await serving(world, "agent-1", *[hang] * 5)
    await process.tell(batch_of(9), "batch-1")
    await finish(process.batches)
    refused = await process.tell(CancelBatch(batch_id=BATCH, agent_id="agent-other"), "cancel-0")
    assert isinstance(refused, Rejected)
    assert refused.code == NOT_FOUND
    assert isinstance(await process.tell(CancelBatch(batch_id=BATCH), "cancel-1"), Accepted)
    await finish(process.batches)
    await carry_on(process)
    assert {row["status"] for row in items(world)} == {"cancelled"}
    assert len(runs_accepted(world)) == 5
    assert world.queries.rows("conversations") == []


async def test_items_of_a_deleted_agent_fail_and_the_batch_ends(world: World) -> None:
    process = await serving(world, "agent-1", *[hang] * 5)
    await process.tell(batch_of(9), "batch-1")
    await finish(process.batches)
    await process.tell(DeleteAgent(agent_id=AGENT), "delete")
    for conversation in world.queries.rows("conversations"):
        delete = DeleteConversation(conversation_id=conversation["id"])
        await process.tell(delete, f"delete-{conversation['id']}")
    for task in process.drivers.tasks.values():
        task.cancel()
    await carry_on(process)
    assert [row["status"] for row in items(world)] == ["failed"] * 9
    assert all(row["outcome"]["reason"] for row in items(world))


async def test_an_item_whose_run_is_deleted_is_not_answered_again(world: World) -> None:
    process = await serving(world, "agent-1", reply(0))
    process.batches.stopping = True  # so that its end is seen after it is deleted
    await process.tell(batch_of(1, keep=True), "batch-1")
    process.batches.stopping = False
    await process.batches.sweep()
    [attempt] = process.batches.tasks.values()
    process.batches.stopping = True
    await attempt
    await process.idle()
    [item] = items(world)
    delete = DeleteRun(
        agent_id=AGENT, conversation_id=item["conversation_id"], run_id=item["run_id"]
    )
    assert isinstance(await process.tell(delete, "delete-run"), Accepted)
    process.batches.stopping = False
    await carry_on(process)
    [item] = items(world)
    assert (item["status"], item["outcome"]["reason"]) == ("failed", DELETED)
    assert len(process.model.asked) == 1
