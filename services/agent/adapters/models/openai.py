"""OpenAI, and everything that speaks its chat completions: vLLM, LM Studio, Ollama `/v1`, ..."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from libs.contracts.conversation import Message, ToolCall, Usage
from libs.contracts.letta.model_config import embedding_config, llm_config
from libs.contracts.letta.model_requests import EmbeddingConfig, LLMConfig
from libs.contracts.message import Json, JsonObject
from libs.contracts.served import text_of
from services.agent.adapters.models.port import (
    Finished,
    ModelEvent,
    ModelFailed,
    ProviderUnreachable,
    TextDelta,
)
from services.agent.adapters.models.storable import storable, storable_arguments
from services.agent.domain.context import ModelRequest
from services.agent.domain.turn import Failure, ModelReply

if TYPE_CHECKING:
    import openai
    from openai import AsyncOpenAI

REQUEST_SECONDS_MAX = 600.0
LIST_SECONDS_MAX = 5.0
RETRIES_MAX = 2
UNKNOWN_CONTEXT_WINDOW = 30_000
UNKNOWN_OUTPUT_TOKENS_MAX = 16_384

# Context window and output tokens by the beginning of a model's name; the longest match counts.
LIMITS = {
    "gpt-3.5-turbo": (16_385, 4_096),
    "gpt-4": (8_192, 4_096),
    "gpt-4-turbo": (128_000, 4_096),
    "gpt-4.1": (1_047_576, 16_384),
    "gpt-4o": (128_000, 16_384),
    "gpt-5": (272_000, 16_384),
    "gpt-5.2": (272_000, 128_000),
    "gpt-5.4": (1_050_000, 128_000),
    "o1": (200_000, 16_384),
    "o3": (200_000, 16_384),
    "o4": (200_000, 16_384),
}
EMBEDDING_DIMENSIONS = {"text-embedding-3-large": 3_072}
EMBEDDING_DIMENSIONS_DEFAULT = 1_536
NOT_FOR_CHAT = ("audio", "dall-e", "image", "moderation", "realtime", "sora", "transcribe", "tts",
                "whisper", "babbage", "davinci")  # fmt: skip
EMBEDDINGS = ("text-embedding-3-large", "text-embedding-3-small", "text-embedding-ada-002")

CALL_ID_CHARS_MAX = 40
TOOL_NAME_CHARS_MAX = 64

# What reading an answer of another shape than OpenAI's raises.
MISSHAPEN = (ValueError, KeyError, IndexError, TypeError, AttributeError)

# HTTP status of the provider to the error type that clients know from V1.
ERROR_TYPES = {
    400: "llm_bad_request",
    401: "llm_authentication",
    402: "llm_insufficient_credits",
    403: "llm_permission_denied",
    404: "llm_not_found",
    408: "llm_timeout",
    422: "llm_unprocessable_entity",
    429: "llm_rate_limit",
}


class OpenAIProvider:
    """Chat completions through the official SDK, which brings transport, retries and errors.

    The body goes in as it is: the SDK's walk through typed messages costs 0.1 ms each. Its aiohttp
    transport costs two thirds of the default one.
    """

    name = "openai"

    def __init__(self, api_key: str, base_url: str) -> None:
        self.base_url = base_url
        self.api_key = api_key
        self.opened: AsyncOpenAI | None = None

    @property
    def client(self) -> AsyncOpenAI:
        """The SDK, imported at the first use because that takes over a second."""
        if self.opened is None:
            from openai import AsyncOpenAI, DefaultAioHttpClient

            self.opened = AsyncOpenAI(
                api_key=self.api_key,
                base_url=self.base_url,
                max_retries=RETRIES_MAX,
                timeout=REQUEST_SECONDS_MAX,
                http_client=DefaultAioHttpClient(),
            )
        return self.opened

    async def close(self) -> None:
        """Close the connections."""
        if self.opened is not None:
            await self.opened.close()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask a model for a whole step; the text comes in one piece."""
        import httpx2
        import openai

        try:
            response = await self.client.post(
                "/chat/completions", body=body_of(request), cast_to=httpx2.Response
            )
            reply = reply_of(json.loads(response.content))
        except openai.APIStatusError as refused:
            raise ModelFailed(failure_of(refused.status_code, refused.body, str(refused))) from None
        except openai.APIConnectionError as lost:
            raise self.no_answer(lost) from lost
        except (*MISSHAPEN, openai.OpenAIError) as odd:
            raise failed("llm_error", "The model's answer cannot be understood", odd) from odd
        if reply.text:
            yield TextDelta(reply.text)
        yield Finished(reply)

    def no_answer(self, lost: openai.APIConnectionError) -> ModelFailed:
        """Why there was none. The transport calls a refused connection a timeout, of connecting."""
        import httpx2
        import openai

        cause = lost.__cause__ or lost
        late = isinstance(lost, openai.APITimeoutError)
        if late and not isinstance(cause, httpx2.ConnectTimeout):
            return failed("llm_timeout", "The model did not answer in time", cause)
        reason = f"The model at {self.base_url} cannot be reached"
        return failed("llm_connection_error", reason, cause)

    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        """What the endpoint lists, with the limits that are known of each."""
        import openai

        try:
            listed = await self.client.get(
                "/models", cast_to=object, options={"timeout": LIST_SECONDS_MAX, "max_retries": 0}
            )
        except openai.OpenAIError as problem:
            raise ProviderUnreachable(f"{self.base_url}: {problem}") from problem
        entries = listed.get("data", []) if isinstance(listed, dict) else []
        names = sorted(str(entry["id"]) for entry in entries if isinstance(entry, dict))
        chat = [name for name in names if not any(part in name for part in NOT_FOR_CHAT)]
        chat = [name for name in chat if "embed" not in name]
        embeddings = sorted({*EMBEDDINGS, *(name for name in names if "embed" in name)})
        return (
            [self.chat_model(name) for name in chat],
            [self.embedding_model(name) for name in embeddings],
        )

    def chat_model(self, name: str) -> LLMConfig:
        """The catalogue's config of a model."""
        prefixes = [prefix for prefix in LIMITS if name.startswith(prefix)]
        unknown = (UNKNOWN_CONTEXT_WINDOW, UNKNOWN_OUTPUT_TOKENS_MAX)
        window, output = LIMITS[max(prefixes, key=len)] if prefixes else unknown
        return llm_config(
            f"{self.name}/{name}",
            endpoint_type="openai",
            endpoint=self.base_url,
            context_window=window,
            max_tokens=output,
        )

    def embedding_model(self, name: str) -> EmbeddingConfig:
        """The catalogue's config of an embedding model."""
        return embedding_config(
            f"{self.name}/{name}",
            endpoint_type="openai",
            endpoint=self.base_url,
            dimensions=EMBEDDING_DIMENSIONS.get(name, EMBEDDING_DIMENSIONS_DEFAULT),
        )


