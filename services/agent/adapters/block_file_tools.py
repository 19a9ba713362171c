"""The tools that treat memory blocks as files: `memory` and `memory_apply_patch`."""

from __future__ import annotations

from pydantic import BaseModel

from libs.contracts.memory.blocks import InsertText, ReplaceText
from services.agent.adapters.block_commands import BlockCommands
from services.agent.adapters.block_operations import BlockOperations, OptionalText
from services.agent.adapters.tool_owner_port import Calling, error
from services.agent.domain.runs.step_results import ToolResult
from services.agent.domain.tools.block_patches import BlockPatch, block_patches

FOLDER = "/memories/"
COMMANDS = ("create", "str_replace", "insert", "delete", "rename")


class Memory(BaseModel):
    """Arguments of `memory`."""

    command: str
    path: str | None = None
    file_text: OptionalText = None
    description: str | None = None
    old_string: OptionalText = None
    new_string: OptionalText = None
    insert_line: int | None = None
    insert_text: OptionalText = None
    old_path: str | None = None
    new_path: str | None = None


class MemoryApplyPatch(BaseModel):
    """Arguments of `memory_apply_patch`."""

    patch: str
    label: str = ""


class BlockFileTools:
    """Carries out calls of both."""

    def __init__(self, commands: BlockCommands) -> None:
        self.commands = commands

    async def memory(self, calling: Calling) -> ToolResult:
        """Make, edit, delete or rename a block."""
        asked = Memory.model_validate_json(calling.call.arguments)
        if asked.command not in COMMANDS:
            return error(f"`command` is '{asked.command}': it is one of {', '.join(COMMANDS)}.")
        changes = BlockOperations(self.commands, calling)
        if asked.command == "rename":
            return await self.rename(changes, asked)
        label = label_of(asked.path)
        if not label:
            return needs(asked, "path")
        match asked.command:
            case "create":
                return await changes.create(label, asked.file_text or "", asked.description)
            case "delete":
                return await changes.delete(label)
            case "insert":
                if asked.insert_text is None:
                    return needs(asked, "insert_text")
                line = -1 if asked.insert_line is None else asked.insert_line
                edit = InsertText(new_text=asked.insert_text, after_line=line)
                return await changes.edit(label, edit)
        if not asked.old_string:
            return needs(asked, "old_string")
        replaced = ReplaceText(old_text=asked.old_string, new_text=asked.new_string or "")
        return await changes.edit(label, replaced)

    async def rename(self, changes: BlockOperations, asked: Memory) -> ToolResult:
        """Give a block another label, by the two paths, or another description."""
        old, new = label_of(asked.old_path or asked.path), label_of(asked.new_path)
        if not old:
            return needs(asked, "old_path" if asked.new_path else "path")
        if not new and asked.description is None:
            return needs(asked, "new_path` or `description")
        return await changes.rename(old, new or None, asked.description)

    async def memory_apply_patch(self, calling: Calling) -> ToolResult:
        """Do what a patch says, block after block; each as a whole or not at all."""
        asked = MemoryApplyPatch.model_validate_json(calling.call.arguments)
        patches = block_patches(label_of(asked.label), asked.patch)
        if isinstance(patches, str):
            return error(patches)
        done: list[str] = []
        result = error("The patch is empty.")
        for number, patch in enumerate(patches):
            result = await self.apply(BlockOperations(self.commands, calling, str(number)), patch)
            if result.status == "error":
                return not_whole(result, patch, done, len(patches) - number - 1)
            done.append(f"{patch.kind} {patch.label}")
        return result if len(done) == 1 else ToolResult("success", f"Done: {', '.join(done)}.")

    async def apply(self, changes: BlockOperations, patch: BlockPatch) -> ToolResult:
        """Do what a patch says of one block."""
        label = label_of(patch.label)
        match patch.kind:
            case "Add":
                return await changes.create(label, patch.value, patch.description)
            case "Delete":
                return await changes.delete(label)
        result = error("")
        if patch.changes:
            result = await changes.patch(label, patch.changes)
            if result.status == "error":
                return result
        if patch.new_label is None:
            return result
        return await changes.rename(label, label_of(patch.new_label), None)


def label_of(path: str | None) -> str:
    """The label that a path names: what comes after the folder, or the whole."""
    name = (path or "").strip()
    return name.removeprefix(FOLDER).removeprefix(FOLDER[1:]).strip("/") or ""


def needs(asked: Memory, name: str) -> ToolResult:
    """The error result of a command that lacks something."""
    return error(f"The command '{asked.command}' needs `{name}`.")


def not_whole(result: ToolResult, failed: BlockPatch, done: list[str], left: int) -> ToolResult:
    """The error result of a patch that could not be applied as a whole."""
    if not done and not left:
        return result
    return error(
        f"{failed.kind} {failed.label}: {result.text}"
        f" Done before it: {', '.join(done) or 'nothing'}. Not tried after it: {left} of the patch."
    )
