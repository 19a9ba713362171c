"""API-14: tools that were deleted or renamed leave no agent stuck, and no name ambiguous."""

from __future__ import annotations

from typing import Any

from libs.contracts.agent.agents import AttachTool
from libs.contracts.agent.conversations import ToolCall, Usage
from libs.contracts.bus_messages import Accepted, Context
from libs.contracts.tools.tools import ToolDeleted
from services.agent.domain.agents.agent import Agent, AgentDesign
from services.agent.domain.runs.step_results import ModelReply
from services.agent.domain.tools.custom_tools import CustomTool, held_tools
from services.agent.policies.detach_deleted_resources import detach_deleted_tools
from tests.contract.examples import AGENT
from tests.unit.agent.world import Process, World
from tests.unit.given import fact

DICE = CustomTool(id="tool-aaaaaaaa-1111-4111-8111-111111111111", name="roll_die")
COIN = CustomTool(id="tool-bbbbbbbb-1111-4111-8111-111111111111", name="toss_coin")
MUST_ROLL = {"type": "required_before_exit", "tool_name": "roll_die", "prompt_template": None}


def words() -> ModelReply:
    return ModelReply("Hello", [], "stop", Usage())


def delete(world: World, tool: CustomTool) -> None:
    del world.queries.tools["org-1", tool.id]
    world.queries.tools_deleted.add(("org-1", tool.id))


async def design(process: Process) -> AgentDesign:
    found = (await process.repository.load(Agent, AGENT, org="org-1")).design
    assert found is not None
    return found


async def test_a_deleted_tool_leaves_the_design_of_every_agent_that_has_it(world: World) -> None:
    await world.agent(tools=["memory_insert"], custom=[DICE, COIN])
    process = world.process("agent-1")
    await process.bus.serve("agent", process.shell.answer)
    policy = detach_deleted_tools(process.bus, world.queries, world.clock, world.ids)
    delete(world, DICE)
    for _ in range(2):  # the log may tell it again
        await policy.detach_everywhere(
            fact(ToolDeleted).at(DICE.id, 2), Context("e-1", org="org-1")
        )

    assert (await design(process)).tools == ["memory_insert", "toss_coin"]
    assert world.row("agents", AGENT)["custom_tool_ids"] == [COIN.id]
    assert world.story(AGENT) == ["agent.created", "agent.updated"]


async def test_a_tool_deleted_in_the_moment_in_which_an_agent_gets_it_is_not_held_for_long(
    world: World,
) -> None:
    await world.agent(tools=["memory_insert"])
    process = world.process("agent-1")
    await process.bus.serve("agent", process.shell.answer)
    policy = detach_deleted_tools(process.bus, world.queries, world.clock, world.ids)
    await policy.sweep()  # everybody, once
    process.repository.watchers.append(policy.note_commit)
    world.queries.tools["org-1", DICE.id] = DICE
    await policy.detach_everywhere(fact(ToolDeleted).at(DICE.id, 2), Context("e-1", org="org-1"))
    attached = await process.tell(AttachTool(agent_id=AGENT, tool_id=DICE.id), "attach")
    assert isinstance(attached, Accepted)
    delete(world, DICE)
    await policy.sweep()

    assert (await design(process)).tools == ["memory_insert"]
    assert policy.suspects == set()


async def test_what_only_a_newer_release_knows_is_left_alone(world: World) -> None:
    await world.agent(custom=[DICE])
    process = world.process("agent-1")
    await process.bus.serve("agent", process.shell.answer)
    world.queries.tools.clear()  # it is not there, and was never made or deleted here
    await detach_deleted_tools(process.bus, world.queries, world.clock, world.ids).sweep()

    assert DICE.id in (await design(process)).tool_ids


async def test_a_rule_that_requires_a_deleted_tool_keeps_no_run_going(world: World) -> None:
    """The rules of a run stay as they were when it was accepted, but for tools that are gone."""
    await world.agent(tools=["memory_insert"], custom=[DICE], tool_rules=[MUST_ROLL])

    def gone(*_: Any) -> ModelReply:
        delete(world, DICE)
        return words()

    process = world.process("agent-1", gone(), words(), words(), words())
    await process.say("run-1", max_steps=10)
    await process.idle()

    run = world.row("runs", "run-1")
    assert (run["status"], run["stop_reason"]) == ("completed", "end_turn")
    assert len(process.model.asked) == 1, "the tool was gone when the model was asked"


async def test_a_tool_that_is_deleted_in_mid_run_is_required_no_more(world: World) -> None:
    insert = ToolCall(id="call_1", name="memory_insert", arguments="{}")
    await world.agent(tools=["memory_insert"], custom=[DICE], tool_rules=[MUST_ROLL])
    calls = ModelReply("", [insert], "tool_calls", Usage())
    process = world.process("agent-1", calls, words(), words(), words())
    asked = process.model.asked

    class Deleting(list[Any]):
        def append(self, request: Any) -> None:
            super().append(request)
            if len(self) == 1:
                delete(world, DICE)

    process.model.asked = Deleting(asked)
    await process.say("run-1", max_steps=10)
    await process.idle()

    run = world.row("runs", "run-1")
    assert (run["status"], run["stop_reason"]) == ("completed", "end_turn")
    assert len(process.model.asked) == 2
    assert all(
        "call: roll_die" not in str(request.messages[-1].content) for request in process.model.asked
    )


async def test_a_tool_that_was_renamed_is_attached_beside_one_that_has_its_old_name(
    world: World,
) -> None:
    await world.agent(custom=[DICE])
    process = world.process("agent-1")
    world.queries.tools["org-1", DICE.id] = DICE.model_copy(update={"name": "roll"})
    newer = COIN.model_copy(update={"name": "roll_die"})
    world.queries.tools["org-1", COIN.id] = newer

    reply = await process.tell(AttachTool(agent_id=AGENT, tool_id=COIN.id), "attach")

    assert isinstance(reply, Accepted)
    held = await design(process)
    assert dict(zip(held.tool_ids, held.tools, strict=True)) | {} == {
        **dict(zip(held.tool_ids, held.tools, strict=True)),
        DICE.id: "roll",
        COIN.id: "roll_die",
    }


def test_a_name_that_two_tools_have_come_to_have_is_that_of_the_first() -> None:
    other = COIN.model_copy(update={"name": "roll_die"})
    assert held_tools([DICE.id, COIN.id], [other, DICE]) == [DICE]
    assert held_tools([COIN.id, DICE.id], [other, DICE]) == [other]
