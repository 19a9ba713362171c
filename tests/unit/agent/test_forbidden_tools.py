"""TOOL-15: an agent is offered what it may call, and what it calls all the same is refused."""

from __future__ import annotations

from libs.contracts.agent.conversations import ToolCall, Usage
from libs.contracts.agent.steps import ToolCallFinished, ToolCallForbidden
from libs.contracts.tools.tool_permission_evaluation import ToolPolicies, compile_list
from services.agent.domain.runs.step_results import ModelReply
from tests.contract.examples import AGENT, BLOCK
from tests.unit.agent.custom_tools import DICE, offered
from tests.unit.agent.model_replies import words
from tests.unit.agent.world import ASK, World


def only(*tools: str) -> ToolPolicies:
    """Lists that let the agent call these alone."""
    return ToolPolicies(scopes={("org-1", "agent", AGENT): compile_list(tools, None)})


def calls(*names: str) -> ModelReply:
    made = [
        ToolCall(id=f"call_{n}", name=name, arguments="{}") for n, name in enumerate(names, start=1)
    ]
    return ModelReply("", made, "tool_calls", Usage())


async def test_a_forbidden_tool_is_neither_offered_nor_called(world: World) -> None:
    await world.agent(custom=[DICE])
    process = world.process("agent-1", calls("roll_die", "conversation_search"), words())
    world.build_tool(process)
    world.policies = only("conversation_search", ASK)
    await process.say("run-1")
    await process.idle()

    assert offered(process, 0) == ["conversation_search", ASK]
    [told] = [event for event in world.events() if isinstance(event, ToolCallForbidden)]
    assert (told.tool, told.tool_call_id, told.run_id) == ("roll_die", "call_1", "run-1")
    assert told.reason == (
        "'roll_die' is not allowed for this agent: it is not on the list of tools."
    )
    ended = {
        event.tool_call_id: event.status
        for event in world.events()
        if isinstance(event, ToolCallFinished)
    }
    assert ended == {"call_1": "error", "call_2": "success"}
    shown = process.model.asked[1].messages[-2:]
    assert told.reason in str(shown)
    assert world.row("runs", "run-1")["status"] == "completed"


async def test_a_list_that_changes_in_a_run_holds_for_the_next_call(world: World) -> None:
    """The run goes on: its first call was made, its second is refused."""

    async def withdrawn() -> ModelReply:
        world.policies = only("memory_insert")
        return calls(ASK)

    await world.agent(block_ids=[BLOCK])
    process = world.process("agent-1", calls(ASK), withdrawn, words("Done"))
    world.build_tool(process)
    await process.say("run-1")
    await process.idle()

    assert world.tool_runs == ["agent-1 call_1"]
    assert world.story().count("tool_call.forbidden") == 1
    assert world.row("runs", "run-1")["status"] == "completed"


async def test_as_long_as_the_lists_are_not_known_nothing_is_called(world: World) -> None:
    await world.agent()
    process = world.process("agent-1", calls(ASK), words())
    world.build_tool(process)
    world.policies = None
    await process.say("run-1")
    await process.idle()

    assert world.tool_runs == []
    assert "not known yet" in str(process.model.asked[1].messages[-1])


async def test_a_rule_that_wants_a_forbidden_tool_first_does_not_end_the_agent(
    world: World,
) -> None:
    rule = {"type": "run_first", "tool_name": ASK}
    await world.agent(tool_rules=[rule])
    process = world.process("agent-1", calls("conversation_search"), words())
    world.policies = only("conversation_search")
    await process.say("run-1")
    await process.idle()

    assert offered(process, 0) == ["conversation_search"]
    assert world.row("runs", "run-1")["status"] == "completed"
