"""Results of a step: the model's reply, the results of its tools, or a failure."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from libs.contracts.agent.conversations import (
    BoundTool,
    Message,
    ReasoningField,
    ReasoningPart,
    ToolCall,
    Usage,
)
from libs.contracts.agent.run_replays import RunReplayFailed
from libs.contracts.agent.runs import RunFailed
from libs.contracts.agent.stream_chunks import Chunk
from libs.contracts.agent.summaries import SummaryFailed
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import response_and_stream_events
from services.agent.domain.conversations.conversation_state import SystemPrompt


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's answer, the same for every provider. `reasoning_parts` is `reasoning` again, from a
    provider that wants it back; `inner_thoughts` says that it stood in the arguments of a call,
    `reasoning_field` in which field of the answer. Where it was `asked_twice`, the usage is that of
    both answers."""

    text: str
    tool_calls: list[ToolCall]
    finish_reason: str
    usage: Usage
    reasoning: str | None = None
    reasoning_parts: list[ReasoningPart] = field(default_factory=list)
    inner_thoughts: bool = False
    reasoning_field: ReasoningField | None = None
    logprobs: JsonObject | None = None
    token_ids: list[int] | None = None
    asked_twice: bool = False


@dataclass(frozen=True, slots=True)
class Spoken:
    """The message of a step, and the chunks that clients received while the model answered: the
    number of the first, and all of them. Without `chunks` it is sent when recorded."""

    message_id: str
    since: datetime
    number: int | None = None
    chunks: list[Chunk] | None = None


@dataclass(frozen=True, slots=True)
class AnsweredStep:
    """A step that a model has answered, and what it was asked with: the tools that rules left it
    (`offered`), those of them that may run side by side (`concurrent`) and those that are `gone`,
    the names that tools were `renamed` from, the agent's tools as they are (`bound`), and the
    system message where it was `rebuilt`. The question weighed `prompt_bytes`."""

    step_id: str
    model: str
    reply: ModelReply
    spoken: Spoken
    parallel: bool
    offered: list[str] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    bound: Mapping[str, BoundTool] = field(default_factory=dict)
    concurrent: Container[str] = ()
    gone: Sequence[str] = ()
    rebuilt: SystemPrompt | None = None
    model_ns: int = 0
    prompt_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool; `text` is what clients see, beside what it printed if it may print.
    With `pause_minutes` it ends the run, and the agent pauses. A `forbidden` call was not made: the
    text says why. A program has `called` these tools."""

    status: Literal["success", "error"]
    text: str
    pause_minutes: int | None = None
    stdout: list[str] | None = None
    stderr: list[str] | None = None
    forbidden: bool = False
    called: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run cannot go on. `error_type` is one of V1's, e.g. `llm_timeout`; `model` is the one
    that was asked, where one was. `window` is how many tokens it may be shown, where its provider
    said so."""

    error_type: str
    message: str
    detail: str | None = None
    stop_reason: str = "llm_api_error"
    model: str = ""
    window: int | None = None


def run_too_slow(what: str, seconds_max: float) -> Failure:
    """The failure of something that took longer than a run may."""
    return Failure(
        "llm_timeout",
        f"{what} took longer than {seconds_max:g} seconds, which is the longest that this server"
        " lets one take (HEELER_RUN_SECONDS_MAX)",
    )


def answer_too_slow(model: str, seconds_max: float, what: str = "answer") -> Failure:
    """The failure of a question that a model took too long to answer."""
    return Failure(
        "llm_timeout",
        f"{model} took longer than {seconds_max:g} seconds to answer, which is the longest that"
        f" this server lets one {what} take (HEELER_STEP_SECONDS_MAX)",
    )


def error_fields(failed: Failure | RunFailed | RunReplayFailed | SummaryFailed) -> JsonObject:
    """Why there is no answer, as clients are told."""
    return {
        "error_type": failed.error_type,
        "message": failed.message,
        "detail": failed.detail,
    }


def letta_usage(
    tokens: Usage, step_count: int = 0, context_tokens: int | None = None
) -> JsonObject:
    """The tokens of a run, or of a question, in V1's fields."""
    usage = response_and_stream_events.Usage(
        **tokens.model_dump(),
        total_tokens=tokens.prompt_tokens + tokens.completion_tokens,
        step_count=step_count,
        context_tokens=context_tokens,
    )
    return response_and_stream_events.usage_statistics(usage)


def spoken_message(spoken: Spoken, reply: ModelReply, calls: list[ToolCall]) -> Message:
    """The model's answer as a message; of its calls those that are carried out."""
    return Message(
        id=spoken.message_id,
        role="assistant",
        content=reply.text or None,
        reasoning=None if reply.reasoning_parts else reply.reasoning,
        reasoning_field=reply.reasoning_field,
        inner_thoughts=reply.inner_thoughts,
        reasoning_parts=reply.reasoning_parts,
        tool_calls=calls,
        created_at=spoken.since,
    )


def result_message(call: ToolCall, result: ToolResult, *, message_id: str, at: datetime) -> Message:
    """The result of a call, as a message."""
    return Message(
        id=message_id,
        role="tool",
        content=result.text,
        name=call.name,
        tool_call_id=call.id,
        tool_status=result.status,
        stdout=result.stdout,
        stderr=result.stderr,
        hidden=bool(call.spoken_argument) and result.status == "success",
        created_at=at,
    )


def kept_calls(reply: ModelReply, *, parallel: bool) -> list[ToolCall]:
    """The calls that are carried out: without parallel calls only the first."""
    return reply.tool_calls if parallel else reply.tool_calls[:1]
