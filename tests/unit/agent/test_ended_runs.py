"""Runs that are over, and their steps: what clients say of them, and how they are forgotten."""

from __future__ import annotations

import pytest

from libs.contracts.agent.conversations import Usage
from libs.contracts.agent.runs import DeleteRun
from libs.contracts.agent.steps import AnnotateStep
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, Accepted, Rejected
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.step_results import ModelReply
from tests.contract.examples import AGENT
from tests.unit.agent.world import CONVERSATION, World

REPLY = ModelReply("Hi", [], "stop", Usage(prompt_tokens=10, completion_tokens=2))


@pytest.fixture
async def world() -> World:
    world = World()
    await world.agent()
    return world


def steps(world: World) -> list[dict[str, object]]:
    return [dict(row) for row in world.schema.rows("steps")]


async def test_what_is_said_of_a_step_is_kept_with_it(world: World) -> None:
    process = world.process("one", REPLY)
    await process.say("run-1")
    await process.idle()
    [step] = steps(world)
    assert (step["run_id"], step["agent_id"], step["status"]) == ("run-1", AGENT, "success")

    changes = {"feedback": "positive", "tags": ["kind"]}
    command = AnnotateStep(agent_id=AGENT, step_id=str(step["id"]), changes=changes)
    assert isinstance(await process.tell(command, "rate"), Accepted)

    [rated] = steps(world)
    assert (rated["feedback"], rated["tags"]) == ("positive", ["kind"])
    unknown = AnnotateStep(agent_id=AGENT, step_id="step-unknown", changes=changes)
    refused = await process.tell(unknown, "rate unknown")
    assert isinstance(refused, Rejected)
    assert refused.code == NOT_FOUND


async def test_a_run_is_forgotten_once_it_has_ended(world: World) -> None:
    process = world.process("one", REPLY)
    await process.say("run-1")
    early = await process.tell(DeleteRun(agent_id=AGENT, run_id="run-1"), "too early")
    assert isinstance(early, Rejected)
    assert early.code == CONFLICT
    await process.idle()

    assert isinstance(await process.tell(DeleteRun(agent_id=AGENT, run_id="run-1"), "d"), Accepted)

    assert (steps(world), world.schema.rows("runs")) == ([], [])
    again = await process.tell(DeleteRun(agent_id=AGENT, run_id="run-1"), "again")
    assert isinstance(again, Rejected)
    assert again.code == NOT_FOUND


async def test_what_is_said_meanwhile_does_not_touch_the_run_that_is_active() -> None:
    world = World()
    await world.agent()
    process = world.process("one", REPLY, REPLY)
    await process.say("run-1")
    await process.idle()
    [step] = steps(world)
    await process.say("run-2")
    command = AnnotateStep(agent_id=AGENT, step_id=str(step["id"]), changes={"feedback": None})
    await process.tell(command, "rate")
    await process.idle()
    conversation = await process.repository.load(Conversation, CONVERSATION, org="org-1")
    assert conversation.state.active_run is None
    assert [row["status"] for row in world.schema.rows("runs")] == ["completed", "completed"]
