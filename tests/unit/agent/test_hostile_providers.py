"""Whatever an endpoint answers, it takes a bounded time and a bounded memory, and is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from services.agent.adapters.models import answer_assembly, transport
from services.agent.adapters.models.aiohttp_transport import HttpWire
from services.agent.adapters.models.anthropic_provider import AnthropicProvider
from services.agent.adapters.models.anthropic_sdk_transport import AnthropicWire
from services.agent.adapters.models.http_provider import MODELS_MAX, HttpProvider
from services.agent.adapters.models.openai_provider import OpenAIProvider
from services.agent.adapters.models.ports import ModelFailed, NoModelList, ProviderUnreachable
from services.agent.adapters.models.provider_error_words import MESSAGE_CHARS_MAX
from services.agent.app import providers
from services.agent.domain.runs.step_results import ModelReply
from services.agent.domain.tools.custom_tools import TOOL_ARGUMENTS_CHARS_MAX
from services.agent.settings import ProviderSettings
from tests.unit.agent.asking import GivenWire, reply_to, script, streamed

BOTH = pytest.mark.parametrize("spoken", ["openai", "anthropic"])
OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
Writer = asyncio.StreamWriter
ENDLESS = 2**16


@asynccontextmanager
async def endpoint(answer: Callable[[Writer], Awaitable[None]]) -> AsyncIterator[int]:
    """A server that reads a request and answers as it pleases; gives its port."""

    async def serve(reader: asyncio.StreamReader, writer: Writer) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b"content-length: " in head:
            size = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(size))
        try:
            await answer(writer)
        except ConnectionError:
            pass  # whoever has read enough hangs up
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def provider_on(spoken: str, port: int, call_seconds_max: float = 30.0) -> HttpProvider:
    """A provider that asks there."""
    base = f"http://127.0.0.1:{port}"
    provider: HttpProvider
    if spoken == "openai":
        provider = OpenAIProvider("k", base)
        provider.wire = HttpWire(base, {}, call_seconds_max=call_seconds_max)
    else:
        provider = AnthropicProvider("k", base)
        provider.wire = AnthropicWire(base, "k", call_seconds_max=call_seconds_max)
    return provider


async def ask(provider: HttpProvider, *, in_pieces: bool) -> ModelReply:
    try:
        if in_pieces:
            return (await streamed(provider, script("Hi")))[1]
        return await reply_to(provider, script("Hi"))
    finally:
        await provider.close()


async def failure(provider: HttpProvider, *, in_pieces: bool) -> Any:
    with pytest.raises(ModelFailed) as raised:
        await ask(provider, in_pieces=in_pieces)
    return raised.value.failure


@BOTH
@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "pieces"])
@pytest.mark.parametrize("head", [OK, b""], ids=["body", "head"])
async def test_an_endpoint_that_drips_bytes_is_cut(
    spoken: str, in_pieces: bool, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.agent.adapters.models.http_provider.TRIES_MAX", 1)

    async def drip(writer: Writer) -> None:
        writer.write(head or b"HTTP/1.1 200 OK\r\nx-drip: ")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with endpoint(drip) as port:
        failed = await failure(provider_on(spoken, port, 0.5), in_pieces=in_pieces)
    assert failed.error_type == "llm_timeout"


@BOTH
@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "pieces"])
@pytest.mark.parametrize("chunk", [b" " * 2**14, b": \n" * 2**13], ids=["one line", "lines"])
async def test_an_endless_answer_is_cut(
    spoken: str, in_pieces: bool, chunk: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANSWER_BYTES_MAX", "STREAM_BYTES_MAX"):
        monkeypatch.setattr(transport, name, 4 * ENDLESS)
    monkeypatch.setattr(transport, "LINE_BYTES_MAX", ENDLESS)
    written = 0

    async def pour(writer: Writer) -> None:
        nonlocal written
        writer.write(OK)
        while True:
            writer.write(chunk)
            await writer.drain()
            written += len(chunk)

    async with endpoint(pour) as port:
        failed = await failure(provider_on(spoken, port), in_pieces=in_pieces)
    assert failed.error_type == "llm_error"
    assert "too long" in failed.message
    assert written < 2**27, "it was hung up on"


@BOTH
async def test_an_endless_error_is_read_as_far_as_it_is_worth(spoken: str) -> None:
    async def refuse(writer: Writer) -> None:
        writer.write(
            b"HTTP/1.1 400 No\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nNo: "
        )
        while True:
            writer.write(b"no\x00 " * 2**12)
            await writer.drain()

    async with endpoint(refuse) as port:
        failed = await failure(provider_on(spoken, port), in_pieces=False)
    assert failed.error_type == "llm_bad_request"
    assert failed.message.startswith(f"{spoken} at http://127.0.0.1:{port} answered 400: No: no")
    assert len(failed.message) < MESSAGE_CHARS_MAX + 100
    assert "\x00" not in failed.message


@BOTH
async def test_a_long_reason_is_cut(spoken: str) -> None:
    body = json.dumps(
        {"error": {"message": "x" * 50_000, "code": "y" * 5_000, "type": "z" * 5_000}}
    )

    async def refuse(writer: Writer) -> None:
        head = f"HTTP/1.1 422 No\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body.encode())
        await writer.drain()

    async with endpoint(refuse) as port:
        failed = await failure(provider_on(spoken, port), in_pieces=False)
    assert failed.error_type == "llm_unprocessable_entity"
    assert len(failed.message) < MESSAGE_CHARS_MAX + 100
    assert len(failed.detail) < 1_000


@BOTH
async def test_a_list_of_models_is_bounded(spoken: str) -> None:
    odd = ["", "a" * 201, "a\x00b", "a\nb", None, 7, {"a": "b"}]
    names = [*odd, *(f"model-{n}" for n in range(3 * MODELS_MAX))]
    entries = [*({"id": name, "max_input_tokens": 10**300} for name in names), "no entry", None]
    provider = provider_on(spoken, 1)
    provider.wire = GivenWire({"data": entries})
    listed, _ = await provider.models()
    assert len(listed) == MODELS_MAX
    assert {str(llm.handle).partition("-")[0] for llm in listed} == {f"{spoken}/model"}
    assert max(llm.context_window for llm in listed) < 2**31
    provider.wire = GivenWire([])
    assert (await provider.models())[0] == []
    for nonsense in ({"data": 7}, {"data": {"a": 1}}, {"error": "none"}):
        provider.wire = GivenWire(nonsense, {})
        with pytest.raises(NoModelList):  # it takes questions all the same
            await provider.models()


@BOTH
async def test_an_endless_list_of_models_is_no_list(spoken: str) -> None:
    async def pour(writer: Writer) -> None:
        writer.write(OK)
        while True:
            writer.write(b"[" * 2**16)
            await writer.drain()

    async with endpoint(pour) as port:
        provider = provider_on(spoken, port)
        with pytest.raises(ProviderUnreachable):
            await provider.models()
        await provider.close()


def openai_call(name: str, arguments: str) -> Any:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


async def answered(*bodies: Any) -> ModelReply:
    provider = OpenAIProvider("k", "http://x")
    provider.wire = GivenWire(*bodies)
    return await reply_to(provider, script("Hi"))


async def test_arguments_of_ten_megabytes_are_cut() -> None:
    reply = await answered(openai_call("n" * 100_000, '{"a": "' + "x" * 10**7 + '"}'))
    [call] = reply.tool_calls
    assert len(call.arguments) == TOOL_ARGUMENTS_CHARS_MAX
    assert len(call.name) == answer_assembly.TOOL_NAME_CHARS_MAX


async def test_arguments_that_come_bit_by_bit_are_cut_in_time() -> None:
    pieces = answer_assembly.Assembly("s")
    pieces.open_call("call_1", "memory_insert")
    for _ in range(200_000):
        pieces.argue("\\u00e9xyz")
    pieces.close()
    [call] = pieces.reply("stop", usage=None).tool_calls  # type: ignore[arg-type]
    assert len(call.arguments) == TOOL_ARGUMENTS_CHARS_MAX


async def test_more_than_any_model_says_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_assembly, "ANSWER_CHARS_MAX", 1_000)
    monkeypatch.setattr(answer_assembly, "CALLS_MAX", 2)
    long = {"choices": [{"message": {"content": "x" * 1_001}}]}
    thought = {"choices": [{"message": {"reasoning_content": "x" * 1_001}}]}
    many = openai_call("a", "{}")
    many["choices"][0]["message"]["tool_calls"] *= 3
    for body in (long, thought, many):
        with pytest.raises(ModelFailed, match="too long"):
            await answered(body)


async def test_an_odd_answer_is_no_answer_and_no_bug() -> None:
    with pytest.raises(ModelFailed, match="cannot be understood"):
        await answered({"choices": json.loads("[" * 500 + "]" * 500)})


@pytest.mark.parametrize("tokens", [10**400, -1, "many", [1], None, True])
async def test_an_odd_number_of_tokens_is_none_and_the_answer_stays(tokens: Any) -> None:
    said = {"choices": [{"message": {"content": "Hi"}}], "usage": {"prompt_tokens": tokens}}
    reply = await answered(said)
    assert (reply.text, reply.usage.prompt_tokens) == ("Hi", 0)


async def test_nesting_without_end_is_no_answer_and_no_bug() -> None:
    async def nest(writer: Writer) -> None:
        body = b"[" * 200_000
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()

    async with endpoint(nest) as port:
        failed = await failure(provider_on("openai", port), in_pieces=False)
    assert failed.error_type == "llm_error"
    assert failed.message == (
        f"The answer of openai at http://127.0.0.1:{port} cannot be understood: "
        "it is nested too deeply"
    )


async def test_why_an_answer_ended_can_be_kept() -> None:
    reason = {"a": "\x00" * 100}
    reply = await answered({"choices": [{"message": {"content": "Hi"}, "finish_reason": reason}]})
    assert 0 < len(reply.finish_reason) <= answer_assembly.FINISH_REASON_CHARS_MAX
    assert "\x00" not in reply.finish_reason


SECRETS = ("s3cret-p%40ss", "s3cret-p@ss", "canary-key")


@pytest.mark.parametrize(
    "name", ["OPENAI_API_BASE", "ANTHROPIC_BASE_URL"], ids=["openai", "claude"]
)
async def test_what_stands_in_an_address_is_used_and_never_shown(name: str) -> None:
    heard: list[bytes] = []

    async def tell(reader: asyncio.StreamReader, writer: Writer) -> None:
        """Answers with everything that it was asked by."""
        head = await reader.readuntil(b"\r\n\r\n")
        heard.append(head)
        line, _, headers = head.decode().partition("\r\n")
        said = json.dumps({"error": {"message": f"{line} {headers} {SECRETS}", "code": SECRETS[2]}})
        writer.write(f"HTTP/1.1 400 No\r\ncontent-length: {len(said)}\r\n\r\n{said}".encode())
        writer.close()

    server = await asyncio.start_server(tell, "127.0.0.1", 0)
    host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    base = f"http://ada:{SECRETS[0]}@{host}/v1?api_key={SECRETS[2]}"
    settings = ProviderSettings.from_environment({name: base})
    provider, *_ = providers(settings)
    assert isinstance(provider, HttpProvider)
    async with server:
        with pytest.raises(ProviderUnreachable) as unreachable:
            await provider.models()
        failed = await failure(provider, in_pieces=False)
    assert len(heard) == 2
    for head in heard:
        assert b"api_key=canary-key" in head
        assert b"Basic YWRhOnMzY3JldC1wQHNz" in head
    shown = f"{failed} {unreachable.value} {provider.base_url} {settings!r}"
    assert " answered 400: " in failed.message
    for secret in (*SECRETS, "YWRhOnMzY3JldC1wQHNz"):
        assert secret not in shown
