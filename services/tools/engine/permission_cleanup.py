"""End the lists of agents that are gone, so that nobody has to remember them."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass

from libs.bus.process_ports import ProcessPorts
from libs.contracts.bus_messages import Context
from libs.contracts.tools.tool_permission_evaluation import ToolPolicies
from libs.contracts.tools.tool_permissions import permissions_id
from libs.eventstore.ports import VersionConflict
from libs.eventstore.sql_view_cache import CachedView
from services.tools.adapters.deleted_agent_queries import DeletedAgents
from services.tools.domain.tool_permissions import ToolPermissions

log = logging.getLogger(__name__)

# Whoever was not there when an agent was deleted, or is behind, looks as often as this.
CLEANUP_SECONDS = 60.0
AGENTS_MAX = 500  # asked for at once


@dataclass(slots=True, kw_only=True)
class CleanupPorts(ProcessPorts):
    """What it needs: the lists as this process knows them, and which agents are deleted."""

    policies: CachedView[ToolPolicies]
    deleted: DeletedAgents


class PermissionCleanup:
    """Looks which agents have a list, and ends those of agents that were deleted."""

    def __init__(self, ports: CleanupPorts) -> None:
        self.ports = ports
        self.due_at = 0.0

    def agent_deleted(self) -> None:
        """An agent was deleted somewhere: look soon."""
        self.due_at = 0.0

    async def sweep(self) -> None:
        """Look, if it is time for it; of agents, nothing is asked where none has a list. An agent
        can be deleted right after it got its list, so the lists are read again first. Raises
        StoreUnavailable."""
        now = self.ports.clock.monotonic()
        if now < self.due_at:
            return
        self.due_at = now + CLEANUP_SECONDS
        await self.ports.policies.look()
        policies = self.ports.policies.value or ToolPolicies()
        by_org: dict[str, list[str]] = defaultdict(list)
        for org, kind, scope_id in policies.scopes:
            if kind == "agent":
                by_org[org].append(scope_id)
        for org, agent_ids in by_org.items():
            for first in range(0, len(agent_ids), AGENTS_MAX):
                asked = agent_ids[first : first + AGENTS_MAX]
                for agent_id in await self.ports.deleted.deleted(org, asked):
                    await self.end(org, agent_id)

    async def end(self, org: str, agent_id: str) -> None:
        """End one list; several processes may want that."""
        work = self.ports.repository.work(Context(self.ports.ids.new("sweep"), org=org))
        found = await work.load(ToolPermissions, permissions_id(org, "agent", agent_id))
        found.end("agent", agent_id, at=self.ports.clock.now())
        try:
            await work.commit()
        except VersionConflict:
            log.debug("the list of %s is ended elsewhere", agent_id)
        else:
            self.ports.committed()
