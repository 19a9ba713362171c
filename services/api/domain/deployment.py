"""A deployment: the agents that were made from a template together, all or none of them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from libs.contracts.api.deployments import (
    DeploymentCompleted,
    DeploymentEnded,
    DeploymentRefused,
    DeploymentRequest,
    DeploymentStarted,
    DeploymentUndone,
    MigrationEnded,
    MigrationStarted,
)
from libs.contracts.api.templates import MigrationOptions, TemplateContent
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, Event, Rejected
from services.api.domain.deployment_plan import Origin, plan_of, refusal_of_plan
from services.api.domain.template_variables import (
    memory_variables,
    refusal_of_variables,
    tool_variables,
)

Status = Literal["", "started", "completed", "undoing", "undone", "migrating", "ended"]


class DeploymentState(BaseModel):
    """The state of a deployment. It keeps the `content` that it is made from, or becomes, until
    that is done, and the request for later versions of the template. `follows_after` is the last
    version that its agents need not follow to."""

    status: Status = ""
    template_id: str = ""
    project_id: str = ""
    version: int = 0
    follows_after: int = 0
    content: TemplateContent | None = None
    request: DeploymentRequest = DeploymentRequest()
    actor: str = ""
    agent_ids: list[str] = []
    group_id: str | None = None
    refused: Rejected | None = None
    options: MigrationOptions | None = None
    target_version: int = 0
    migrations: int = 0


class Deployment(Aggregate[DeploymentState]):
    """One deployment."""

    State = DeploymentState

    @property
    def deleted(self) -> bool:
        """Whether nothing is left of it."""
        return self.state.status == "ended"

    def start(
        self,
        origin: Origin,
        content: TemplateContent,
        request: DeploymentRequest,
        *,
        actor: str,
        follows_after: int,
        at: datetime,
    ) -> Rejected | None:
        """Begin to make agents from a content; once begun it stays as it is."""
        if self.exists:
            return None
        values, secrets = request.memory_variables, request.tool_variables
        refused = refusal_of_variables(content, values, secrets)
        refused = refused or refusal_of_plan(plan_of(origin, content, request))
        if refused is None:
            self.record(
                DeploymentStarted,
                at=at,
                template_id=origin.template_id,
                project_id=origin.project_id,
                version=origin.version,
                content=content,
                request=request,
                actor=actor,
                follows_after=max(origin.version, follows_after),
            )
        return refused

    def complete(self, agent_ids: list[str], group_id: str | None, *, at: datetime) -> None:
        """All is there; said once."""
        if self.state.status == "started":
            self.record(DeploymentCompleted, at=at, agent_ids=agent_ids, group_id=group_id)

    def refuse(self, refused: Rejected, *, at: datetime) -> None:
        """Something was refused, and what was made has to go again; said once."""
        if self.state.status == "started":
            code = CONFLICT if refused.details else refused.code  # nobody keeps details
            self.record(DeploymentRefused, at=at, code=code, reason=refused.reason)

    def end_undoing(self, *, at: datetime) -> None:
        """Nothing is left of it; said once."""
        if self.state.status == "undoing":
            self.record(DeploymentUndone, at=at)

    def migrate(
        self,
        version: int,
        content: TemplateContent,
        options: MigrationOptions,
        variables: dict[str, str],
        *,
        follows_after: int,
        at: datetime,
    ) -> Rejected | None:
        """Begin to become what a version of the template says. Variables that are given are added
        to those of before; what the version does not have is left out."""
        if self.state.status == "migrating" and self.state.target_version == version:
            return None
        if self.state.status != "completed":
            return not_ready(self.id, self.state.status)
        values = self.values_for(content) | variables
        refused = refusal_of_variables(content, values, tool_variables(content))
        if refused is None:
            self.record(
                MigrationStarted,
                at=at,
                version=version,
                content=content,
                options=options,
                memory_variables=variables,
                follows_after=max(version, follows_after),
            )
        return refused

    def values_for(self, content: TemplateContent) -> dict[str, str]:
        """The values that were given for the variables of a content."""
        known = self.state.request.memory_variables
        return {name: known[name] for name in memory_variables(content) if name in known}

    def end_migration(self, version: int, refused: list[str], *, at: datetime) -> None:
        """The agents are what the version says; said once."""
        if self.state.status == "migrating" and self.state.target_version == version:
            after = self.state.follows_after
            self.record(
                MigrationEnded, at=at, version=version, refused=refused, follows_after=after
            )

    def refuse_migration(self, version: int, reason: str, *, at: datetime) -> None:
        """The agents stay as they are, though others follow to the version; said once."""
        if self.state.status == "completed" and self.state.follows_after < version:
            self.record(
                MigrationEnded, at=at, version=version, refused=[reason], follows_after=version
            )

    def end(self, *, at: datetime) -> None:
        """None of its agents is left; said once."""
        if self.state.status in ("completed", "undone"):
            self.record(DeploymentEnded, at=at)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        state = self.state
        match event:
            case DeploymentStarted():
                state.status, state.template_id = "started", event.template_id
                state.project_id, state.version = event.project_id, event.version
                state.content, state.request = event.content, event.request
                state.actor, state.follows_after = event.actor, event.follows_after
            case DeploymentCompleted():
                state.status, state.content = "completed", None
                state.agent_ids, state.group_id = event.agent_ids, event.group_id
            case DeploymentRefused():
                state.status = "undoing"
                state.refused = Rejected(code=event.code, reason=event.reason)
            case DeploymentUndone():
                state.status, state.content = "undone", None
            case MigrationStarted():
                state.status, state.target_version = "migrating", event.version
                state.content, state.options = event.content, event.options
                state.follows_after = event.follows_after
                state.migrations += 1
                values = state.request.memory_variables | event.memory_variables
                state.request = state.request.model_copy(update={"memory_variables": values})
            case MigrationEnded():
                state.status, state.version = "completed", event.version
                state.follows_after = event.follows_after
                state.content, state.options = None, None
            case DeploymentEnded():
                self.state = DeploymentState(status="ended")


def missing(deployment_id: str) -> Rejected:
    """The refusal for a deployment that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Deployment with ID {deployment_id} not found")


def not_ready(deployment_id: str, status: Status) -> Rejected:
    """The refusal of a change to a deployment that is not completed."""
    if not status:
        return missing(deployment_id)
    reason = f"Deployment {deployment_id} is {status}, and only a completed one can be migrated"
    return Rejected(code=CONFLICT, reason=reason)
