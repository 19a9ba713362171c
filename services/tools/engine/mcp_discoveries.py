"""Discover the tools of MCP servers: each discovery under a lease, and attempted again when it
fails, until it has failed too often.

That one is wanted is durable before the server is asked. Where the process dies, the lease runs
out, and a sweeper has the server asked once more: listing tools changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.process_ports import ProcessPorts
from libs.contracts.bus_messages import Context
from libs.contracts.storable_text import storable
from libs.contracts.tools.mcp_servers import mcp_server_deltas
from libs.encryption.sealer import CannotOpen, Sealer
from libs.eventstore.ports import StoreUnavailable, VersionConflict
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.progress import publish_progress
from libs.work.work_lease import HANDLED_BY_ENGINE, DueWork, WorkLease
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig
from services.tools.adapters.mcp_server_queries import McpServerQueries
from services.tools.domain.mcp_server import GIVEN_UP, McpServer, McpServerState
from services.tools.domain.mcp_tool import OfferedTool
from services.tools.engine.mcp_config_secrets import open_config
from services.tools.engine.mcp_sessions import McpSessions
from services.tools.engine.mcp_tool_registration import register_tools

log = logging.getLogger(__name__)

# More wait for their turn; the sweeper begins them. One that hangs ends by its deadline.
DISCOVERIES_AT_ONCE_MAX = 32
ORGANISATION_DISCOVERIES_AT_ONCE_MAX = 24
DISCOVERY_SECONDS_MAX = 60.0
REASON_CHARS_MAX = 2_000


@dataclass(slots=True, kw_only=True)
class McpPorts(ProcessPorts):
    """The ports of a process for its MCP servers."""

    sessions: McpSessions
    sealer: Sealer
    queries: McpServerQueries


class McpDiscoveries(LeasedWork[DueWork]):
    """The discoveries that this process makes."""

    name = "discovery"
    ports: McpPorts

    def __init__(self, ports: McpPorts) -> None:
        places = FairSemaphore(
            DISCOVERIES_AT_ONCE_MAX,
            of_organisation_max=ORGANISATION_DISCOVERIES_AT_ONCE_MAX,
            users="discoveries",
            thing="place",
        )
        super().__init__(ports, places)

    async def due(self) -> Sequence[DueWork]:
        """The servers whose tools are to be discovered now, and that nobody asks."""
        return await self.ports.queries.due_discoveries(
            ORGANISATION_DISCOVERIES_AT_ONCE_MAX, DISCOVERIES_AT_ONCE_MAX
        )

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """Ask a server for its tools and record its answer, until nothing more is wanted of it."""
        try:
            while await self.discover(lease):
                pass
        finally:
            subject = mcp_server_deltas(lease.work.org, lease.work.id)
            await publish_progress(self.ports.bus, subject, {"ended": True})

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        """Decide that a discovery has failed; a client may request the next."""
        server = await unit.load(McpServer, work.id)
        if server.present is not None:
            server.fail(GIVEN_UP, reason, at=self.ports.clock.now())

    async def discover(self, lease: WorkLease[DueWork]) -> bool:
        """Ask a server once, and record its answer; returns whether it has to be asked again, since
        something else is wanted of it by now. A process edge: a bug is logged here, once, and the
        discovery has failed."""
        server_id = lease.work.id
        state = (await lease.unit().load(McpServer, server_id)).present
        if state is None:
            return False
        wanted = (state.number, state.version)
        offered: list[OfferedTool] | McpFailed
        try:
            config = config_of(self.ports.sealer, server_id, lease.work.org, state)
            offered = await list_server_tools(self.ports.sessions, config)
        except McpFailed as failed:
            offered = failed
        except Exception:
            log.exception("%s cannot be asked for its tools", server_id)
            offered = McpFailed("protocol", "it could not be asked: the log says why")
        try:
            return await self.record(lease, wanted, offered)
        except HANDLED_BY_ENGINE:
            raise
        except Exception:
            # What one server says must not be asked for again and again, without a pause or an end.
            log.exception("the tools of %s cannot be taken over", server_id)
            failure = McpFailed("protocol", "what it offers cannot be stored: the log says why")
            return await self.record(lease, wanted, failure)

    async def record(
        self,
        lease: WorkLease[DueWork],
        wanted: tuple[int, int],
        offered: list[OfferedTool] | McpFailed,
    ) -> bool:
        """Record what a server answered, unless something else is wanted of it by now; returns
        whether that is so."""

        async def decide(unit: UnitOfWork) -> bool:
            server = await unit.load(McpServer, lease.work.id)
            state, at = server.present, self.ports.clock.now()
            if state is None:
                return False
            if (state.number, state.version) != wanted:
                return True
            if isinstance(offered, McpFailed):
                server.fail(offered.kind, storable(offered.words)[:REASON_CHARS_MAX], at=at)
            else:
                await register_tools(unit, server, offered, at=at)
            return False

        return await lease.record(decide, release=lambda is_outdated: not is_outdated)

    async def server_answers(self, server_id: str, org: str) -> None:
        """Discover the tools of a server once more that answers again, if that was given up."""
        unit = self.ports.repository.work(Context(self.ports.ids.new("answers"), org=org))
        with contextlib.suppress(StoreUnavailable, VersionConflict):
            server = await unit.load(McpServer, server_id)
            if server.given_up and self.has_room(org):
                server.request_discovery([], at=self.ports.clock.now())
                self.begin_after_commit(DueWork(server_id, org), unit)
                await unit.commit()
                self.ports.committed()


def config_of(sealer: Sealer, server_id: str, org: str, state: McpServerState) -> McpServerConfig:
    """The configuration of a server that is there. Raises McpFailed."""
    assert state.config is not None, "a server that is there has a configuration"
    config = open_config(
        sealer, state.config, server_id=server_id, org=org, name=state.name, version=state.version
    )
    if not state.grant:
        return config
    try:
        return replace(config, grant=sealer.open(state.grant))
    except CannotOpen:
        return config  # who connects authorizes it again


async def list_server_tools(sessions: McpSessions, config: McpServerConfig) -> list[OfferedTool]:
    """The tools of a server. Raises McpFailed, after DISCOVERY_SECONDS_MAX at the latest."""
    connections = sessions.connections_for(config)
    refused = connections.refusal_of(config)
    if refused:
        raise McpFailed("refused", refused)
    try:
        async with asyncio.timeout(DISCOVERY_SECONDS_MAX):
            tools = await connections.list_tools(config)
    except TimeoutError:
        words = f"'{config.name}' did not list its tools within {DISCOVERY_SECONDS_MAX:g} seconds"
        raise McpFailed("timeout", words) from None
    offered = [
        OfferedTool(tool.name, tool.description, tool.input_schema, tool.problem) for tool in tools
    ]
    return await sessions.check(offered, config.org)
