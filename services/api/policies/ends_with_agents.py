"""Policy for what ends with the last of its agents: deployments, imports, and reports on files."""

from __future__ import annotations

from collections.abc import Sequence

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.api.configurations import DeleteConfiguration
from libs.contracts.api.deployments import EndDeployment
from libs.contracts.api.imports import ForgetImport
from libs.work.reconciliation import Reconciliation, send_correction
from libs.work.work_lease import DueWork
from services.api.adapters.agents import configuration_queries, import_queries
from services.api.adapters.agents.configuration_queries import ConfigurationQueries
from services.api.adapters.agents.import_queries import ChosenImports, ImportQueries
from services.api.adapters.templates import template_queries
from services.api.adapters.templates.template_queries import TemplateQueries

LOOK_SECONDS = 300.0


class EndEmptyDeployments(Reconciliation[DueWork]):
    """When none of its agents is left, a deployment ends: what was given for them is personal, and
    is erased with what the agents said."""

    name = "deployments without agents"
    batch_max = template_queries.SWEPT_MAX
    every_seconds = LOOK_SECONDS  # of those that were undone, an hour after

    def __init__(self, bus: Bus, queries: TemplateQueries, clock: Clock, ids: Ids) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries
        self.ids = ids

    async def find(self, keys: list[str] | None) -> Sequence[DueWork]:
        """The deployments that have no agents any more: of some, by their ids or those of their
        agents; where only time has passed, of those that were undone; of all."""
        if keys is not None:
            return await self.queries.empty_deployments("some", keys)
        return await self.queries.empty_deployments("undone" if self.by_clock else "all", [])

    async def mend(self, item: DueWork) -> bool:
        """Note that nothing is left of one."""
        command = EndDeployment(deployment_id=item.id)
        return await send_correction(self.bus, self.ids, command, item.org)


class ForgetImports(Reconciliation[DueWork]):
    """When none of its agents is left, an import is forgotten: the names of its file and of its
    agents are erased with what the agents said. One of which nothing came is kept for a while."""

    name = "imports without agents"
    batch_max = import_queries.FORGOTTEN_AT_ONCE_MAX
    every_seconds = LOOK_SECONDS

    def __init__(
        self, bus: Bus, queries: ImportQueries, clock: Clock, ids: Ids, kept_seconds: float
    ) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries
        self.ids = ids
        self.kept_seconds = kept_seconds

    async def find(self, keys: list[str] | None) -> Sequence[DueWork]:
        """The imports that have no agents any more: of some, by the ids of their agents; where only
        time has passed, of those of which nothing came; of all."""
        kept = self.kept_seconds
        if keys is not None:
            return await self.queries.forgettable("some", keys, kept_seconds=kept)
        chosen: ChosenImports = "undone" if self.by_clock else "all"
        return await self.queries.forgettable(chosen, [], kept_seconds=kept)

    async def mend(self, item: DueWork) -> bool:
        """Forget one of them; several processes may want that."""
        return await send_correction(self.bus, self.ids, ForgetImport(import_id=item.id), item.org)


class DeleteConfigurations(Reconciliation[tuple[str, str]]):
    """When an agent is gone, nobody needs to know about its file."""

    name = "configurations of agents that are gone"
    batch_max = configuration_queries.SWEPT_MAX

    def __init__(self, bus: Bus, queries: ConfigurationQueries, clock: Clock, ids: Ids) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries
        self.ids = ids

    async def find(self, keys: list[str] | None) -> Sequence[tuple[str, str]]:
        """The deleted agents whose files are still known, with their organisations."""
        return await self.queries.abandoned_configurations(keys)

    async def mend(self, item: tuple[str, str]) -> bool:
        """Forget the file of one of them; several processes may want that."""
        agent_id, org = item
        return await send_correction(
            self.bus, self.ids, DeleteConfiguration(agent_id=agent_id), org
        )
