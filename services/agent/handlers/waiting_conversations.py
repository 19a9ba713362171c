"""Conversations that wait, for an answer of the client or for the end of a pause, but not for
ever."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Clock
from libs.bus.unknown_version_delays import log_once
from libs.contracts.agent.approvals import SetToolApproval
from libs.contracts.bus_messages import Accepted, Command, Context, NewerVersion, Rejected
from libs.eventstore.ports import VersionConflict
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.conversation_queries import (
    APPROVALS_SEEN_MAX,
    PAUSES_SEEN_MAX,
    PausedConversation,
    WaitingApproval,
)
from services.agent.adapters.tool_queries import with_custom_tools
from services.agent.domain.agents.agent import Agent
from services.agent.domain.agents.agent_tools import with_approval
from services.agent.domain.conversations.configuration_overrides import design_in
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.approval_resolution import expire
from services.agent.domain.runs.run_requests import Terms, resume_after_pause
from services.agent.domain.tools.tool_rules import rules_in_force
from services.agent.handlers.ports import HandlerPorts

# Who has not looked for longer does not know when something began that it sees now.
LOOKED_SECONDS_MAX = 10.0


class Deadline(Hashable, Protocol):
    """Something that ends after so many seconds: `until`, as the clock said of the process that
    recorded it."""

    @property
    def seconds(self) -> float:
        """The whole duration, in seconds."""

    @property
    def until(self) -> datetime:
        """The moment at which it ends."""


class MonotonicDeadlines[D: Deadline]:
    """When those end that this process sees, by the clock that nobody sets.

    What was not there at the last look began since, so it lasts its whole length, whatever clocks
    say that are set or belong to another machine. Only what a process finds when it starts to look
    ends when its own clock says so, and never later than after its whole length. `seen_max` is how
    many a look sees at most.
    """

    def __init__(self, clock: Clock, seen_max: int) -> None:
        self.clock = clock
        self.seen_max = seen_max
        self.ends: dict[D, float] = {}
        self.looked_at = float("-inf")

    def over(self, seen: Sequence[D]) -> list[D]:
        """Those that are over, of all that there are."""
        now, known = self.clock.monotonic(), self.ends
        looked = now - self.looked_at <= LOOKED_SECONDS_MAX
        self.ends = {
            deadline: known[deadline]
            if deadline in known
            else now + self.seconds_left(deadline, begun_since=looked)
            for deadline in seen
        }
        # Where there are too many to see them all, some are seen late.
        self.looked_at = now if len(seen) < self.seen_max else float("-inf")
        return [deadline for deadline in seen if self.ends[deadline] <= now]

    def seconds_left(self, deadline: D, *, begun_since: bool) -> float:
        """The duration from the first sight on, in seconds."""
        if begun_since:
            return deadline.seconds
        return min(max((deadline.until - self.clock.now()).total_seconds(), 0.0), deadline.seconds)


log = logging.getLogger(__name__)

EXPIRED_AT_ONCE_MAX = 64


class ApprovalHandlers:
    """Has calls wait for the client, but not for ever."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports
        self.deadlines = MonotonicDeadlines[WaitingApproval](ports.clock, APPROVALS_SEEN_MAX)

    def table(self) -> Mapping[type[Command], Handler]:
        """The commands of these handlers, each with its method."""
        return {SetToolApproval: self.set_tool_approval}

    async def set_tool_approval(
        self, command: SetToolApproval, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Have the calls of a tool wait for an approval, or not any more."""
        agent = await work.load(Agent, command.agent_id)
        renamed: dict[str, str] = {}
        if agent.design is not None:
            read = await with_custom_tools(self.ports.queries, work.context.org, agent.design)
            renamed = read.attached_names
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
        if conversation.state.active_run is not None:
            self.ports.begin_after_commit(conversation, work)
        await work.commit()
        self.ports.engine.ports.committed()


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
        refused_at = {pause: self.refused_at[pause] for pause in over if pause in self.refused_at}
        over.sort(key=lambda pause: refused_at.get(pause, float("-inf")))
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
                    self.note_refusal(pause, refused)

    def note_refusal(self, pause: PausedConversation, why: Rejected) -> None:
        """Let other conversations go first, and log once why this one cannot go on."""
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
        active = conversation.state.active_run
        if active is not None and active.run.id == run_id:
            design = design_in(conversation.state, agent.design)
            fresh = self.ports.engine.look(design, conversation)
            self.ports.begin_after_commit(conversation, work, fresh)
        await work.commit()
        self.ports.engine.ports.committed()
        return None
