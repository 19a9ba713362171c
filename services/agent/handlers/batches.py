"""Commands about batches: load, decide, save, reply; the items are answered later."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.agent.batches import CancelBatch, StartBatch
from libs.contracts.bus_messages import (
    BUSY,
    NOT_FOUND,
    UNPROCESSABLE,
    Accepted,
    Command,
    Rejected,
)
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.agents.agent import Agent, missing
from services.agent.domain.batches.batch import Batch
from services.agent.engine.batches import Batches
from services.agent.handlers.ports import HandlerPorts

ORGANISATION_OPEN_BATCHES_MAX = 1_000


class BatchHandlers:
    """Accepts batches, and cancels them."""

    def __init__(self, ports: HandlerPorts, batches: Batches) -> None:
        self.ports = ports
        self.batches = batches

    def table(self) -> Mapping[type[Command], Handler]:
        """The commands of these handlers, each with its method."""
        return {StartBatch: self.start_batch, CancelBatch: self.cancel_batch}

    async def start_batch(self, command: StartBatch, work: UnitOfWork) -> Accepted | Rejected:
        """Accept a batch, if each of its items could be started now; begin with it at once."""
        refused = await self.refusal(command, work)
        if refused:
            return refused
        batch = await work.load_new(Batch, command.batch_id)
        refused = batch.accept(command, work.context, at=self.ports.clock.now())
        if refused:
            return refused
        self.batches.begin_batch(batch.id, work)
        return Accepted(result={"batch_id": batch.id})

    async def refusal(self, command: StartBatch, work: UnitOfWork) -> Rejected | None:
        """Why a batch is not accepted, which is so for all of it where it is so for one item."""
        url = command.callback_url
        forbidden = self.ports.guard.refusal(url) if url is not None else None
        if forbidden:
            return Rejected(code=UNPROCESSABLE, reason=f"`callback_url`: {forbidden}")
        open_count = await self.ports.queries.open_batches(work.context.org)
        if open_count >= ORGANISATION_OPEN_BATCHES_MAX:
            reason = (
                f"{ORGANISATION_OPEN_BATCHES_MAX} batches have not ended, and more would not be "
                "begun: wait for some of them, or cancel them"
            )
            return Rejected(code=BUSY, reason=reason)
        return await self.unknown_agent(command, work) or await self.unknown_model(command)

    async def unknown_agent(self, command: StartBatch, work: UnitOfWork) -> Rejected | None:
        """The refusal that names an agent that is not there."""
        seen: set[str] = set()
        for number, item in enumerate(command.items):
            agent_id = item.run.agent_id
            if agent_id in seen:
                continue
            seen.add(agent_id)
            agent = await work.load(Agent, agent_id)
            if agent.design is not None:
                continue
            refused = missing(agent_id)
            if command.agent_id:
                return refused
            place = f"{command.field}[{number}].agent_id"
            return Rejected(code=NOT_FOUND, reason=f"`{place}`: {refused.reason}")
        return None

    async def unknown_model(self, command: StartBatch) -> Rejected | None:
        """The refusal that names an item with a model that nobody offers."""
        known: set[str] = set()
        for number, item in enumerate(command.items):
            model = item.options.model if item.options else None
            if model is None or model in known:
                continue
            found = await self.ports.handles.llm(model)
            if isinstance(found, Rejected):
                place = f"{command.field}[{number}].override_model"
                return Rejected(code=found.code, reason=f"`{place}`: {found.reason}")
            known.add(model)
        return None

    async def cancel_batch(self, command: CancelBatch, work: UnitOfWork) -> Accepted | Rejected:
        """Start no more items of a batch; its runs are cancelled at once."""
        batch = await work.load(Batch, command.batch_id)
        refused = batch.cancel(command.agent_id, at=self.ports.clock.now())
        if refused:
            return refused
        self.batches.begin_batch(batch.id, work)
        return Accepted()
