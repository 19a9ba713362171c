"""Give agents back what they had: each restore under a lease, and whole or not at all.

A restore is commands to the services that own its parts. They have names that follow from what they
are for, so that an attempt may be repeated by another process, and they record what undoes others:
nothing is erased. Where one is refused, the agent gets back what it had when the restore was
wanted, in the same way.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.ports import BusUnavailable
from libs.bus.process_ports import ProcessPorts
from libs.contracts.agent.agents import DetachBlock
from libs.contracts.bus_messages import (
    NOT_FOUND,
    PARKED,
    Accepted,
    Command,
    Context,
    Rejected,
)
from libs.contracts.deterministic_ids import derived_id
from libs.eventstore import failpoints
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import HANDLED_BY_ENGINE, DueWork, WorkLease
from services.api.adapters.agents.past_reads import (
    Cut,
    MomentUnavailable,
    NoSuchMoment,
    PastReads,
)
from services.api.adapters.agents.restore_queries import RestoreQueries
from services.api.domain.agent_restore import AgentRestores, RestoresState
from services.api.engine.restore_plan import RestorePlan

log = logging.getLogger(__name__)

RESTORES_AT_ONCE_MAX = 4
RESTORES_OF_ORG_AT_ONCE_MAX = 2
COMMAND_SECONDS_MAX = 30.0
# How long an attempt that has failed keeps its lease, times how many have failed in a row.
RETRY_SECONDS, RETRY_SECONDS_MAX = 0.5, 30.0
A_BUG = "It could not be restored, for a reason that the log of the server says"


class RestoreOver(Exception):
    """There is nothing left to do for a restore."""


class RestoreStopped(Exception):
    """A part was refused. `begun` says whether another part was restored before."""

    def __init__(self, refused: Rejected, *, begun: bool) -> None:
        super().__init__(refused.reason)
        self.refused = refused
        self.begun = begun


class NeverShown(Exception):
    """The past state cannot be shown, now or later."""

    def __init__(self, refused: Rejected) -> None:
        super().__init__(refused.reason)
        self.refused = refused


class RestoreWaits(Exception):
    """The past state cannot be read just now."""


@dataclass(slots=True, kw_only=True)
class RestorePorts(ProcessPorts):
    """The ports of restores, besides those of each engine."""

    queries: RestoreQueries
    past: PastReads


class Restores(LeasedWork[DueWork]):
    """The restores that this process makes."""

    name = "restore"
    ports: RestorePorts

    def __init__(self, ports: RestorePorts) -> None:
        places = FairSemaphore(
            RESTORES_AT_ONCE_MAX,
            of_organisation_max=RESTORES_OF_ORG_AT_ONCE_MAX,
            users="restores",
            thing="place",
        )
        super().__init__(ports, places)

    async def due(self) -> Sequence[DueWork]:
        """The restores that are to be gone on with, and that nobody works on."""
        return await self.ports.queries.due_restores(RESTORES_AT_ONCE_MAX)

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """Take a restore to its end, or record why that was not possible."""
        try:
            await self.go_on(lease)
        except RestoreOver:
            if not lease.is_released:
                await lease.record(decide_nothing)
        except (RestoreWaits, BusUnavailable) as outage:
            log.warning("%s waits: %s", lease.work.id, outage)
            await self.delay(lease, str(outage))
        except HANDLED_BY_ENGINE:
            raise
        except Exception:
            log.exception("%s cannot be restored", lease.work.id)
            await self.delay(lease, A_BUG)

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        """Decide that a restore has failed, and is undone; what cannot be undone stays."""
        known = await unit.load(AgentRestores, work.id)
        if known.state.phase == "restoring":
            refused = Rejected(code=PARKED, reason=reason)
            known.refuse(refused, undoes=True, at=self.now())
        else:
            known.complete(at=self.now())

    async def delay(self, lease: WorkLease[DueWork], reason: str) -> None:
        """Record that an attempt has failed, after a pause: the next one begins at once then. What
        it may have done is undone if it was the last."""
        known = await lease.unit().load(AgentRestores, lease.work.id)
        pause = RETRY_SECONDS * (known.state.attempts + 1)
        await self.ports.clock.sleep(min(pause, RETRY_SECONDS_MAX))
        at = self.now()
        await self.decide(lease, lambda known: known.delay(reason, begun=True, at=at))

    def now(self) -> datetime:
        """The time by the clock of the process."""
        return self.ports.clock.now()

    async def go_on(self, lease: WorkLease[DueWork]) -> None:
        """Do what is next, until nothing is. Raises RestoreOver, RestoreWaits and
        BusUnavailable."""
        state = await self.state(lease)
        if state.phase == "restoring":
            try:
                await self.send_all(lease, state, wanted_cut(lease.work, state))
            except RestoreStopped as stopped:
                refused, begun = stopped.refused, stopped.begun or state.attempts > 0
                state = await self.decide(
                    lease, lambda known: known.refuse(refused, undoes=begun, at=self.now())
                )
        if state.phase == "undoing":
            await self.send_all(lease, state, await self.cut_of_request(lease.work, state))
        await self.decide(lease, lambda known: known.complete(at=self.now()))

    async def send_all(self, lease: WorkLease[DueWork], state: RestoresState, cut: Cut) -> None:
        """Send the commands that give the agent what it had at a moment. Raises RestoreStopped at
        the first that is refused, but as an undo goes on."""
        plan = RestorePlan(self.ports.queries, lambda moment: self.as_of(state, moment), cut)
        begun = False
        try:
            async for command in plan.commands(state.what):
                reply = await self.send(state, cut, command)
                if isinstance(reply, Rejected) and not is_done_already(command, reply):
                    if state.phase == "restoring":
                        raise RestoreStopped(reply, begun=begun)
                    said = (lease.work.id, command.topic, reply.reason)
                    log.warning("%s: %s is not undone: %s", *said)
                begun = True
                failpoints.reach("restore.part_sent")
        except NeverShown as unknown:
            if state.phase == "restoring":
                raise RestoreStopped(unknown.refused, begun=begun) from None
            log.warning("%s: the rest is not undone: %s", lease.work.id, unknown)

    async def send(self, state: RestoresState, cut: Cut, command: Command) -> Accepted | Rejected:
        """The answer to a command. Raises BusUnavailable."""
        said = (command.topic, command.model_dump_json())
        name = derived_id("cmd", state.restore_id, state.phase, *said)
        context = context_of(state, cut.org, name)
        reply = await self.ports.bus.request(command, context, seconds_max=COMMAND_SECONDS_MAX)
        if isinstance(reply, Rejected) and reply.next_try == "again":
            raise BusUnavailable(f"{command.topic}: {reply.reason}")
        return reply

    @asynccontextmanager
    async def as_of(self, state: RestoresState, cut: Cut) -> AsyncIterator[None]:
        """Have queries answered as of a moment. Raises NeverShown and RestoreWaits."""
        try:
            context = context_of(state, cut.org, self.ports.ids.new("moment"))
            async with self.ports.past.as_of(cut, context):
                yield
        except MomentUnavailable as unavailable:
            if unavailable.refusal.next_try == "again":
                raise RestoreWaits(str(unavailable)) from None
            raise NeverShown(unavailable.refusal) from None
        except NoSuchMoment:
            reason = f"Agent {cut.agent_id} did not exist at that moment"
            raise NeverShown(Rejected(code=NOT_FOUND, reason=reason)) from None

    async def cut_of_request(self, work: DueWork, state: RestoresState) -> Cut:
        """The moment in which a restore was wanted. Raises RestoreWaits."""
        commit = await self.ports.queries.commit_of(work.org, work.id, state.requested_version)
        if commit is None:
            raise RestoreWaits("An older commit is still open")
        return Cut(work.org, state.agent_id, commit, self.now())

    async def state(self, lease: WorkLease[DueWork]) -> RestoresState:
        """The state of a restore that has not ended. Raises RestoreOver."""
        known = await lease.unit().load(AgentRestores, lease.work.id)
        if not known.is_open:
            raise RestoreOver
        return known.state.model_copy()

    async def decide(
        self, lease: WorkLease[DueWork], decision: Callable[[AgentRestores], None]
    ) -> RestoresState:
        """Record a decision about a restore that is not at its end. Raises RestoreOver."""

        async def decide(unit: UnitOfWork) -> RestoresState:
            known = await unit.load(AgentRestores, lease.work.id)
            if not known.is_open:
                raise RestoreOver
            decision(known)
            return known.state.model_copy()

        return await lease.record(decide, release=lambda state: state.phase == "none")


def wanted_cut(work: DueWork, state: RestoresState) -> Cut:
    """The moment that a restore goes back to."""
    assert state.cut_at is not None, "a restore says its moment"
    return Cut(work.org, state.agent_id, state.cut, state.cut_at)


def is_done_already(command: Command, refused: Rejected) -> bool:
    """Whether a refusal says that there is nothing to do: a block that was deleted leaves its
    agents a moment later by itself. Where the agent is gone, the next command says so."""
    return isinstance(command, DetachBlock) and refused.code == NOT_FOUND


def context_of(state: RestoresState, org: str, name: str) -> Context:
    """In whose name a restore sends commands, which have its id in common."""
    return Context(name, org=org, actor=state.requested_by, correlation_id=state.restore_id)


async def decide_nothing(_: UnitOfWork) -> None:
    """Have the lease given back, and nothing else."""
