"""Bytes of the OpenAI wire: completions, stream events, errors and HTTP heads."""

import json
from http import HTTPStatus
from typing import Any

from tests.scripted_model.refusal import Refusal
from tests.scripted_model.script import Usage
from tests.scripted_model.turn import JSONObject, Reply

CREATED = 1_700_000_000
TEXT_PIECE_LENGTH = 8  # characters in one stream event
ARGUMENTS_PIECE_LENGTH = 16
RETRY_AFTER_MS = 20

MODELS = [
    "gpt-4o-mini",
    "gpt-4o",
    "gpt-4.1",
    "gpt-4.1-mini",
    "gpt-4.1-nano",
    "gpt-5",
    "gpt-5-mini",
    "gpt-5.1",
    "o3",
    "o4-mini",
    "text-embedding-3-small",
    "text-embedding-3-large",
]

# What FAIL names: (status, message, type, code).
ERRORS: dict[str, tuple[int, str, str, str | None]] = {
    "400": (400, "The scripted model refuses this request.", "invalid_request_error", None),
    "401": (401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    "403": (403, "You are not allowed to use this model.", "invalid_request_error", None),
    "404": (404, "The model does not exist.", "invalid_request_error", "model_not_found"),
    "429": (429, "Rate limit reached for requests.", "requests", "rate_limit_exceeded"),
    "500": (500, "The server had an error processing your request.", "server_error", None),
    "503": (503, "The engine is currently overloaded.", "server_error", None),
    "insufficient_quota": (
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "insufficient_quota",
    ),
    "context_length_exceeded": (
        400,
        "This model's maximum context length is 128000 tokens. Please reduce the length of the "
        "messages.",
        "invalid_request_error",
        "context_length_exceeded",
    ),
}

GARBAGE = b'{"id": "chatcmpl-garbage", "object": "chat.completion", "choices": [{"mess'

_ok_head = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req_%d\r\n"
    b"content-length: %d\r\n\r\n"
)
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
STREAM_END = b"0\r\n\r\n"


def ok(body: bytes, serial: int = 0) -> bytes:
    """A whole HTTP response with status 200 and this JSON body."""
    return _ok_head % (serial, len(body)) + body


def error(
    status: int, message: str, kind: str, code: str | None = None, param: str | None = None
) -> bytes:
    """A whole HTTP response with an OpenAI error body."""
    fields = {"message": message, "type": kind, "param": param, "code": code}
    return failed(status, {"error": fields})


def raw(status: int, content_type: str, body: str) -> bytes:
    """A whole HTTP response with this body, whatever it is."""
    content = body.encode()
    phrase = HTTPStatus(status).phrase
    head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: {content_type}\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


def failed(status: int, document: JSONObject) -> bytes:
    """A whole HTTP response with this status and body."""
    body = json.dumps(document).encode()
    phrase = HTTPStatus(status).phrase if status in HTTPStatus else "Unknown"
    head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\n"
    if status == 429 or status >= 500:
        head += f"retry-after-ms: {RETRY_AFTER_MS}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def refused(refusal: Refusal) -> bytes:
    """The response to an invalid request."""
    return error(400, refusal.message, "invalid_request_error", refusal.code, refusal.param)


def scripted_error(code: str) -> bytes | None:
    """The response that FAIL:<code> asks for, None where the code names no failure."""
    if code in ERRORS:
        status, message, kind, name = ERRORS[code]
        return error(status, message, kind, name)
    if not (code.isdecimal() and 400 <= int(code) <= 599):
        return None
    kind = "server_error" if int(code) >= 500 else "invalid_request_error"
    return error(int(code), f"The scripted model fails with {code}.", kind)


