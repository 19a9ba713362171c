"""The tools of the memory service: edits of blocks, each a command to it."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel

from libs.bus.ports import Bus, request_as_service
from libs.contracts.bus_messages import Accepted, Command
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory import (
    Cause,
    Edit,
    EditBlock,
    InsertText,
    ReplaceText,
    RewriteBlock,
)
from libs.contracts.prompt_escaping import unquoted
from libs.eventstore import failpoints
from services.agent.adapters.block_queries import BlockQueries
from services.agent.adapters.tool_owner_port import Calling, Runner, error
from services.agent.domain.active_run import ToolResult
from services.agent.domain.tools.definition import BaseTool


class MemoryReplace(BaseModel):
    """Arguments of `memory_replace`."""

    label: str
    old_string: str
    new_string: str


class MemoryInsert(BaseModel):
    """Arguments of `memory_insert`."""

    label: str
    new_string: str
    insert_line: int = -1


class CoreMemoryAppend(BaseModel):
    """Arguments of `core_memory_append`."""

    label: str
    content: str


class CoreMemoryReplace(BaseModel):
    """Arguments of `core_memory_replace`."""

    label: str
    old_content: str
    new_content: str


class MemoryRethink(BaseModel):
    """Arguments of `memory_rethink`."""

    label: str
    new_memory: str


class RethinkMemory(BaseModel):
    """Arguments of `rethink_memory`."""

    target_block_label: str
    new_memory: str


class MemoryTools:
    """Keeps the contract of `ToolOwner`."""

    def __init__(self, bus: Bus, queries: BlockQueries) -> None:
        self.bus = bus
        self.queries = queries
        self.runners: dict[str, Runner] = {
            "memory_replace": self.memory_replace,
            "memory_insert": self.memory_insert,
            "core_memory_append": self.core_memory_append,
            "core_memory_replace": self.core_memory_replace,
            "memory_rethink": self.memory_rethink,
            "rethink_memory": self.rethink_memory,
            "memory_finish_edits": self.memory_finish_edits,
        }

    def runner(self, tool: BaseTool) -> Runner | None:
        """What carries out calls of a tool; None if memory cannot yet."""
        return self.runners.get(tool.name)

    async def memory_replace(self, calling: Calling) -> ToolResult:
        """Replace a text in a memory block."""
        wanted = MemoryReplace.model_validate_json(calling.call.arguments)
        edit = ReplaceText(old_text=wanted.old_string, new_text=wanted.new_string)
        return await self.edit(calling, wanted.label, edit)

    async def memory_insert(self, calling: Calling) -> ToolResult:
        """Insert lines into a memory block."""
        wanted = MemoryInsert.model_validate_json(calling.call.arguments)
        edit = InsertText(new_text=wanted.new_string, after_line=wanted.insert_line)
        return await self.edit(calling, wanted.label, edit)

    async def core_memory_append(self, calling: Calling) -> ToolResult:
        """Add lines to the end of a memory block."""
        wanted = CoreMemoryAppend.model_validate_json(calling.call.arguments)
        return await self.edit(calling, wanted.label, InsertText(new_text=wanted.content))

    async def core_memory_replace(self, calling: Calling) -> ToolResult:
        """Replace a text in a memory block."""
        wanted = CoreMemoryReplace.model_validate_json(calling.call.arguments)
        edit = ReplaceText(old_text=wanted.old_content, new_text=wanted.new_content)
        return await self.edit(calling, wanted.label, edit)

    async def memory_rethink(self, calling: Calling) -> ToolResult:
        """Give a memory block another value."""
        wanted = MemoryRethink.model_validate_json(calling.call.arguments)
        return await self.rewrite(calling, wanted.label, wanted.new_memory)

    async def rethink_memory(self, calling: Calling) -> ToolResult:
        """The same, by the older name."""
        wanted = RethinkMemory.model_validate_json(calling.call.arguments)
        return await self.rewrite(calling, wanted.target_block_label, wanted.new_memory)

    async def memory_finish_edits(self, calling: Calling) -> ToolResult:
        """Say that nothing is left to do: a rule about this tool ends the run."""
        return ToolResult("success", "The memory is up to date.")

    async def edit(self, calling: Calling, label: str, edit: Edit) -> ToolResult:
        """Have a block edited."""
        return await self.sent(
            calling,
            label,
            lambda block_id, cause: EditBlock(block_id=block_id, edit=edit, cause=cause),
        )

    async def rewrite(self, calling: Calling, label: str, value: str) -> ToolResult:
        """Have a block rewritten."""
        return await self.sent(
            calling,
            label,
            lambda block_id, cause: RewriteBlock(block_id=block_id, value=value, cause=cause),
        )

    async def sent(
        self, calling: Calling, label: str, command: Callable[[str, Cause], Command]
    ) -> ToolResult:
        """Send a command about a block to the memory service; the same call is the same command."""
        labels = await self.queries.labels(calling.context.org, calling.design.block_ids)
        # Two blocks may get one label in the same moment (ADR 20): the one attached first counts.
        order = [one for one in calling.design.block_ids if one in labels]
        by_label = {labels[one]: one for one in reversed(order)}
        block_id = by_label.get(label) or by_label.get(unquoted(label))
        if block_id is None:
            known = ", ".join(sorted(labels.values())) or "none"
            return error(f"You have no memory block labelled '{label}'. Yours are: {known}")
        cause = Cause(
            agent_id=calling.design.config.id,
            run_id=calling.run_id,
            tool_call_id=calling.call.id,
            tool=calling.call.name,
        )
        command_id = derived_id("cmd", calling.step_id, calling.call.id)
        failpoints.reached("during_tool")
        reply = await request_as_service(
            self.bus,
            command(block_id, cause),
            calling.context.caused(command_id),
        )
        if isinstance(reply, Accepted):
            return ToolResult("success", str(reply.result["value"]))
        return error(reply.reason)
