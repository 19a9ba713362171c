"""When an agent is gone, so are its list of permitted tools, and its workspace on this machine."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from libs.bus.ports import Clock
from libs.bus.process_ports import ProcessPorts
from libs.contracts.bus_messages import Context
from libs.contracts.tools.tool_permission_evaluation import ToolPolicies
from libs.contracts.tools.tool_permissions import permissions_id
from libs.eventstore.sql_view_cache import CachedView
from libs.work.reconciliation import Reconciliation
from services.tools.adapters.deleted_agent_queries import DeletedAgents
from services.tools.adapters.tool_run_queries import (
    SWEPT_MAX,
    RunOfDeletedAgent,
    ToolRunQueries,
)
from services.tools.domain.tool_permissions import ToolPermissions
from services.tools.domain.tool_run import ToolRun

log = logging.getLogger(__name__)

AGENTS_MAX = 500  # asked for at once
ASKED_TWICE = 2


@dataclass(frozen=True, slots=True)
class AgentKey:
    """An agent of an organisation."""

    org: str
    agent_id: str


class AgentCleanup(Reconciliation[AgentKey]):
    """Looks which agents have something, and takes it from those that were deleted."""

    def __init__(self, deleted: DeletedAgents, clock: Clock) -> None:
        super().__init__(clock)
        self.deleted = deleted

    @abstractmethod
    async def owners(self) -> Iterable[AgentKey]:
        """The agents that have something."""

    async def find(self, keys: list[str] | None) -> Sequence[AgentKey]:
        """Those of them that were deleted; where no agent has anything, nothing is asked."""
        chosen = None if keys is None else {*keys}
        by_org: dict[str, list[str]] = defaultdict(list)
        for agent in await self.owners():
            if chosen is None or agent.agent_id in chosen:
                by_org[agent.org].append(agent.agent_id)
        return [
            AgentKey(org, agent_id)
            for org, agent_ids in by_org.items()
            for first in range(0, len(agent_ids), AGENTS_MAX)
            for agent_id in await self.deleted.deleted_agents(
                org, agent_ids[first : first + AGENTS_MAX]
            )
        ]


@dataclass(slots=True, kw_only=True)
class CleanupPorts(ProcessPorts):
    """The ports of the clean-up: the lists as this process knows them, and the deleted agents."""

    policies: CachedView[ToolPolicies]
    deleted: DeletedAgents


class PermissionCleanup(AgentCleanup):
    """Ends the lists of deleted agents, so that nobody has to remember them."""

    name = "tool permissions of agents that are gone"

    def __init__(self, ports: CleanupPorts) -> None:
        super().__init__(ports.deleted, ports.clock)
        self.ports = ports

    async def owners(self) -> Iterable[AgentKey]:
        """The agents with a list. One can be deleted right after it got its list, so the lists are
        read again first."""
        policies = self.ports.policies
        await policies.look()
        scopes = (policies.value or ToolPolicies()).scopes
        return [AgentKey(org, scope_id) for org, kind, scope_id in scopes if kind == "agent"]

    async def mend(self, item: AgentKey) -> bool:
        """End one list; several processes may want that."""
        ports = self.ports
        work = ports.repository.work(Context(ports.ids.new("sweep"), org=item.org))
        found = await work.load(ToolPermissions, permissions_id(item.org, "agent", item.agent_id))
        found.end("agent", item.agent_id, at=ports.clock.now())
        await work.commit()
        ports.committed()
        return True


class ToolRunCleanup(Reconciliation[RunOfDeletedAgent]):
    """Forgets the calls of agents that were deleted: what they were given and what came of it. A
    call that still goes on has its agent looked at again."""

    name = "tool runs of agents that are gone"
    batch_max = SWEPT_MAX

    def __init__(self, ports: ProcessPorts, queries: ToolRunQueries) -> None:
        super().__init__(ports.clock)
        self.ports = ports
        self.queries = queries

    async def find(self, keys: list[str] | None) -> Sequence[RunOfDeletedAgent]:
        """The next of their calls that have ended."""
        found = await self.queries.runs_of_deleted_agents(keys)
        for run in found:
            if not run.ended:
                self.suspect_later(run.agent_id)
        return [run for run in found if run.ended]

    async def mend(self, item: RunOfDeletedAgent) -> bool:
        """Forget one call; several processes may want that."""
        work = self.ports.repository.work(Context(self.ports.ids.new("sweep"), org=item.org))
        (await work.load(ToolRun, item.id)).forget(at=self.ports.clock.now())
        await work.commit()
        self.ports.committed()
        return True


type Present = Callable[[], Awaitable[list[tuple[str, str]]]]
type Remove = Callable[[str, str], Awaitable[None]]


class WorkspaceCleanup(AgentCleanup):
    """Has those of the `present` workspaces removed whose agents were deleted."""

    name = "workspaces of agents that are gone"
    every_seconds = 60.0  # if something is new: here, or in the log of agents

    def __init__(
        self, present: Present, remove: Remove, deleted: DeletedAgents, clock: Clock
    ) -> None:
        super().__init__(deleted, clock)
        self.present = present
        self.remove = remove
        self.well: deque[tuple[int, frozenset[AgentKey]]] = deque(maxlen=ASKED_TWICE)

    async def owners(self) -> Iterable[AgentKey]:
        """The agents that have a workspace here."""
        return [AgentKey(org, agent_id) for org, agent_id in await self.present()]

    async def find(self, keys: list[str] | None) -> Sequence[AgentKey]:
        """Those of them that were deleted. Nothing is asked if the same were there twice since the
        last event of agents: the second time, no deletion was under way any more."""
        present = frozenset(await self.owners())
        if not present:
            return []
        seen = (await self.deleted.last_event(), present)
        if [*self.well] == [seen] * ASKED_TWICE:
            return []
        found = await super().find(keys)
        if not found:
            self.well.append(seen)
        return found

    async def mend(self, item: AgentKey) -> bool:
        """Remove one workspace; one that cannot be does not keep the others."""
        try:
            await self.remove(item.org, item.agent_id)
        except OSError as problem:
            log.warning("the workspace of %s is not removed: %s", item.agent_id, problem)
            return False
        log.info("the workspace of %s is removed: the agent was deleted", item.agent_id)
        return True
