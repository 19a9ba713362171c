"""One example of each message about templates and deployments."""

from __future__ import annotations

from datetime import UTC, datetime

from libs.contracts.api.deployments import (
    DeploymentCompleted,
    DeploymentEnded,
    DeploymentRefused,
    DeploymentRequest,
    DeploymentStarted,
    DeploymentUndone,
    DeployTemplate,
    EndDeployment,
    MigrateDeployment,
    MigrationEnded,
    MigrationStarted,
)
from libs.contracts.api.templates import (
    ChangeTemplate,
    CreateTemplate,
    DeleteTemplate,
    MigrationOptions,
    RenameTemplate,
    RollBackTemplate,
    SaveTemplateVersion,
    TemplateAgent,
    TemplateBlock,
    TemplateChanged,
    TemplateContent,
    TemplateCreated,
    TemplateDeleted,
    TemplateGroup,
    TemplateNameFreed,
    TemplateNameTaken,
    TemplateRenamed,
    TemplateVersionSaved,
    template_name_id,
)
from libs.contracts.bus_messages import Command, Event

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
USER = "user-00000000-0000-4000-8000-000000000000"
AGENT = "agent-11111111-1111-4111-8111-111111111111"
GROUP = "group-43434343-4343-4343-8343-434343434343"
TEMPLATE = "template-51515151-5151-4151-8151-515151515151"
DEPLOYMENT = "deployment-52525252-5252-4252-8252-525252525252"
NAME = template_name_id("org-1", "default", "clerk")
SEALED = "sealed:abc"
CLERK = TemplateAgent(
    entity_id="agent-1",
    name="Clerk",
    fields={"system": "Be brief.", "model": "openai/gpt-4o-mini", "tags": ["kept"]},
    tool_variables={"TOKEN": SEALED, "OTHER": None},
)
HUMAN = TemplateBlock(
    entity_id="block-1",
    label="human",
    value="The user is called {{name}}.",
    description="Who asks",
    preserve_on_migration=True,
    metadata={"from": "a form"},
    tags=["person"],
    agents=["agent-1"],
)
CONTENT = TemplateContent(agents=[CLERK], blocks=[HUMAN])
TEAM = TemplateContent(
    type="supervisor",
    agents=[CLERK, CLERK.model_copy(update={"entity_id": "agent-2", "tool_variables": {}})],
    blocks=[HUMAN.model_copy(update={"agents": ["agent-1", "agent-2"]})],
    group=TemplateGroup(manager_entity_id="agent-2", settings={"max_turns": 3}),
)
OPTIONS = MigrationOptions(preserve_core_memories=True, block_strategy="reconcile-all")
REQUEST = DeploymentRequest(
    agent_name="Clerk of Ada",
    tags=["own"],
    identity_ids=["identity-41414141-4141-4141-8141-414141414141"],
    memory_variables={"name": "Ada"},
    tool_variables={"TOKEN": SEALED},
    first_messages=[{"role": "user", "content": "Good morning"}],
)


def of[E: Event](kind: type[E], aggregate_id: str, **fields: object) -> E:
    """An event of an aggregate."""
    return kind.model_validate(
        {"originator_id": aggregate_id, "originator_version": 1, "timestamp": AT, **fields}
    )


