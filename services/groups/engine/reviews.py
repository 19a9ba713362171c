"""Start the runs in which sleeptime agents review what was said.

That a review is due is an event before any run is started, and the ids of its runs follow from it:
a start that is repeated, here or by another process, means the same runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.process_ports import ProcessPorts
from libs.contracts.agent.conversations import Message
from libs.contracts.agent.runs import SLEEPTIME_RUN
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.groups import GroupConfig
from libs.contracts.groups.sleeptime import Review
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.agent_runs import AgentRuns, WantedRun
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import DueWork, WorkLease
from services.groups.adapters.sleeptime_queries import SleeptimeQueries
from services.groups.domain.group import Group
from services.groups.domain.review_messages import review_text, transcript_of
from services.groups.domain.sleeptime import start_review

# The groups whose reviews one process starts at the same time.
AT_ONCE_MAX, AT_ONCE_OF_ORG_MAX = 16, 8
NOTHING_LEFT = "What was to be reviewed is deleted"


@dataclass(slots=True, kw_only=True)
class ReviewPorts(ProcessPorts):
    """What reviews need."""

    queries: SleeptimeQueries
    runs: AgentRuns


class Reviews(LeasedWork[DueWork]):
    """The reviews that this process starts; the work is a group, whose id its lease has."""

    name = "review start"
    ports: ReviewPorts

    def __init__(self, ports: ReviewPorts) -> None:
        super().__init__(ports, FairSemaphore(AT_ONCE_MAX, of_organisation_max=AT_ONCE_OF_ORG_MAX))

    async def due(self) -> Sequence[DueWork]:
        """The groups that have reviews to start."""
        return await self.ports.queries.due_reviews()

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """Start the runs of all reviews of a group that are due, the oldest first."""
        group = await lease.unit().load(Group, lease.work.id)
        config = group.present
        for review in group.state.reviews if config else ():
            assert config is not None, "only groups that exist have reviews"
            refused = await self.start(review, config, lease)
            if refused is None:
                return
            await self.note(review.run_id, refused, lease)

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        """Decide that none of the reviews of a group is made that are due."""
        group = await unit.load(Group, work.id)
        for review in list(group.state.reviews):
            refused = dict.fromkeys(review.run_ids, reason)
            start_review(group, review.run_id, refused, at=self.ports.clock.now())

    async def note(self, run_id: str, refused: dict[str, str], lease: WorkLease[DueWork]) -> None:
        """Record that a review has started."""

        async def decide(unit: UnitOfWork) -> None:
            group = await unit.load(Group, lease.work.id)
            start_review(group, run_id, refused, at=self.ports.clock.now())

        await lease.record(decide, release=False)

    async def start(
        self, review: Review, config: GroupConfig, lease: WorkLease[DueWork]
    ) -> dict[str, str] | None:
        """Start the runs of a review; returns those that are refused for good, and why. None where
        some are refused for now. What was deleted meanwhile is not reviewed."""
        org, manager = lease.work.org, config.manager_agent_id or ""
        messages = await self.ports.queries.reviewed_messages(org, manager, review)
        if not messages:
            return dict.fromkeys(review.run_ids, NOTHING_LEFT)
        is_voice = config.manager_type == "voice_sleeptime"
        text = review_text(transcript_of(messages), is_voice=is_voice)
        refused: dict[str, str] = {}
        for agent_id, run_id in review.run_ids.items():
            wanted = self.wanted_run(lease.work.id, agent_id, run_id, text)
            refusal = await self.ports.runs.start(wanted, lease.context)
            if refusal is None:
                continue
            if refusal.next_try == "again":
                return None  # a later sweep tries it
            refused[agent_id] = refusal.reason
        return refused

    def wanted_run(self, group_id: str, agent_id: str, run_id: str, text: str) -> WantedRun:
        """The run in which a sleeptime agent reviews this text."""
        now = self.ports.clock.now()
        message = Message(
            id=derived_id("message", run_id, "0"),
            role="user",
            content=text,
            created_at=now,
            otid=derived_id("otid", run_id, "0").removeprefix("otid-"),
        )
        return WantedRun(
            run_id=run_id,
            agent_id=agent_id,
            messages=[message],
            created_at=now,
            metadata={"run_type": SLEEPTIME_RUN, "group_id": group_id, "agent_id": agent_id},
        )
