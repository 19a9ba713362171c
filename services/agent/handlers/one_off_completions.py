"""Single questions to an agent's model: load, decide, reply; the answer comes later, by itself."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic_core import to_json

from libs.bus.command_dispatcher import Handler
from libs.contracts.agent.one_off_completions import (
    AskModel,
    GenerateCompletion,
    SampleModel,
    completion_deltas,
    sampling_deltas,
)
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.model_configs import LLMConfig
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.agents.agent import Agent, missing
from services.agent.domain.runs.one_off_completions import (
    completion_of,
    completion_request,
    sampled_of,
    sampling_request,
    without_agent,
)
from services.agent.engine.one_off_completions import SAMPLING_SHARE, Completions, Question
from services.agent.handlers.ports import HandlerPorts


class CompletionHandlers:
    """Takes questions."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports
        engine = ports.engine.ports
        self.completions = Completions(
            engine.models, ports.bus, ports.clock, seconds_max=engine.deadlines.step_seconds_max
        )

    def table(self) -> Mapping[type[Command], Handler]:
        """The commands of these handlers, each with its method."""
        return {
            GenerateCompletion: self.generate,
            AskModel: self.ask,
            SampleModel: self.sample,
        }

    async def generate(self, command: GenerateCompletion, work: UnitOfWork) -> Accepted | Rejected:
        """Take a question, and ask it once that is durable: a copy of it is not asked again."""
        agent = await work.load(Agent, command.agent_id)
        if agent.design is None:
            return missing(agent.id)
        config, handles = agent.design.config, self.ports.handles
        llm = config.llm_config if not command.model else await handles.llm(command.model)
        if isinstance(llm, Rejected):
            return llm
        return await self.begin_completion(command, config, llm, work)

    async def ask(self, command: AskModel, work: UnitOfWork) -> Accepted | Rejected:
        """Take a question that no agent has anything to do with, likewise."""
        llm = await self.ports.handles.llm(command.model)
        if isinstance(llm, Rejected):
            return llm
        config = without_agent(llm, at=self.ports.clock.now())
        return await self.begin_completion(command, config, llm, work)

    async def begin_completion(
        self,
        command: GenerateCompletion | AskModel,
        config: AgentConfig,
        llm: LLMConfig,
        work: UnitOfWork,
    ) -> Accepted | Rejected:
        """Begin the completion that a command of the api asks for."""
        question = Question(
            id=command.completion_id,
            agent_id=config.id,
            org=work.context.org,
            subject=completion_deltas(work.context.org, command.completion_id),
            request=completion_request(command, config, llm, at=self.ports.clock.now()),
            answer=lambda reply: completion_of(command, reply, llm.model),
            bytes=len(command.prompt.encode()) + len((command.system_prompt or "").encode()),
        )
        return await self.begin(question, llm, work)

    async def sample(self, command: SampleModel, work: UnitOfWork) -> Accepted | Rejected:
        """Take what an MCP server asks the model of the agent that calls its tool, likewise."""
        agent = await work.load(Agent, command.agent_id)
        if agent.design is None:
            return missing(agent.id)
        config = agent.design.config
        question = Question(
            id=command.completion_id,
            agent_id=agent.id,
            org=work.context.org,
            subject=sampling_deltas(work.context.org, command.completion_id),
            request=sampling_request(command, config, at=self.ports.clock.now()),
            answer=lambda reply: sampled_of(command, reply, config.llm_config.model),
            bytes=len(to_json(command)),
            share=SAMPLING_SHARE,
        )
        return await self.begin(question, config.llm_config, work)

    async def begin(
        self, question: Question, llm: LLMConfig, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Begin a question after the commit, or refuse it: its model is not offered, or too many
        wait."""
        refused = await self.ports.handles.refusal(llm) or self.completions.full(question)
        if refused is not None:
            return refused
        work.after_commit.append(lambda _: self.completions.begin(question))
        return Accepted()
