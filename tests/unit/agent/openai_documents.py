"""Requests to OpenAI and its answers, as whole JSON documents."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_json

from services.agent.adapters.models.openai_answer import OpenAIAnswer
from services.agent.adapters.models.openai_request import (
    content_of,
    openai_tool,
    rendered_messages,
)
from services.agent.adapters.models.rendered_message_cache import RenderedMessages
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import ModelReply


def body_of(request: ModelRequest) -> dict[str, Any]:
    """The request in the provider's words."""
    tools = to_json([openai_tool(tool) for tool in request.tools])
    said = content_of(request, RenderedMessages(rendered_messages), tools)
    body: dict[str, Any] = json.loads(said)
    return body


def reply_of(body: Any, seed: str = "") -> ModelReply:
    """The reply in a whole answer, which came without streaming."""
    answer = OpenAIAnswer(seed)
    answer.read(json.dumps(body))
    return answer.end()[1]
