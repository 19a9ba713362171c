"""The way back to the configuration that an agent had before."""

from __future__ import annotations

from typing import Any

import pytest

from libs.contracts.agent.agents import AgentUpdated, RestoreConfiguration
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Rejected
from services.agent.domain.agents.agent import Agent, AgentDesign
from services.agent.domain.agents.earlier_configuration import restore_configuration
from services.agent.domain.tools.custom_tools import CustomTool
from tests.contract.examples import AGENT, BLOCK, CONFIG, TOOL
from tests.unit.agent.world import World
from tests.unit.given import NOW

OTHER = "tool-77777777-7777-4777-8777-777777777777"
RULE = {"type": "requires_approval", "tool_name": "roll"}


def design(**fields: Any) -> AgentDesign:
    config = CONFIG.model_copy(update=fields.pop("config", {}))
    plain: dict[str, Any] = {"tools": [], "tags": [], "block_ids": [BLOCK], **fields}
    return AgentDesign(config=config, **plain)


def agent_that_is(now: AgentDesign) -> Agent:
    agent = Agent.blank(AGENT)
    agent.create(now, at=NOW)
    agent.take_new_events()
    return agent


def restored(agent: Agent, past: AgentDesign, *custom: CustomTool) -> list[Any]:
    restore_configuration(agent, past, custom, actor="user-2", version=3, at=NOW)
    return agent.take_new_events()


def test_fields_tags_and_tools_come_back_and_say_from_where() -> None:
    agent = agent_that_is(design(config={"name": "Eve", "system": "Be rude."}, tags=["new"]))
    past = design(tools=["roll"], tool_ids=[TOOL], tags=["old"])

    [event] = restored(agent, past, CustomTool(id=TOOL, name="roll"))

    assert isinstance(event, AgentUpdated)
    assert event.restored_from == f"{AGENT}.3"
    assert event.changed == ["name", "system", "tags", "tool_ids"]
    assert (event.config.name, event.config.system) == (CONFIG.name, CONFIG.system)
    assert event.config.last_updated_by_id == "user-2"
    assert (event.tags, event.tool_ids, event.block_ids) == (["old"], [TOOL], [BLOCK])
    assert restored(agent, past, CustomTool(id=TOOL, name="roll")) == [], "it is so already"


def test_a_tool_that_is_gone_stays_away_and_a_renamed_one_keeps_its_rules() -> None:
    agent = agent_that_is(design())
    past = design(config={"tool_rules": [RULE]}, tools=["roll", "toss"], tool_ids=[TOOL, OTHER])

    [event] = restored(agent, past, CustomTool(id=TOOL, name="roll_dice"))

    assert (event.tools, event.tool_ids) == (["roll"], [TOOL])
    held = agent.design
    assert held is not None
    now = held.model_copy(update={"custom_tools": [CustomTool(id=TOOL, name="roll_dice")]})
    assert now.names_now == {"roll": "roll_dice"}, "its rule is found under the new name"


@pytest.mark.parametrize("field", ["enable_sleeptime", "created_by_id"])
def test_what_goes_with_other_aggregates_is_left_as_it_is(field: str) -> None:
    agent = agent_that_is(design(config={field: None}))

    assert restored(agent, design(config={field: True})) == []


async def test_a_version_that_never_was_is_refused_and_its_own_is_taken() -> None:
    world = World()
    await world.start_memory()
    await world.agent()
    process = world.process("p-1")

    never = await process.tell(RestoreConfiguration(agent_id=AGENT, version=0), "never")
    same = await process.tell(RestoreConfiguration(agent_id=AGENT, version=1), "same")

    assert isinstance(never, Rejected)
    assert never.code == NOT_FOUND
    assert isinstance(same, Accepted)
    assert not [event for event in world.events() if isinstance(event, AgentUpdated)]
