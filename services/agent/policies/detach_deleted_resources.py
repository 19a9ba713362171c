"""When something that agents have is gone, no agent has it any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Bus, Clock, Ids, request_as_service
from libs.contracts.bus_messages import Accepted, Command, Context, Event, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.reconciliation import Reconciliation, send_correction
from services.agent.adapters.reconciliation_queries import SWEPT_MAX, LostPart


class DetachDeleted(Reconciliation[LostPart]):
    """On event X, issue command Y.

    An agent may get something in the very moment in which that is deleted: it was looked up before,
    and the agent is committed after those that have it were told. So whoever got something here, or
    may have, is looked at once more afterwards; and later too, if no commit of the command is known
    here.

    `holders` are the agents that have something, `lost` what is gone and these agents, or any,
    still have, `SWEPT_MAX` at most, `gives` says whether an event gave an agent something, and
    `detach` is the command that takes it away.
    """

    name = "agents that still have what is gone"
    batch_max = SWEPT_MAX
    every_seconds = 3_600.0  # all agents are read

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        ids: Ids,
        *,
        holders: Callable[[str, str], Awaitable[list[str]]],
        lost: Callable[[list[str] | None], Awaitable[list[LostPart]]],
        gives: Callable[[Event], bool],
        detach: Callable[[str, str], Command],
    ) -> None:
        super().__init__(clock)
        self.bus = bus
        self.ids = ids
        self.holders = holders
        self.lost = lost
        self.gives = gives
        self.detach = detach

    async def deleted(self, event: Event, context: Context) -> None:
        """Detach what is gone from every agent that has it."""
        part_id = event.originator_id
        for agent_id in await self.holders(context.org, part_id):
            cause = context.caused(derived_id("cmd", context.message_id, agent_id))
            await request_as_service(self.bus, self.detach(agent_id, part_id), cause)

    def committed(self, event: Event) -> None:
        """Note who got something."""
        if self.gives(event):
            self.suspect(event.originator_id)

    def noting(self, handler: Handler) -> Handler:
        """A handler that gives something to an agent. Each time that its command comes is noted:
        what became of an earlier commit may not be known, and then it comes again; what came too
        late for what it gives is refused by then, and that commit may follow."""

        async def noted(command: Any, work: UnitOfWork) -> Accepted | Rejected:
            def committed(_: int | None) -> None:
                # An earlier commit to an agent that has gone on cannot be made any more.
                if any(event.originator_id == command.agent_id for event in work.events):
                    self.suspects_later.pop(command.agent_id, None)

            self.suspect(command.agent_id)
            reply = await handler(command, work)
            self.suspect_later(command.agent_id)
            work.after_commit.append(committed)
            return reply

        return noted

    async def find(self, keys: list[str] | None) -> Sequence[LostPart]:
        """What is gone, and agents still have."""
        return await self.lost(keys)

    async def mend(self, item: LostPart) -> bool:
        """Detach what is gone from one agent."""
        command = self.detach(item.agent_id, item.part_id)
        return await send_correction(self.bus, self.ids, command, item.org)
