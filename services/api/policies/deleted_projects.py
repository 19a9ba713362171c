"""Policy for agents and blocks of a deleted project."""

from __future__ import annotations

from collections.abc import Sequence

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.agent.agents import DeleteAgent, UpdateAgent
from libs.contracts.api.projects import EmptyProject
from libs.contracts.bus_messages import Command
from libs.contracts.groups.sleeptime import EndSleeptime
from libs.contracts.memory.blocks import UpdateBlock
from libs.work.reconciliation import Reconciliation, send_correction
from services.api.adapters.agents.project_queries import SWEPT_MAX, LeftByProject, ProjectQueries
from services.api.adapters.groups.sleeptime_queries import SleeptimeQueries
from services.api.domain.project import SETTLED_SECONDS

NO_PROJECT = {"project_id": None}


class ClearDeletedProjects(Reconciliation[LeftByProject]):
    """When a project is gone, nothing names it, and the agents that go with it are deleted."""

    name = "agents and blocks of deleted projects"
    every_seconds = 60.0  # of projects that were deleted, until nothing names them
    batch_max = SWEPT_MAX

    def __init__(
        self, bus: Bus, queries: ProjectQueries, sleeptime: SleeptimeQueries, clock: Clock, ids: Ids
    ) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries
        self.sleeptime = sleeptime
        self.ids = ids

    async def find(self, keys: list[str] | None) -> Sequence[LeftByProject]:
        """The attachments left by deleted projects."""
        return await self.queries.left_by_projects(SETTLED_SECONDS)

    async def mend(self, item: LeftByProject) -> bool:
        """Delete an agent that goes with its project, or have something name no project."""
        if item.cascaded:
            return await self.delete(item.id, item.org)
        match item.id.partition("-")[0]:
            case "agent":
                return await self.send(
                    UpdateAgent(agent_id=item.id, request={**NO_PROJECT}), item.org
                )
            case "block":
                return await self.send(
                    UpdateBlock(block_id=item.id, changes={**NO_PROJECT}), item.org
                )
        return await self.send(EmptyProject(project_id=item.id), item.org)

    async def delete(self, agent_id: str, org: str) -> bool:
        """Delete an agent as a client's request does: with its sleeptime agents."""
        manager = await self.sleeptime.manager_of_sleeptime(org, agent_id)
        if manager == agent_id:
            await self.send(EndSleeptime(agent_id=agent_id), org)
        done = await self.send(DeleteAgent(agent_id=agent_id), org)
        if manager is not None and manager != agent_id:
            await self.send(EndSleeptime(agent_id=manager), org)
        return done

    async def send(self, command: Command, org: str) -> bool:
        """Send a command; what is not there any more needs no change."""
        return await send_correction(self.bus, self.ids, command, org)
