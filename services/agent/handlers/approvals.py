"""Tools that need an approval, and calls that get none: load, decide, save, reply."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.bus.unknown_version_delays import log_once
from libs.contracts.agent.approvals import SetToolApproval
from libs.contracts.bus_messages import Accepted, Command, Context, NewerVersion, Rejected
from libs.eventstore.ports import VersionConflict
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.approval_queries import APPROVALS_SEEN_MAX, WaitingApproval
from services.agent.adapters.custom_tool_queries import with_custom_tools
from services.agent.domain.agents.agent import Agent
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.required_tool_approvals import with_approval
from services.agent.domain.runs.approval_resolution import expire
from services.agent.handlers.monotonic_deadlines import MonotonicDeadlines
from services.agent.handlers.ports import HandlerPorts

log = logging.getLogger(__name__)

EXPIRED_AT_ONCE_MAX = 64


class ApprovalHandlers:
    """Has calls wait for the client, but not for ever."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports
        self.deadlines = MonotonicDeadlines[WaitingApproval](ports.clock, APPROVALS_SEEN_MAX)

    def table(self) -> Mapping[type[Command], Handler]:
        """Which command goes where."""
        return {SetToolApproval: self.set_tool_approval}

    async def set_tool_approval(
        self, command: SetToolApproval, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Have the calls of a tool wait for an approval, or not any more."""
        agent = await work.load(Agent, command.agent_id)
        renamed: dict[str, str] = {}
        if agent.design is not None:
            read = await with_custom_tools(self.ports.queries, work.context.org, agent.design)
            renamed = read.renamed
        refused = with_approval(agent, command, renamed, at=self.ports.clock.now())
        return refused or Accepted()

    async def sweep(self) -> None:
        """End what has waited for its client for too long. Several processes may look; one ends it,
        the others find it ended."""
        seconds_max = self.ports.engine.ports.deadlines.approval_seconds_max
        waiting = await self.ports.queries.waiting_approvals(seconds_max)
        for late in self.deadlines.over(waiting)[:EXPIRED_AT_ONCE_MAX]:
            try:
                async with self.ports.engine.ports.locks.hold(late.conversation_id):
                    await self.expire(late)
            except NewerVersion as unknown:
                log_once(unknown)
            except VersionConflict:
                log.debug("%s goes on just now", late.conversation_id)

    async def expire(self, late: WaitingApproval) -> None:
        """End what waits in one conversation, unless it has been answered meanwhile."""
        context = Context(self.ports.ids.new("sweep"), org=late.org)
        work = self.ports.repository.work(context)
        conversation = await work.load(Conversation, late.conversation_id)
        now = self.ports.clock.now()
        if not expire(conversation, requested_at=late.requested_at, at=now):
            return
        log.warning("%s: the deadline of an approval has passed", conversation.id)
        if conversation.state.turn is not None:
            self.ports.begin_after_commit(conversation, work)
        await work.commit()
        self.ports.engine.ports.committed()
