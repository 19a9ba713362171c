"""Make agents of what a source has: each import under a lease, and whole or not at all.

A source is first read to its end, and nothing is written unless all of it is sound. Then what it
has is sent to the services that own it, in bounded parts, and the agents themselves last: with
their histories everything becomes visible. How far that is is recorded now and then; a process that
takes over sends again what came since, and nothing is made twice. What cannot be completed is taken
back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from libs.bus.fair_semaphore import FairSemaphore, NoPlace
from libs.bus.ports import BusUnavailable
from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import EntryError, ImportCounts, imported_agent_id
from libs.eventstore import failpoints
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import HANDLED_BY_ENGINE, DueWork, WorkLease
from services.api.adapters.agents.import_sources import WantedImport
from services.api.domain.agent_import import AgentImport, ImportState
from services.api.domain.imported_agent import ImportedAgent
from services.api.engine.import_plan import make_plan
from services.api.engine.import_ports import COMMAND_SECONDS_MAX, ImportPorts, Sender
from services.api.engine.import_transfer import Transfer
from services.api.engine.import_undo import undo

log = logging.getLogger(__name__)

IMPORTS_AT_ONCE_MAX = 4
IMPORTS_OF_ORG_AT_ONCE_MAX = 2
AGENTS_TAKEN_AT_ONCE = 100  # in one commit
# After so long no command arrives any more that an attempt had sent before it was broken off.
UNDO_AGAIN_SECONDS = COMMAND_SECONDS_MAX + 2.0
# How long an attempt that has failed keeps its lease, times how many have failed in a row.
RETRY_SECONDS, RETRY_SECONDS_MAX = 3.0, 60.0
A_BUG = "It could not be imported, for a reason that the log of the server says"


class ImportOver(Exception):
    """There is nothing left to do for an import, or it was cancelled meanwhile."""


class Imports(LeasedWork[DueWork]):
    """The imports that this process makes."""

    name = "import"
    ports: ImportPorts

    def __init__(self, ports: ImportPorts) -> None:
        places = FairSemaphore(
            IMPORTS_AT_ONCE_MAX,
            of_organisation_max=IMPORTS_OF_ORG_AT_ONCE_MAX,
            users="imports",
            thing="place",
        )
        super().__init__(ports, places)

    async def due(self) -> Sequence[DueWork]:
        """The imports that are to be gone on with, and that nobody works on."""
        limit = IMPORTS_AT_ONCE_MAX * IMPORTS_OF_ORG_AT_ONCE_MAX
        return await self.ports.queries.due_imports(IMPORTS_OF_ORG_AT_ONCE_MAX, limit)

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """Take an import to its end, or record why that was not possible."""
        try:
            await self.go_on_or_record_why_not(lease)
        except ImportOver:
            if not lease.is_released:
                await lease.record(decide_nothing)

    async def go_on_or_record_why_not(self, lease: WorkLease[DueWork]) -> None:
        """Take an import to its end, or record why that was not possible. Raises ImportOver."""
        try:
            await self.go_on(lease)
        except BadSource as bad:
            await self.abandon(lease, bad)
        except BusUnavailable as outage:
            log.warning("%s waits: %s", lease.work.id, outage)
            await self.delay(lease, str(outage))
        except NoPlace as full:
            await self.delay(lease, full.reason)
        except (ImportOver, *HANDLED_BY_ENGINE):
            raise
        except Exception:
            log.exception("%s cannot be imported", lease.work.id)
            await self.delay(lease, A_BUG)

    async def abandon(self, lease: WorkLease[DueWork], bad: BadSource) -> None:
        """Record that an import cannot be completed, and why."""
        errors, conflict, at = bad.errors, bad.is_conflict, self.now()
        await self.decide(lease, lambda known: known.give_up(errors, is_conflict=conflict, at=at))

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        """Decide that an import has failed, and is taken back; what cannot be taken back stays."""
        known = await unit.load(AgentImport, work.id)
        known.end_undo(at=self.now())
        known.give_up([EntryError(entry="import", message=reason)], at=self.now())

    async def delay(self, lease: WorkLease[DueWork], reason: str) -> None:
        """Record that an attempt has failed, after a pause: the next one begins at once then. Those
        that failed before make it longer."""
        known = await lease.unit().load(AgentImport, lease.work.id)
        pause = RETRY_SECONDS * (known.state.attempts + 1)
        await self.ports.clock.sleep(min(pause, RETRY_SECONDS_MAX))
        await self.decide(lease, lambda known: known.delay(reason, at=self.now()))

    def now(self) -> datetime:
        """The time by the clock of the process."""
        return self.ports.clock.now()

    async def go_on(self, lease: WorkLease[DueWork]) -> None:
        """Do what is next, until nothing is. Raises BadSource, BusUnavailable and ImportOver."""
        state = await self.state(lease)
        wanted = wanted_import(lease.work, state)
        sender = Sender(self.ports, wanted)
        if state.phase == "undoing":
            await undo(self.ports, sender, state)
            if state.is_unsettled:  # a command that nobody waits for any more may still arrive
                await self.ports.clock.sleep(UNDO_AGAIN_SECONDS)
                await undo(self.ports, sender, state)
            await self.decide(lease, lambda known: known.end_undo(at=self.now()), release=True)
            return
        plan = await make_plan(self.ports, wanted, state, partial(self.take_agents, lease))
        failpoints.reach("import.validated")
        if state.phase == "pending":
            state = await self.decide(
                lease, lambda known: plan.record(known, at=self.now()), advances=True
            )
        transfer = Transfer(self.ports, sender, plan, state)
        transfer.on_progress = lambda done: self.progress(lease, done)
        agent_ids = await transfer.run()
        failpoints.reach("import.transferred")
        await self.decide(
            lease,
            lambda known: known.complete(agent_ids, at=self.now(), left_out=transfer.left_out),
            release=True,
        )

    async def take_agents(self, lease: WorkLease[DueWork], agent_ids: Sequence[str]) -> None:
        """Have no other import make any of these agents before this one has ended. Raises
        BadSource."""
        for begin in range(0, len(agent_ids), AGENTS_TAKEN_AT_ONCE):
            some = agent_ids[begin : begin + AGENTS_TAKEN_AT_ONCE]

            async def take(unit: UnitOfWork, some: Sequence[str] = some) -> list[str]:
                return [each for each in some if not await self.take_agent(unit, lease, each)]

            if refused := await lease.record(take, release=False):
                words = "another import makes it at the same time: wait for its end"
                errors = [EntryError(entry=each, message=words) for each in refused]
                raise BadSource(errors, conflict=True)

    async def take_agent(self, unit: UnitOfWork, lease: WorkLease[DueWork], agent_id: str) -> bool:
        """Have this import make an agent, unless another one does that has not ended."""
        agent = await unit.load(ImportedAgent, imported_agent_id(lease.work.org, agent_id))
        last = agent.state.import_id
        if last not in (None, lease.work.id) and (await unit.load(AgentImport, last)).is_open:
            return False
        agent.take(agent_id, lease.work.id, at=self.now())
        return True

    async def progress(self, lease: WorkLease[DueWork], done: ImportCounts) -> None:
        """Record how far the transfer is. Raises ImportOver if nobody wants it any more."""
        state = await self.decide(
            lease, lambda known: known.progress(done, at=self.now()), advances=True
        )
        if not is_open(state):
            raise ImportOver

    async def state(self, lease: WorkLease[DueWork]) -> ImportState:
        """The state of an import that has not ended; one past its deadline fails. Raises ImportOver
        and BadSource."""
        known = await lease.unit().load(AgentImport, lease.work.id)
        if not known.is_open:
            raise ImportOver
        if known.state.phase != "undoing" and known.is_late(at=self.now()):
            raise BadSource([EntryError(entry="import", message="It has taken too long")])
        return known.state.model_copy()

    async def decide(
        self,
        lease: WorkLease[DueWork],
        decision: Callable[[AgentImport], None],
        *,
        release: bool = False,
        advances: bool = False,
    ) -> ImportState:
        """Record a decision about an import that is not at its end, nor cancelled since it was
        begun. Raises ImportOver."""

        async def decide(unit: UnitOfWork) -> ImportState:
            known = await unit.load(AgentImport, lease.work.id)
            if not known.is_open:
                raise ImportOver
            decision(known)
            return known.state.model_copy()

        return await lease.record(
            decide, release=lambda state: release or not is_open(state), advances=advances
        )


def is_open(state: ImportState) -> bool:
    """Whether this attempt goes on with an import."""
    return state.phase in ("pending", "importing")


def wanted_import(work: DueWork, state: ImportState) -> WantedImport:
    """Which lines an import is made of."""
    assert state.source is not None, "an import says what it is of"
    assert state.options is not None, "an import says how it is made"
    assert state.requested_at is not None, "an import says since when"
    return WantedImport(
        import_id=work.id,
        org=work.org,
        actor=state.requested_by,
        source=state.source,
        options=state.options,
        requested_at=state.requested_at,
    )


async def decide_nothing(_: UnitOfWork) -> None:
    """Have the lease given back, and nothing else."""
