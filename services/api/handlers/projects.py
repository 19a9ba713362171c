"""Commands about projects: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.api.projects import (
    CASCADED_MAX,
    AddAgents,
    CreateProject,
    DeleteProject,
    EmptyProject,
    RemoveAgent,
    UpdateProject,
    project_name_id,
)
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.eventstore.unit_of_work import UnitOfWork
from services.api.domain.name_reservations import ProjectName
from services.api.domain.project import (
    PROJECTS_MAX,
    PROJECTS_OF_AGENT_MAX,
    Project,
    refuse_name,
    too_many_projects,
)
from services.api.domain.refusals import missing, no_room
from services.api.handlers.attachments import AttachmentHandlers
from services.api.handlers.ports import HandlerPorts, Reply


class ProjectHandlers:
    """The handlers of commands to projects."""

    def __init__(self, ports: HandlerPorts, attachments: AttachmentHandlers) -> None:
        self.ports = ports
        self.attachments = attachments

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            CreateProject: self.create_project,
            UpdateProject: self.update_project,
            DeleteProject: self.delete_project,
            AddAgents: self.add_agents,
            RemoveAgent: self.remove_agent,
            EmptyProject: self.empty_project,
        }

    async def create_project(self, command: CreateProject, work: UnitOfWork) -> Reply:
        """Make a project, unless its name is taken."""
        org, actor = work.context.org, work.context.actor
        projects = await self.ports.projects.count_projects(org)
        full = no_room("projects", projects, PROJECTS_MAX)
        if full:
            return full
        wanted = command.project.model_copy(
            update={
                "organization_id": org,
                "owner_id": command.project.owner_id or actor,
                "created_by_id": actor,
                "last_updated_by_id": actor,
            }
        )
        project = await work.load_new(Project, wanted.id)
        refused = project.create(wanted, at=self.ports.clock.now())
        return refused or await self.take_name(wanted.name, project.id, work) or Accepted()

    async def update_project(self, command: UpdateProject, work: UnitOfWork) -> Reply:
        """Change the given fields of a project, and its name if that follows."""
        project = await work.load(Project, command.project_id)
        before, after = project.present, project.with_changes(command.changes)
        if before is None or isinstance(after, Rejected):
            return after if isinstance(after, Rejected) else missing("project", project.id)
        if after.name != before.name:
            if refused := await self.take_name(after.name, project.id, work):
                return refused
            await self.free_name(before.name, project.id, work)
        after = after.model_copy(update={"last_updated_by_id": work.context.actor})
        project.become(after, at=self.ports.clock.now())
        return Accepted()

    async def delete_project(self, command: DeleteProject, work: UnitOfWork) -> Reply:
        """Remove a project. The agents that go with it are chosen here, and deleted next."""
        project = await work.load(Project, command.project_id)
        gone = project.present
        if gone is None:
            return missing("project", project.id)
        cascaded: list[str] = []
        if command.cascade:
            if refused := project.confirm(command.confirm_name):
                return refused
            cascaded = await self.ports.projects.agents_only_in(
                work.context.org, project.id, CASCADED_MAX + 1
            )
        if refused := project.delete(cascaded, at=self.ports.clock.now()):
            return refused
        await self.free_name(gone.name, project.id, work)
        return Accepted(result={"agents": len(cascaded)})

    async def add_agents(self, command: AddAgents, work: UnitOfWork) -> Reply:
        """Put agents into a project, all or none of them."""
        org = work.context.org
        if (await work.load(Project, command.project_id)).present is None:
            return missing("project", command.project_id)
        if refused := await self.attachments.refuse_missing(command.agent_ids, work):
            return refused
        for agent_id in dict.fromkeys(command.agent_ids):
            if await self.attachments.is_made(command.project_id, agent_id, work):
                continue
            if await self.ports.projects.projects_of(org, agent_id) >= PROJECTS_OF_AGENT_MAX:
                return too_many_projects(agent_id)
            await self.attachments.make(command.project_id, agent_id, work)
        return Accepted()

    async def remove_agent(self, command: RemoveAgent, work: UnitOfWork) -> Reply:
        """Take an agent out of a project."""
        if (await work.load(Project, command.project_id)).present is None:
            return missing("project", command.project_id)
        if refused := await self.attachments.refuse_missing([command.agent_id], work):
            return refused
        await self.attachments.remove(command.project_id, command.agent_id, work)
        return Accepted()

    async def empty_project(self, command: EmptyProject, work: UnitOfWork) -> Reply:
        """Note that nothing names a deleted project any more."""
        project = await work.load(Project, command.project_id)
        project.empty(at=self.ports.clock.now())
        return Accepted()

    async def take_name(self, name: str, project_id: str, work: UnitOfWork) -> Rejected | None:
        """Give a project its name, unless another one has it."""
        guard = await work.load(ProjectName, project_name_id(work.context.org, name))
        taken = guard.take(project_id, at=self.ports.clock.now())
        return None if taken else refuse_name(name, str(guard.owner_id))

    async def free_name(self, name: str, project_id: str, work: UnitOfWork) -> None:
        """Let others have the name of a project."""
        guard = await work.load(ProjectName, project_name_id(work.context.org, name))
        guard.free(project_id, at=self.ports.clock.now())
