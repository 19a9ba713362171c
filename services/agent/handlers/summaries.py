"""Requests for summaries: load, decide, reply; a model is asked later."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.agent.summaries import MESSAGES_SUMMARISED_MAX, SummarizeMessages
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.summary_queries import DueSummary, WantedMessages
from services.agent.domain.agents.agent import Agent, missing
from services.agent.domain.summaries.agent_summaries import AgentSummaries
from services.agent.engine.summaries import SummaryWriter
from services.agent.handlers.ports import HandlerPorts


class SummaryHandlers:
    """Takes requests for summaries."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports
        self.writer = SummaryWriter(ports.engine.ports)

    def table(self) -> Mapping[type[Command], Handler]:
        """The commands of these handlers, each with its method."""
        return {SummarizeMessages: self.summarize}

    async def summarize(self, command: SummarizeMessages, work: UnitOfWork) -> Accepted | Rejected:
        """Begin a summary, once that is durable, unless there is nothing to summarise."""
        agent = await work.load(Agent, command.agent_id)
        if agent.design is None:
            return missing(agent.id)
        now, org = self.ports.clock.now(), work.context.org
        summaries = await work.load(AgentSummaries, command.target)
        repeated = summaries.repeated_id(command, now)
        if repeated:
            return Accepted(result={"summary_id": repeated})
        wanted = WantedMessages(
            command.message_count or MESSAGES_SUMMARISED_MAX, command.start_date, command.end_date
        )
        conversation = main_conversation(agent.id)
        messages = await self.ports.queries.summarised_messages(org, conversation, wanted)
        if messages is None:
            return Accepted(result={"message_count": 0})
        refused = summaries.request(command, messages, self.ports.summaries, at=now)
        if refused:
            return refused
        due = DueSummary(summaries.id, org, agent.id, command.summary_id)
        self.writer.begin_after_commit(due, work)
        return Accepted(result={"summary_id": command.summary_id})
