"""Tools that need an approval, and calls that get none: load, decide, save, reply."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

from libs.bus.command_dispatcher import Handler
from libs.bus.unknown_version_backoff import log_once
from libs.contracts.approvals import SetToolApproval
from libs.contracts.bus_messages import Accepted, Command, Context, NewerVersion, Rejected
from libs.eventstore.ports import VersionConflict
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.reconciliation_queries import Orphan
from services.agent.domain.agent import Agent
from services.agent.domain.approvals import expire
from services.agent.domain.conversation import Conversation
from services.agent.domain.tool_approval import with_approval
from services.agent.handlers.ports import HandlerPorts

log = logging.getLogger(__name__)


class ApprovalHandlers:
    """Has calls wait for the client, but not for ever."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """Which command goes where."""
        return {SetToolApproval: self.set_tool_approval}

    async def set_tool_approval(
        self, command: SetToolApproval, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Have the calls of a tool wait for an approval, or not any more."""
        agent = await work.load(Agent, command.agent_id)
        return with_approval(agent, command, at=self.ports.clock.now()) or Accepted()

    async def sweep(self) -> None:
        """End what has waited for its client for too long, by the clocks of who asked and of this
        process."""
        deadlines = self.ports.engine.ports.deadlines
        asked_before = self.ports.clock.now() - timedelta(seconds=deadlines.approval_seconds_max)
        for late in await self.ports.queries.waiting_approvals(asked_before):
            try:
                async with self.ports.engine.ports.locks.hold(late.id):
                    await self.expire(late, asked_before)
            except NewerVersion as unknown:
                log_once(unknown)
            except VersionConflict as conflict:
                log.info("approval in %s: decided again later: %s", late.id, conflict)

    async def expire(self, late: Orphan, asked_before: datetime) -> None:
        """End what waits in one conversation, unless it has been answered meanwhile."""
        context = Context(self.ports.ids.new("sweep"), org=late.org)
        work = self.ports.repository.work(context)
        conversation = await work.load(Conversation, late.id)
        if not expire(conversation, asked_before=asked_before, at=self.ports.clock.now()):
            return
        log.warning("%s: the deadline of an approval has passed", late.id)
        if conversation.state.turn is not None:
            self.ports.begin_after_commit(conversation, work)
        await work.commit()
