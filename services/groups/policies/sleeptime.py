"""Sleeptime groups follow their agents: runs that end are counted, and agents that come or go."""

from __future__ import annotations

from collections.abc import Sequence

from libs.bus.ports import Bus, request_as_service
from libs.contracts.agent.runs import ReviewableRunEnded
from libs.contracts.bus_messages import Context, Event
from libs.contracts.groups.sleeptime import CountRun, EnableSleeptime, EndSleeptime, count_id
from libs.work.reconciliation import Correction
from services.groups.adapters.sleeptime_queries import (
    SWEPT_MAX,
    LostSleeptimeGroup,
    SleeptimeQueries,
    UnreviewedAgent,
)


class CountRuns:
    """Counts the ends of runs of agents that have sleeptime groups. A client that waits for such an
    end has it counted, too: the two commands are one."""

    def __init__(self, bus: Bus, queries: SleeptimeQueries) -> None:
        self.bus = bus
        self.queries = queries

    async def run_ended(self, event: Event, context: Context) -> None:
        """Have the groups of an agent count one run."""
        assert isinstance(event, ReviewableRunEnded), "no other event is followed so"
        for group_id in await self.queries.sleeptime_groups(context.org, event.agent_id):
            command = CountRun(group_id=group_id, run_id=event.run_id)
            cause = context.follow_up(count_id(group_id, event.run_id))
            await request_as_service(self.bus, command, cause)


class EnableWantedSleeptime(Correction[UnreviewedAgent, SleeptimeQueries]):
    """Makes the sleeptime groups that agents were to get, and that nobody has made: the process
    that was to do it has died."""

    name = "agents without their sleeptime groups"
    every_seconds = 60.0  # of agents that want one: an import may bring them
    batch_max = SWEPT_MAX

    async def find(self, keys: list[str] | None) -> Sequence[UnreviewedAgent]:
        """Agents that want a sleeptime group and never had one."""
        return await self.queries.agents_without_group()

    async def mend(self, item: UnreviewedAgent) -> bool:
        """Have one agent get its sleeptime group."""
        return await self.send(EnableSleeptime(agent_id=item.id), item.org)


class EndLostSleeptime(Correction[LostSleeptimeGroup, SleeptimeQueries]):
    """Deletes sleeptime groups whose manager is gone, with their sleeptime agents, and those of
    which no member is left."""

    name = "sleeptime groups of agents that are gone"
    batch_max = SWEPT_MAX

    async def find(self, keys: list[str] | None) -> Sequence[LostSleeptimeGroup]:
        """Sleeptime groups that have no manager any more, or no members."""
        return await self.queries.lost_groups()

    async def mend(self, item: LostSleeptimeGroup) -> bool:
        """Delete one group with what is left of its sleeptime agents."""
        command = EndSleeptime(agent_id=item.manager_agent_id)
        return await self.send(command, item.org)
