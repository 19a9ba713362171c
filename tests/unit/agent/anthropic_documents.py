"""Requests to Anthropic and its answers, as whole JSON documents."""

from __future__ import annotations

import json
from typing import Any

from services.agent.adapters.models.anthropic_answer import AnthropicAnswer
from services.agent.adapters.models.anthropic_request import anthropic_tool, body_around_tools
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import ModelReply


def body_of(request: ModelRequest) -> dict[str, Any]:
    """The request in the provider's words."""
    body = body_around_tools(request)
    if request.tools:
        body["tools"] = [anthropic_tool(tool) for tool in request.tools]
    return body


def reply_of(body: Any, seed: str = "") -> ModelReply:
    """The reply in a whole answer, which came without streaming."""
    answer = AnthropicAnswer(seed)
    answer.read(json.dumps(body))
    return answer.end()[1]
