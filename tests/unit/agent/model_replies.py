"""What a fake model answers: words, or calls of tools."""

from __future__ import annotations

from libs.contracts.agent.conversations import ToolCall, Usage
from services.agent.domain.runs.step_results import ModelReply

USAGE = Usage(prompt_tokens=10, completion_tokens=2)


def words(text: str = "Hello") -> ModelReply:
    return ModelReply(text, [], "stop", USAGE)


def calls(*tool_calls: ToolCall) -> ModelReply:
    return ModelReply("", list(tool_calls), "tool_calls", USAGE)
