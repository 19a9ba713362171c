"""Remove the workspaces of agents that are gone, on the machine of this process."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable

from libs.bus.ports import Clock
from services.tools.adapters.deleted_agent_queries import DeletedAgents

log = logging.getLogger(__name__)

# Whoever was not there when an agent was deleted, or is behind, looks as often as this.
CLEANUP_SECONDS = 60.0
AGENTS_MAX = 500  # asked for at once

type Present = Callable[[], Awaitable[list[tuple[str, str]]]]
type Remove = Callable[[str, str], Awaitable[None]]


class WorkspaceCleanup:
    """Looks at `present` workspaces, and has those removed whose agents were deleted."""

    def __init__(
        self, present: Present, remove: Remove, deleted: DeletedAgents, clock: Clock
    ) -> None:
        self.present = present
        self.remove = remove
        self.deleted = deleted
        self.clock = clock
        self.due_at = 0.0

    def agent_deleted(self) -> None:
        """An agent was deleted somewhere: look soon."""
        self.due_at = 0.0

    async def sweep(self) -> None:
        """Look, if it is time for it. What cannot be removed now is tried again."""
        now = self.clock.monotonic()
        if now < self.due_at:
            return
        self.due_at = now + CLEANUP_SECONDS
        by_org: dict[str, list[str]] = defaultdict(list)
        for org, agent_id in await self.present():
            by_org[org].append(agent_id)
        for org, agent_ids in by_org.items():
            for first in range(0, len(agent_ids), AGENTS_MAX):
                asked = agent_ids[first : first + AGENTS_MAX]
                for agent_id in await self.deleted.deleted(org, asked):
                    await self.try_to_remove(org, agent_id)

    async def try_to_remove(self, org: str, agent_id: str) -> None:
        """Remove one workspace; one that cannot be does not keep the others."""
        try:
            await self.remove(org, agent_id)
            log.info("the workspace of %s is removed: the agent was deleted", agent_id)
        except OSError as problem:
            log.warning("the workspace of %s is not removed: %s", agent_id, problem)
