"""Tools that clients made, on agents: held by id, offered as they are now, called once."""

from __future__ import annotations

import pytest

from libs.contracts.agent import UpdateAgent
from libs.contracts.agent_tools import AttachTool, DetachTool
from libs.contracts.approvals import SetToolApproval
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, Accepted, JsonObject, Rejected
from libs.contracts.conversation import Usage
from services.agent.domain.active_run import ModelReply
from services.agent.domain.agent import Agent, AgentDesign
from services.agent.domain.tools.custom_tools import CustomTool
from services.agent.domain.tools.definition import tool_id
from tests.contract.examples import AGENT
from tests.unit.agent.world import Process, World

DICE_ID = "tool-aaaaaaaa-1111-4111-8111-111111111111"
PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"sides": {"type": "integer"}},
    "required": ["sides"],
}
DICE = CustomTool(id=DICE_ID, name="roll_dice", description="Roll.", parameters=PARAMETERS)


def words(text: str = "Hello") -> ModelReply:
    return ModelReply(text, [], "stop", Usage())


@pytest.fixture
async def world() -> World:
    made = World()
    await made.start_memory()
    return made


def made(world: World, tool: CustomTool = DICE) -> None:
    """Register a tool, or what is said of it now."""
    world.queries.tools["org-1", tool.id] = tool


async def design(process: Process) -> AgentDesign:
    found = (await process.repository.load(Agent, AGENT, org="org-1")).design
    assert found is not None
    return found


def offered(process: Process, number: int = -1) -> list[str]:
    return [str(schema["name"]) for schema in process.model.asked[number].tools]


class TestAttaching:
    async def test_a_tool_attached_a_moment_before_a_message_is_offered(self, world: World) -> None:
        await world.agent()
        process = world.process("agent-1", words())
        made(world)

        reply = await process.tell(AttachTool(agent_id=AGENT, tool_id=DICE_ID), "attach")
        await process.say("run-1")
        await process.idle()

        assert isinstance(reply, Accepted)
        schema = process.model.asked[0].tools[-1]
        assert schema == {"name": "roll_dice", "description": "Roll.", "parameters": PARAMETERS}
        row = world.row("agents", AGENT)
        assert row["custom_tool_ids"] == [DICE_ID]

    async def test_attaching_twice_and_detaching_twice_is_once(self, world: World) -> None:
        await world.agent()
        process = world.process("agent-1")
        made(world)
        for n in range(2):
            await process.tell(AttachTool(agent_id=AGENT, tool_id=DICE_ID), f"attach-{n}")
        assert (await design(process)).tool_ids.count(DICE_ID) == 1
        for n in range(2):
            reply = await process.tell(DetachTool(agent_id=AGENT, tool_id=DICE_ID), f"detach-{n}")
            assert isinstance(reply, Accepted)

        left = await design(process)
        assert DICE_ID not in left.tool_ids
        assert "roll_dice" not in left.tools
        assert world.row("agents", AGENT)["custom_tool_ids"] == []
        assert world.story(AGENT) == ["agent.created", "agent.updated", "agent.updated"]

    async def test_a_tool_of_the_server_is_attached_by_its_id_too(self, world: World) -> None:
        await world.agent(tools=["memory_insert"])
        process = world.process("agent-1")
        command = AttachTool(agent_id=AGENT, tool_id=tool_id("conversation_search"))

        assert isinstance(await process.tell(command, "attach"), Accepted)
        assert (await design(process)).tools == ["memory_insert", "conversation_search"]
        assert world.queries.tools_read == 0

    async def test_what_is_not_there_is_named(self, world: World) -> None:
        await world.agent()
        process = world.process("agent-1")
        command = AttachTool(agent_id=AGENT, tool_id=DICE_ID)

        reply = await process.tell(command, "attach")

        assert isinstance(reply, Rejected)
        assert reply.code == NOT_FOUND
        assert DICE_ID in reply.reason

    async def test_two_tools_of_one_name_do_not_fit_one_agent(self, world: World) -> None:
        await world.agent()
        process = world.process("agent-1")
        made(world, DICE.model_copy(update={"name": "memory_insert"}))

        reply = await process.tell(AttachTool(agent_id=AGENT, tool_id=DICE_ID), "attach")

        assert isinstance(reply, Rejected)
        assert reply.code == CONFLICT

    async def test_a_tool_that_needs_an_approval_brings_the_rule_for_it(self, world: World) -> None:
        await world.agent()
        process = world.process("agent-1")
        made(world, DICE.model_copy(update={"needs_approval": True}))
        await process.tell(AttachTool(agent_id=AGENT, tool_id=DICE_ID), "attach")

        rule = {"tool_name": "roll_dice", "type": "requires_approval", "prompt_template": None}
        assert rule in (await design(process)).config.tool_rules

        off = SetToolApproval(agent_id=AGENT, tool="roll_dice", requires_approval=False)
        assert isinstance(await process.tell(off, "off"), Accepted)
        assert rule not in (await design(process)).config.tool_rules

    async def test_an_agent_is_modified_to_have_tools_by_id(self, world: World) -> None:
        await world.agent()
        process = world.process("agent-1")
        made(world)
        ids = [tool_id("memory_insert"), DICE_ID]
        command = UpdateAgent(agent_id=AGENT, request={"tool_ids": list(ids)})

        assert isinstance(await process.tell(command, "update"), Accepted)
        now = await design(process)
        assert (now.tool_ids, now.tools) == (ids, ["memory_insert", "roll_dice"])

    async def test_modifying_names_the_id_that_is_not_there(self, world: World) -> None:
        await world.agent()
        process = world.process("agent-1")
        command = UpdateAgent(agent_id=AGENT, request={"tool_ids": [DICE_ID]})

        reply = await process.tell(command, "update")

        assert isinstance(reply, Rejected)
        assert DICE_ID in reply.reason


class TestOffering:
    async def test_an_agent_without_custom_tools_asks_for_none(self, world: World) -> None:
        await world.agent()
        process = world.process("agent-1", words())
        await process.say("run-1")
        await process.idle()

        assert world.queries.tools_read == 0

    async def test_a_changed_tool_is_seen_with_its_new_schema(self, world: World) -> None:
        await world.agent(custom=[DICE])
        process = world.process("agent-1", words(), words())
        await process.say("run-1")
        await process.idle()
        made(world, DICE.model_copy(update={"description": "Roll a die with many sides."}))
        await process.say("run-2")
        await process.idle()

        described = [asked.tools[-1]["description"] for asked in process.model.asked]
        assert described == ["Roll.", "Roll a die with many sides."]

    async def test_a_deleted_tool_is_offered_no_more_and_the_agent_goes_on(
        self, world: World
    ) -> None:
        await world.agent(custom=[DICE])
        process = world.process("agent-1", words(), words())
        await process.say("run-1")
        await process.idle()
        world.queries.tools.clear()
        await process.say("run-2")
        await process.idle()

        assert "roll_dice" in offered(process, 0)
        assert "roll_dice" not in offered(process, 1)
        assert world.row("runs", "run-2")["status"] == "completed"

    async def test_another_organisations_tool_is_none(self, world: World) -> None:
        await world.agent()
        process = world.process("agent-1")
        world.queries.tools["org-2", DICE_ID] = DICE

        reply = await process.tell(AttachTool(agent_id=AGENT, tool_id=DICE_ID), "attach")

        assert isinstance(reply, Rejected)
        assert reply.code == NOT_FOUND
