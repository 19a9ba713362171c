"""Past context of a step, from the log: the conversation, the agent and its tools as they were
then."""

from __future__ import annotations

from libs.contracts.agent.compaction import ConversationCompacted, RetriedContentRefused
from libs.contracts.letta.model_configs import LLMConfig
from services.agent.adapters.tool_permissions import with_forbidden
from services.agent.adapters.tool_queries import holding
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.conversations.configuration_overrides import design_of_run, within_window
from services.agent.domain.conversations.conversation_state import SystemPrompt
from services.agent.domain.prompts.model_context import ShownMemory
from services.agent.domain.replays.recorded_run import RecordedRun
from services.agent.domain.runs.step_results import Failure
from services.agent.domain.tools.custom_tools import custom_ids
from services.agent.engine.model_step import StepRequest, question_showing
from services.agent.engine.ports import EnginePorts
from services.agent.engine.recorded_history import CannotReplay, RecordedHistory

FIRST_DESIGN = (
    "How the agent was configured when it was asked is not known, since its history came from"
    " elsewhere: it is shown as it was first known here"
)
TOOL_GONE = "`{tool}` was deleted: what it was is not known any more, so it is not offered"


class RecordedContext:
    """The questions of a run from a step on. Its `conversation` is a copy that nobody else sees;
    `notes` are what of it is not as it was."""

    def __init__(
        self, ports: EnginePorts, org: str, recorded: RecordedRun, history: RecordedHistory
    ) -> None:
        self.ports = ports
        self.org = org
        self.recorded = recorded
        self.history = history
        self.conversation = recorded.conversation
        self.notes: dict[str, None] = {}

    async def question(self, number: int, llm: LLMConfig | None = None) -> StepRequest:
        """The request of a step, to this model or the one of then. Raises CannotReplay where
        nothing is recorded of the agent."""
        design = await self.design_of(number, llm)
        return question_showing(
            self.conversation, design, ShownMemory([]), None, at=self.ports.clock.now()
        )

    def show_as_then(self, number: int) -> None:
        """Show what was recorded before this step: the system message made anew, the summary in the
        place of what was compacted; not what was left out again."""
        step = self.recorded.steps.get(number)
        for event in step.before if step else ():
            if isinstance(event, ConversationCompacted):
                self.compact_as_then(event)
            elif isinstance(event, RetriedContentRefused):
                self.leave_out_as_then(event)
            else:
                prompt = SystemPrompt(content=str(event.message.content), shows=event.shows)
                self.conversation.rebuild(prompt, at=self.ports.clock.now())

    def leave_out_as_then(self, event: RetriedContentRefused) -> None:
        """Leave out again what was tried again, if it is here."""
        if self.conversation.state.trial.is_running:
            names = ("run_id", "agent_id", "step_id", "error_type", "message")
            said = {name: getattr(event, name) for name in names}
            self.conversation.record(RetriedContentRefused, at=self.ports.clock.now(), **said)

    def compact_as_then(self, event: ConversationCompacted) -> None:
        """Put the recorded summary in the place of the messages that it stands for."""
        evicted = self.conversation.state.window[1 : 1 + len(event.evicted)]
        last_number = self.conversation.running().last_number
        names = ("run_id", "agent_id", "step_id", "message", "mode", "model", "failures", "usage")
        self.conversation.record(
            ConversationCompacted,
            at=self.ports.clock.now(),
            **{name: getattr(event, name) for name in names},
            evicted=[message.id for message in evicted],
            number=last_number + 1,
        )

    async def design_of(self, number: int, llm: LLMConfig | None = None) -> AgentDesign:
        """The agent as it was when this step was asked, with this model or that of then."""
        agent_id = self.conversation.state.agent_id
        moment = self.recorded.moment_of(number)
        known, is_of_then = await self.history.design_at(agent_id, moment)
        if known is None:
            raise CannotReplay(Failure("internal_error", f"Nothing is recorded of {agent_id}"))
        if not is_of_then:
            self.notes[FIRST_DESIGN] = None
        design = design_of_run(self.conversation.state, known)
        if llm is not None:
            design = design.with_config(llm_config=llm)
        design = await self.with_tools_as_then(design, moment.order)
        design = with_forbidden(self.ports.policies(), self.org, design)
        window = self.ports.models.window_tokens(design.config.llm_config)
        return within_window(design, window)

    async def with_tools_as_then(self, design: AgentDesign, order: int) -> AgentDesign:
        """The agent with its custom tools as they were when it was asked."""
        ids = custom_ids(design.tool_ids)
        if not ids:
            return design
        custom = await self.ports.queries.custom_tools_at(self.org, ids, order)
        names = dict(zip(design.tool_ids, design.tools, strict=False))
        for gone in {*ids} - {tool.id for tool in custom}:
            self.notes[TOOL_GONE.format(tool=names.get(gone, gone))] = None
        return holding(design, custom)
