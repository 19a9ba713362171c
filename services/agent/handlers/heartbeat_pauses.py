"""Pauses that are over: the agent goes on by itself."""

from __future__ import annotations

import logging

from libs.bus.ports import Clock
from libs.bus.unknown_version_backoff import log_once
from libs.contracts.bus_messages import Context, NewerVersion
from libs.eventstore.ports import VersionConflict
from services.agent.adapters.pause_queries import PAUSES_SEEN_MAX, PausedConversation
from services.agent.domain import heartbeat_pauses
from services.agent.domain.agent import Agent
from services.agent.domain.conversation import Conversation
from services.agent.domain.conversation_lifecycle import design_in
from services.agent.domain.tool_rules import rules_in_force
from services.agent.handlers.ports import HandlerPorts

log = logging.getLogger(__name__)

RESUMED_AT_ONCE_MAX = 64
# Who has not looked for longer does not know when a pause began that it sees now.
LOOKED_SECONDS_MAX = 10.0


class PauseEnds:
    """When the pauses end that this process sees, by the clock that nobody sets.

    A pause that was not there at the last look began since, so it lasts as long as was asked for,
    whatever clocks say that are set or belong to another machine. Only what a process finds when it
    starts to look ends when its own clock says so, and never later than after its whole length.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ends: dict[PausedConversation, float] = {}
        self.looked_at = float("-inf")

    def over(self, pauses: list[PausedConversation]) -> list[PausedConversation]:
        """Those of all pauses that are over."""
        now, known = self.clock.monotonic(), self.ends
        looked = now - self.looked_at <= LOOKED_SECONDS_MAX
        self.ends = {
            one: known[one] if one in known else now + self.seconds_left(one, begun_since=looked)
            for one in pauses
        }
        # Where there are too many to see them all, some are seen late.
        self.looked_at = now if len(pauses) < PAUSES_SEEN_MAX else float("-inf")
        return [one for one in pauses if self.ends[one] <= now]

    def seconds_left(self, pause: PausedConversation, *, begun_since: bool) -> float:
        """How long a pause lasts that is seen for the first time."""
        whole = pause.minutes * 60.0
        if begun_since:
            return whole
        return min(max((pause.until - self.clock.now()).total_seconds(), 0.0), whole)


class PauseHandlers:
    """Starts the run that follows a pause."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports
        self.ends = PauseEnds(ports.clock)

    async def sweep(self) -> None:
        """Resume the conversations whose pause is over. Several processes may look; one begins the
        run, the others find the pause ended."""
        over = self.ends.over(await self.ports.queries.paused_conversations())
        for pause in over[:RESUMED_AT_ONCE_MAX]:
            try:
                async with self.ports.engine.ports.locks.hold(pause.conversation_id):
                    await self.resume(pause)
            except NewerVersion as unknown:
                log_once(unknown)
            except VersionConflict:
                log.debug("%s goes on just now", pause.conversation_id)

    async def resume(self, pause: PausedConversation) -> None:
        """Record the end of a pause and the run that follows, and begin an attempt at it."""
        context = Context(self.ports.ids.new("sweep"), org=pause.org)
        work = self.ports.repository.work(context)
        agent = await work.load(Agent, pause.agent_id)
        conversation = await work.load(Conversation, pause.conversation_id)
        if agent.design is None:
            return  # it is deleted, and its conversation with it
        config, run_id = agent.design.config, self.ports.ids.new("run")
        refused = heartbeat_pauses.resume(
            conversation,
            pause.until,
            run_id=run_id,
            message_id=self.ports.ids.new("message"),
            agent_type=config.agent_type,
            tool_rules=rules_in_force(config.tool_rules, agent.design.tools),
            at=self.ports.clock.now(),
        )
        if refused:
            log.warning("%s does not go on yet: %s", pause.conversation_id, refused.reason)
            return
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
