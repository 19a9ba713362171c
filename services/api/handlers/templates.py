"""Commands about templates and what is made from them: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.api.deployments import DeployTemplate, EndDeployment, MigrateDeployment
from libs.contracts.api.templates import (
    TEMPLATES_MAX,
    ChangeTemplate,
    CreateTemplate,
    DeleteTemplate,
    RenameTemplate,
    RollBackTemplate,
    SaveTemplateVersion,
    TemplateContent,
    template_name_id,
)
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, Accepted, Command, Rejected
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.work_lease import DueWork
from services.api.domain.deployment import Deployment
from services.api.domain.deployment import missing as missing_deployment
from services.api.domain.deployment_plan import Origin
from services.api.domain.template import Template, TemplateName, missing, refuse_taken_name
from services.api.engine.deployments import Deployments
from services.api.handlers.ports import HandlerPorts, Reply


class TemplateHandlers:
    """The handlers of commands to templates."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports
        self.queries = ports.templates

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            CreateTemplate: self.create_template,
            ChangeTemplate: self.change_template,
            SaveTemplateVersion: self.save_version,
            RollBackTemplate: self.roll_back,
            RenameTemplate: self.rename_template,
            DeleteTemplate: self.delete_template,
        }

    async def create_template(self, command: CreateTemplate, work: UnitOfWork) -> Reply:
        """Save a new template, unless its name is taken."""
        count = await self.queries.count_templates(work.context.org)
        if count >= TEMPLATES_MAX:
            reason = f"There are {count} templates, and at most {TEMPLATES_MAX}: delete some first"
            return Rejected(code=CONFLICT, reason=reason)
        template = await work.load_new(Template, command.template_id)
        refused = template.create(command, at=self.ports.clock.now())
        project = command.project_id
        return refused or await self.take_name(template, project, command.name, work) or Accepted()

    async def take_name(
        self, template: Template, project_id: str, name: str, work: UnitOfWork
    ) -> Rejected | None:
        """Give a template its name, unless another one has it."""
        guard = await self.guard_of(project_id, name, work)
        taken = guard.take(template.id, at=self.ports.clock.now())
        return None if taken else refuse_taken_name(name)

    async def free_name(
        self, template: Template, project_id: str, name: str, work: UnitOfWork
    ) -> None:
        """Let others have the name of a template."""
        guard = await self.guard_of(project_id, name, work)
        guard.free(template.id, at=self.ports.clock.now())

    async def guard_of(self, project_id: str, name: str, work: UnitOfWork) -> TemplateName:
        """The aggregate that guards a name in a project."""
        guard_id = template_name_id(work.context.org, project_id, name)
        return await work.load(TemplateName, guard_id)

    async def change_template(self, command: ChangeTemplate, work: UnitOfWork) -> Reply:
        """Give a template another working version."""
        template = await work.load(Template, command.template_id)
        at, save_first = self.ports.clock.now(), command.save_first
        return template.change(command.content, save_first=save_first, at=at) or Accepted()

    async def save_version(self, command: SaveTemplateVersion, work: UnitOfWork) -> Reply:
        """Save the working version; agents follow to it where that is wanted, soon."""
        template = await work.load(Template, command.template_id)
        at = self.ports.clock.now()
        refused = template.save(command.message, command.migration, at=at)
        return refused or Accepted(result={"version": template.state.latest})

    async def roll_back(self, command: RollBackTemplate, work: UnitOfWork) -> Reply:
        """Make a saved version the working one."""
        template = await work.load(Template, command.template_id)
        if template.present is None:
            return missing(template.id)
        found = await content_of(template, command.version, self.ports, work)
        if isinstance(found, Rejected):
            return found
        version, content = found
        return template.roll_back(version, content, at=self.ports.clock.now()) or Accepted()

    async def rename_template(self, command: RenameTemplate, work: UnitOfWork) -> Reply:
        """Give a template another name or description."""
        template = await work.load(Template, command.template_id)
        before = template.present
        if before is None:
            return missing(template.id)
        project, old = before.project_id, before.name
        name = old if command.name is None else command.name
        described = before.description if command.description is None else command.description
        refused = template.rename(name, described, at=self.ports.clock.now())
        if refused is None and name != old:
            refused = await self.take_name(template, project, name, work)
            await self.free_name(template, project, old, work)
        return refused or Accepted()

    async def delete_template(self, command: DeleteTemplate, work: UnitOfWork) -> Reply:
        """Remove a template with its versions."""
        template = await work.load(Template, command.template_id)
        gone = template.present
        refused = template.delete(at=self.ports.clock.now())
        if gone is not None:
            await self.free_name(template, gone.project_id, gone.name, work)
        return refused or Accepted()


class DeploymentHandlers:
    """Makes agents from templates, and has them follow to other versions."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.ports = ports
        self.deployments: Deployments = ports.deployments

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            DeployTemplate: self.deploy,
            MigrateDeployment: self.migrate,
            EndDeployment: self.end,
        }

    async def deploy(self, command: DeployTemplate, work: UnitOfWork) -> Reply:
        """Have agents made from a version of a template, once that is durable."""
        deployment = await work.load_new(Deployment, command.deployment_id)
        if deployment.exists:
            return Accepted()
        template = await work.load(Template, command.template_id)
        if template.present is None:
            return missing(template.id)
        found = await content_of(template, command.version, self.ports, work)
        if isinstance(found, Rejected):
            return found
        version, content = found
        refused = deployment.start(
            Origin(deployment.id, template.id, version, template.state.project_id),
            content,
            command.request,
            actor=work.context.actor,
            follows_after=template.state.migrating_to,
            at=self.ports.clock.now(),
        )
        return refused or self.begin(deployment, work)

    async def migrate(self, command: MigrateDeployment, work: UnitOfWork) -> Reply:
        """Have the agents of a deployment become what a version says, once that is durable."""
        deployment = await work.load(Deployment, command.deployment_id)
        if deployment.state.template_id != command.template_id:
            return missing_deployment(command.deployment_id)
        template = await work.load(Template, command.template_id)
        if template.present is None:
            return missing(template.id)
        found = await content_of(template, command.version, self.ports, work)
        if isinstance(found, Rejected):
            return found
        version, content = found
        refused = deployment.migrate(
            version,
            content,
            command.options,
            command.memory_variables,
            follows_after=template.state.migrating_to,
            at=self.ports.clock.now(),
        )
        return refused or self.begin(deployment, work)

    async def end(self, command: EndDeployment, work: UnitOfWork) -> Reply:
        """Note that nothing is left of a deployment."""
        deployment = await work.load(Deployment, command.deployment_id)
        deployment.end(at=self.ports.clock.now())
        return Accepted()

    def begin(self, deployment: Deployment, work: UnitOfWork) -> Accepted:
        """Have it done once the commit is made."""
        self.deployments.begin_after_commit(DueWork(deployment.id, work.context.org), work)
        return Accepted()


async def content_of(
    template: Template, version: int | None, ports: HandlerPorts, work: UnitOfWork
) -> tuple[int, TemplateContent] | Rejected:
    """The number of a version and what it holds: 0 is the latest, None the working version, whose
    number is 0."""
    if version is None:
        return 0, template.content
    number = version or template.state.latest
    content = await ports.templates.version_content(work.context.org, template.id, number)
    if content is None:
        reason = (
            f"`version`: template '{template.state.name}' has no version {number}: use 1 to"
            f" {template.state.latest}, or latest"
        )
        return Rejected(code=NOT_FOUND, reason=reason)
    return number, content
