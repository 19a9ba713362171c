"""When something that agents have is gone, no agent has it any more."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Bus, BusUnavailable, Clock, Ids, request_as_service
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Command, Context, Event, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.adapters.reconciliation_queries import SWEPT_MAX, LostPart

log = logging.getLogger(__name__)

# So many are remembered by name, while they cannot be looked at.
UNSURE_MAX = 10_000
# A commit of which nobody knows what became may still be made: a connection is given up after 10 s
# of silence, and a statement ends after 30.
LATE_SECONDS = 45.0


class DetachDeleted:
    """On event X, issue command Y.

    An agent may get something in the very moment in which that is deleted: it was looked up before,
    and the agent is committed after those that have it were told. So whoever got something here, or
    may have, is looked at once more afterwards; after `LATE_SECONDS` too, if no commit of the
    command is known here; and everybody when the process starts, since the one before it may
    have died in between.

    `holders` are the agents that have something, `lost` what is gone and these agents, or any,
    still have, `SWEPT_MAX` at most, `gives` says whether an event gave an agent something, and
    `detach` is the command that takes it away.
    """

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
        self.bus = bus
        self.clock = clock
        self.ids = ids
        self.holders = holders
        self.lost = lost
        self.gives = gives
        self.detach = detach
        self.unsure: set[str] | None = None  # None: everybody
        self.late: dict[str, float] = {}  # when to look at whom; the next one is the first

    async def deleted(self, event: Event, context: Context) -> None:
        """Detach what is gone from every agent that has it."""
        part_id = event.originator_id
        for agent_id in await self.holders(context.org, part_id):
            cause = context.caused(derived_id("cmd", context.message_id, agent_id))
            await request_as_service(self.bus, self.detach(agent_id, part_id), cause)

    def committed(self, event: Event) -> None:
        """Note who got something."""
        if self.gives(event):
            self.look_again({event.originator_id})

    def noting(self, handler: Handler) -> Handler:
        """A handler that gives something to an agent. Each time that its command comes is noted:
        what became of an earlier commit may not be known, and then it comes again; what came too
        late for what it gives is refused by then, and that commit may follow."""

        async def noted(command: Any, work: UnitOfWork) -> Accepted | Rejected:
            def committed(_: int | None) -> None:
                # An earlier commit to an agent that has gone on cannot be made any more.
                if any(event.originator_id == command.agent_id for event in work.events):
                    self.late.pop(command.agent_id, None)

            self.look_again({command.agent_id})
            reply = await handler(command, work)
            self.look_later(command.agent_id)
            work.after_commit.append(committed)
            return reply

        return noted

    def look_later(self, agent_id: str) -> None:
        """Look at an agent when a commit that is begun now can no longer be made."""
        self.late.pop(agent_id, None)  # it becomes the last one
        self.late[agent_id] = self.clock.monotonic() + LATE_SECONDS
        if len(self.late) > UNSURE_MAX:
            first = next(iter(self.late))
            del self.late[first]
            self.look_again({first})

    def look_at_late(self) -> None:
        """Look at those for whom it is time."""
        now = self.clock.monotonic()
        while self.late and self.late[next(iter(self.late))] <= now:
            agent_id = next(iter(self.late))
            del self.late[agent_id]
            self.look_again({agent_id})

    def look_again(self, agent_ids: set[str] | None) -> None:
        """Look at these agents in the next sweep, or at everybody."""
        if agent_ids is None or self.unsure is None:
            self.unsure = None
        else:
            self.unsure |= agent_ids
            if len(self.unsure) > UNSURE_MAX:
                self.unsure = None

    async def sweep(self) -> None:
        """Detach what is gone from those who may have got it too late."""
        self.look_at_late()
        unsure, self.unsure = self.unsure, set()
        if unsure is not None and not unsure:
            return
        done = False
        try:
            lost = await self.lost(None if unsure is None else sorted(unsure))
            for one in lost:
                command = self.detach(one.agent_id, one.part_id)
                context = Context(self.ids.new("sweep"), org=one.org)
                reply = await request_as_service(self.bus, command, context)
                if isinstance(reply, Rejected) and reply.code != NOT_FOUND:
                    log.warning("%s is not detached: %s", one, reply.reason)
                    return
            done = len(lost) < SWEPT_MAX
        except BusUnavailable as problem:
            log.warning("agents still have what is gone: %s", problem)
        finally:
            if not done:
                self.look_again(unsure)
