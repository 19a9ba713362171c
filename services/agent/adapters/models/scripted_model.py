"""A model for tests of agents: it gives the replies that stand in its agent's metadata.

It needs no key and no network, and keeps nothing: which reply is next follows from the messages
that it is shown, so a run that another process takes over goes on with the same reply.
"""

from __future__ import annotations

import json
from hashlib import sha256

from pydantic import ValidationError

from libs.contracts.agent.conversations import Message, ToolCall, Usage
from libs.contracts.agent.scripted_replies import (
    HANDLE,
    METADATA_KEY,
    ScriptedReplies,
    ScriptedReply,
)
from libs.contracts.agent.stored_to_letta_messages import text_of
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.models.rule_provider import RuleProvider, shown_chars, usage_of
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, ModelReply

HEARD_CHARACTERS_MAX = 200  # of what was said last, in the error of a script that has ended


class ScriptedProvider(RuleProvider):
    """The provider `scripted` with its one model, `replies`. A run fails where the script has no
    more of them."""

    def __init__(self) -> None:
        super().__init__(
            HANDLE, answer, compared_chars, context_window=128_000, output_tokens_max=16_384
        )


def answer(request: ModelRequest) -> ModelReply:
    """The next reply of the agent's script. Raises ModelFailed where the script has no more, or
    wants a failure."""
    script = script_of(request)
    given, heard = progress(script, request)
    ordered = [reply for reply in script if reply.match is None]
    reply = matching(script, heard) or (ordered[given] if given < len(ordered) else None)
    if reply is None:
        raise ModelFailed(
            Failure(
                "llm_error",
                f"{HANDLE}: all {len(ordered)} replies of the script were given, and none matches "
                f"{heard[:HEARD_CHARACTERS_MAX]!r}",
            )
        )
    if reply.error:
        raise ModelFailed(Failure(reply.error, f"{HANDLE}: the script wants {reply.error}"))
    return reply_of(reply, request)


def compared_chars(request: ModelRequest) -> int:
    """How many characters are compared to find a reply: each `match` with all that was heard."""
    replies = (request.config.metadata or {}).get(METADATA_KEY)
    return shown_chars(request) * (len(replies) if isinstance(replies, list) else 1)


def script_of(request: ModelRequest) -> list[ScriptedReply]:
    """The script in the agent's metadata. Raises ModelFailed where that has none."""
    try:
        metadata = request.config.metadata or {}
        return ScriptedReplies.model_validate({"replies": metadata.get(METADATA_KEY)}).replies
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        place = f"metadata.{METADATA_KEY}" + (f".{where}" if where else "")
        reason = f"{HANDLE}: `{place}` of the agent: {first['msg']}"
        raise ModelFailed(Failure("llm_error", reason)) from problem


def progress(script: list[ScriptedReply], request: ModelRequest) -> tuple[int, str]:
    """How many of the ordered replies were given, and what the model has heard since its last
    reply. Messages with which an agent begins are no replies."""
    given, heard = 0, list[str]()
    for message in request.messages:
        if message.role != "assistant":
            heard.append(text_of(message) if message.role in ("user", "tool") else "")
        elif is_reply(message, request):
            given += matching(script, "\n".join(heard)) is None
            heard = []
    return given, "\n".join(heard).strip()


def is_reply(message: Message, request: ModelRequest) -> bool:
    """Whether the model has said this, and the agent did not begin with it."""
    return message.created_at > request.config.created_at


def matching(script: list[ScriptedReply], heard: str) -> ScriptedReply | None:
    """The first reply whose `match` stands in these words."""
    return next((reply for reply in script if reply.match and reply.match in heard), None)


def reply_of(reply: ScriptedReply, request: ModelRequest) -> ModelReply:
    """The reply as any model's. Ids of calls follow from the message that is answered."""
    calls = [
        ToolCall(
            id=call_id(request.messages[-1].id, number),
            name=call.name,
            arguments=json.dumps(call.arguments, ensure_ascii=False),
        )
        for number, call in enumerate(reply.tool_calls)
    ]
    estimate = usage_of(request, reply.text + "".join(call.arguments for call in calls))
    usage = Usage(
        prompt_tokens=first(reply.prompt_tokens, estimate.prompt_tokens),
        completion_tokens=first(reply.completion_tokens, estimate.completion_tokens),
    )
    finish = "tool_calls" if calls else "stop"
    return ModelReply(reply.text, calls, finish, usage, reasoning=reply.reasoning)


def call_id(message_id: str, number: int) -> str:
    """The same for the same call of the same step."""
    return f"call_{sha256(f'{message_id}/{number}'.encode()).hexdigest()[:24]}"


def first(scripted: int | None, estimated: int) -> int:
    """What the script says, or else the estimate."""
    return estimated if scripted is None else scripted
