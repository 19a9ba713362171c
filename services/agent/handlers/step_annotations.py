"""Commands about steps: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.agent.steps import AnnotateStep
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Command, Rejected
from libs.contracts.letta.error_bodies import not_found
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.conversations.step_annotations import annotate_step
from services.agent.handlers.ports import HandlerPorts


class StepHandlers:
    """Keeps what is said of steps."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """Which command goes where."""
        return {AnnotateStep: self.annotate_step}

    async def annotate_step(self, command: AnnotateStep, work: UnitOfWork) -> Accepted | Rejected:
        """Keep what a client says of a step."""
        conversation = await work.load(Conversation, command.conversation)
        org = work.context.org
        run_id = await self.ports.queries.run_of_step(org, conversation.id, command.step_id)
        if run_id is None:
            reason = str(not_found("step", command.step_id)["detail"])
            return Rejected(code=NOT_FOUND, reason=reason)
        annotate_step(conversation, command, run_id=run_id, at=self.ports.clock.now())
        return Accepted()
