"""From the tools that an MCP server offers to tools in the registry: what is new is added, what is
gone is removed, and what is defined otherwise waits until somebody accepts that."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pydantic_core import to_json

from libs.contracts.deterministic_ids import derived_id
from libs.contracts.storable_text import storable
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS
from libs.contracts.tools.mcp_servers import (
    TOOLS_BYTES_MAX,
    TOOLS_MAX,
    DiscoveryReport,
    KnownMcpTool,
    PendingDefinition,
    UnusableMcpTool,
)
from libs.contracts.tools.tools import tool_name_id
from libs.eventstore.unit_of_work import UnitOfWork
from services.tools.domain.mcp_server import McpServer
from services.tools.domain.mcp_tool import (
    OFFERED_NAME_CHARS_MAX,
    OfferedTool,
    problem_of,
    registry_names,
    tool_of,
    with_definition,
    with_name,
    with_note,
)
from services.tools.domain.name_reservations import ToolName
from services.tools.domain.tool import Tool

UNUSABLE_REPORTED_MAX = 100


async def register_tools(
    work: UnitOfWork, server: McpServer, offered: list[OfferedTool], *, at: datetime
) -> None:
    """Make the registry and the server's state match the tools that a server offers."""
    registration = McpToolRegistration(work, server, at)
    usable = registration.usable(offered)
    names = {tool.name for tool in offered[: TOOLS_MAX * 2]}
    for name in sorted(server.state.tools.keys() - names):
        await registration.remove(name)
    for tool in usable:
        await registration.follow(tool)
    registration.finish()