TEMPLATE_COMMANDS: list[Command] = [
    CreateTemplate(template_id=TEMPLATE, project_id="default", name="clerk", content=CONTENT),
    ChangeTemplate(template_id=TEMPLATE, content=TEAM, save_first=True),
    SaveTemplateVersion(template_id=TEMPLATE, message="A team", migration=OPTIONS),
    RollBackTemplate(template_id=TEMPLATE, version=1),
    RenameTemplate(template_id=TEMPLATE, name="team", description="Who serves tea"),
    DeleteTemplate(template_id=TEMPLATE),
    DeployTemplate(deployment_id=DEPLOYMENT, template_id=TEMPLATE, version=1, request=REQUEST),
    MigrateDeployment(
        deployment_id=DEPLOYMENT,
        template_id=TEMPLATE,
        version=2,
        options=OPTIONS,
        memory_variables={"name": "Ada L."},
    ),
    EndDeployment(deployment_id=DEPLOYMENT),
]
TEMPLATE_EVENTS: list[Event] = [
    of(TemplateCreated, TEMPLATE, project_id="default", name="clerk", content=CONTENT),
    of(TemplateChanged, TEMPLATE, content=TEAM, rolled_back_to=1),
    of(
        TemplateVersionSaved,
        TEMPLATE,
        number=1,
        message="A team",
        content=TEAM,
        migration=OPTIONS,
    ),
    of(TemplateRenamed, TEMPLATE, name="team", description="Who serves tea"),
    of(TemplateDeleted, TEMPLATE),
    of(TemplateNameTaken, NAME, template_id=TEMPLATE),
    of(TemplateNameFreed, NAME, template_id=TEMPLATE),
    of(
        DeploymentStarted,
        DEPLOYMENT,
        actor=USER,
        template_id=TEMPLATE,
        version=1,
        project_id="default",
        content=CONTENT,
        request=REQUEST,
        follows_after=1,
    ),
    of(DeploymentCompleted, DEPLOYMENT, agent_ids=[AGENT], group_id=GROUP),
    of(DeploymentRefused, DEPLOYMENT, code="not_found", reason="There is no such model"),
    of(DeploymentUndone, DEPLOYMENT),
    of(
        MigrationStarted,
        DEPLOYMENT,
        version=2,
        content=TEAM,
        options=OPTIONS,
        memory_variables={"name": "Ada L."},
        follows_after=3,
    ),
    of(
        MigrationEnded,
        DEPLOYMENT,
        version=2,
        refused=[f"{AGENT}: no such tool"],
        follows_after=3,
    ),
    of(DeploymentEnded, DEPLOYMENT),
]
SUBJECTS = {
    "CreateTemplate": f"api.command.template.create.org-1.{TEMPLATE}",
    "ChangeTemplate": f"api.command.template.change.org-1.{TEMPLATE}",
    "SaveTemplateVersion": f"api.command.template.save_version.org-1.{TEMPLATE}",
    "RollBackTemplate": f"api.command.template.roll_back.org-1.{TEMPLATE}",
    "RenameTemplate": f"api.command.template.rename.org-1.{TEMPLATE}",
    "DeleteTemplate": f"api.command.template.delete.org-1.{TEMPLATE}",
    "DeployTemplate": f"api.command.deployment.start.org-1.{DEPLOYMENT}",
    "MigrateDeployment": f"api.command.deployment.migrate.org-1.{DEPLOYMENT}",
    "TemplateCreated": f"api.event.template.created.org-1.{TEMPLATE}",
    "TemplateChanged": f"api.event.template.changed.org-1.{TEMPLATE}",
    "TemplateVersionSaved": f"api.event.template.version_saved.org-1.{TEMPLATE}",
    "TemplateRenamed": f"api.event.template.renamed.org-1.{TEMPLATE}",
    "TemplateDeleted": f"api.event.template.deleted.org-1.{TEMPLATE}",
    "TemplateNameTaken": f"api.event.template_name.taken.org-1.{TEMPLATE}",
    "TemplateNameFreed": f"api.event.template_name.freed.org-1.{TEMPLATE}",
    "DeploymentStarted": f"api.event.deployment.started.org-1.{DEPLOYMENT}",
    "DeploymentCompleted": f"api.event.deployment.completed.org-1.{DEPLOYMENT}",
    "DeploymentRefused": f"api.event.deployment.refused.org-1.{DEPLOYMENT}",
    "DeploymentUndone": f"api.event.deployment.undone.org-1.{DEPLOYMENT}",
    "MigrationStarted": f"api.event.deployment.migration_started.org-1.{DEPLOYMENT}",
    "EndDeployment": f"api.command.deployment.end.org-1.{DEPLOYMENT}",
    "DeploymentEnded": f"api.event.deployment.ended.org-1.{DEPLOYMENT}",
    "MigrationEnded": f"api.event.deployment.migration_ended.org-1.{DEPLOYMENT}",
}
