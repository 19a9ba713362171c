"""Single questions to a model outside of any run, by clients and by MCP servers."""

from __future__ import annotations

from datetime import datetime

from pydantic_core import from_json

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.one_off_completions import AskModel, GenerateCompletion, SampleModel
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.model_configs import LLMConfig
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, ModelReply, letta_usage

# As V1 calls the tool that a model has to call where the form of its answer is given.
ANSWER_TOOL = "structured_output"
DEFAULT_SYSTEM = "You are a helpful assistant."
CONTENT_BYTES_MAX = 4 << 20


def without_agent(llm: LLMConfig, *, at: datetime) -> AgentConfig:
    """The config of a model that is asked without an agent."""
    return AgentConfig(id="", name="", system="", llm_config=llm, created_at=at, updated_at=at)


def completion_request(
    command: GenerateCompletion | AskModel, config: AgentConfig, llm: LLMConfig, *, at: datetime
) -> ModelRequest:
    """The question as a model is asked it: nothing of the agent but how its model is set up."""
    schema = command.response_schema
    if schema:
        llm = llm.model_copy(update={"response_format": None})
    asked = Message(id=command.completion_id, role="user", content=command.prompt, created_at=at)
    system = Message(
        id="", role="system", content=command.system_prompt or DEFAULT_SYSTEM, created_at=at
    )
    return ModelRequest(
        config=config.model_copy(update={"llm_config": llm}),
        messages=[system, asked],
        tools=[answer_tool(schema)] if schema else [],
        parallel=False,
        must_call=bool(schema),
    )


def answer_tool(schema: JsonObject) -> JsonObject:
    """The tool whose arguments are an answer of this form; every field is required, unless the
    schema says which are."""
    properties = schema["properties"]
    assert isinstance(properties, dict), "what has no properties is refused before"
    return {
        "name": ANSWER_TOOL,
        "description": "Give your answer by calling this.",
        "parameters": {"required": list(properties), **schema, "type": "object"},
    }


def completion_of(
    command: GenerateCompletion | AskModel, reply: ModelReply, model: str
) -> JsonObject | Failure:
    """The asker's result, or the reason why there is none."""
    calls = reply.tool_calls if command.response_schema else []
    content = calls[0].arguments if calls else reply.text
    if command.response_schema and not is_object(content):
        why = "was cut short" if reply.finish_reason == "length" else "is no JSON object"
        return Failure("llm_error", f"The answer of {model} {why}, so it has not the wanted form")
    answer = completion_fields(content, reply, model)
    return answer if isinstance(answer, Failure) or not calls else {**answer, "said": reply.text}


def completion_fields(content: str, reply: ModelReply, model: str) -> JsonObject | Failure:
    """The answer with the tokens that it used, or the failure if it is too large."""
    if len(content.encode()) > CONTENT_BYTES_MAX:
        return Failure("llm_error", f"The answer of {model} is over {CONTENT_BYTES_MAX} bytes")
    return {"content": content, "model": model, "usage": letta_usage(reply.usage)}


def is_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(from_json(text), dict)
    except ValueError:
        return False


def sampling_request(command: SampleModel, config: AgentConfig, *, at: datetime) -> ModelRequest:
    """The request of an MCP server, as a model gets it. It does not think first: that would cost
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
    """The result for an MCP server: the text before the first stop sequence, and why it ends there
    (`stop_reason`, in the words of MCP)."""
    found = [reply.text.find(stop) for stop in command.stop_sequences if stop]
    ends = min((place for place in found if place >= 0), default=None)
    answer = completion_fields(reply.text[:ends], reply, model)
    if isinstance(answer, Failure):
        return answer
    ended = "maxTokens" if reply.finish_reason == "length" else "endTurn"
    return {**answer, "stop_reason": ended if ends is None else "stopSequence"}
