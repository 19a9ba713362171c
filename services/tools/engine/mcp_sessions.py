"""Which MCP servers may have a session in this process, and the end of those that are changed."""

from __future__ import annotations

import asyncio
import contextlib

from libs.eventstore.ports import StoreUnavailable
from services.tools.adapters.mcp.ports import McpConnections, McpServerConfig
from services.tools.adapters.mcp_server_queries import McpServerQueries


class McpSessions:
    """Hands the connections out, and ends the sessions of servers that were changed or deleted,
    here or in another process."""

    def __init__(self, connections: McpConnections, queries: McpServerQueries) -> None:
        self.connections = connections
        self.queries = queries
        self.known: dict[str, tuple[str, int]] = {}
        self.unseen = False
        self.looking: asyncio.Task[None] | None = None

    def used(self, config: McpServerConfig) -> McpConnections:
        """The connections, of which one to this server may be open from now on."""
        self.known[config.id] = (config.org, config.version)
        return self.connections

    def changed_somewhere(self) -> None:
        """A server was changed or deleted; end its session, if there is one here."""
        self.unseen = True
        if self.known and (self.looking is None or self.looking.done()):
            self.looking = asyncio.create_task(self.look())

    async def look(self) -> None:
        """End the sessions of what is no more as it was. However many are changed while somebody
        looks, one more look follows."""
        while self.unseen:
            self.unseen = False
            orgs = sorted({org for org, _ in self.known.values()})
            with contextlib.suppress(StoreUnavailable):
                versions = await self.queries.versions(orgs, list(self.known))
                for server_id, (_, version) in list(self.known.items()):
                    if versions.get(server_id, 0) > version or server_id not in versions:
                        await self.end(server_id)

    async def end(self, server_id: str) -> None:
        """End the session with a server, if there is one."""
        self.known.pop(server_id, None)
        await self.connections.forget(server_id)

    async def close(self) -> None:
        """End all sessions."""
        if self.looking is not None:
            self.looking.cancel()
        await self.connections.close()
