"""The language of deployments: the agents that were made from a template together."""

from __future__ import annotations

from operator import not_

from pydantic import Field

from libs.contracts.api.templates import MigrationOptions, TemplateContent
from libs.contracts.bus_messages import Command, Event, JsonObject, Value, is_none
from libs.contracts.sealed_text import Sealed

SERVICE = "api"


class DeploymentRequest(Value):
    """A client's request for agents from a template. Tags and identities of its own replace those
    of the template; the name is that of the first agent."""

    agent_name: str = ""
    tags: list[str] | None = Field(default=None, exclude_if=is_none)
    identity_ids: list[str] | None = Field(default=None, exclude_if=is_none)
    memory_variables: dict[str, str] = Field(default_factory=dict)
    tool_variables: dict[str, Sealed] = Field(default_factory=dict)
    first_messages: list[JsonObject] | None = Field(default=None, exclude_if=is_none)


class PresentBlock(Value):
    """A block that an agent of a deployment has now."""

    id: str
    label: str
    deployment_id: str | None


class DeploymentCommand(Command, service=SERVICE):
    """A command about one deployment."""

    deployment_id: str

    @property
    def target(self) -> str:
        return self.deployment_id


class DeployTemplate(DeploymentCommand, topic="deployment.start"):
    """Make agents from a version of a template, all or none.

    Version 0 is the latest, and none is the working one. The agents are there once the deployment
    is `completed`."""

    template_id: str
    version: int | None = 0
    request: DeploymentRequest


class MigrateDeployment(DeploymentCommand, topic="deployment.migrate"):
    """Have agents that were made from a template become what another version of it says."""

    template_id: str
    version: int
    options: MigrationOptions
    memory_variables: dict[str, str] = Field(default_factory=dict)


class EndDeployment(DeploymentCommand, topic="deployment.end"):
    """Note that none of the agents of a deployment is left."""


class DeploymentStarted(Event, service=SERVICE, topic="deployment.started"):
    """Agents are made from this content of a template, in the name of `actor`; they follow to
    versions after `follows_after` that want it."""

    actor: str
    template_id: str
    version: int
    project_id: str
    content: TemplateContent
    request: DeploymentRequest
    follows_after: int = Field(default=0, exclude_if=not_)


class DeploymentCompleted(Event, service=SERVICE, topic="deployment.completed"):
    """All agents of a deployment are there, with their blocks and their group."""

    agent_ids: list[str]
    group_id: str | None = None


class DeploymentRefused(Event, service=SERVICE, topic="deployment.refused"):
    """Something of a deployment was refused; what was made of it is deleted again."""

    code: str
    reason: str


class DeploymentUndone(Event, service=SERVICE, topic="deployment.undone"):
    """Nothing is left of a deployment that was refused."""


class MigrationStarted(Event, service=SERVICE, topic="deployment.migration_started"):
    """The agents of a deployment become what this version of their template says, and follow to
    versions after `follows_after` that want it."""

    version: int
    content: TemplateContent
    options: MigrationOptions
    memory_variables: dict[str, str] = Field(default_factory=dict, exclude_if=not_)
    follows_after: int = Field(default=0, exclude_if=not_)


class MigrationEnded(Event, service=SERVICE, topic="deployment.migration_ended"):
    """The agents of a deployment are what a version of their template says, but for those that
    refused it: `refused` says why.

    They follow to versions after `follows_after` that want it."""

    version: int
    refused: list[str] = Field(default_factory=list, exclude_if=not_)
    follows_after: int = Field(default=0, exclude_if=not_)


class DeploymentEnded(Event, service=SERVICE, topic="deployment.ended"):
    """None of the agents of a deployment is left."""
