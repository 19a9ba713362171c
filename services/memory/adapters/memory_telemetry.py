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

COMMANDS: Mapping[str, tuple[type[Command], ...]] = {
    span_attributes.CREATE_MEMORY: (
        *(CreateBlocks, CreateFolder, AddFile, CreateArchive, InsertPassages),
        append_command("memory"),
    ),
    span_attributes.UPDATE_MEMORY: (
        *(UpdateBlock, EditBlock, RewriteBlock, PatchBlock, RenameBlock, RestoreBlock),
        *(UpdateFolder, AttachFolder, DetachFolder, OpenFiles, CloseFiles),
        *(UpdateArchive, AttachArchive, DetachArchive),
        *(ChangeArchiveEmbedding, ReembedPassages, ReembedChunks),
    ),
    span_attributes.DELETE_MEMORY: (
        *(DeleteBlock, DeleteFolder, DeleteFile, DeleteArchive, EmptyArchive, DeletePassages),
        *(ForgetFolders, undo_command("memory")),
    ),
    span_attributes.SEARCH_MEMORY: (NearestMessages, SearchPassages),
}
OPERATIONS = {kind: operation for operation, kinds in COMMANDS.items() for kind in kinds}


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


def cause_of(command: Caused) -> span_attributes.Attributes:
    """The tool call that asked for an edit."""
    return {
        span_attributes.AGENT_ID: command.cause.agent_id,
        span_attributes.RUN_ID: command.cause.run_id,
        span_attributes.TOOL_CALL_ID: command.cause.tool_call_id,
    }
