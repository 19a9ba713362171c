"""Single questions to an agent's model: load, decide, reply; the answer comes later, by itself."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.contracts.one_off_completions import GenerateCompletion
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.agent import Agent, missing
from services.agent.domain.one_off_completions import completion_request
from services.agent.engine.one_off_completions import Completions
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
        """Which command goes where."""
        return {GenerateCompletion: self.generate}

    async def generate(self, command: GenerateCompletion, work: UnitOfWork) -> Accepted | Rejected:
        """Take a question, and ask it once that is durable: a copy of it is not asked again."""
        agent = await work.load(Agent, command.agent_id)
        if agent.design is None:
            return missing(agent.id)
        config, handles = agent.design.config, self.ports.handles
        llm = config.llm_config if not command.model else await handles.llm(command.model)
        if isinstance(llm, Rejected):
            return llm
        refused = await handles.refusal(llm)
        if refused is None:
            refused = self.completions.full(command, work.context.org)
        if refused is not None:
            return refused
        request = completion_request(command, config, llm, at=self.ports.clock.now())
        org = work.context.org
        work.after_commit.append(lambda _: self.completions.begin(command, request, org))
        return Accepted()