def body_of(request: ModelRequest) -> dict[str, Json]:
    """The request in the provider's words."""
    config = request.config.llm_config
    body: dict[str, Json] = {
        "model": config.model,
        "messages": [openai_message(one) for one in request.messages],
    }
    reasons = config.model.startswith(("o1", "o3", "o4", "gpt-5"))
    if config.max_tokens:
        body["max_completion_tokens"] = config.max_tokens
    if reasons:
        if config.reasoning_effort:
            body["reasoning_effort"] = config.reasoning_effort
    else:
        body["temperature"] = config.temperature
    if config.frequency_penalty:
        body["frequency_penalty"] = config.frequency_penalty
    if config.response_format is not None:
        body["response_format"] = config.response_format.model_dump(mode="json", exclude_none=True)
    if request.tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in request.tools]
        body["tool_choice"] = "auto"
        body["parallel_tool_calls"] = request.parallel
    return body


def openai_message(message: Message) -> JsonObject:
    """One message in the provider's words."""
    match message.role:
        case "tool":
            envelope = {
                "status": "OK" if message.tool_status != "error" else "Failed",
                "message": text_of(message),
            }
            return {
                "role": "tool",
                "tool_call_id": message.tool_call_id,
                "content": json.dumps(envelope, ensure_ascii=False),
            }
        case "assistant":
            said: JsonObject = {"role": "assistant", "content": text_of(message) or None}
            if message.tool_calls:
                said["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in message.tool_calls
                ]
            elif said["content"] is None:
                said["content"] = ""
            return said
        case "system":
            return {"role": "system", "content": text_of(message)}
        case "user":
            return {"role": "user", "content": openai_content(message.content)}


