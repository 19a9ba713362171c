"""The commands by which the agents of a deployment become what a version of their template
says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from libs.contracts.agent.agents import AttachBlock, AttachTool, UpdateAgent
from libs.contracts.api.deployments import DeploymentRequest
from libs.contracts.api.templates import (
    MigrationOptions,
    TemplateAgent,
    TemplateBlock,
    TemplateContent,
)
from libs.contracts.bus_messages import NOT_FOUND, Command, JsonObject, Rejected
from libs.contracts.memory.agent_folders import AttachFolder, DetachFolder
from libs.contracts.memory.blocks import CreateBlocks, DeleteBlock, UpdateBlock
from libs.contracts.tools.base_tools.file_tools import FILE_TOOLS
from services.api.domain.deployment_plan import (
    Origin,
    agent_id_of,
    block_changes,
    migrated_fields,
    names_in,
)
from services.api.engine.deployment_steps import DeploymentSteps


@dataclass(frozen=True, slots=True)
class MigrationSteps:
    """Sends the commands of one migration. Raises BusUnavailable where a service is away."""

    steps: DeploymentSteps
    origin: Origin
    number: int
    request: DeploymentRequest
    options: MigrationOptions

    async def migrate(self, content: TemplateContent) -> list[str]:
        """Change each agent that is still there; returns what was refused, by agent."""
        refused: list[str] = []
        for agent in content.agents:
            agent_id = agent_id_of(self.origin.deployment_id, agent.entity_id)
            most = await self.steps.queries.files_max(self.steps.context.org, agent_id)
            if most is None:
                continue
            blocks = [block for block in content.blocks if agent.entity_id in block.agents]
            problem = (
                await self.change_agent(agent, agent_id)
                or await self.change_blocks(blocks, agent_id)
                or await self.change_folders(agent, agent_id, most)
            )
            if problem is not None:
                refused.append(f"{agent_id}: {problem.reason}")
        return refused

    async def ask(self, command: Command, *name: str) -> Rejected | None:
        """Send a command of this migration; returns its refusal."""
        return await self.steps.ask(command, f"migration {self.number}", *name)

    async def change_agent(self, agent: TemplateAgent, agent_id: str) -> Rejected | None:
        """Change the configuration and the tools of an agent."""
        changes: JsonObject = migrated_fields(self.origin, agent, self.request, self.options)
        if "tool_ids" in changes:
            changes["tool_ids"] = await self.steps.known_tools(changes)
        return await self.ask(UpdateAgent(agent_id=agent_id, request=changes), "agent", agent_id)

    async def change_blocks(
        self, blocks: Sequence[TemplateBlock], agent_id: str
    ) -> Rejected | None:
        """Change the blocks of an agent, make those that are new, delete those that are no more."""
        present = await self.steps.queries.blocks_of(self.steps.context.org, agent_id)
        changes = block_changes(
            self.origin, blocks, present, self.request, self.options, (str(self.number), agent_id)
        )
        for block_id, fields in changes.updates.items():
            update = UpdateBlock(block_id=block_id, changes=fields)
            if refused := await self.ask(update, "block", block_id):
                return refused
        for block in changes.new:
            if refused := await self.ask(CreateBlocks(blocks=[block]), "new", block.id):
                return refused
            attach = AttachBlock(agent_id=agent_id, block_id=block.id)
            if refused := await self.ask(attach, "attach", agent_id, block.id):
                return refused
        for block_id in changes.deleted:
            refused = await self.ask(DeleteBlock(block_id=block_id), "delete", block_id)
            if refused is not None and refused.code != NOT_FOUND:
                return refused
        return None

    async def change_folders(
        self, agent: TemplateAgent, agent_id: str, files_max: int
    ) -> Rejected | None:
        """Attach the folders of the template, and detach others unless they are kept."""
        wanted = names_in(agent.fields, "folder_ids")
        present = await self.steps.queries.folders_of(self.steps.context.org, agent_id)
        kept = present if self.options.preserve_sources else []
        commands: list[tuple[Command, str, str]] = [
            *(
                (AttachFolder(agent_id=agent_id, folder_id=each, files_max=files_max), "to", each)
                for each in wanted
                if each not in present
            ),
            *(
                (AttachTool(agent_id=agent_id, tool_id=tool.id), "tool", tool.id)
                for tool in FILE_TOOLS
                if wanted or kept
            ),
            *(
                (DetachFolder(agent_id=agent_id, folder_id=each), "from", each)
                for each in present
                if each not in wanted and each not in kept
            ),
        ]
        for command, *name in commands:
            if refused := await self.ask(command, agent_id, *name):
                return refused
        return None
