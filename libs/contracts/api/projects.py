"""The language of projects: agents that belong together. An agent may be in several."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.bus_messages import Command, Event, JsonObject
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.projects import ProjectState

SERVICE = "api"

CASCADED_MAX = 10_000  # agents that are deleted with one project


def project_name_id(org: str, name: str) -> str:
    """The id of the aggregate that guards the name of a project in an organisation."""
    return derived_id("project_name", org, name)


class ProjectCommand(Command):
    """A command about a project."""

    service: ClassVar[str] = SERVICE
    project_id: str

    @property
    def target(self) -> str:
        return self.project_id


class CreateProject(Command):
    """Make a project; a name that another project of the organisation has is refused."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "project.create"
    project: ProjectState

    @property
    def target(self) -> str:
        return self.project.id


class UpdateProject(ProjectCommand):
    """Change the given fields of a project."""

    topic: ClassVar[str] = "project.update"
    changes: JsonObject


class DeleteProject(ProjectCommand):
    """Remove a project; its agents stay, unless they are to be deleted with it (`cascade`).

    That needs the project's name as a confirmation, and spares agents that are in other projects
    too. The result has how many `agents` are deleted.
    """

    topic: ClassVar[str] = "project.delete"
    cascade: bool = False
    confirm_name: str | None = None


class AddAgents(ProjectCommand):
    """Put agents into a project, all or none; those that are in it stay."""

    topic: ClassVar[str] = "project.add_agents"
    agent_ids: list[str]


class RemoveAgent(ProjectCommand):
    """Take an agent out of a project; twice is once."""

    topic: ClassVar[str] = "project.remove_agent"
    agent_id: str


class EmptyProject(ProjectCommand):
    """Note that nothing names a deleted project any more."""

    topic: ClassVar[str] = "project.empty"


class ProjectCreated(Event):
    """A project exists."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "project.created"
    project: ProjectState


class ProjectChanged(Event):
    """Fields of a project have new values."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "project.changed"
    changes: JsonObject


class ProjectDeleted(Event):
    """A project is gone; these agents of it are deleted next, and all others are in it no more."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "project.deleted"
    cascaded_agent_ids: tuple[str, ...] = ()


class ProjectEmptied(Event):
    """Nothing names a deleted project any more."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "project.emptied"


class ProjectNameTaken(Event):
    """A project of an organisation has this name, and no other one may have it."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "project_name.taken"
    name: str = ""  # as it was before the log kept none
    project_id: str

    @property
    def about(self) -> str:
        return self.project_id


class ProjectNameFreed(Event):
    """No project has this name any more."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "project_name.freed"
    name: str = ""  # as it was before the log kept none
    project_id: str

    @property
    def about(self) -> str:
        return self.project_id
