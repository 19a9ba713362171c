"""Commands to the agent service, a module for each kind of thing that they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import Command
from services.agent.handlers.agent_tools import AgentToolHandlers
from services.agent.handlers.agents import AgentHandlers
from services.agent.handlers.approvals import ApprovalHandlers
from services.agent.handlers.context_window import ContextHandlers
from services.agent.handlers.conversations import ConversationHandlers
from services.agent.handlers.dependencies import HandlerDependencies
from services.agent.handlers.heartbeat_pauses import PauseHandlers
from services.agent.handlers.one_off_completions import CompletionHandlers
from services.agent.handlers.runs import RunHandlers
from services.agent.handlers.step_annotations import StepHandlers


@dataclass(slots=True)
class Handlers:
    """All of them."""

    ports: HandlerDependencies
    agents: AgentHandlers = field(init=False)
    agent_tools: AgentToolHandlers = field(init=False)
    conversations: ConversationHandlers = field(init=False)
    runs: RunHandlers = field(init=False)
    steps: StepHandlers = field(init=False)
    context: ContextHandlers = field(init=False)
    pauses: PauseHandlers = field(init=False)
    approvals: ApprovalHandlers = field(init=False)
    completions: CompletionHandlers = field(init=False)

    def __post_init__(self) -> None:
        self.agents = AgentHandlers(self.ports)
        self.agent_tools = AgentToolHandlers(self.ports)
        self.conversations = ConversationHandlers(self.ports)
        self.runs = RunHandlers(self.ports)
        self.steps = StepHandlers(self.ports)
        self.context = ContextHandlers(self.ports)
        self.pauses = PauseHandlers(self.ports)
        self.approvals = ApprovalHandlers(self.ports)
        self.completions = CompletionHandlers(self.ports)

    def table(self) -> Mapping[type[Command], Handler]:
        """Which command goes where."""
        kinds = (
            self.agents,
            self.agent_tools,
            self.conversations,
            self.runs,
            self.steps,
            self.context,
            self.approvals,
            self.completions,
        )
        return {kind: handler for one in kinds for kind, handler in one.table().items()}
