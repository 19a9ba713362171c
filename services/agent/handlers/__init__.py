"""Commands to the agent service, a module for each kind of thing that they are about."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.appended_histories import HistoryHandlers
from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import Command
from services.agent.engine.batches import Batches
from services.agent.handlers.agents import AgentHandlers
from services.agent.handlers.appended_histories import appendable
from services.agent.handlers.batches import BatchHandlers
from services.agent.handlers.context_window import ContextHandlers
from services.agent.handlers.conversations import ConversationHandlers
from services.agent.handlers.one_off_completions import CompletionHandlers
from services.agent.handlers.ports import HandlerPorts
from services.agent.handlers.replays import ReplayHandlers
from services.agent.handlers.runs import RunHandlers
from services.agent.handlers.summaries import SummaryHandlers
from services.agent.handlers.waiting_conversations import ApprovalHandlers, PauseHandlers


class Handlers:
    """The handlers of all commands to this service."""

    def __init__(self, ports: HandlerPorts, batches: Batches) -> None:
        self.ports = ports
        self.agents = AgentHandlers(ports)
        self.conversations = ConversationHandlers(ports)
        self.runs = RunHandlers(ports)
        self.context = ContextHandlers(ports)
        self.pauses = PauseHandlers(ports)
        self.approvals = ApprovalHandlers(ports)
        self.completions = CompletionHandlers(ports)
        self.summaries = SummaryHandlers(ports)
        self.batches = BatchHandlers(ports, batches)
        self.replays = ReplayHandlers(ports)
        self.histories = HistoryHandlers("agent", appendable(), ports.clock)

    def table(self) -> Mapping[type[Command], Handler]:
        """Every command of the service with its handler."""
        answering = (
            *(self.agents, self.conversations, self.runs, self.context, self.approvals),
            *(self.completions, self.summaries, self.batches, self.replays, self.histories),
        )
        return {kind: handle for handlers in answering for kind, handle in handlers.table().items()}