def counted(reply: Reply, prompt_length: int) -> Usage:
    """Token counts: those of the script, or a quarter of the bytes of the request, and of the
    characters said."""
    if reply.usage is not None:
        return reply.usage
    thought = sum(len(thought or "") for thought in reply.thoughts)
    said = thought + len(reply.text) + sum(len(call[1]) + len(call[2]) for call in reply.calls)
    return Usage(prompt=max(1, prompt_length // 4), completion=max(1, said // 4))


def usage(reply: Reply, prompt_length: int) -> dict[str, Any]:
    """Token counts in OpenAI's words."""
    tokens = counted(reply, prompt_length)
    return {
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.completion,
        "total_tokens": tokens.prompt + tokens.completion,
        "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning, "audio_tokens": 0},
    }


def whole(reply: Reply, request: JSONObject, serial: int, prompt_length: int) -> bytes:
    """The JSON body of a chat.completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
    if thoughts := _thoughts(reply):
        message["reasoning_content"] = thoughts
    if reply.calls:
        message["content"] = None
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in reply.calls
        ]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": _logprobs(reply, request),
        "finish_reason": reply.finish_reason,
    }
    if request.get("return_token_ids"):
        choice["token_ids"] = [*range(len(_tokens(reply)))]
    return json.dumps(
        {
            "id": f"chatcmpl-{serial}",
            "object": "chat.completion",
            "created": CREATED,
            "model": request["model"],
            "choices": [choice],
            "usage": usage(reply, prompt_length),
            "system_fingerprint": "fp_scripted",
        }
    ).encode()


def events(reply: Reply, request: JSONObject, serial: int, prompt_length: int) -> list[bytes]:
    """The server-sent events of a streamed chat.completion, each framed as an HTTP chunk."""
    include_usage = bool((request.get("stream_options") or {}).get("include_usage"))
    model = request["model"]
    prefix = (
        f'data: {{"id": "chatcmpl-{serial}", "object": "chat.completion.chunk", '
        f'"created": {CREATED}, "model": {json.dumps(model)}, '
        '"system_fingerprint": "fp_scripted", "choices": ['
    )
    suffix = ', "usage": null}\n\n' if include_usage else "}\n\n"
    written = []
    for delta in _deltas(reply):
        choice = f'{{"index": 0, "delta": {json.dumps(delta)}, "logprobs": null, "finish_reason": '
        written.append(f"{prefix}{choice}null}}]{suffix}")
    logprobs = json.dumps(_logprobs(reply, request))
    last = f'{{"index": 0, "delta": {{}}, "logprobs": {logprobs}, "finish_reason": '
    written.append(f'{prefix}{last}"{reply.finish_reason}"}}]{suffix}')
    if include_usage:
        spent = json.dumps(usage(reply, prompt_length))
        written.append(f'{prefix}], "usage": {spent}}}\n\n')
    written.append("data: [DONE]\n\n")
    return [http_chunk(event.encode()) for event in written]


def http_chunk(data: bytes) -> bytes:
    """One chunk of a chunked HTTP body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _tokens(reply: Reply) -> list[str]:
    """The tokens of what the model says: its words."""
    return [] if reply.calls else reply.text.split(" ")


def _logprobs(reply: Reply, request: JSONObject) -> JSONObject | None:
    """Each token less likely than the one before, each alternative than its token."""
    if not request.get("logprobs"):
        return None

    def entry(token: str, number: int) -> JSONObject:
        return {"token": token, "logprob": -number / 8, "bytes": [*token.encode()]}

    content = [
        {
            **entry(token, number),
            "top_logprobs": [
                entry(f"{token}{n}", number + n)
                for n in range(int(str(request.get("top_logprobs") or 0)))
            ],
        }
        for number, token in enumerate(_tokens(reply))
    ]
    return {"content": content, "refusal": None}


def _thoughts(reply: Reply) -> str:
    """The thoughts as servers that stand in for OpenAI show them: one text, nothing redacted."""
    return "".join(thought or "" for thought in reply.thoughts)


def _deltas(reply: Reply) -> list[dict[str, Any]]:
    first = {"role": "assistant", "content": None if reply.calls else "", "refusal": None}
    deltas: list[dict[str, Any]] = [first]
    thoughts = pieces(_thoughts(reply), TEXT_PIECE_LENGTH)
    deltas += [{"reasoning_content": piece} for piece in thoughts]
    if not reply.calls:
        return deltas + [{"content": piece} for piece in pieces(reply.text, TEXT_PIECE_LENGTH)]
    for index, (call_id, name, arguments) in enumerate(reply.calls):
        opened = {"name": name, "arguments": ""}
        call = {"index": index, "id": call_id, "type": "function", "function": opened}
        deltas.append({"tool_calls": [call]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in pieces(arguments, ARGUMENTS_PIECE_LENGTH)
        ]
    return deltas


def pieces(text: str, length: int) -> list[str]:
    """The text in pieces of so many characters."""
    return [text[start : start + length] for start in range(0, len(text), length)]
