"""What an MCP server asks a model: how the model is asked it, and what the server gets."""

from __future__ import annotations

from datetime import datetime

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.mcp_sampling import SampleModel
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.agent_state import AgentConfig
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.one_off_completions import DEFAULT_SYSTEM, answered
from services.agent.domain.runs.step_results import Failure, ModelReply


def sampling_request(command: SampleModel, config: AgentConfig, *, at: datetime) -> ModelRequest:
    """What an MCP server asks, as a model is asked it. It does not think first: that would cost
    tokens beyond those that are wanted."""
    llm = config.llm_config
    changes: dict[str, object] = {
        "max_tokens": min(command.max_tokens, llm.max_tokens or command.max_tokens),
        "response_format": None,
        "enable_reasoner": False,
    }
    if command.temperature is not None:
        changes["temperature"] = command.temperature
    system = command.system_prompt or DEFAULT_SYSTEM
    return ModelRequest(
        config=config.model_copy(update={"llm_config": llm.model_copy(update=changes)}),
        messages=[
            Message(id="", role="system", content=system, created_at=at),
            *(
                Message(
                    id=f"{command.completion_id}-{number}",
                    role=message.role,
                    content=message.content,
                    created_at=at,
                )
                for number, message in enumerate(command.messages)
            ),
        ],
        tools=[],
        parallel=False,
    )


def sampled_of(command: SampleModel, reply: ModelReply, model: str) -> JsonObject | Failure:
    """What an MCP server gets: the text before the first stop sequence, and why it ends there
    (`stop_reason`, in the words of MCP)."""
    found = [reply.text.find(stop) for stop in command.stop_sequences if stop]
    ends = min((place for place in found if place >= 0), default=None)
    told = answered(reply.text[:ends], reply, model)
    if isinstance(told, Failure):
        return told
    ended = "maxTokens" if reply.finish_reason == "length" else "endTurn"
    return {**told, "stop_reason": ended if ends is None else "stopSequence"}
