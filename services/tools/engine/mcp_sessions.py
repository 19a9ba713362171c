"""Which MCP servers may have a session in this process, and the end of those that are changed."""

from __future__ import annotations

import asyncio
import contextlib

from libs.bus.fair_semaphore import NoPlace
from libs.contracts.tools.mcp_servers import KIND
from libs.eventstore.ports import StoreUnavailable
from libs.work.limited_processes import LimitedProcesses, LimitReached
from services.tools.adapters.mcp.connections import McpConnections
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig
from services.tools.adapters.mcp_server_queries import McpServerQueries
from services.tools.domain.mcp_tool import OfferedTool, check_tools

CHECKED_INLINE_CHARS_MAX = 50_000  # of a server's tools, about 40 ms


class McpSessions:
    """Hands the connections out, and ends the sessions of servers that were changed or deleted,
    here or in another process."""

    def __init__(self, connections: McpConnections, queries: McpServerQueries) -> None:
        self.connections = connections
        self.queries = queries
        self.checks = LimitedProcesses(check_tools.__module__)
        self.known: dict[str, tuple[str, int]] = {}
        self.unseen = False
        self.looking: asyncio.Task[None] | None = None

    def connections_for(self, config: McpServerConfig) -> McpConnections:
        """The connections, noting that one to this server may be opened. A caller that only tries a
        described server ends its connection itself."""
        if config.id.startswith(f"{KIND}-"):
            self.known[config.id] = (config.org, config.version)
        return self.connections

    async def check(self, tools: list[OfferedTool], org: str) -> list[OfferedTool]:
        """The tools, each with why it cannot be used, if so. Raises McpFailed where that takes too
        long to find out."""
        size = sum(len(tool.description) + len(str(tool.parameters)) for tool in tools)
        if size <= CHECKED_INLINE_CHARS_MAX:
            return check_tools(tools)
        try:
            return await self.checks.run(check_tools, tools, org=org)
        except LimitReached as reached:
            words = f"its tools are too intricate to be checked: {reached}"
            raise McpFailed("too_large", words) from None
        except NoPlace as full:
            raise McpFailed("unreachable", full.reason) from None

    def changed_somewhere(self) -> None:
        """A server was changed or deleted; end its session, if there is one here."""
        self.unseen = True
        if self.known and (self.looking is None or self.looking.done()):
            self.looking = asyncio.create_task(self.look())

    async def look(self) -> None:
        """End the sessions of what is no more as it was. However many are changed while somebody
        looks, one more look follows. What is used since it was asked for is none of its business:
        the answer does not know it."""
        while self.unseen:
            self.unseen = False
            asked = dict(self.known)
            orgs = sorted({org for org, _ in asked.values()})
            with contextlib.suppress(StoreUnavailable):
                versions = await self.queries.versions(orgs, list(asked))
                for server_id, (org, version) in asked.items():
                    newer = server_id not in versions or versions[server_id] > version
                    if newer and self.known.get(server_id) == (org, version):
                        await self.end(server_id)

    async def end(self, server_id: str) -> None:
        """End the session with a server, if there is one."""
        self.known.pop(server_id, None)
        await self.connections.forget(server_id)

    async def close(self) -> None:
        """End all sessions with MCP servers."""
        if self.looking is not None:
            self.looking.cancel()
        self.checks.close()
        await self.connections.close()
