"""What is known of an agent's file goes with the agent."""

from __future__ import annotations

from collections.abc import Sequence

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.api.configurations import DeleteConfiguration
from libs.work.reconciliation import Reconciliation, send_correction
from services.api.adapters.configuration_queries import SWEPT_MAX, ConfigurationQueries


class DeleteConfigurations(Reconciliation[tuple[str, str]]):
    """When an agent is gone, nobody needs to know about its file; a report can race with the
    deletion, so all are looked at now and then."""

    name = "configurations of agents that are gone"
    batch_max = SWEPT_MAX

    def __init__(self, bus: Bus, queries: ConfigurationQueries, clock: Clock, ids: Ids) -> None:
        super().__init__(clock)
        self.bus = bus
        self.queries = queries
        self.ids = ids

    async def find(self, keys: list[str] | None) -> Sequence[tuple[str, str]]:
        """The deleted agents whose files are still known, with their organisations."""
        return await self.queries.abandoned_configurations()

    async def mend(self, item: tuple[str, str]) -> bool:
        """Forget the file of one of them; several processes may want that."""
        agent_id, org = item
        return await send_correction(
            self.bus, self.ids, DeleteConfiguration(agent_id=agent_id), org
        )
