"""All that happens for a run is recorded under the request that it was accepted for."""

from __future__ import annotations

import asyncio
import json

import pytest

from libs.bus.ports import IncomingCommand
from libs.contracts.agent.conversations import ToolCall, Usage
from libs.contracts.bus_messages import Accepted, Context, Rejected
from services.agent.domain.runs.step_results import ModelReply
from tests.unit.agent.world import ASK, CONVERSATION, Process, World

REPLY = ModelReply("Hi", [], "stop", Usage(prompt_tokens=10, completion_tokens=2))
CALL = ToolCall(id="call-1", name=ASK, arguments=json.dumps({"content": "tea"}))
CALLING = ModelReply("", [CALL], "tool_calls", Usage())


@pytest.fixture
async def world() -> World:
    world = World()
    await world.agent()
    return world


async def say(process: Process, run_id: str) -> Accepted | Rejected:
    """Start a run for a request of its own, by somebody of its own."""
    command = process.start_run(run_id)
    context = Context(
        run_id, org="org-1", actor=f"user of {run_id}", correlation_id=f"request of {run_id}"
    )
    name = f"{command.service}.{command.topic}"
    return await process.shell.answer(
        IncomingCommand(name, command.model_dump_json().encode(), context)
    )


def recorded(world: World, run_id: str) -> set[tuple[object, object]]:
    """The requests and the people under which the events of a run are recorded."""
    return {
        (event.metadata["correlation_id"], event.metadata["actor"])
        for event in world.schema.streams[CONVERSATION]
        if json.loads(event.payload_json).get("run_id", event.about) == run_id
    }


async def test_a_run_that_waited_in_line_is_recorded_under_its_own_request(world: World) -> None:
    asked = asyncio.Event()

    async def slowly() -> ModelReply:
        await asked.wait()
        return REPLY

    process = world.process("one", slowly, CALLING, REPLY)
    world.build_tool(process)
    await say(process, "run-1")
    await say(process, "run-2")
    asked.set()
    await process.idle()
    for run_id in ("run-1", "run-2"):
        assert recorded(world, run_id) == {(f"request of {run_id}", f"user of {run_id}")}


async def test_a_run_that_is_taken_over_stays_with_its_request(world: World) -> None:
    begun = asyncio.Event()

    async def hang() -> ModelReply:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("it is cancelled")

    process, other = world.process("one", hang), world.process("two", CALLING, REPLY)
    world.build_tool(other)
    await say(process, "run-1")
    await begun.wait()
    await process.drivers.drain()
    world.lease_expires()
    await other.drivers.sweep()
    await other.idle()
    assert recorded(world, "run-1") == {("request of run-1", "user of run-1")}
    topics = {event.topic for event in world.schema.streams[CONVERSATION]}
    assert {"tool_call.finished", "run.completed"} <= topics
