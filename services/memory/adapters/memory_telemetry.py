"""Traces of memory: each command as the operation that the conventions call it."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.appended_histories import append_command, undo_command
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.contracts.memory.agent_folders import (
    AttachFolder,
    CloseFiles,
    DetachFolder,
    ForgetFolders,
    OpenFiles,
)
from libs.contracts.memory.archives import (
    AttachArchive,
    CreateArchive,
    DeleteArchive,
    DeletePassages,
    DetachArchive,
    EmptyArchive,
    InsertPassages,
    SearchPassages,
    UpdateArchive,
)
from libs.contracts.memory.blocks import (
    CreateBlocks,
    DeleteBlock,
    EditBlock,
    PatchBlock,
    RenameBlock,
    RestoreBlock,
    RewriteBlock,
    UpdateBlock,
)
from libs.contracts.memory.files import AddFile, DeleteFile
from libs.contracts.memory.folders import CreateFolder, DeleteFolder, UpdateFolder
from libs.contracts.memory.reembedding import ChangeArchiveEmbedding, ReembedChunks, ReembedPassages
from libs.contracts.memory.semantic_message_search import NearestMessages
from libs.eventstore.unit_of_work import UnitOfWork
from libs.telemetry import span_attributes, tracing

Caused = EditBlock | RewriteBlock | PatchBlock | RenameBlock

OPERATIONS: Mapping[type[Command], str] = {
    CreateBlocks: span_attributes.CREATE_MEMORY,
    UpdateBlock: span_attributes.UPDATE_MEMORY,
    EditBlock: span_attributes.UPDATE_MEMORY,
    RewriteBlock: span_attributes.UPDATE_MEMORY,
    PatchBlock: span_attributes.UPDATE_MEMORY,
    RenameBlock: span_attributes.UPDATE_MEMORY,
    RestoreBlock: span_attributes.UPDATE_MEMORY,
    DeleteBlock: span_attributes.DELETE_MEMORY,
    CreateFolder: span_attributes.CREATE_MEMORY,
    UpdateFolder: span_attributes.UPDATE_MEMORY,
    DeleteFolder: span_attributes.DELETE_MEMORY,
    AddFile: span_attributes.CREATE_MEMORY,
    DeleteFile: span_attributes.DELETE_MEMORY,
    CreateArchive: span_attributes.CREATE_MEMORY,
    UpdateArchive: span_attributes.UPDATE_MEMORY,
    DeleteArchive: span_attributes.DELETE_MEMORY,
    AttachArchive: span_attributes.UPDATE_MEMORY,
    DetachArchive: span_attributes.UPDATE_MEMORY,
    EmptyArchive: span_attributes.DELETE_MEMORY,
    InsertPassages: span_attributes.CREATE_MEMORY,
    DeletePassages: span_attributes.DELETE_MEMORY,
    NearestMessages: span_attributes.SEARCH_MEMORY,
    SearchPassages: span_attributes.SEARCH_MEMORY,
    AttachFolder: span_attributes.UPDATE_MEMORY,
    DetachFolder: span_attributes.UPDATE_MEMORY,
    OpenFiles: span_attributes.UPDATE_MEMORY,
    CloseFiles: span_attributes.UPDATE_MEMORY,
    ForgetFolders: span_attributes.DELETE_MEMORY,
    ChangeArchiveEmbedding: span_attributes.UPDATE_MEMORY,
    ReembedPassages: span_attributes.UPDATE_MEMORY,
    ReembedChunks: span_attributes.UPDATE_MEMORY,
    append_command("memory"): span_attributes.CREATE_MEMORY,
    undo_command("memory"): span_attributes.DELETE_MEMORY,
}


def observe_handlers(handlers: Mapping[type[Command], Handler]) -> Mapping[type[Command], Handler]:
    """The same handlers, which note in their command's span what it does, and to which record."""
    return {kind: observe(OPERATIONS[kind], handler) for kind, handler in handlers.items()}


def observe(operation: str, handler: Handler) -> Handler:
    """The same handler, which notes this operation and its cause in the command's span."""

    async def handle(command: Command, work: UnitOfWork) -> Accepted | Rejected:
        if tracing.tracer() is not None:
            tracing.note(
                {
                    span_attributes.OPERATION: operation,
                    span_attributes.MEMORY_RECORD_ID: command.target,
                    span_attributes.MEMORY_RECORD_COUNT: records_of(command),
                }
            )
            if isinstance(command, Caused):
                tracing.note(cause_of(command))
        return await handler(command, work)

    return handle


def records_of(command: Command) -> int:
    """The number of records that a command is about."""
    match command:
        case CreateBlocks():
            return len(command.blocks)
        case InsertPassages():
            return len(command.passages)
        case DeletePassages():
            return len(command.passage_ids)
    return 1


def cause_of(command: Caused) -> tracing.Attributes:
    """The tool call that asked for an edit."""
    return {
        span_attributes.AGENT_ID: command.cause.agent_id,
        span_attributes.RUN_ID: command.cause.run_id,
        span_attributes.TOOL_CALL_ID: command.cause.tool_call_id,
    }
