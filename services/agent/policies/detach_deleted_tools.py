"""When a tool is gone, no agent has it any more."""

from __future__ import annotations

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.agent.agents import AgentCreated, AgentUpdated, DetachTool
from libs.contracts.bus_messages import Command, Event
from libs.contracts.tools.base_tools.definition import tool_ids_of
from services.agent.adapters.reconciliation_queries import AgentQueries
from services.agent.domain.tools.custom_tools import custom_ids
from services.agent.policies.detach_deleted_resources import DetachDeleted

TOOL_GIVING_EVENTS = (AgentCreated, AgentUpdated)


def detach_deleted_tools(bus: Bus, queries: AgentQueries, clock: Clock, ids: Ids) -> DetachDeleted:
    """The policy on deleted tools."""
    return DetachDeleted(
        bus,
        clock,
        ids,
        holders=queries.agents_with_tool,
        lost=queries.lost_tools,
        gives=gives_tools,
        detach=detach_tool,
    )


def gives_tools(event: Event) -> bool:
    """Whether an agent may have got a tool that can be deleted."""
    if not isinstance(event, TOOL_GIVING_EVENTS):
        return False
    return bool(custom_ids(tool_ids_of(event.tools, event.tool_ids)))


def detach_tool(agent_id: str, tool_id: str) -> Command:
    """The command that takes a tool from an agent."""
    return DetachTool(agent_id=agent_id, tool_id=tool_id)
