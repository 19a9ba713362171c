"""Detach a deleted resource (a block, a tool, a folder) from every agent that has it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Bus, Clock, Ids, request_as_service
from libs.contracts.agent.agents import (
    AgentCreated,
    AgentUpdated,
    BlockAttached,
    DetachBlock,
    DetachTool,
)
from libs.contracts.bus_messages import Accepted, Command, Context, Event, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.tools.base_tools.definition import tool_ids_of
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.reconciliation import Reconciliation, send_correction
from services.agent.adapters.reconciliation_queries import SWEPT_MAX, AgentQueries, LostPart
from services.agent.domain.tools.custom_tools import custom_ids

BLOCK_GIVING_EVENTS = (AgentCreated, AgentUpdated, BlockAttached)
TOOL_GIVING_EVENTS = (AgentCreated, AgentUpdated)


class DetachDeleted(Reconciliation[LostPart]):
    """When a resource is deleted, send a command for each agent that has it.

    An attach can race with a delete: the resource is looked up before it is deleted, and the agent
    is committed after the agents that had the resource were asked to detach it. So an agent that
    got something in this process is checked again after the commit; and once more later, if the
    outcome of the commit is unknown.

    `holders` finds the agents that have a resource. `lost` finds deleted resources that these
    agents, or any, still have, at most `SWEPT_MAX`. `gives` says whether an event attached
    something. `detach` makes the command that detaches it.
    """

    name = "agents that still have what is gone"
    batch_max = SWEPT_MAX

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        ids: Ids,
        *,
        holders: Callable[[str, str], Awaitable[list[str]]],
        lost: Callable[[list[str] | None], Awaitable[list[LostPart]]],
        gives: Callable[[Event], bool],
        detach: Callable[[str, str], Command],
    ) -> None:
        super().__init__(clock)
        self.bus = bus
        self.ids = ids
        self.holders = holders
        self.lost = lost
        self.gives = gives
        self.detach = detach

    async def detach_everywhere(self, event: Event, context: Context) -> None:
        """Ask each agent that has the deleted resource to detach it."""
        part_id = event.originator_id
        for agent_id in await self.holders(context.org, part_id):
            cause = context.follow_up(derived_id("cmd", context.message_id, agent_id))
            await request_as_service(self.bus, self.detach(agent_id, part_id), cause)

    def note_commit(self, event: Event) -> None:
        """Note that the event may have attached something to its agent."""
        if self.gives(event):
            self.suspect(event.originator_id)

    def noting(self, handler: Handler) -> Handler:
        """Wrap a handler that attaches something, so that its agent is checked afterwards.

        Every delivery of the command is noted, refused ones too: an earlier delivery's commit with
        an unknown outcome may still be made after this one was refused."""

        async def noted(command: Any, work: UnitOfWork) -> Accepted | Rejected:
            def committed(_: int | None) -> None:
                # An earlier commit to an agent that has gone on cannot be made any more.
                if any(event.originator_id == command.agent_id for event in work.events):
                    self.suspects_later.pop(command.agent_id, None)

            self.suspect(command.agent_id)
            reply = await handler(command, work)
            self.suspect_later(command.agent_id)
            work.after_commit.append(committed)
            return reply

        return noted

    async def find(self, keys: list[str] | None) -> Sequence[LostPart]:
        """Deleted resources that agents still have."""
        return await self.lost(keys)

    async def mend(self, item: LostPart) -> bool:
        """Detach one deleted resource from one agent; returns whether that was accepted."""
        command = self.detach(item.agent_id, item.part_id)
        return await send_correction(self.bus, self.ids, command, item.org)


def detach_deleted_blocks(bus: Bus, queries: AgentQueries, clock: Clock, ids: Ids) -> DetachDeleted:
    """The policy on deleted blocks: no agent sees them any more."""
    return DetachDeleted(
        *(bus, clock, ids),
        holders=queries.agents_attached_to,
        lost=queries.lost_blocks,
        gives=gives_blocks,
        detach=lambda agent_id, block_id: DetachBlock(agent_id=agent_id, block_id=block_id),
    )


def gives_blocks(event: Event) -> bool:
    """Whether an agent may have got a block."""
    return isinstance(event, BLOCK_GIVING_EVENTS) and bool(event.block_ids)


def detach_deleted_tools(bus: Bus, queries: AgentQueries, clock: Clock, ids: Ids) -> DetachDeleted:
    """The policy on deleted tools: no agent has them any more."""
    return DetachDeleted(
        *(bus, clock, ids),
        holders=queries.agents_with_tool,
        lost=queries.lost_tools,
        gives=gives_tools,
        detach=lambda agent_id, tool_id: DetachTool(agent_id=agent_id, tool_id=tool_id),
    )


def gives_tools(event: Event) -> bool:
    """Whether an agent may have got a tool that can be deleted."""
    if not isinstance(event, TOOL_GIVING_EVENTS):
        return False
    return bool(custom_ids(tool_ids_of(event.tools, event.tool_ids)))
