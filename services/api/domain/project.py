"""A project: agents that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel

from libs.contracts.api.projects import (
    CASCADED_MAX,
    ProjectChanged,
    ProjectCreated,
    ProjectDeleted,
    ProjectEmptied,
)
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    CONFLICT,
    UNPROCESSABLE,
    Event,
    JsonObject,
    Rejected,
)
from libs.contracts.letta.projects import ProjectState
from services.api.domain.refusals import missing

PROJECTS_MAX = 10_000  # of an organisation
PROJECTS_OF_AGENT_MAX = 100
UNCHANGEABLE = {"id", "organization_id", "created_by_id"}
# No request takes as long: after it none is on its way that found the project.
SETTLED_SECONDS = 120.0


class KnownProjectState(BaseModel):
    """The state of a project."""

    project: ProjectState | None = None
    deleted_at: datetime | None = None
    emptied: bool = False


class Project(Aggregate[KnownProjectState]):
    """One project."""

    State = KnownProjectState

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted_at is not None

    @property
    def present(self) -> ProjectState | None:
        """The project, unless it is gone or was never there."""
        return None if self.deleted else self.state.project

    def create(self, project: ProjectState, *, at: datetime) -> Rejected | None:
        """Create the project, unless it exists."""
        if self.exists:
            here: JsonObject = {"owner_id": self.id} if self.present else {}
            reason = f"Project {project.id} exists already"
            return Rejected(code=CONFLICT, reason=reason, details=here)
        self.record(ProjectCreated, at=at, project=project)
        return None

    def with_changes(self, changes: JsonObject) -> ProjectState | Rejected:
        """The project as it would be with these fields, or the refusal of them."""
        project = self.present
        if project is None:
            return missing("project", self.id)
        fields = {name: value for name, value in changes.items() if name not in UNCHANGEABLE}
        return ProjectState.model_validate({**project.model_dump(), **fields})

    def become(self, after: ProjectState, *, at: datetime) -> None:
        """Have these fields; changing nothing is not an event."""
        before = self.present
        assert before is not None, "only what is there changes"
        old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
        changes = {name: value for name, value in new.items() if old[name] != value}
        if changes.keys() - {"last_updated_by_id"}:
            self.record(ProjectChanged, at=at, changes=changes)

    def confirm(self, name: str | None) -> Rejected | None:
        """The refusal to delete the agents too, unless the project's name is repeated."""
        project = self.present
        if project is None:
            return missing("project", self.id)
        if name == project.name:
            return None
        reason = (
            "To delete the agents of a project with it, repeat its name: add"
            f" `confirm_name` with the name of project {self.id}"
        )
        return Rejected(code=UNPROCESSABLE, reason=reason)

    def delete(self, cascaded: Sequence[str], *, at: datetime) -> Rejected | None:
        """Delete the project, if it exists, and these of its agents."""
        if self.present is None:
            return missing("project", self.id)
        if len(cascaded) > CASCADED_MAX:
            reason = (
                f"The project has more than {CASCADED_MAX} agents, too many to be deleted with it:"
                " delete some first"
            )
            return Rejected(code=UNPROCESSABLE, reason=reason)
        self.record(ProjectDeleted, at=at, cascaded_agent_ids=tuple(cascaded))
        return None

    def empty(self, *, at: datetime) -> None:
        """Have nothing that names it; too soon after its end that is not certain."""
        ended = self.state.deleted_at
        if ended and not self.state.emptied and (at - ended).total_seconds() >= SETTLED_SECONDS:
            self.record(ProjectEmptied, at=at)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case ProjectCreated():
                self.state.project = event.project
            case ProjectChanged():
                assert self.state.project is not None, "a project is created before it changes"
                fields = {**self.state.project.model_dump(), **event.changes}
                self.state.project = ProjectState.model_validate(fields)
            case ProjectDeleted():
                self.state = KnownProjectState(deleted_at=event.timestamp)
            case ProjectEmptied():
                self.state.emptied = True


def refuse_name(name: str, owner_id: str) -> Rejected:
    """The refusal of a name that another project has, whose id it says."""
    reason = f"A project with the name '{name}' exists already: choose another `name`"
    return Rejected(code=CONFLICT, reason=reason, details={"owner_id": owner_id})


def too_many_projects(agent_id: str) -> Rejected:
    """The refusal of one more project for an agent that is in as many as it may."""
    reason = (
        f"Agent {agent_id} is in {PROJECTS_OF_AGENT_MAX} projects, and an agent is in no more:"
        " take it out of one first"
    )
    return Rejected(code=UNPROCESSABLE, reason=reason)
