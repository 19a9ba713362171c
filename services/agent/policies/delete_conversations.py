"""When an agent is gone, so are its conversations."""

from __future__ import annotations

import logging

from libs.bus.ports import Bus, BusUnavailable, Clock, Ids, request_as_service
from libs.contracts.agent.agents import AgentDeleted
from libs.contracts.agent.conversations import ConversationCreated, DeleteConversation
from libs.contracts.bus_messages import NOT_FOUND, Context, Event, Rejected
from services.agent.adapters.conversation_queries import ConversationQueries
from services.agent.adapters.reconciliation_queries import SWEPT_MAX

log = logging.getLogger(__name__)

ORPHANING_EVENTS = (AgentDeleted, ConversationCreated)
# So many are remembered by name, while they cannot be looked at.
UNSURE_MAX = 10_000
# Everybody is looked at so often: another process may have died with what it had remembered.
LOOK_AT_ALL_SECONDS = 60.0
# How many pages of conversations go in one sweep, before others have their turn.
PAGES_MAX = 16


class DeleteConversations:
    """An agent may have more conversations than one commit can delete, and one may be made in the
    very moment in which its agent is deleted. So after either the agent is looked at once more;
    and everybody when the process starts, and once a minute.
    """

    def __init__(self, bus: Bus, queries: ConversationQueries, clock: Clock, ids: Ids) -> None:
        self.bus = bus
        self.queries = queries
        self.clock = clock
        self.ids = ids
        self.unsure: set[str] = set()
        self.look_at_all = 0.0

    def committed(self, event: Event) -> None:
        """Note whose conversations may be left behind."""
        match event:
            case AgentDeleted():
                self.unsure.add(event.originator_id)
            case ConversationCreated():
                self.unsure.add(event.config.agent_id)
        if len(self.unsure) > UNSURE_MAX:
            self.unsure, self.look_at_all = set(), 0.0

    async def sweep(self) -> None:
        """Delete what was left behind; what is too much for now is left for the next time."""
        unsure, self.unsure = self.unsure, set()
        everybody = self.clock.monotonic() >= self.look_at_all
        if not unsure and not everybody:
            return
        done = False
        try:
            done = await self.delete_all(None if everybody else sorted(unsure))
        except BusUnavailable as problem:
            log.warning("conversations of agents that are gone are still there: %s", problem)
        finally:
            if not done:
                self.unsure |= unsure
            elif everybody:
                self.look_at_all = self.clock.monotonic() + LOOK_AT_ALL_SECONDS

    async def delete_all(self, agent_ids: list[str] | None) -> bool:
        """Delete page by page; returns whether nothing is left."""
        for _ in range(PAGES_MAX):
            lost = await self.queries.lost_conversations(agent_ids)
            for one in lost:
                context = Context(self.ids.new("sweep"), org=one.org)
                command = DeleteConversation(conversation_id=one.id)
                reply = await request_as_service(self.bus, command, context)
                if isinstance(reply, Rejected) and reply.code != NOT_FOUND:
                    log.warning("%s is not deleted: %s", one, reply.reason)
                    return False
            if len(lost) < SWEPT_MAX:
                return True
        return False
