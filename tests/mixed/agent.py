"""The agent service of a newer release: it writes an event topic that no other release knows."""

from __future__ import annotations

import runpy
from typing import ClassVar

from libs.contracts.agent.conversations import SERVICE, main_conversation
from libs.contracts.agent.runs import StartRun
from libs.contracts.bus_messages import Accepted, Event, Rejected
from libs.eventstore.unit_of_work import UnitOfWork
from services.agent.domain.conversations.conversation import Conversation
from services.agent.handlers.runs import RunHandlers

NOTED = "Note this: "


class ConversationNoted(Event):
    """Somebody asked for a note."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "conversation.noted"
    additive: ClassVar[bool] = True


accept = RunHandlers.start_run


async def start_run(
    handlers: RunHandlers, command: StartRun, work: UnitOfWork
) -> Accepted | Rejected:
    """Accept a message; where it asks for a note, record one."""
    reply = await accept(handlers, command, work)
    conversation = work.loaded.get(main_conversation(command.agent_id))
    asks = isinstance(reply, Accepted) and NOTED in command.model_dump_json()
    if asks and isinstance(conversation, Conversation) and conversation.pending_events:
        conversation.happened(ConversationNoted, at=handlers.ports.clock.now())
    return reply


RunHandlers.start_run = start_run  # type: ignore[method-assign, assignment]
runpy.run_module("services.agent", run_name="__main__", alter_sys=True)
