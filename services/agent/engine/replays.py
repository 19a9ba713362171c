"""Replay runs: each under a lease, step by step, on a conversation that nobody else sees.

What a model or a tool has answered is committed before the replay goes on: where the process dies,
a sweeper has it go on behind the last answer. The conversation, the agent and its blocks are only
read.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from libs.bus.fair_semaphore import FairSemaphore
from libs.contracts.agent.run_replays import replay_deltas
from libs.contracts.bus_messages import JsonObject
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.progress import heartbeats, publish_progress
from libs.work.work_lease import HANDLED_BY_ENGINE, DueWork, WorkLease
from services.agent.domain.replays.run_replay import RunReplay
from services.agent.domain.runs.step_results import Failure
from services.agent.engine.ports import EnginePorts
from services.agent.engine.recorded_history import CannotReplay, RecordedHistory
from services.agent.engine.replay_attempt import ReplayAttempt, ReplayGone

log = logging.getLogger(__name__)

REPLAYS_AT_ONCE_MAX = 8
REPLAYS_OF_ORG_AT_ONCE_MAX = 4
ENDED: JsonObject = {"end": True}


class RunReplays(LeasedWork[DueWork]):
    """The replays that this process carries on."""

    name = "replay"
    ports: EnginePorts

    def __init__(self, ports: EnginePorts) -> None:
        places = FairSemaphore(
            REPLAYS_AT_ONCE_MAX,
            of_organisation_max=REPLAYS_OF_ORG_AT_ONCE_MAX,
            users="replays",
            thing="place",
        )
        super().__init__(ports, places)

    async def due(self) -> Sequence[DueWork]:
        """The replays that nobody carries on."""
        return await self.ports.queries.due_replays(REPLAYS_OF_ORG_AT_ONCE_MAX, REPLAYS_AT_ONCE_MAX)

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """Take a replay to its end, and publish that it has ended."""
        subject = replay_deltas(lease.work.org, lease.work.id)
        async with heartbeats(self.ports.bus, self.ports.clock, subject):
            await self.replay_or_fail(lease)
        await publish_progress(self.ports.bus, subject, ENDED)

    async def replay_or_fail(self, lease: WorkLease[DueWork]) -> None:
        """Take a replay to its end, or record why that cannot be done."""
        try:
            await self.replay(lease)
        except ReplayGone:
            return
        except CannotReplay as problem:
            await self.fail(lease, problem.failure)
        except HANDLED_BY_ENGINE:
            raise
        except Exception:
            log.exception("%s cannot be carried on", lease.work.id)
            await self.fail(lease, Failure("internal_error", "An unknown error occurred"))

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        """Decide that there is no replay."""
        failure, at = Failure("internal_error", reason), self.ports.clock.now()
        (await unit.load(RunReplay, work.id)).fail(failure, at=at)

    async def replay(self, lease: WorkLease[DueWork]) -> None:
        """Do what is left of a replay. Raises ReplayGone, CannotReplay."""
        replay = await lease.unit().load(RunReplay, lease.work.id)
        if not replay.is_running:
            raise ReplayGone(lease.work.id)
        state = replay.state.model_copy(deep=True)
        history = RecordedHistory(self.ports.queries, lease.work.org)
        recorded = await history.recorded_run(replay.run, state.from_step)
        await ReplayAttempt(self.ports, lease, state, recorded, history).take_to_its_end()

    async def fail(self, lease: WorkLease[DueWork], failure: Failure) -> None:
        """Record that there is no replay, and why."""
        log.warning("%s: %s", lease.work.id, failure.message)
        at = self.ports.clock.now()

        async def decide(unit: UnitOfWork) -> None:
            (await unit.load(RunReplay, lease.work.id)).fail(failure, at=at)

        await lease.record(decide)
