"""When a block is gone, no agent sees it any more."""

from __future__ import annotations

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.agent.agents import AgentCreated, AgentUpdated, BlockAttached, DetachBlock
from libs.contracts.bus_messages import Command, Event
from services.agent.adapters.reconciliation_queries import AgentQueries
from services.agent.policies.detach_deleted_resources import DetachDeleted

BLOCK_GIVING_EVENTS = (AgentCreated, AgentUpdated, BlockAttached)


def detach_deleted_blocks(bus: Bus, queries: AgentQueries, clock: Clock, ids: Ids) -> DetachDeleted:
    """The policy on deleted blocks."""
    return DetachDeleted(
        bus,
        clock,
        ids,
        holders=queries.agents_attached_to,
        lost=queries.lost_blocks,
        gives=gives_blocks,
        detach=detach_block,
    )


def gives_blocks(event: Event) -> bool:
    """Whether an agent may have got a block."""
    return isinstance(event, BLOCK_GIVING_EVENTS) and bool(event.block_ids)


def detach_block(agent_id: str, block_id: str) -> Command:
    """The command that takes a block from an agent."""
    return DetachBlock(agent_id=agent_id, block_id=block_id)
