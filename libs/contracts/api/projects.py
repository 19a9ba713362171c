"""The language of projects: agents that belong together. An agent may be in several."""

from __future__ import annotations

from libs.contracts.bus_messages import Command, Event, JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.projects import ProjectState

SERVICE = "api"

CASCADED_MAX = 10_000  # agents that are deleted with one project


def project_name_id(org: str, name: str) -> str:
    """The id of the aggregate that guards the name of a project in an organisation."""
    return derived_id("project_name", org, name)


class ProjectCommand(Command, service=SERVICE):
    """A command about a project."""

    project_id: str

    @property
    def target(self) -> str:
        return self.project_id


class CreateProject(Command, service=SERVICE, topic="project.create"):
    """Make a project; a name that another project of the organisation has is refused."""

    project: ProjectState

    @property
    def target(self) -> str:
        return self.project.id


class UpdateProject(ProjectCommand, topic="project.update"):
    """Change the given fields of a project."""

    changes: JsonObject


class DeleteProject(ProjectCommand, topic="project.delete"):
    """Remove a project; its agents stay, unless they are to be deleted with it (`cascade`).

    That needs the project's name as a confirmation, and spares agents that are in other projects
    too. The result has how many `agents` are deleted.
    """

    cascade: bool = False
    confirm_name: str | None = None


class AddAgents(ProjectCommand, topic="project.add_agents"):
    """Put agents into a project, all or none; those that are in it stay."""

    agent_ids: list[str]


class RemoveAgent(ProjectCommand, topic="project.remove_agent"):
    """Take an agent out of a project; twice is once."""

    agent_id: str


class EmptyProject(ProjectCommand, topic="project.empty"):
    """Note that nothing names a deleted project any more."""


class ProjectCreated(Event, service=SERVICE, topic="project.created"):
    """A project exists."""

    project: ProjectState


class ProjectChanged(Event, service=SERVICE, topic="project.changed"):
    """Fields of a project have new values."""

    changes: JsonObject


class ProjectDeleted(Event, service=SERVICE, topic="project.deleted"):
    """A project is gone; these agents of it are deleted next, and all others are in it no more."""

    cascaded_agent_ids: tuple[str, ...] = ()


class ProjectEmptied(Event, service=SERVICE, topic="project.emptied"):
    """Nothing names a deleted project any more."""


class ProjectNameTaken(Event, service=SERVICE, topic="project_name.taken"):
    """A project of an organisation has this name, and no other one may have it."""

    name: str = ""  # as it was before the log kept none
    project_id: str

    @property
    def about(self) -> str:
        return self.project_id


class ProjectNameFreed(Event, service=SERVICE, topic="project_name.freed"):
    """No project has this name any more."""

    name: str = ""  # as it was before the log kept none
    project_id: str

    @property
    def about(self) -> str:
        return self.project_id
