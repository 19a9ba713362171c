"""What traces see of memory: each command as the operation that the conventions call it."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.shell import Handler
from libs.contracts.memory import CreateBlocks, DeleteBlock, EditBlock, UpdateBlock
from libs.contracts.message import Accepted, Command, Rejected
from libs.eventstore.work import Work
from libs.telemetry import conventions, tracing

OPERATIONS: Mapping[type[Command], str] = {
    CreateBlocks: conventions.CREATE_MEMORY,
    UpdateBlock: conventions.UPDATE_MEMORY,
    EditBlock: conventions.UPDATE_MEMORY,
    DeleteBlock: conventions.DELETE_MEMORY,
}


def observed(handlers: Mapping[type[Command], Handler]) -> Mapping[type[Command], Handler]:
    """The same handlers, which say in the span of their command what it does to which block."""
    return {kind: saying(OPERATIONS[kind], handler) for kind, handler in handlers.items()}


def saying(operation: str, handler: Handler) -> Handler:
    """A handler that says which operation it carries out."""

    async def handle(command: Command, work: Work) -> Accepted | Rejected:
        if tracing.tracer() is not None:
            records = len(command.blocks) if isinstance(command, CreateBlocks) else 1
            tracing.note(
                {
                    conventions.OPERATION: operation,
                    conventions.MEMORY_RECORD_ID: command.target,
                    conventions.MEMORY_RECORD_COUNT: records,
                }
            )
            if isinstance(command, EditBlock):
                tracing.note(cause_of(command))
        return await handler(command, work)

    return handle


def cause_of(command: EditBlock) -> tracing.Attributes:
    """The tool call that asked for an edit."""
    return {
        conventions.AGENT_ID: command.cause.agent_id,
        conventions.RUN_ID: command.cause.run_id,
        conventions.TOOL_CALL_ID: command.cause.tool_call_id,
    }
