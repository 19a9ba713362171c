"""Tools that clients rename: what rules say of them goes on to hold."""

from __future__ import annotations

from libs.contracts.agent.agents import AttachTool, UpdateAgent
from libs.contracts.agent.approvals import SetToolApproval
from libs.contracts.agent.conversations import ToolCall, Usage
from libs.contracts.bus_messages import Accepted, JsonObject
from services.agent.domain.runs.step_results import ModelReply
from services.agent.domain.tools.tool_rules import with_current_names
from tests.contract.examples import AGENT
from tests.unit.agent.custom_tools import DICE, DICE_ID, FOUR, SPIN, ToolsService, design, made
from tests.unit.agent.model_replies import words
from tests.unit.agent.world import World

NEEDS_APPROVAL: JsonObject = {"type": "requires_approval", "tool_name": "roll_die"}


RENAMED = DICE.model_copy(update={"name": "throw_dice"})


def throw(times: int) -> ModelReply:
    call = ToolCall(id=f"call_{times}", name="throw_dice", arguments='{"sides": 6}')
    return ModelReply("", [call], "tool_calls", Usage())


class TestRulesOfRenamedTools:
    """A rule is about a tool, whatever that is called by the time of a run."""

    async def test_a_bound_holds_for_a_tool_under_its_new_name(self, world: World) -> None:
        tools = ToolsService(world, FOUR)
        await tools.start()
        once: JsonObject = {
            "type": "max_count_per_step",
            "tool_name": "roll_die",
            "max_count_limit": 1,
        }
        await world.agent(custom=[DICE], tool_rules=[once])
        process = world.process("agent-1", throw(1), throw(2), words())
        made(world, RENAMED)
        await process.say("run-1", max_steps=10)
        await process.idle()

        assert [request.tool_call_id for request in tools.asked] == ["call_1"]
        assert world.row("runs", "run-1")["status"] == "completed"

    async def test_a_rule_by_the_new_name_holds_as_well(self, world: World) -> None:
        tools = ToolsService(world, FOUR)
        await tools.start()
        ends: JsonObject = {"type": "exit_loop", "tool_name": "throw_dice"}
        await world.agent(custom=[DICE], tool_rules=[ends])
        process = world.process("agent-1", throw(1), words())
        made(world, RENAMED)
        await process.say("run-1", max_steps=10)
        await process.idle()

        assert len(process.model.asked) == 1
        assert world.row("runs", "run-1")["stop_reason"] == "tool_rule"

    async def test_another_tool_is_attached_and_the_rule_stays_with_the_first(
        self, world: World
    ) -> None:
        """S17: the agent learns the new name then, and the one that needs an approval needs it
        still; the one that has its old name does not."""
        await world.agent(custom=[DICE], tool_rules=[NEEDS_APPROVAL])
        process = world.process("agent-1")
        made(world, RENAMED)
        made(world, SPIN.model_copy(update={"name": "roll_die"}))
        await process.tell(AttachTool(agent_id=AGENT, tool_id=SPIN.id), "attach")

        found = await design(process)
        assert {DICE_ID: "throw_dice", SPIN.id: "roll_die"}.items() <= dict(
            zip(found.tool_ids, found.tools, strict=True)
        ).items()
        assert found.config.tool_rules == [{**NEEDS_APPROVAL, "tool_name": "throw_dice"}]

    async def test_a_client_that_lists_the_tools_anew_keeps_the_rule(self, world: World) -> None:
        await world.agent(custom=[DICE], tool_rules=[NEEDS_APPROVAL])
        process = world.process("agent-1")
        made(world, RENAMED)
        made(world, SPIN)
        request: JsonObject = {"tool_ids": [DICE_ID, SPIN.id]}
        await process.tell(UpdateAgent(agent_id=AGENT, request=request), "update")
        found = await design(process)
        assert (found.tools, found.config.tool_rules) == (
            ["throw_dice", "spin"],
            [{**NEEDS_APPROVAL, "tool_name": "throw_dice"}],
        )

    async def test_an_approval_is_set_and_taken_back_by_the_new_name(self, world: World) -> None:
        await world.agent(custom=[DICE])
        process = world.process("agent-1")
        made(world, RENAMED)
        for number, wanted in enumerate((True, False)):
            command = SetToolApproval(agent_id=AGENT, tool="throw_dice", requires_approval=wanted)
            assert isinstance(await process.tell(command, f"set-{number}"), Accepted)
            found = await design(process)
            names = [rule["tool_name"] for rule in found.config.tool_rules]
            assert names == ["roll_die"] * wanted, "as it was attached"

    def test_every_name_in_a_rule_follows(self) -> None:
        rules: list[JsonObject] = [
            {
                "type": "constrain_child_tools",
                "tool_name": "a",
                "children": ["a", "b"],
                "child_arg_nodes": [{"name": "a", "args": {"a": 1}}],
            },
            {
                "type": "conditional",
                "tool_name": "b",
                "default_child": "a",
                "child_output_mapping": {"a": "a"},
            },
        ]
        children, conditional = with_current_names(rules, {"a": "new"})
        assert children == {
            "type": "constrain_child_tools",
            "tool_name": "new",
            "children": ["new", "b"],
            "child_arg_nodes": [{"name": "new", "args": {"a": 1}}],
        }
        assert conditional == {
            "type": "conditional",
            "tool_name": "b",
            "default_child": "new",
            "child_output_mapping": {"a": "new"},
        }
