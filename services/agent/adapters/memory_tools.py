"""The tools of the memory service: edits of blocks and what is done with passages, each a command
to it."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel

from libs.bus.ports import Bus, Clock
from libs.contracts.bus_messages import Accepted, Command
from libs.contracts.memory.blocks import (
    Cause,
    Edit,
    EditBlock,
    InsertText,
    ReplaceText,
    RewriteBlock,
)
from services.agent.adapters.all_queries import Queries
from services.agent.adapters.archival_memory_tools import ArchivalMemoryTools
from services.agent.adapters.block_commands import BlockCommands, block_named, cause_of, no_block
from services.agent.adapters.block_file_tools import BlockFileTools
from services.agent.adapters.block_operations import BlockOperations, Text
from services.agent.adapters.file_tools import FileTools
from services.agent.adapters.tool_owner_port import Calling, Runner, error
from services.agent.adapters.voice_memory_tools import VoiceMemoryTools
from services.agent.domain.runs.step_results import ToolResult
from services.agent.domain.tools.custom_tools import HeldTool

# The block that the older agents for voice keep about the user.
USER_LABEL = "human"


class MemoryReplace(BaseModel):
    """Arguments of `memory_replace`."""

    label: str
    old_string: Text
    new_string: Text


class MemoryInsert(BaseModel):
    """Arguments of `memory_insert`."""

    label: str
    new_string: Text
    insert_line: int = -1


class CoreMemoryAppend(BaseModel):
    """Arguments of `core_memory_append`."""

    label: str
    content: Text


class CoreMemoryReplace(BaseModel):
    """Arguments of `core_memory_replace`."""

    label: str
    old_content: Text
    new_content: Text


class MemoryRethink(BaseModel):
    """Arguments of `memory_rethink`."""

    label: str
    new_memory: Text


class RethinkMemory(BaseModel):
    """Arguments of `rethink_memory`."""

    target_block_label: str
    new_memory: Text


class RethinkUserMemory(BaseModel):
    """Arguments of `rethink_user_memory`."""

    new_memory: Text


class MemoryTools:
    """Keeps the contract of `ToolOwner`."""

    def __init__(self, bus: Bus, queries: Queries, clock: Clock) -> None:
        self.commands = BlockCommands(bus, queries)
        files = BlockFileTools(self.commands)
        self.runners: dict[str, Runner] = {
            "memory_replace": self.memory_replace,
            "memory_insert": self.memory_insert,
            "core_memory_append": self.core_memory_append,
            "core_memory_replace": self.core_memory_replace,
            "memory_rethink": self.memory_rethink,
            "rethink_memory": self.rethink_memory,
            "rethink_user_memory": self.rethink_user_memory,
            "memory_finish_edits": self.finish,
            "finish_rethinking_memory": self.finish,
            "memory": files.memory,
            "memory_apply_patch": files.memory_apply_patch,
            **ArchivalMemoryTools(bus, clock).runners,
            **VoiceMemoryTools(bus, queries, clock).runners,
            **FileTools(bus, queries).runners,
        }

    def runner(self, tool: HeldTool) -> Runner | None:
        """The function that carries out calls of a tool; None if memory cannot yet."""
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
        """Add lines to the end of a memory block, which is made if it is not there."""
        wanted = CoreMemoryAppend.model_validate_json(calling.call.arguments)
        return await BlockOperations(self.commands, calling).append(wanted.label, wanted.content)

    async def core_memory_replace(self, calling: Calling) -> ToolResult:
        """Replace a text in a memory block, wherever it stands."""
        wanted = CoreMemoryReplace.model_validate_json(calling.call.arguments)
        edit = ReplaceText(old_text=wanted.old_content, new_text=wanted.new_content, every=True)
        return await self.edit(calling, wanted.label, edit)

    async def memory_rethink(self, calling: Calling) -> ToolResult:
        """Give a memory block another value."""
        wanted = MemoryRethink.model_validate_json(calling.call.arguments)
        return await self.rewrite(calling, wanted.label, wanted.new_memory)

    async def rethink_memory(self, calling: Calling) -> ToolResult:
        """The same, by the older name."""
        wanted = RethinkMemory.model_validate_json(calling.call.arguments)
        return await self.rewrite(calling, wanted.target_block_label, wanted.new_memory)

    async def rethink_user_memory(self, calling: Calling) -> ToolResult:
        """Give the block about the user another value; it is made if it is not there."""
        wanted = RethinkUserMemory.model_validate_json(calling.call.arguments)
        return await BlockOperations(self.commands, calling).rewrite(USER_LABEL, wanted.new_memory)

    async def finish(self, calling: Calling) -> ToolResult:
        """Say that nothing is left to do: a rule about this tool ends the run."""
        return ToolResult("success", "The memory is up to date.")

    async def edit(self, calling: Calling, label: str, edit: Edit) -> ToolResult:
        """Ask the memory service to edit a block."""
        return await self.send(
            calling,
            label,
            lambda block_id, cause: EditBlock(block_id=block_id, edit=edit, cause=cause),
        )

    async def rewrite(self, calling: Calling, label: str, value: str) -> ToolResult:
        """Ask the memory service to replace a block's value."""
        return await self.send(
            calling,
            label,
            lambda block_id, cause: RewriteBlock(block_id=block_id, value=value, cause=cause),
        )

    async def send(
        self, calling: Calling, label: str, command: Callable[[str, Cause], Command]
    ) -> ToolResult:
        """Send a command about a block to the memory service; the same call is the same command."""
        by_label = await self.commands.by_label(calling)
        block_id = block_named(label, by_label)
        if block_id is None:
            return error(no_block(label, by_label))
        reply = await self.commands.send(calling, command(block_id, cause_of(calling)))
        if isinstance(reply, Accepted):
            return ToolResult("success", str(reply.result["value"]))
        return error(reply.reason)
