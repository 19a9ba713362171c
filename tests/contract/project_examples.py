"""One example of each message about projects."""

from __future__ import annotations

from libs.contracts.api.projects import (
    AddAgents,
    CreateProject,
    DeleteProject,
    EmptyProject,
    ProjectChanged,
    ProjectCreated,
    ProjectDeleted,
    ProjectEmptied,
    ProjectNameFreed,
    ProjectNameTaken,
    RemoveAgent,
    UpdateProject,
    project_name_id,
)
from libs.contracts.bus_messages import Command, Event
from libs.contracts.letta.projects import ProjectState
from tests.contract.identity_examples import AGENT, of

PROJECT = "project-51515151-5151-4151-8151-515151515151"
NAME = project_name_id("org-1", "Voyage")
VOYAGE = ProjectState(
    id=PROJECT,
    name="Voyage",
    description="Who plans the trip",
    tags=["travel"],
    owner_id="user-1",
    organization_id="org-1",
    created_by_id="user-1",
    last_updated_by_id="user-1",
)

PROJECT_COMMANDS: list[Command] = [
    CreateProject(project=VOYAGE),
    UpdateProject(project_id=PROJECT, changes={"description": None}),
    DeleteProject(project_id=PROJECT, cascade=True, confirm_name="Voyage"),
    AddAgents(project_id=PROJECT, agent_ids=[AGENT]),
    RemoveAgent(project_id=PROJECT, agent_id=AGENT),
    EmptyProject(project_id=PROJECT),
]
PROJECT_EVENTS: list[Event] = [
    of(ProjectCreated, PROJECT, project=VOYAGE),
    of(ProjectChanged, PROJECT, changes={"tags": ["travel", "summer"]}),
    of(ProjectDeleted, PROJECT, cascaded_agent_ids=[AGENT]),
    of(ProjectEmptied, PROJECT),
    of(ProjectNameTaken, NAME, project_id=PROJECT),
    of(ProjectNameFreed, NAME, project_id=PROJECT),
]
SUBJECTS = {
    "CreateProject": f"api.command.project.create.org-1.{PROJECT}",
    "UpdateProject": f"api.command.project.update.org-1.{PROJECT}",
    "DeleteProject": f"api.command.project.delete.org-1.{PROJECT}",
    "AddAgents": f"api.command.project.add_agents.org-1.{PROJECT}",
    "RemoveAgent": f"api.command.project.remove_agent.org-1.{PROJECT}",
    "EmptyProject": f"api.command.project.empty.org-1.{PROJECT}",
    "ProjectCreated": f"api.event.project.created.org-1.{PROJECT}",
    "ProjectChanged": f"api.event.project.changed.org-1.{PROJECT}",
    "ProjectDeleted": f"api.event.project.deleted.org-1.{PROJECT}",
    "ProjectEmptied": f"api.event.project.emptied.org-1.{PROJECT}",
    "ProjectNameTaken": f"api.event.project_name.taken.org-1.{PROJECT}",
    "ProjectNameFreed": f"api.event.project_name.freed.org-1.{PROJECT}",
}
