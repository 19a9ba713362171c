"""The handler of `MaterializeMoment`: one process makes a moment, and whoever asks for it waits for
a while, or asks again."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from libs.bus.command_dispatcher import Handler
from libs.bus.fair_semaphore import FairSemaphore, NoPlace
from libs.bus.ports import Clock
from libs.bus.service_runner import Runtime
from libs.contracts.bus_messages import (
    UNAVAILABLE,
    UNPROCESSABLE,
    Accepted,
    Command,
    Rejected,
)
from libs.contracts.moments import MaterializeMoment, moment_command
from libs.eventstore.moments import (
    MOMENT_BYTES_MAX,
    MOMENT_EVENTS_MAX,
    MOMENTS_OF_ORG_MAX,
    Copies,
    MomentAbandoned,
    Moments,
    MomentTooLarge,
    NoRoomForMoment,
    WantedMoment,
)
from libs.eventstore.read_model_replay import ReadModels
from libs.eventstore.unit_of_work import UnitOfWork

log = logging.getLogger(__name__)

# Of one process. A moment is work for its only CPU, and others want to be answered meanwhile.
MOMENTS_AT_ONCE_MAX = 2
MOMENTS_OF_ORG_AT_ONCE_MAX = 1
MOMENTS_OF_ORG_WAITING_MAX = 16
ANSWER_SECONDS_MAX = 6.0
LOOK_SECONDS = 0.1

BEING_MADE = "The agent as it was at that moment is being put together: ask again in a second"
NO_ROOM = (
    f"At most {MOMENTS_OF_ORG_MAX} moments of agents are kept for an organisation, and all were"
    " read in the last minute: ask again in a minute"
)
TOO_LARGE = (
    f"The history of the agent up to that moment has more than {MOMENT_EVENTS_MAX:,} events or"
    f" {MOMENT_BYTES_MAX:,} bytes, which is too long to be shown as it was"
)


class MomentAggregates(Protocol):
    """Which aggregates of a service are an agent's."""

    def stages(
        self, wanted: WantedMoment, ids: Sequence[str], as_of: int
    ) -> AsyncIterator[Sequence[str]]:
        """Their ids, some after the other: what comes later may depend on the rows (`as_of`) of
        those that came before. The first ones are known without any rows; where there are none,
        the agent has nothing here."""


class MomentHandlers:
    """Makes the moments of one process of a service."""

    def __init__(self, moments: Moments, aggregates: MomentAggregates, clock: Clock) -> None:
        self.moments = moments
        self.aggregates = aggregates
        self.clock = clock
        self.making: dict[WantedMoment, asyncio.Task[Accepted | Rejected]] = {}
        self.places = FairSemaphore(
            MOMENTS_AT_ONCE_MAX,
            of_organisation_max=MOMENTS_OF_ORG_AT_ONCE_MAX,
            wait_seconds_max=ANSWER_SECONDS_MAX,
            of_organisation_waiting_max=MOMENTS_OF_ORG_WAITING_MAX,
            users="agents",
            thing="moment",
        )

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {moment_command(self.moments.models.service): self.materialize}

    async def materialize(
        self, command: MaterializeMoment, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Answer with the key of the rows, as soon as they are all there."""
        org, selection = work.context.org, selection_of(command.ids)
        wanted = WantedMoment(org, command.agent_id, command.cut, selection)
        deadline = self.clock.monotonic() + ANSWER_SECONDS_MAX
        while True:
            task = self.making.get(wanted) or await self.begin(wanted, command.ids)
            left = deadline - self.clock.monotonic()
            if isinstance(task, asyncio.Task):
                await asyncio.wait([task], timeout=max(left, 0))
                return task.result() if task.done() else later(BEING_MADE)
            if task is not None:
                return task
            if left <= 0:
                return later(BEING_MADE)
            await self.clock.sleep(LOOK_SECONDS)

    async def begin(
        self, wanted: WantedMoment, ids: Sequence[str]
    ) -> asyncio.Task[Accepted | Rejected] | Accepted | Rejected | None:
        """The answer, what makes it, or None where another process does."""
        if not self.has_place(wanted.org):
            return later(BEING_MADE)
        try:
            claim = await self.moments.claim(wanted)
        except NoRoomForMoment:
            return later(NO_ROOM)
        if claim.as_of is None:
            return None
        if claim.complete:
            return Accepted(result={"as_of": claim.as_of})
        task = asyncio.create_task(self.make(claim.as_of, wanted, ids))
        self.making[wanted] = task
        task.add_done_callback(lambda _: self.making.pop(wanted, None))
        return task

    def has_place(self, org: str) -> bool:
        """Whether an organisation may have one more moment made, or wait for that."""
        of_org = sum(1 for wanted in self.making if wanted.org == org)
        return of_org <= MOMENTS_OF_ORG_WAITING_MAX

    async def make(
        self, as_of: int, wanted: WantedMoment, ids: Sequence[str]
    ) -> Accepted | Rejected:
        """Make a moment, or say why not. A process edge: what goes wrong is logged here, once, and
        whoever asks again has it tried again."""
        try:
            async with self.places.hold(wanted.org, wanted.agent_id):
                async for some in self.aggregates.stages(wanted, ids, as_of):
                    await self.moments.fill(as_of, wanted, some)
            await self.moments.complete(as_of)
            return Accepted(result={"as_of": as_of})
        except MomentAbandoned:
            return later(BEING_MADE)
        except MomentTooLarge:
            await self.moments.abandon(as_of)
            return Rejected(code=UNPROCESSABLE, reason=TOO_LARGE)
        except NoPlace:
            await self.moments.abandon(as_of)
            return later(BEING_MADE)
        except Exception:
            log.exception("a moment of %s could not be made", wanted.agent_id)
            await self.moments.abandon(as_of)
            return later("What the agent was at that moment cannot be put together: ask again")

    async def drain(self) -> None:
        """Stop making moments: others begin anew."""
        for task in [*self.making.values()]:
            task.cancel()
        await asyncio.gather(*self.making.values(), return_exceptions=True)


def selection_of(ids: Sequence[str]) -> str:
    """The key that sets the moments of different aggregates apart."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()


def later(reason: str) -> Rejected:
    """The refusal of what may be asked again."""
    return Rejected(code=UNAVAILABLE, reason=reason)


def serve_moments(
    runtime: Runtime,
    models: ReadModels,
    aggregates: MomentAggregates,
    skipped: Sequence[str] = (),
    copies: Copies | None = None,
) -> Mapping[type[Command], Handler]:
    """The handler of the command that makes moments of a service, swept and drained. `skipped` are
    topics that change no row of a moment, `copies` say what is copied from the rows of now."""
    moments = Moments(runtime.database, models, skipped, copies)
    handlers = MomentHandlers(moments, aggregates, runtime.clock)
    runtime.service.sweepers.append(moments.sweep)
    runtime.service.forgetters.append(moments.forget)
    runtime.closing.push_async_callback(handlers.drain)
    return handlers.table()