def openai_content(content: Json) -> Json:
    """Text as it is, parts in the provider's words."""
    if not isinstance(content, list):
        return content
    return [openai_part(part) for part in content if isinstance(part, dict)]


def openai_part(part: JsonObject) -> Json:
    """One content part; images by address or inline."""
    if part.get("type") != "image":
        return {"type": "text", "text": str(part.get("text", ""))}
    source: Any = part.get("source") or {}
    if source.get("type") == "url":
        return {"type": "image_url", "image_url": {"url": source.get("url")}}
    data = f"data:{source.get('media_type')};base64,{source.get('data')}"
    return {"type": "image_url", "image_url": {"url": data}}


def reply_of(body: Any) -> ModelReply:
    """The provider's answer in our words."""
    choice = body["choices"][0]
    message = choice["message"]
    usage = body.get("usage") or {}
    return ModelReply(
        text=storable(message.get("content") or ""),
        tool_calls=calls_of(message.get("tool_calls") or []),
        finish_reason=choice.get("finish_reason") or "stop",
        usage=Usage(
            prompt_tokens=usage.get("prompt_tokens") or 0,
            completion_tokens=usage.get("completion_tokens") or 0,
            cached_input_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens")
            or 0,
            reasoning_tokens=(usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
            or 0,
        ),
        reasoning=storable(message.get("reasoning_content") or "") or None,
    )


def calls_of(listed: Any) -> list[ToolCall]:
    """The tool calls of an answer, such that the provider takes them back as history: servers
    that stand in for OpenAI are not strict about ids and names, and strict when they read them."""
    calls: list[ToolCall] = []
    for call in listed:
        function = call["function"]
        call_id = storable(call.get("id") or "")
        if not 0 < len(call_id) <= CALL_ID_CHARS_MAX or any(one.id == call_id for one in calls):
            seed = f"{call_id}{len(calls)}{function['name']}{function['arguments']}"
            call_id = f"call_{sha256(seed.encode()).hexdigest()[:24]}"
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", function["name"])[:TOOL_NAME_CHARS_MAX]
        arguments = storable_arguments(function["arguments"] or "{}")
        calls.append(ToolCall(id=call_id, name=name or "unnamed", arguments=arguments))
    return calls


def failure_of(status: int, body: object, text: str) -> Failure:
    """An HTTP error of the provider as the reason why a run failed."""
    error = body if isinstance(body, dict) else {}
    message = str(error.get("message") or text)
    code = error.get("code")
    kind = ERROR_TYPES.get(status, "llm_error")
    if code == "insufficient_quota":
        kind = "llm_insufficient_credits"
    if code == "context_length_exceeded":
        kind = "context_window_exceeded"
    if status == 504:
        kind = "llm_timeout"
    stop = "insufficient_credits" if kind == "llm_insufficient_credits" else "llm_api_error"
    return Failure(kind, f"The model answered {status}: {message}", str(code or ""), stop)


def failed(error_type: str, message: str, cause: BaseException) -> ModelFailed:
    """A failure that is not an HTTP error."""
    detail = f"{type(cause).__name__}: {cause}"
    stop = "invalid_llm_response" if error_type == "llm_error" else "llm_api_error"
    return ModelFailed(Failure(error_type, message, detail, stop))
