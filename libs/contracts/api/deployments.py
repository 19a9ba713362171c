"""The language of deployments: the agents that were made from a template together."""

from __future__ import annotations

from operator import not_
from typing import ClassVar

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


class DeploymentCommand(Command):
    """A command about one deployment."""

    service: ClassVar[str] = SERVICE
    deployment_id: str

    @property
    def target(self) -> str:
        return self.deployment_id


class DeployTemplate(DeploymentCommand):
    """Make agents from a version of a template, all or none.

    Version 0 is the latest, and none is the working one. The agents are there once the deployment
    is `completed`."""

    topic: ClassVar[str] = "deployment.start"
    template_id: str
    version: int | None = 0
    request: DeploymentRequest


class MigrateDeployment(DeploymentCommand):
    """Have agents that were made from a template become what another version of it says."""

    topic: ClassVar[str] = "deployment.migrate"
    template_id: str
    version: int
    options: MigrationOptions
    memory_variables: dict[str, str] = Field(default_factory=dict)


class EndDeployment(DeploymentCommand):
    """Note that none of the agents of a deployment is left."""

    topic: ClassVar[str] = "deployment.end"


class DeploymentStarted(Event):
    """Agents are made from this content of a template, in the name of `actor`; they follow to
    versions after `follows_after` that want it."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "deployment.started"
    actor: str
    template_id: str
    version: int
    project_id: str
    content: TemplateContent
    request: DeploymentRequest
    follows_after: int = Field(default=0, exclude_if=not_)


class DeploymentCompleted(Event):
    """All agents of a deployment are there, with their blocks and their group."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "deployment.completed"
    agent_ids: list[str]
    group_id: str | None = None


class DeploymentRefused(Event):
    """Something of a deployment was refused; what was made of it is deleted again."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "deployment.refused"
    code: str
    reason: str


class DeploymentUndone(Event):
    """Nothing is left of a deployment that was refused."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "deployment.undone"


class MigrationStarted(Event):
    """The agents of a deployment become what this version of their template says, and follow to
    versions after `follows_after` that want it."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "deployment.migration_started"
    version: int
    content: TemplateContent
    options: MigrationOptions
    memory_variables: dict[str, str] = Field(default_factory=dict, exclude_if=not_)
    follows_after: int = Field(default=0, exclude_if=not_)


class MigrationEnded(Event):
    """The agents of a deployment are what a version of their template says, but for those that
    refused it: `refused` says why.

    They follow to versions after `follows_after` that want it."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "deployment.migration_ended"
    version: int
    refused: list[str] = Field(default_factory=list, exclude_if=not_)
    follows_after: int = Field(default=0, exclude_if=not_)


class DeploymentEnded(Event):
    """None of the agents of a deployment is left."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "deployment.ended"