class McpToolRegistration:
    """The changes to the tools of a server in one decision."""

    def __init__(self, work: UnitOfWork, server: McpServer, at: datetime) -> None:
        self.work = work
        self.server = server
        self.at = at
        self.changed: dict[str, KnownMcpTool] = {}
        self.removed: list[str] = []
        self.deleted: list[str] = []
        self.updated: list[str] = []
        self.added: list[str] = []
        self.unusable: list[UnusableMcpTool] = []

    def usable(self, offered: list[OfferedTool]) -> list[OfferedTool]:
        """Those of which tools can be made; why the others are not is noted."""
        found: dict[str, OfferedTool] = {}
        total = 0
        for number, tool in enumerate(offered):
            problem = problem_of(tool)
            total += 0 if problem else len(to_json([tool.name, tool.description, tool.parameters]))
            if tool.name in found:
                self.note_unusable(tool.name, "the server lists this name twice")
            elif problem:
                self.reject(tool, problem)
            elif number >= TOOLS_MAX or len(found) >= TOOLS_MAX:
                self.reject(tool, f"a server may bring {TOOLS_MAX} tools, and it lists more")
            elif total > TOOLS_BYTES_MAX:
                self.reject(tool, f"its server's tools have more than {TOOLS_BYTES_MAX} bytes")
            else:
                found[tool.name] = tool
        return list(found.values())

    def reject(self, offered: OfferedTool, problem: str) -> None:
        """Have no tool of this; one that there is already is not called until it is mended."""
        self.note_unusable(offered.name, problem)
        known = self.server.state.tools.get(offered.name)
        if known is not None and (known.pending is None or known.pending.problem != problem):
            pending = PendingDefinition(digest="", since=self.at, problem=problem)
            self.changed[offered.name] = known.model_copy(update={"pending": pending})

    def note_unusable(self, name: str, reason: str) -> None:
        """Report what cannot be used."""
        if len(self.unusable) < UNUSABLE_REPORTED_MAX:
            shown = storable(name)[:OFFERED_NAME_CHARS_MAX]
            self.unusable.append(UnusableMcpTool(name=shown, reason=reason))

    async def remove(self, name: str) -> None:
        """Have a tool no more that the server does not offer any more."""
        known = self.server.state.tools[name]
        await delete_tool(self.work, known.tool_id, at=self.at)
        self.removed.append(name)
        self.deleted.append(name)

    async def follow(self, offered: OfferedTool) -> None:
        """Add a tool, or compare what there is with what is offered."""
        known = self.server.state.tools.get(offered.name)
        tool = await self.work.load(Tool, known.tool_id) if known else None
        if known is None or tool is None or tool.present is None:
            await self.add(offered)
            return
        if tool.present.name in SERVER_TOOLS:
            known = await self.rename(offered, known, tool)
        if offered.digest == known.accepted:
            self.settle(offered, known, tool)
        elif self.accepts(offered, known):
            tool.become(with_definition(tool.present, offered), at=self.at)
            fields = {"accepted": offered.digest, "pending": None}
            self.changed[offered.name] = known.model_copy(update=fields)
            self.updated.append(offered.name)
        else:
            self.wait(offered, known, tool)

    def accepts(self, offered: OfferedTool, known: KnownMcpTool) -> bool:
        """Whether somebody accepts this definition: the one that they were shown."""
        shown = known.pending is not None and known.pending.digest == offered.digest
        return shown and offered.name in self.server.state.accepted

    def settle(self, offered: OfferedTool, known: KnownMcpTool, tool: Tool) -> None:
        """Know that a tool is defined as it was accepted."""
        if known.pending is None or tool.present is None:
            return
        tool.become(with_note(tool.present, ""), at=self.at)
        self.changed[offered.name] = known.model_copy(update={"pending": None})

    def wait(self, offered: OfferedTool, known: KnownMcpTool, tool: Tool) -> None:
        """Keep a tool as it was accepted, and not have it called before the new definition is."""
        if known.pending is not None and known.pending.digest == offered.digest:
            return
        assert tool.present is not None, "a tool that is gone is added anew"
        what = "schema" if offered.description == tool.present.description else "description"
        tool.become(with_note(tool.present, f"its {what} has changed"), at=self.at)
        pending = PendingDefinition(
            digest=offered.digest,
            description=offered.description,
            parameters=offered.parameters,
            since=self.at,
        )
        self.changed[offered.name] = known.model_copy(update={"pending": pending})
        self.updated.append(offered.name)

    async def add(self, offered: OfferedTool) -> None:
        """Make a tool, under a name that nobody else has."""
        state, work = self.server.state, self.work
        tool_id = derived_id("tool", self.server.id, offered.name, str(state.number))
        name = await self.take_name(offered, tool_id)
        if name is None:
            return
        tool = await work.load(Tool, tool_id)
        made = tool_of(
            offered,
            tool_id=tool_id,
            name=name,
            server_id=self.server.id,
            server_name=state.name,
        )
        refused = tool.create(made, at=self.at)
        assert refused is None, refused
        self.changed[offered.name] = KnownMcpTool(
            tool_id=tool_id, name=name, accepted=offered.digest
        )
        self.added.append(offered.name)

    async def rename(self, offered: OfferedTool, known: KnownMcpTool, tool: Tool) -> KnownMcpTool:
        """Take from a tool the name of one that comes with the server, which versions before this
        one gave it; returns what is known of it then. It keeps the name, and is not called, where
        no other is free."""
        assert tool.present is not None, "a tool that is gone is added anew"
        before = tool.present.name
        name = await self.take_name(offered, tool.id)
        if name is None:
            return known
        guard = await self.work.load(ToolName, tool_name_id(self.work.context.org, before))
        guard.free(tool.id, at=self.at)
        tool.become(with_name(tool.present, name), at=self.at)
        self.updated.append(offered.name)
        renamed = known.model_copy(update={"name": name})
        self.changed[offered.name] = renamed
        return renamed

    async def take_name(self, offered: OfferedTool, tool_id: str) -> str | None:
        """Take the first name that is free for a tool; None if none is, which is noted."""
        names = registry_names(self.server.state.name, offered.name)
        for name in names:
            guard = await self.work.load(ToolName, tool_name_id(self.work.context.org, name))
            if name not in SERVER_TOOLS and guard.take(tool_id, at=self.at):
                return name
        taken = " and ".join(f"'{name}'" for name in names)
        self.note_unusable(offered.name, f"tools have these names already: {taken}")
        return None

    def finish(self) -> None:
        """Record what this discovery has found."""
        after = {**self.server.state.tools, **self.changed}
        waiting = [key for key, tool in after.items() if tool.pending and key not in self.removed]
        report = DiscoveryReport(
            deleted=self.deleted,
            updated=self.updated,
            added=self.added,
            needs_approval=sorted(waiting),
            unusable=self.unusable,
        )
        self.server.record_discovery(self.changed, self.removed, report, at=self.at)


async def delete_tool(work: UnitOfWork, tool_id: str, *, at: datetime) -> None:
    """Remove a tool of a server from the registry, and free its name; nothing happens if it is
    gone."""
    tool = await work.load(Tool, tool_id)
    if tool.present is None:
        return
    name = tool.present.name
    guard = await work.load(ToolName, tool_name_id(work.context.org, name))
    tool.delete(at=at)
    guard.free(tool_id, at=at)


async def delete_tools(work: UnitOfWork, tool_ids: Iterable[str], *, at: datetime) -> None:
    """Remove all tools of a server."""
    for tool_id in tool_ids:
        await delete_tool(work, tool_id, at=at)
