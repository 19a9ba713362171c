"""Commands about the tools that clients make: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Clock
from libs.contracts.bus_messages import Accepted, Command, JsonObject, Rejected
from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.tools import (
    CreateTool,
    DeleteTool,
    DeriveToolSchema,
    UpdateTool,
    tool_name_id,
)
from libs.eventstore.unit_of_work import UnitOfWork
from services.tools.adapters.tool_counts import ToolCounts
from services.tools.adapters.tool_sources import ToolSources
from services.tools.domain.name_reservations import ToolName, refuse_reserved, refuse_taken
from services.tools.domain.organisation_tool_quota import no_room
from services.tools.domain.tool import Tool, missing


class ToolHandlers:
    """The handlers of commands to tools."""

    def __init__(self, clock: Clock, counts: ToolCounts, locks: AggregateLocks) -> None:
        self.clock = clock
        self.counts = counts
        self.locks = locks
        self.sources = ToolSources()

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            CreateTool: self.create_tool,
            UpdateTool: self.update_tool,
            DeleteTool: self.delete_tool,
            DeriveToolSchema: self.derive_tool_schema,
        }

    async def create_tool(self, command: CreateTool, work: UnitOfWork) -> Accepted | Rejected:
        """Make a tool, or give the one of its name what is said of it now."""
        wanted = await self.sources.complete(command.tool, work.context.org)
        if isinstance(wanted, Rejected):
            return wanted
        if refused := refuse_reserved(wanted.name):
            return refused
        name = await self.name(wanted.name, work)
        if name.owner_id is not None:
            if await self.is_a_servers(name.owner_id, work):
                return refuse_taken(wanted.name)
            fields = command.tool.model_dump(mode="json")
            changes = {field: fields[field] for field in command.given if field in fields}
            refused = await self.change(name.owner_id, changes, work)
            return refused or Accepted(result={"tool_id": name.owner_id})
        # Those that are made in the same moment are counted one after the other.
        await work.hold(self.locks.hold(f"tools of {work.context.org}"))
        full = no_room(await self.counts.tools_of(work.context.org))
        if full:
            return full
        tool = await work.load_new(Tool, wanted.id)
        by = {"created_by_id": work.context.actor, "last_updated_by_id": work.context.actor}
        refused = tool.create(wanted.model_copy(update=by), at=self.clock.now())
        if not refused and not name.take(tool.id, at=self.clock.now()):
            refused = refuse_taken(wanted.name)
        return refused or Accepted(result={"tool_id": tool.id})

    async def is_a_servers(self, tool_id: str, work: UnitOfWork) -> bool:
        """Whether a tool is that of an MCP server, which alone defines it."""
        tool = (await work.load(Tool, tool_id)).present
        return tool is not None and tool.tool_type is ToolType.external_mcp

    async def update_tool(self, command: UpdateTool, work: UnitOfWork) -> Accepted | Rejected:
        """Change the given fields of a tool."""
        return await self.change(command.tool_id, command.changes, work) or Accepted()

    async def change(self, tool_id: str, changes: JsonObject, work: UnitOfWork) -> Rejected | None:
        """Change fields of a tool, and its name if that follows."""
        tool = await work.load(Tool, tool_id)
        before = tool.present
        after = await self.sources.change(tool.id, before, changes, work.context.org)
        if before is None or isinstance(after, Rejected):
            return missing(tool_id) if isinstance(after, ToolState) else after
        refused = await self.rename(before, after, work)
        after = after.model_copy(update={"last_updated_by_id": work.context.actor})
        return refused or tool.become(after, at=self.clock.now())

    async def rename(
        self, before: ToolState, after: ToolState, work: UnitOfWork
    ) -> Rejected | None:
        """Take the new name of a tool, if it has one, and free the old one."""
        if before.name == after.name:
            return None
        new = await self.name(after.name, work)
        if refused := refuse_reserved(after.name):
            return refused
        if not new.take(after.id, at=self.clock.now()):
            return refuse_taken(after.name)
        old = await self.name(before.name, work)
        old.free(before.id, at=self.clock.now())
        return None

    async def delete_tool(self, command: DeleteTool, work: UnitOfWork) -> Accepted | Rejected:
        """Remove a tool and free its name."""
        tool = await work.load(Tool, command.tool_id)
        gone = tool.present
        refused = tool.delete(at=self.clock.now())
        if gone is not None:
            name = await self.name(gone.name, work)
            name.free(gone.id, at=self.clock.now())
        return refused or Accepted()

    async def derive_tool_schema(
        self, command: DeriveToolSchema, work: UnitOfWork
    ) -> Accepted | Rejected:
        """The schema that a tool of this source would have is the result."""
        given = ToolState(id=command.asker, source_code=command.source_code)
        wanted = await self.sources.complete(given, work.context.org)
        if isinstance(wanted, Rejected):
            return wanted
        assert wanted.json_schema is not None, "a tool that is complete has a schema"
        return Accepted(result=wanted.json_schema)

    async def name(self, name: str, work: UnitOfWork) -> ToolName:
        """The aggregate that guards a name in the organisation that a command came from."""
        return await work.load(ToolName, tool_name_id(work.context.org, name))
