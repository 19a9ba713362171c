"""Pauses that are over: the agent goes on by itself."""

from __future__ import annotations

import logging

from libs.bus.unknown_version_delays import log_once
from libs.contracts.bus_messages import Context, NewerVersion, Rejected
from libs.eventstore.ports import VersionConflict
from services.agent.adapters.custom_tool_queries import with_custom_tools
from services.agent.adapters.heartbeat_pause_queries import PAUSES_SEEN_MAX, PausedConversation
from services.agent.domain.agents.agent import Agent
from services.agent.domain.conversations.configuration_overrides import design_in
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.run_requests import Terms, resume_after_pause
from services.agent.domain.tools.tool_rules import rules_in_force
from services.agent.handlers.monotonic_deadlines import MonotonicDeadlines
from services.agent.handlers.ports import HandlerPorts

log = logging.getLogger(__name__)

RESUMED_AT_ONCE_MAX = 64


class PauseHandlers:
    """Starts the run that follows a pause."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports
        self.ends = MonotonicDeadlines[PausedConversation](ports.clock, PAUSES_SEEN_MAX)
        # When each of those that are over could not go on, of late.
        self.refused_at: dict[PausedConversation, float] = {}

    async def sweep(self) -> None:
        """Resume the conversations whose pause is over. Several processes may look; one begins the
        run, the others find the pause ended. What may not go on yet, since a call waits for its
        client or too many runs wait, is tried again after the others."""
        over = self.ends.over(await self.ports.queries.paused_conversations())
        refused_at = {one: self.refused_at[one] for one in over if one in self.refused_at}
        over.sort(key=lambda one: refused_at.get(one, float("-inf")))
        self.refused_at = refused_at
        for pause in over[:RESUMED_AT_ONCE_MAX]:
            try:
                async with self.ports.engine.ports.locks.hold(pause.conversation_id):
                    refused = await self.resume(pause)
            except NewerVersion as unknown:
                log_once(unknown)
            except VersionConflict:
                log.debug("%s goes on just now", pause.conversation_id)
            else:
                if refused:
                    self.refused(pause, refused)

    def refused(self, pause: PausedConversation, why: Rejected) -> None:
        """Others come before it; what keeps it is told once."""
        if pause not in self.refused_at:
            log.warning("%s does not go on yet: %s", pause.conversation_id, why.reason)
        self.refused_at[pause] = self.ports.clock.monotonic()

    async def resume(self, pause: PausedConversation) -> Rejected | None:
        """Record the end of a pause and the run that follows, and begin an attempt at it; or the
        refusal of that run, which may be accepted later."""
        context = Context(self.ports.ids.new("sweep"), org=pause.org)
        work = self.ports.repository.work(context)
        agent = await work.load(Agent, pause.agent_id)
        conversation = await work.load(Conversation, pause.conversation_id)
        if agent.design is None:
            return None  # it is deleted, and its conversation with it
        named = await with_custom_tools(self.ports.queries, pause.org, agent.design)
        run_id = self.ports.ids.new("run")
        rules = rules_in_force(named.config.tool_rules, named.ruled_names)
        refused = resume_after_pause(
            conversation,
            pause.until,
            Terms(agent.design.config.agent_type, rules),
            run_id=run_id,
            message_id=self.ports.ids.new("message"),
            at=self.ports.clock.now(),
        )
        if refused:
            return refused
        active = conversation.state.turn
        if active is not None and active.run.id == run_id:
            work.take_lease = conversation.id
            design = design_in(conversation.state, agent.design)
            fresh = self.ports.engine.look(design, conversation)
            work.after_commit.append(
                lambda epoch: self.ports.engine.begin(conversation.id, epoch, context, fresh)
            )
        await work.commit()
        self.ports.engine.ports.committed()
        return None
