"""Have the MCP servers that the configuration declares, and no others that it once did."""

from __future__ import annotations

import logging

from libs.bus.ports import request_as_service
from libs.contracts.bus_messages import DEFAULT_ORG, Command, Context, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.tools.mcp_servers import (
    CreateMcpServer,
    DeleteMcpServer,
    McpConfigChanges,
    SealedMcpConfig,
    UpdateMcpServer,
    sealed_fields,
)
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig
from services.tools.adapters.mcp_servers_file import DeclaredMcpServer, McpDeclarations
from services.tools.domain.mcp_server import McpServer
from services.tools.engine.mcp_config_secrets import open_config
from services.tools.engine.mcp_discoveries import McpPorts, config_of

log = logging.getLogger(__name__)

# How often a declared server may be deleted by its users and be declared again.
GENERATIONS_MAX = 100


class DeclaredMcpServers:
    """Applies what is declared, once each time that the service starts."""

    def __init__(self, ports: McpPorts, declared: McpDeclarations) -> None:
        self.ports = ports
        self.declared = declared
        self.applied = not declared.given

    async def apply(self) -> None:
        """Make the servers as they are declared, if that was not done yet. What is as declared
        stays untouched."""
        if self.applied:
            return
        stay: set[str] = set()
        for name, server in self.declared.servers.items():
            stay.add(await self.have(name, server))
        for server_id in await self.ports.queries.declared_servers(DEFAULT_ORG):
            if server_id not in stay:
                await self.send(DeleteMcpServer(server_id=server_id))
        self.applied = True

    async def have(self, name: str, declared: DeclaredMcpServer) -> str:
        """Make one server as it is declared; returns its id."""
        for generation in range(GENERATIONS_MAX):
            server_id = derived_id("mcp_server", DEFAULT_ORG, "declared", name, str(generation))
            server = await self.ports.repository.load(McpServer, server_id, org=DEFAULT_ORG)
            if not server.deleted:
                break
        sealed = self.seal_server(declared)
        if not server.exists:
            command: Command = CreateMcpServer(
                server_id=server_id, name=name, config=sealed, declared=True
            )
            await self.send(command)
        elif not self.same(server, sealed):
            changes = McpConfigChanges.model_validate(
                {
                    **sealed.model_dump(),
                    "headers": sealed.headers or {},
                    "env": sealed.env or {},
                    "sampling": sealed.sampling,
                }
            )
            await self.send(UpdateMcpServer(server_id=server_id, name=name, changes=changes))
        return server_id

    def same(self, server: McpServer, sealed: SealedMcpConfig) -> bool:
        """Whether a server is as declared: a text is sealed otherwise each time."""
        state, sealer = server.present, self.ports.sealer
        assert state is not None, "one that is deleted is not looked at"
        try:
            now = config_of(sealer, server.id, DEFAULT_ORG, state)
            wanted: McpServerConfig = open_config(
                sealer,
                sealed,
                server_id=server.id,
                org=DEFAULT_ORG,
                name=state.name,
                version=state.version,
            )
        except McpFailed:
            return False
        return now == wanted

    def seal_server(self, declared: DeclaredMcpServer) -> SealedMcpConfig:
        """A declared server with its secrets sealed."""
        fields = declared.model_dump(exclude={"transport"}) | {"transport": declared.kind}
        return SealedMcpConfig.model_validate(sealed_fields(self.ports.sealer.seal, fields))

    async def send(self, command: Command) -> None:
        """Have the service do it, whose refusal is the operator's to read."""
        context = Context(self.ports.ids.new("declared"), org=DEFAULT_ORG)
        reply = await request_as_service(self.ports.bus, command, context)
        if isinstance(reply, Rejected):
            log.error("the declared MCP server %s: %s", command.target, reply.reason)
