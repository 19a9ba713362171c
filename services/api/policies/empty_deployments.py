"""Deployments of templates end with the last of their agents."""

from __future__ import annotations

from collections.abc import Sequence

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.api.deployments import EndDeployment
from libs.work.reconciliation import Reconciliation, send_correction
from libs.work.work_lease import DueWork
from services.api.adapters.template_queries import SWEPT_MAX, TemplateQueries

LOOK_SECONDS = 300.0


class EndEmptyDeployments(Reconciliation[DueWork]):
    """When none of its agents is left, a deployment ends: what was given for them is personal, and
    is erased with what the agents said."""

    name = "deployments without agents"
    batch_max = SWEPT_MAX
    every_seconds = LOOK_SECONDS

    def __init__(self, bus: Bus, queries: TemplateQueries, clock: Clock, ids: Ids) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries
        self.ids = ids

    async def find(self, keys: list[str] | None) -> Sequence[DueWork]:
        """The deployments that have no agents any more."""
        return await self.queries.empty_deployments()

    async def mend(self, item: DueWork) -> bool:
        """Note that nothing is left of one."""
        command = EndDeployment(deployment_id=item.id)
        return await send_correction(self.bus, self.ids, command, item.org)
