"""Bytes of the Anthropic wire, and its requests as chat.completions bodies."""

import hashlib
import json
from typing import Any

from tests.scripted_model import wire
from tests.scripted_model.refusal import Refusal
from tests.scripted_model.turn import JSONObject, Reply

CREATED_AT = "2025-01-01T00:00:00Z"
MODELS = [
    "claude-3-5-haiku-20241022",
    "claude-haiku-4-5-20251001",
    "claude-opus-4-1-20250805",
    "claude-opus-4-5-20251101",
    "claude-opus-4-6",
    "claude-sonnet-4-20250514",
    "claude-sonnet-4-5-20250929",
    "claude-sonnet-4-6",
]
GARBAGE = b'{"id": "msg_garbage", "type": "message", "role": "assistant", "content": [{"te'
STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
# What FAIL names without a status: (status, message).
NAMED = {
    "insufficient_quota": (
        400,
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
    ),
    "context_length_exceeded": (400, "prompt is too long: 200001 tokens > 200000 maximum"),
}


def chat(request: JSONObject) -> JSONObject:
    """The request as the body of a chat.completions request with the same meaning."""
    messages: list[JSONObject] = []
    system = request.get("system")
    if system:
        messages.append({"role": "system", "content": system})
    for message in request["messages"]:
        messages += _chat_messages(message["role"], message["content"])
    body = {"model": request["model"], "messages": messages}
    if tools := request.get("tools"):
        body["tools"] = [chat_tool(tool) for tool in tools]
    choice = request.get("tool_choice") or {}
    if choice.get("type") == "tool":
        body["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
    elif choice:
        body["tool_choice"] = {"any": "required"}.get(choice["type"], choice["type"])
    return body


def chat_tool(tool: JSONObject) -> JSONObject:
    """A tool in the words of chat.completions."""
    function = {"name": tool.get("name"), "parameters": tool.get("input_schema")}
    return {"type": "function", "function": function}


def _chat_messages(role: str, content: str | list[JSONObject]) -> list[JSONObject]:
    """One message for each text and each result of the user, one for all of the assistant."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if role == "assistant":
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        calls = [
            {"id": b["id"], "function": {"name": b["name"], "arguments": json.dumps(b["input"])}}
            for b in blocks
            if b["type"] == "tool_use"
        ]
        return [{"role": role, "content": "".join(texts), "tool_calls": calls}]
    messages: list[JSONObject] = []
    for block in blocks:
        if block["type"] == "tool_result":
            result = {"role": "tool", "tool_call_id": block["tool_use_id"]}
            messages.append(result | {"content": block.get("content", "")})
        elif block["type"] == "text":
            messages.append({"role": "user", "content": block["text"]})
    return messages


def thinks(request: JSONObject) -> bool:
    """Whether the model is asked to think."""
    return (request.get("thinking") or {}).get("type") in ("enabled", "adaptive")


def signature(thought: str) -> str:
    """What proves that the model thought so."""
    return "sig_" + hashlib.sha1(f"scripted {thought}".encode()).hexdigest()


def error(status: int, message: str) -> bytes:
    """A whole HTTP response with an Anthropic error body."""
    kind = KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_0"}
    return wire.failed(status, body)


def refused(refusal: Refusal) -> bytes:
    """The response to an invalid request."""
    return error(400, refusal.message)


def scripted_error(code: str) -> bytes | None:
    """The response that FAIL:<code> asks for, None where the code names no failure."""
    if code in NAMED:
        return error(*NAMED[code])
    if not (code.isdecimal() and 400 <= int(code) <= 599):
        return None
    return error(int(code), f"The scripted model fails with {code}.")


def whole(reply: Reply, request: JSONObject, serial: int, prompt_length: int) -> bytes:
    """The JSON body of a message."""
    blocks = _blocks(reply, request)
    message = _message(reply, request, serial, blocks, prompt_length)
    return json.dumps(message).encode()


def _message(
    reply: Reply, request: JSONObject, serial: int, blocks: list[JSONObject], prompt_length: int
) -> JSONObject:
    tokens = wire.counted(reply, prompt_length)
    return {
        "id": f"msg_{serial}",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": blocks,
        "stop_reason": STOP_REASONS[reply.finish_reason],
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens.prompt - tokens.cached - tokens.written,
            "output_tokens": tokens.completion,
            "cache_creation_input_tokens": tokens.written,
            "cache_read_input_tokens": tokens.cached,
            "output_tokens_details": {"thinking_tokens": tokens.reasoning},
        },
    }


def _blocks(reply: Reply, request: JSONObject) -> list[JSONObject]:
    blocks: list[JSONObject] = []
    for thought in reply.thoughts if thinks(request) else ():
        if thought is None:
            blocks.append({"type": "redacted_thinking", "data": signature("")})
        else:
            signed = {"thinking": thought, "signature": signature(thought)}
            blocks.append({"type": "thinking", **signed})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for call_id, name, arguments in reply.calls:
        used = {"id": call_id.replace("call_", "toolu_"), "name": name}
        blocks.append({"type": "tool_use", **used, "input": _input(arguments)})
    return blocks


def _input(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}  # a whole answer cannot hold what is not JSON


def events(reply: Reply, request: JSONObject, serial: int, prompt_length: int) -> list[bytes]:
    """The server-sent events of a streamed message, each framed as an HTTP chunk."""
    blocks = _blocks(reply, request)
    message = _message(reply, request, serial, [], prompt_length)
    start = message | {"stop_reason": None, "usage": message["usage"] | {"output_tokens": 1}}
    written: list[JSONObject] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    arguments = [call[2] for call in reply.calls]
    for index, block in enumerate(blocks):
        raw = arguments.pop(0) if block["type"] == "tool_use" else ""
        written += [event | {"index": index} for event in _block_events(block, raw)]
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    spent = {"output_tokens": message["usage"]["output_tokens"]}
    written.append({"type": "message_delta", "delta": delta, "usage": spent})
    written.append({"type": "message_stop"})
    return [
        wire.http_chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        for event in written
    ]


def _block_events(block: JSONObject, arguments: str) -> list[JSONObject]:
    empty = {"text": "", "thinking": "", "signature": "", "input": {}}
    start = block | {name: empty[name] for name in block if name in empty}
    deltas: list[JSONObject] = []
    match block["type"]:
        case "text":
            pieces = wire.pieces(block["text"], wire.TEXT_PIECE_LENGTH)
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
        case "thinking":
            pieces = wire.pieces(block["thinking"], wire.TEXT_PIECE_LENGTH)
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "tool_use":
            pieces = wire.pieces(arguments, wire.ARGUMENTS_PIECE_LENGTH)
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return [
        {"type": "content_block_start", "content_block": start},
        *({"type": "content_block_delta", "delta": delta} for delta in deltas),
        {"type": "content_block_stop"},
    ]


def models() -> bytes:
    """The body of the list of models."""
    listed = [
        {"type": "model", "id": name, "display_name": name, "created_at": CREATED_AT}
        for name in MODELS
    ]
    ends = {"has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
    return json.dumps({"data": listed, **ends}).encode()
