"""Commands about what is over: steps, and runs that have ended."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Command, Rejected
from libs.contracts.letta.errors import not_found
from libs.contracts.run_deletion import DeleteRun
from libs.contracts.step_annotations import AnnotateStep
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.conversation import Conversation
from services.agent.domain.ended_runs import annotate_step, delete_run
from services.agent.handlers.ports import HandlerPorts


class StepHandlers:
    """Keeps what is said of steps, and forgets runs."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports

    def table(self) -> Mapping[type[Command], Handler]:
        """Which command goes where."""
        return {AnnotateStep: self.annotate_step, DeleteRun: self.delete_run}

    async def annotate_step(self, command: AnnotateStep, work: UnitOfWork) -> Accepted | Rejected:
        """Keep what a client says of a step."""
        conversation = await work.load(Conversation, command.conversation)
        org = work.context.org
        run_id = await self.ports.queries.run_of_step(org, conversation.id, command.step_id)
        if run_id is None:
            return missing("step", command.step_id)
        annotate_step(conversation, command, run_id=run_id, at=self.ports.clock.now())
        return Accepted()

    async def delete_run(self, command: DeleteRun, work: UnitOfWork) -> Accepted | Rejected:
        """Forget a run that has ended."""
        conversation = await work.load(Conversation, command.conversation)
        org = work.context.org
        if not await self.ports.queries.has_run(org, conversation.id, command.run_id):
            return missing("run", command.run_id)
        return delete_run(conversation, command, at=self.ports.clock.now()) or Accepted()


def missing(kind: str, name: str) -> Rejected:
    """The refusal for something that is not there."""
    return Rejected(code=NOT_FOUND, reason=str(not_found(kind, name)["detail"]))
