"""Make the agents of deployments, undo what was refused, and have agents follow their template.

Each thing that is made has an id that follows from the deployment, and each command a name that
does, so an attempt that is made twice makes everything once. What an attempt finds refused is
recorded before anything is deleted again: whoever dies in between, all is there or nothing is.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.ports import BusUnavailable
from libs.bus.process_ports import ProcessPorts
from libs.contracts.api.templates import TemplateContent
from libs.contracts.bus_messages import PARKED, Rejected
from libs.eventstore import failpoints
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.work_lease import DueWork, WorkLease
from services.api.adapters.templates.template_queries import TemplateQueries
from services.api.domain.deployment import Deployment, DeploymentState
from services.api.domain.deployment_plan import DeploymentPlan, Origin, group_id_of, plan_of
from services.api.domain.template import Template
from services.api.engine.deployment_steps import DeploymentSteps
from services.api.engine.migration_steps import MigrationSteps

log = logging.getLogger(__name__)

# The deployments that a process works at, and those of one organisation.
DEPLOYMENTS_AT_ONCE_MAX, ORGANISATION_DEPLOYMENTS_MAX = 16, 12

Step = Literal["idle", "make", "undo", "migrate"]


@dataclass(slots=True, kw_only=True)
class DeploymentPorts(ProcessPorts):
    """The ports of deployments."""

    queries: TemplateQueries


@dataclass(frozen=True, slots=True)
class Task:
    """The next task, and its input."""

    step: Step
    state: DeploymentState


class Deployments(LeasedWork[DueWork]):
    """The deployments that this process works at."""

    name = "deployment"
    ports: DeploymentPorts

    def __init__(self, ports: DeploymentPorts) -> None:
        places = FairSemaphore(
            DEPLOYMENTS_AT_ONCE_MAX,
            of_organisation_max=ORGANISATION_DEPLOYMENTS_MAX,
            users="deployments",
            thing="place",
        )
        super().__init__(ports, places)

    async def due(self) -> Sequence[DueWork]:
        """The deployments with something to do that nobody holds a lease for."""
        return await self.ports.queries.due_deployments()

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """Go on until nothing is left to be done; where a service is away, a sweep goes on."""
        try:
            await DeploymentAttempt(self.ports, lease).run()
        except BusUnavailable as away:
            log.warning("the deployment %s goes on later: %s", lease.work.id, away)

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        """Decide that what is under way for a deployment has failed. What was made of a new one is
        deleted again, as far as it can be; another stays at its version."""
        deployment, at = await unit.load(Deployment, work.id), self.ports.clock.now()
        match deployment.state.status:
            case "started":
                deployment.refuse(Rejected(code=PARKED, reason=reason), at=at)
            case "undoing":
                deployment.end_undoing(at=at)
            case "migrating":
                deployment.end_migration(deployment.state.target_version, [reason], at=at)
            case "completed":
                template = await unit.load(Template, deployment.state.template_id)
                deployment.refuse_migration(template.state.migrating_to, reason, at=at)


class DeploymentAttempt:
    """One process's attempt at what there is to do for a deployment."""

    def __init__(self, ports: DeploymentPorts, lease: WorkLease[DueWork]) -> None:
        self.ports = ports
        self.lease = lease

    async def run(self) -> None:
        """Take one step after the other, until nothing is left to be done."""
        while True:
            task = await self.lease.record(self.next_task, release=lambda task: is_idle(task))
            match task.step:
                case "make":
                    await self.make(task.state)
                case "undo":
                    await self.undo(task.state)
                case "migrate":
                    await self.migrate(task.state)
                case "idle":
                    return

    async def next_task(self, unit: UnitOfWork) -> Task:
        """The next task. A deployment that is behind its template begins to follow."""
        deployment = await unit.load(Deployment, self.lease.work.id)
        if deployment.state.status == "completed":
            await self.follow_template(deployment, unit)
        steps: dict[str, Step] = {"started": "make", "undoing": "undo", "migrating": "migrate"}
        return Task(steps.get(deployment.state.status, "idle"), deployment.state.model_copy())

    async def follow_template(self, deployment: Deployment, unit: UnitOfWork) -> None:
        """Begin to become what the last version says that agents are to follow to, if there is
        one."""
        template = await unit.load(Template, deployment.state.template_id)
        wanted, options = template.state.migrating_to, template.state.migration
        if template.present is None or options is None or wanted <= deployment.state.follows_after:
            return
        org, at = self.lease.work.org, self.ports.clock.now()
        content = await self.ports.queries.version_content(org, template.id, wanted)
        if content is None:
            return
        refused = deployment.migrate(wanted, content, options, {}, follows_after=wanted, at=at)
        if refused is not None:
            deployment.refuse_migration(wanted, refused.reason, at=at)

    async def make(self, state: DeploymentState) -> None:
        """Make everything, and record that it is there, or what was refused."""
        plan = plan_of(self.origin(state, state.version), content_of(state), state.request)
        refused = await self.steps(state).make(plan)
        failpoints.reach("after_deployment")
        at, group_id = self.ports.clock.now(), self.group_id(plan)

        async def decide(unit: UnitOfWork) -> None:
            deployment = await unit.load(Deployment, self.lease.work.id)
            if refused is None:
                deployment.complete(plan.agent_ids, group_id, at=at)
            else:
                deployment.refuse(refused, at=at)

        await self.lease.record(decide, release=False, advances=True)

    async def undo(self, state: DeploymentState) -> None:
        """Delete what was made, and record that nothing is left."""
        plan = plan_of(self.origin(state, state.version), content_of(state), state.request)
        await self.steps(state).undo(plan)

        async def decide(unit: UnitOfWork) -> None:
            deployment = await unit.load(Deployment, self.lease.work.id)
            deployment.end_undoing(at=self.ports.clock.now())

        await self.lease.record(decide, release=False, advances=True)

    async def migrate(self, state: DeploymentState) -> None:
        """Have each agent become what the version says, and record what was refused."""
        assert state.options is not None, "a migration has options"
        origin = self.origin(state, state.target_version)
        number, options = state.migrations, state.options
        steps = MigrationSteps(self.steps(state), origin, number, state.request, options)
        refused = await steps.migrate(content_of(state))

        async def decide(unit: UnitOfWork) -> None:
            deployment = await unit.load(Deployment, self.lease.work.id)
            deployment.end_migration(origin.version, refused, at=self.ports.clock.now())

        await self.lease.record(decide, release=False, advances=True)

    def steps(self, state: DeploymentState) -> DeploymentSteps:
        """The sender of this attempt's commands, in the name of the requester."""
        context = replace(self.lease.context, actor=state.actor)
        return DeploymentSteps(self.ports.bus, self.ports.queries, self.lease.work.id, context)

    def origin(self, state: DeploymentState, version: int) -> Origin:
        """The origin that the agents name."""
        return Origin(self.lease.work.id, state.template_id, version, state.project_id)

    def group_id(self, plan: DeploymentPlan) -> str | None:
        """The id of the group of a plan, if it has one."""
        return group_id_of(self.lease.work.id) if plan.group else None


def is_idle(task: Task) -> bool:
    """Whether nothing is left to be done."""
    return task.step == "idle"


def content_of(state: DeploymentState) -> TemplateContent:
    """The content that a deployment is made from."""
    assert state.content is not None, "a deployment that is not done has its content"
    return state.content
