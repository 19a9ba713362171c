"""Commands about MCP servers: load, decide, save, reply; what they offer is discovered then."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Clock
from libs.contracts.bus_messages import (
    BUSY,
    CONFLICT,
    INVALID,
    UNPROCESSABLE,
    Accepted,
    Command,
    Rejected,
)
from libs.contracts.tools.mcp_authorizations import AnswerMcpAuthorization
from libs.contracts.tools.mcp_servers import (
    AskMcpServer,
    CreateMcpServer,
    DeleteMcpServer,
    ListMcpTools,
    McpConfigChanges,
    RefreshMcpServer,
    SealedMcpConfig,
    UpdateMcpServer,
    mcp_server_name_id,
)
from libs.encryption.sealer import CannotOpen
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.work_lease import DueWork
from services.tools.adapters.mcp.ports import McpFailed, McpServerConfig
from services.tools.domain.mcp_authorization import McpAuthorization
from services.tools.domain.mcp_server import (
    McpServer,
    dropped_credentials,
    missing,
    same_program,
)
from services.tools.domain.mcp_tool import with_server_name, with_server_version
from services.tools.domain.name_reservations import McpServerName
from services.tools.domain.tool import Tool
from services.tools.engine.mcp_config_secrets import open_config
from services.tools.engine.mcp_discoveries import McpDiscoveries, config_of
from services.tools.engine.mcp_listings import McpListings
from services.tools.engine.mcp_tool_registration import delete_tools


class McpServerHandlers:
    """The handlers of commands to MCP servers."""

    def __init__(self, discoveries: McpDiscoveries, listings: McpListings, clock: Clock) -> None:
        self.discoveries = discoveries
        self.listings = listings
        self.ports = discoveries.ports
        self.clock = clock
        self.ending: set[asyncio.Task[None]] = set()

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            CreateMcpServer: self.create,
            UpdateMcpServer: self.update,
            DeleteMcpServer: self.delete,
            RefreshMcpServer: self.refresh,
            ListMcpTools: self.list_tools,
            AskMcpServer: self.ask,
            AnswerMcpAuthorization: self.answer_authorization,
        }

    async def create(self, command: CreateMcpServer, work: UnitOfWork) -> Accepted | Rejected:
        """Add a server that may be connected to."""
        server = await work.load_new(McpServer, command.server_id)
        name = await self.name(command.name, work)
        at = self.clock.now()
        refused = (
            self.unconnectable(command.config, command.server_id, command.name, work)
            or server.create(command.name, command.config, declared=command.declared, at=at)
            or take(name, command.name, server.id, at=at)
        )
        if refused:
            return refused
        self.discover(server.id, work)
        return Accepted()

    async def update(self, command: UpdateMcpServer, work: UnitOfWork) -> Accepted | Rejected:
        """Change a server; its tools follow its name at once, and its address by a discovery. The
        result says which credentials belonged to an old address and are `dropped`."""
        server = await work.load(McpServer, command.server_id)
        before = server.present
        if before is None or before.config is None:
            return missing(command.server_id)
        moves = self.moves(before.config, command.changes)
        config = server.with_changes(command.changes, moves=moves)
        if isinstance(config, Rejected):
            return config
        dropped = dropped_credentials(before.config, config) if moves else []
        elsewhere = moves or not same_program(before.config, config)
        name, old_name, version = command.name or before.name, before.name, before.version
        refused = None
        if config != before.config:
            refused = self.unconnectable(config, server.id, name, work)
        refused = (
            refused
            or await self.rename(server, name, work)
            or server.change(name, config, at=self.clock.now())
        )
        if refused:
            return refused
        if name != old_name:
            await self.rename_tools(server, old_name, name, work)
        if elsewhere:
            await self.revise_tools(server, work)
        if server.state.version != version:
            self.discover(server.id, work)
        return Accepted(result={"dropped": [*dropped]} if dropped else {})

    def moves(self, config: SealedMcpConfig, changes: McpConfigChanges | None) -> bool:
        """Whether a change leads to another address; what cannot be opened is another one."""
        if changes is None or changes.url is None:
            return False
        try:
            before, after = (
                self.ports.sealer.open(fields.secret_url) if fields.secret_url else fields.url
                for fields in (config, changes)
            )
        except CannotOpen:
            return True
        return before != after

    async def rename(self, server: McpServer, name: str, work: UnitOfWork) -> Rejected | None:
        """Take the new name of a server, if it has one, and free the old one."""
        before = server.state.name
        if name == before:
            return None
        taken = take(await self.name(name, work), name, server.id, at=self.clock.now())
        if taken is None:
            (await self.name(before, work)).free(server.id, at=self.clock.now())
        return taken

    async def rename_tools(
        self, server: McpServer, before: str, after: str, work: UnitOfWork
    ) -> None:
        """Have the tools of a server say what it is called now; their own names stay."""
        for known in server.state.tools.values():
            tool = await work.load(Tool, known.tool_id)
            if tool.present is not None:
                tool.become(with_server_name(tool.present, before, after), at=self.clock.now())

    async def revise_tools(self, server: McpServer, work: UnitOfWork) -> None:
        """Have the tools of a server that is somewhere else now be others than those that people
        have approved calls of."""
        for known in server.state.tools.values():
            tool = await work.load(Tool, known.tool_id)
            if tool.present is not None:
                revised = with_server_version(tool.present, server.state.version)
                tool.become(revised, at=self.clock.now())

    async def delete(self, command: DeleteMcpServer, work: UnitOfWork) -> Accepted | Rejected:
        """Remove a server and its tools."""
        server = await work.load(McpServer, command.server_id)
        state = server.present
        if state is None:
            return missing(command.server_id)
        at = self.clock.now()
        await delete_tools(work, [tool.tool_id for tool in state.tools.values()], at=at)
        (await self.name(state.name, work)).free(server.id, at=at)
        server.delete(at=at)
        self.end_session(server.id, work)
        return Accepted()

    async def refresh(self, command: RefreshMcpServer, work: UnitOfWork) -> Accepted | Rejected:
        """Have the tools of a server discovered once more."""
        server = await work.load(McpServer, command.server_id)
        refused = server.request_discovery(command.accepted, at=self.clock.now())
        if refused:
            return refused
        self.discover(server.id, work)
        return Accepted(result={"number": server.state.number})

    async def list_tools(self, command: ListMcpTools, work: UnitOfWork) -> Accepted | Rejected:
        """Ask a server for its tools."""
        if not self.listings.has_room(work.context.org):
            return Rejected(code=BUSY, reason="Too many MCP servers are asked: try again")
        config = await self.server_to_list(command, work)
        if isinstance(config, Rejected):
            return config
        context = work.context
        come_back = command.redirect_uri if command.config is None else ""
        work.after_commit.append(
            lambda _: self.listings.begin(
                command.listing_id, config, context, redirect_uri=come_back
            )
        )
        return Accepted()

    async def server_to_list(
        self, command: ListMcpTools, work: UnitOfWork
    ) -> McpServerConfig | Rejected:
        """The configuration of the server whose tools a client wants listed, or the refusal."""
        try:
            if command.config is not None:
                return open_config(
                    self.ports.sealer,
                    command.config,
                    server_id=command.listing_id,
                    org=work.context.org,
                    name=command.name,
                    version=1,
                )
        except McpFailed as failure:
            return Rejected(code=INVALID, reason=failure.words)
        return await self.known_server(command.server_id, work)

    async def known_server(self, server_id: str, work: UnitOfWork) -> McpServerConfig | Rejected:
        """The configuration of a registered server with its secrets open, or the refusal."""
        state = (await work.load(McpServer, server_id)).present
        if state is None:
            return missing(server_id)
        try:
            return config_of(self.ports.sealer, server_id, work.context.org, state)
        except McpFailed as failure:
            return Rejected(code=INVALID, reason=failure.words)

    async def ask(self, command: AskMcpServer, work: UnitOfWork) -> Accepted | Rejected:
        """Ask a server what else it offers, or how it is."""
        if not self.listings.has_room(work.context.org):
            return Rejected(code=BUSY, reason="Too many MCP servers are asked: try again")
        config = await self.known_server(command.server_id, work)
        if isinstance(config, Rejected):
            return config
        listing_id, context = command.listing_id, work.context
        work.after_commit.append(
            lambda _: self.listings.begin(listing_id, config, context, command)
        )
        return Accepted()

    async def answer_authorization(
        self, command: AnswerMcpAuthorization, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Keep what a person's browser brought back; whoever asked them looks for it."""
        asked = await work.load(McpAuthorization, command.authorization_id)
        return asked.answer(command, at=self.clock.now()) or Accepted()

    def unconnectable(
        self, config: SealedMcpConfig, server_id: str, name: str, work: UnitOfWork
    ) -> Rejected | None:
        """The refusal of a server that may not be connected to."""
        try:
            whole = open_config(
                self.ports.sealer,
                config,
                server_id=server_id,
                org=work.context.org,
                name=name,
                version=1,
            )
        except McpFailed as failure:
            return Rejected(code=INVALID, reason=failure.words)
        refused = self.ports.sessions.connections.refusal_of(whole)
        return Rejected(code=UNPROCESSABLE, reason=refused) if refused else None

    def discover(self, server_id: str, work: UnitOfWork) -> None:
        """Begin to discover when the decision is durable, if there is room; the sweeper does it
        otherwise."""
        self.discoveries.begin_after_commit(DueWork(server_id, work.context.org), work)

    def end_session(self, server_id: str, work: UnitOfWork) -> None:
        """End the session with a server when the decision is durable."""

        def end(_: int | None) -> None:
            task = asyncio.create_task(self.ports.sessions.end(server_id))
            self.ending.add(task)
            task.add_done_callback(self.ending.discard)

        work.after_commit.append(end)

    async def name(self, name: str, work: UnitOfWork) -> McpServerName:
        """The aggregate that guards a name in the organisation that a command came from."""
        return await work.load(McpServerName, mcp_server_name_id(work.context.org, name))


def take(guard: McpServerName, name: str, server_id: str, *, at: datetime) -> Rejected | None:
    """Take a name for a server; the refusal if another one has it."""
    if guard.take(server_id, at=at):
        return None
    reason = (
        f"An MCP server with the name '{name}' exists already: choose another name, or"
        f" change {guard.owner_id}"
    )
    return Rejected(code=CONFLICT, reason=reason)
