"""The commands that make what a deployment consists of, and those that delete it again."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from libs.bus.ports import Bus, request_as_service
from libs.contracts.agent.agents import AttachTool, CreateAgent, DeleteAgent
from libs.contracts.api.attachments import ReplaceIdentities
from libs.contracts.bus_messages import NOT_FOUND, Command, Context, Json, JsonObject, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.groups import CreateGroup, DeleteGroup
from libs.contracts.groups.sleeptime import EnableSleeptime, EndSleeptime
from libs.contracts.memory.agent_folders import AttachFolder
from libs.contracts.memory.blocks import CreateBlocks, DeleteBlock
from libs.contracts.tools.base_tools.catalogue import CATALOGUE
from libs.contracts.tools.base_tools.file_tools import FILE_TOOLS
from libs.eventstore import failpoints
from services.api.adapters.templates.template_queries import TemplateQueries
from services.api.domain.deployment_plan import DeploymentPlan, PlannedAgent, group_id_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeploymentSteps:
    """Sends the commands of one deployment. Raises BusUnavailable where a service is away."""

    bus: Bus
    queries: TemplateQueries
    deployment_id: str
    context: Context

    async def ask(self, command: Command, *name: str) -> Rejected | None:
        """Send a command, which has the same name in each attempt; returns its refusal."""
        cause = self.context.follow_up(derived_id("cmd", self.deployment_id, *name))
        reply = await request_as_service(self.bus, command, cause)
        return reply if isinstance(reply, Rejected) else None

    async def make(self, plan: DeploymentPlan) -> Rejected | None:
        """Make blocks, agents and their group; returns what was refused, if anything was."""
        if plan.shared_blocks:
            blocks = CreateBlocks(blocks=list(plan.shared_blocks))
            if refused := await self.ask(blocks, "blocks"):
                return refused
        for agent in plan.agents:
            if refused := await self.make_agent(agent):
                return refused
            failpoints.reach("after_deployed_agent")
        if plan.group is None:
            return None
        group = CreateGroup(group_id=group_id_of(self.deployment_id), config=plan.group)
        return await self.ask(group, "group")

    async def make_agent(self, agent: PlannedAgent) -> Rejected | None:
        """Make one agent, and attach what it has by other commands."""
        request = {**agent.request, "tool_ids": await self.known_tools(agent.request)}
        command = CreateAgent(
            agent_id=agent.id,
            request=request,
            deployment_id=self.deployment_id,
            entity_id=agent.entity_id,
        )
        refused = await self.ask(command, "agent", agent.id)
        if refused is None and agent.folder_ids:
            refused = await self.attach_folders(agent)
        if refused is None and agent.identity_ids:
            identities = ReplaceIdentities(
                target_id=agent.id, identity_ids=list(agent.identity_ids)
            )
            refused = await self.ask(identities, "identities", agent.id)
        if refused is None and agent.has_sleeptime:
            enable = EnableSleeptime(agent_id=agent.id)
            refused = await self.ask(enable, "sleeptime", agent.id)
        return refused

    async def known_tools(self, request: JsonObject) -> list[Json]:
        """The tools of a request that still exist: as in V1 an agent is made without the others."""
        wanted = request.get("tool_ids")
        ids = [str(tool_id) for tool_id in wanted] if isinstance(wanted, list) else []
        custom = [tool_id for tool_id in ids if tool_id not in CATALOGUE]
        known = await self.queries.known_tools(self.context.org, custom) if custom else set()
        return [tool_id for tool_id in ids if tool_id in CATALOGUE or tool_id in known]

    async def attach_folders(self, agent: PlannedAgent) -> Rejected | None:
        """Attach the folders of an agent, and the tools for their files."""
        most = await self.queries.files_max(self.context.org, agent.id)
        for folder_id in agent.folder_ids:
            attach = AttachFolder(agent_id=agent.id, folder_id=folder_id, files_max=most or 0)
            if refused := await self.ask(attach, "folder", agent.id, folder_id):
                return refused
        for tool in FILE_TOOLS:
            command = AttachTool(agent_id=agent.id, tool_id=tool.id)
            if refused := await self.ask(command, "tool", agent.id, tool.id):
                return refused
        return None

    async def undo(self, plan: DeploymentPlan) -> None:
        """Delete the group, the agents and the blocks; what never came is not there."""
        await self.delete(DeleteGroup(group_id=group_id_of(self.deployment_id)), "group")
        for agent in plan.agents:
            if agent.has_sleeptime:
                await self.delete(EndSleeptime(agent_id=agent.id), "sleeptime", agent.id)
            await self.delete(DeleteAgent(agent_id=agent.id), "agent", agent.id)
        for block in plan.shared_blocks:
            await self.delete(DeleteBlock(block_id=block.id), "block", block.id)

    async def delete(self, command: Command, *name: str) -> None:
        """Delete something, if it is there."""
        refused = await self.ask(command, "undo", *name)
        if refused is not None and refused.code != NOT_FOUND:
            log.warning("%s: %s is not undone: %s", self.deployment_id, name, refused.reason)
