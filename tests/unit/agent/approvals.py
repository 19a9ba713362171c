"""Agents that ask for the approval of calls, and what clients answer."""

from __future__ import annotations

from typing import Any

from libs.contracts.agent.approvals import (
    CallAnswer,
)
from libs.contracts.agent.conversations import ToolCall
from libs.contracts.agent.stored_to_letta_messages import text_of
from services.agent.domain.conversations.conversation import Conversation
from tests.unit.agent.model_replies import calls, words
from tests.unit.agent.world import ASK, CONVERSATION, Process, World

KEEP = ToolCall(id="call_1", name=ASK, arguments='{"content":"tea"}')


RULE = {"type": "requires_approval", "tool_name": ASK}


def approved(call: ToolCall = KEEP) -> CallAnswer:
    return CallAnswer(tool_call_id=call.id, kind="approved")


async def asked(world: World, *step: ToolCall, rules: Any = (RULE,), **fields: Any) -> Process:
    """A process whose agent has just asked for these calls; what follows is `words()`."""
    await world.agent(tool_rules=list(rules))
    process = world.process("p-1", calls(*(step or (KEEP,))), words(), words(), words())
    world.build_tool(process)
    await process.say("run-1", **fields)
    await process.idle()
    return process


async def conversation(process: Process) -> Conversation:
    return await process.repository.load(Conversation, CONVERSATION, org="org-1")


async def results(process: Process) -> list[tuple[str | None, str | None, str]]:
    """The results that the model is shown, in order."""
    window = (await conversation(process)).state.window
    return [
        (message.tool_call_id, message.tool_status, text_of(message))
        for message in window
        if message.role == "tool"
    ]


def run_end(world: World, run_id: str) -> tuple[Any, Any]:
    row = world.row("runs", run_id)
    return row["status"], row["stop_reason"]
